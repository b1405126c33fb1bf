package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/topology"
)

func testTopology(t *testing.T) *topology.Topology {
	t.Helper()
	cfg, err := topology.LoadYAML([]byte("application: app\nsources:\n  - topic: in\n    format: raw\n    value_serde: string\naggregates:\n  - store: counts\n    source: in\n    count: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := cfg.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func validConfig(t *testing.T) Config {
	t.Helper()
	return Config{NodeID: "a", Topology: testTopology(t), Brokers: []string{"127.0.0.1:9092"}, StateDir: t.TempDir()}
}

func TestDefaultsAreValid(t *testing.T) {
	if err := validConfig(t).Validate(); err != nil {
		t.Error(err)
	}
}

// Every bad field is named, with its value, all at once.
func TestValidateNamesEveryBadField(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		`NodeID ""`:                        func(c *Config) { c.NodeID = "" },
		`NodeID "a b"`:                     func(c *Config) { c.NodeID = "a b" },
		`Topology`:                         func(c *Config) { c.Topology = nil },
		`Brokers`:                          func(c *Config) { c.Brokers = nil },
		`Brokers "nohost"`:                 func(c *Config) { c.Brokers = []string{"nohost"} },
		`StateDir`:                         func(c *Config) { c.StateDir = "" },
		`Routers ":7000": has no host`:     func(c *Config) { c.Routers = []string{":7000"} },
		`Capacity "-1"`:                    func(c *Config) { c.Capacity = -1 },
		`CommitInterval "-1s"`:             func(c *Config) { c.CommitInterval = -time.Second },
		`MaxMessageBytes "65536"`:          func(c *Config) { c.MaxMessageBytes = 64 << 10 },
		`MaxPollRecords "-5"`:              func(c *Config) { c.MaxPollRecords = -5 },
		`ReportInterval "1ms"`:             func(c *Config) { c.ReportInterval = time.Millisecond },
		`RebalanceTimeout "10s": must be`:  func(c *Config) { c.RebalanceTimeout = 10 * time.Second },
		`Lease "4s": must be at most half`: func(c *Config) { c.Lease = 4 * time.Second },
		`GroupHeartbeat "1s": must be`:     func(c *Config) { c.GroupHeartbeat = time.Second },
		`AcceptableLag "-1"`:               func(c *Config) { c.AcceptableLag = -1 },
	} {
		cfg := validConfig(t)
		edit(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s in: %v", want, err)
		}
	}
	err := Config{}.Validate()
	for _, field := range []string{"NodeID", "Topology", "Brokers", "StateDir"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// An address that others cannot dial is refused at the start, not found out by them.
func TestS20AdvertisedAddressMustBeDialable(t *testing.T) {
	for _, bad := range []string{"0.0.0.0:7070", "[::]:7070", ":7070", "127.0.01:7070", "host", "host:", "host:0", "host:99999", "host:abc", "host:-1"} {
		cfg := validConfig(t)
		cfg.Advertised = bad
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "Advertised") || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"127.0.0.1:7070", "node-1.example.com:7070", "[::1]:7070"} {
		cfg := validConfig(t)
		cfg.Advertised = good
		if err := cfg.Validate(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	cfg := validConfig(t)
	cfg.Listen = "0.0.0.0:7070" // without an advertised address it would be the one that others are told
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "Advertised") {
		t.Errorf("listening at a wildcard: %v", err)
	}
}

func TestIncarnationGrowsAndTheDirectoryIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second process got the directory: %v", err)
	}
	a.close()
	far := "99999999999999\n" // the clock was ahead at the last start
	if err := os.WriteFile(filepath.Join(dir, incarnationFile), []byte(far), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if b.incarnation != 100000000000000 {
		t.Errorf("incarnation %d did not grow", b.incarnation)
	}
}
