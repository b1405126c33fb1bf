//go:build kafka

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// verified has each of the nodes compare its replica of the application's only store partition with the changelog, and all of
// them with one another, and gives the number of entries.
func (a *app) verified(nodes ...*server) (entries int64) {
	a.t.Helper()
	var clients []*client.Client
	for _, n := range nodes {
		clients = append(clients, n.Client)
		res, err := n.VerifyReplica(a.ctx, &iqv1.VerifyReplicaRequest{Store: "table"}, nil)
		if err != nil {
			a.t.Fatalf("verify %s: %v", n.id, err)
		}
		if res.GetDifferences() > 0 {
			a.t.Fatalf("%s differs from its changelog: %v", n.id, res)
		}
		entries = res.GetEntries()
	}
	states, equal := client.CompareReplicas(a.ctx, "table", 0, clients)
	for i, s := range states {
		if s.Err != nil || !equal || s.Entries != entries {
			a.t.Fatalf("states differ (equal %v): %s has %d entries, want %d, %v", equal, nodes[i].id, s.Entries, entries, s.Err) //nolint:gosec // one state a node
		}
	}
	return entries
}

// fillTable writes keys to the table's input and gives their number.
func (a *app) fillTable(keys, bytes int) int {
	a.t.Helper()
	value := strings.Repeat("v", bytes)
	for i := range keys {
		a.kafka.Produce(a.ctx, &kgo.Record{Topic: a.topic("in"), Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%d%s", i, value)}, nil)
	}
	if err := a.kafka.Flush(a.ctx); err != nil {
		a.t.Fatal(err)
	}
	return keys
}

// Whatever happens to a node's state while it is down, the node never serves as caught up what its data do not have: each kind of
// damage to its files is found, the store is put aside and built anew, and equals its changelog and the other node's.
func TestKafkaDamagedStateIsRebuilt(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	active, standby := a.pair()
	keys := int64(a.fillTable(3000, 2000))
	active.becomes(client.Strong(), "key-2999", "2999"+strings.Repeat("v", 2000))
	rng := rand.New(rand.NewPCG(3, 8))
	state := filepath.Join(a.dir, "b")
	db := filepath.Join(state, "stores", "table", "0", "db")
	anyFile := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(db, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no such file, %v", pattern, err)
		}
		return found[rng.IntN(len(found))]
	}
	flip := func(path string, at int64) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at%int64(len(b))] ^= 4
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		kill   bool
		damage func()
		found  bool // the damage must be found, and not only be harmless
	}{
		{"state directory removed", true, func() { _ = os.RemoveAll(state) }, false},
		{"database removed", false, func() { _ = os.RemoveAll(db) }, true},
		{"table cut", false, func() { _ = os.Truncate(anyFile("*.sst"), 5000) }, true},
		{"table flipped in a block", false, func() { flip(anyFile("*.sst"), 3000) }, true},
		{"manifest cut", false, func() { _ = os.Truncate(anyFile("MANIFEST"), 20) }, true},
		{"log cut after a kill", true, func() { _ = os.Truncate(anyFile("*.mem"), 30_000) }, false},
		{"log flipped after a kill", true, func() { flip(anyFile("*.mem"), 20_000) }, false},
	} {
		if c.kill {
			standby.Kill()
		} else {
			standby.stop()
		}
		c.damage()
		before, err := standby.Log()
		if err != nil {
			t.Fatal(err)
		}
		standby.run()
		standby.is(iqv1.Role_ROLE_STANDBY)
		standby.becomes(client.MaxOffsetLag(0), "key-2999", "2999"+strings.Repeat("v", 2000))
		if got := a.verified(active, standby); got != keys {
			t.Errorf("%s: %d entries, want %d", c.name, got, keys)
		}
		after, err := standby.Log()
		if err != nil {
			t.Fatal(err)
		}
		rebuilt := strings.Contains(after[len(before):], "rebuilt")
		if c.found && !rebuilt {
			t.Errorf("%s: the log does not say that the store was rebuilt", c.name)
		}
		kept, _ := filepath.Glob(filepath.Join(state, "quarantine", "*", "reason.txt"))
		if len(kept) > 3 {
			t.Errorf("%s: %d directories in quarantine", c.name, len(kept))
		}
		t.Logf("%s: rebuilt %v, %d in quarantine", c.name, rebuilt, len(kept))
	}
}

// A disk that rots under a running node is found by a verification, and the store is built anew.
func TestKafkaRotIsFoundByVerify(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	active, standby := a.pair()
	a.fillTable(6000, 3000)
	active.becomes(client.Strong(), "key-5999", "5999"+strings.Repeat("v", 3000))
	standby.becomes(client.MaxOffsetLag(0), "key-5999", "5999"+strings.Repeat("v", 3000))
	for _, n := range []*server{standby, active} {
		tables, err := filepath.Glob(filepath.Join(a.dir, n.id, "stores", "table", "0", "db", "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatalf("%s has no tables, %v", n.id, err)
		}
		f, err := os.OpenFile(tables[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, 5000)
		b[0] ^= 1
		_, errWrite := f.WriteAt(b, 5000)
		if err := errors.Join(err, errWrite, f.Close()); err != nil {
			t.Fatal(err)
		}
		a.eventually(20*time.Second, n.id+" finds the damage", func() error {
			res, err := n.VerifyReplica(a.ctx, &iqv1.VerifyReplicaRequest{Store: "table"}, nil)
			if err != nil {
				return nil //nolint:nilerr // this is what is waited for
			}
			if res.GetDifferences() == 0 {
				t.Fatalf("%s: the verification found nothing: %v", n.id, res)
			}
			return errors.New(res.String()) // an entry that still decodes is told as a difference first
		})
		n.logs(20*time.Second, "a damaged store is kept in quarantine")
		a.eventually(30*time.Second, n.id+" is whole again", func() error {
			res, err := n.VerifyReplica(a.ctx, &iqv1.VerifyReplicaRequest{Store: "table"}, nil)
			if err == nil && (res.GetDifferences() > 0 || res.GetEntries() != 6000) {
				err = errors.New(res.String())
			}
			return err
		})
	}
	a.verified(active, standby)
}

// A restore that is killed three times goes on from its own position, and never says that it is done before it is (S10).
func TestS10KafkaKilledWhileRestoring(t *testing.T) {
	t.Parallel()
	a := tableApp(t, nil)
	const total = 20_000
	value := strings.Repeat("v", 1000)
	for i := range total {
		a.kafka.Produce(a.ctx, &kgo.Record{Topic: a.topic(changelog), Key: fmt.Appendf(nil, "key-%d", i), Value: []byte(value)}, nil)
	}
	if err := a.kafka.Flush(a.ctx); err != nil {
		t.Fatal(err)
	}
	n := a.start("a")
	last := int64(-1)
	for part := int64(1); part <= 3; part++ {
		a.eventually(time.Minute, fmt.Sprintf("a quarter of the changelog, %d times", part), func() error {
			st, err := n.status()
			if err != nil {
				return err
			}
			if st.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING && st.GetPosition() < total {
				t.Fatalf("it runs at %d of %d", st.GetPosition(), total)
			}
			if st.GetPosition() < total*part/4 {
				return errors.New(st.String())
			}
			last = st.GetPosition()
			return nil
		})
		n.Kill()
		n.run()
		t.Logf("killed at %d", last)
	}
	n.is(iqv1.Role_ROLE_ACTIVE)
	if got := a.verified(n); got != total {
		t.Errorf("%d entries, want %d", got, total)
	}
}
