package router

import (
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/routing"
)

func TestConfigNamesEveryBadField(t *testing.T) {
	bad := Config{
		Listen: "nowhere", SuspectAfter: time.Millisecond, NodeTimeout: -1, SampleMaxAge: -1, RequestTimeout: -1, TryTimeout: -1,
		StopTimeout: -1, MaxInFlight: -1, MaxWaiters: -1, MaxMessageBytes: -1, MaxWatchers: -1, MaxScans: -1, MaxWatches: -1, ScanIdle: -1,
		DefaultPolicy: routing.Policy{Mode: 9},
	}
	_, err := New(bad)
	for _, field := range []string{
		"Listen", "SuspectAfter", "NodeTimeout", "SampleMaxAge", "RequestTimeout", "TryTimeout", "StopTimeout", "MaxInFlight",
		"MaxWaiters", "MaxMessageBytes", "MaxWatchers", "MaxScans", "MaxWatches", "ScanIdle", "DefaultPolicy",
	} {
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	if err := (Config{MaxMessageBytes: 64 << 10}).Validate(); err == nil || !strings.Contains(err.Error(), "MaxMessageBytes: 65536 must be at least") {
		t.Errorf("messages in which no stream of lookups fits: %v", err)
	}
	if err := (Config{SuspectAfter: 3 * time.Second}).Validate(); err == nil || !strings.Contains(err.Error(), "NodeTimeout") {
		t.Errorf("suspect after dead: %v", err)
	}
}

func TestListenNeedsAPortInRange(t *testing.T) {
	for listen, good := range map[string]bool{
		"": true, ":0": true, "127.0.0.1:65535": true, "[::1]:7000": true,
		"127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.0.0.1:": false, "127.0.0.1:http": false, "127.0.0.1": false,
	} {
		err := Config{Listen: listen}.Validate()
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "Listen: \""+listen+"\" must be host:port") {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
