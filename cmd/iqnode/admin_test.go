//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/iqgate/iqgate/integration/process"
)

// asked is what the admin port of a node answers.
func (r *running) asked(method, path, body string) (int, string) {
	r.bench.Helper()
	req, err := http.NewRequestWithContext(r.bench.Context(), method, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		r.bench.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.bench.Fatalf("%v; it says\n%s", err, r.output())
	}
	defer resp.Body.Close() //nolint:errcheck // of a test
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.bench.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestOperatorsSeeANodeBecomeReady: a node that waits for Kafka is alive and not ready, and says what it waits for; it becomes
// ready, shows its metrics, and its log, the Kafka client's too, speaks as loud as it is told.
func TestOperatorsSeeANodeBecomeReady(t *testing.T) {
	b := newBench(t)
	address, err := process.Address()
	if err != nil {
		t.Fatal(err)
	}
	r := b.node("a", nil, "--admin", address, "--ready-when", "restored")
	r.admin = address
	r.says("waiting for Kafka")
	if code, text := r.asked(http.MethodGet, "/healthz", ""); code != http.StatusOK {
		t.Errorf("it is not alive: %d %s", code, text)
	}
	if code, text := r.asked(http.MethodGet, "/readyz", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "Kafka and the application's topics") {
		t.Errorf("it does not say what it waits for: %d %s", code, text)
	}
	if strings.Contains(r.output(), "kgo") {
		t.Errorf("the Kafka client's log is there at level info:\n%s", r.output())
	}
	if code, text := r.asked(http.MethodPut, "/loglevel", "debug"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	b.kafka(kfake.SeedTopics(2, "words"))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		code, text := r.asked(http.MethodGet, "/readyz", "")
		var status struct {
			Ready   bool
			Restore struct{ Replicas, Restored int }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if code == http.StatusOK && status.Ready && status.Restore.Replicas == 2 && status.Restore.Restored == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not become ready: %d %s", code, text)
		}
	}
	_, text := r.asked(http.MethodGet, "/metrics", "")
	for _, want := range []string{
		"iqgate_node_joined 1", `iqgate_node_replica_state{partition="1",role="active",state="running",store="counts"} 1`, "go_goroutines ",
		`iqgate_build_info{goversion="go`, `iqgate_node_info{address="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	r.says("level=DEBUG", "msg=\"wrote Metadata")
	if err := r.Stop(); err != nil {
		t.Errorf("after SIGTERM: %v; it says\n%s", err, r.output())
	}
}

func TestAnAdminPortInUseIsRefused(t *testing.T) {
	b := newBench(t)
	first := b.node("a", nil, "--admin", "127.0.0.1:0")
	first.says("the admin port answers", "127.0.0.1:")
	_, rest, _ := strings.Cut(first.output(), "the admin port answers\" address=")
	address, _, _ := strings.Cut(rest, "\n")
	second := b.node("b", nil, "--admin", address)
	second.exits(1)
	second.says("admin", address, "in use")
}
