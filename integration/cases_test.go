//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// table keeps the last value of each key of the topic "in" in the store "table", one partition.
var table = topologyOf(`
application: app
sources:
  - topic: in
    format: raw
    value_serde: string
tables:
  - store: table
    source: in
`)

const tableChangelog = "app-table-changelog"

// fixture is a cluster whose changelog the test writes itself.
type fixture struct {
	*bubble.Cluster
	t   *testing.T
	ctx context.Context //nolint:containedctx // the test's
	cl  *kgo.Client
	adm *kadm.Client
}

// newFixture has the topic "in" with partitions and the changelog of "table".
func newFixture(t *testing.T, partitions int32) *fixture {
	t.Helper()
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": partitions}, Topology: table, Log: verboseLog(t)})
	f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	f.adm = kadm.NewClient(f.cl)
	f.createChangelog(partitions, nil)
	return f
}

func (f *fixture) createChangelog(partitions int32, configs map[string]string) {
	f.t.Helper()
	all := map[string]*string{"cleanup.policy": new("compact")}
	for k, v := range configs {
		all[k] = &v
	}
	if _, err := f.adm.CreateTopic(f.ctx, partitions, 1, all, tableChangelog); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) close() {
	f.cl.Close()
	f.Close()
}

// txn is a transactional producer of the test's.
func (f *fixture) txn(id string) *kgo.Client {
	return f.Client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// write produces key=value pairs in order; a value of "null" is a tombstone.
func (f *fixture) write(cl *kgo.Client, topic string, kvs ...string) {
	f.t.Helper()
	for kv := range slices.Chunk(kvs, 2) {
		rec := &kgo.Record{Topic: topic, Key: []byte(kv[0]), Value: []byte(kv[1])}
		if kv[1] == "null" {
			rec.Value = nil
		}
		if err := cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) begin(cl *kgo.Client) {
	f.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) end(cl *kgo.Client, how kgo.TransactionEndTry) {
	f.t.Helper()
	if err := cl.EndTransaction(f.ctx, how); err != nil {
		f.t.Fatal(err)
	}
}

// lag is a replica's status at the node, by the metadata service.
func (f *fixture) lag(n *bubble.Node) (*iqv1.ReplicaStatus, error) {
	resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
	if err != nil {
		return nil, err
	}
	if len(resp.GetReplicas()) != 1 {
		return nil, fmt.Errorf("%d replicas", len(resp.GetReplicas()))
	}
	return resp.GetReplicas()[0], nil
}

// waitLag waits until the node's replica is at position with the lag and says so.
func (f *fixture) waitLag(n *bubble.Node, position, lag int64) *iqv1.ReplicaStatus {
	f.t.Helper()
	var st *iqv1.ReplicaStatus
	f.Eventually(30*time.Second, fmt.Sprintf("position %d, lag %d", position, lag), func() (err error) {
		st, err = f.lag(n)
		if err == nil && (st.GetPosition() != position || st.OffsetLag == nil || st.GetOffsetLag() != lag) {
			err = errors.New(st.String())
		}
		return err
	})
	return st
}

// get reads a key; absent is "absent".
func (f *fixture) get(n *bubble.Node, key string, p *iqv1.ReadPolicy) (string, *iqv1.GetResponse, error) {
	resp, err := n.Query().Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: []byte(key), Policy: p})
	if err != nil {
		return "", nil, iqerr.FromStatus(err)
	}
	if !resp.GetFound() {
		return "absent", resp, nil
	}
	return string(resp.GetValue()), resp, nil
}

// expect reads keys; pairs of key and value, "absent" for none.
func (f *fixture) expect(n *bubble.Node, p *iqv1.ReadPolicy, kvs ...string) {
	f.t.Helper()
	for kv := range slices.Chunk(kvs, 2) {
		got, _, err := f.get(n, kv[0], p)
		if err != nil {
			f.t.Fatalf("%s at %s: %v", kv[0], n.ID, err)
		}
		if got != kv[1] {
			f.t.Fatalf("%s at %s is %q, want %q", kv[0], n.ID, got, kv[1])
		}
	}
}

func anyReplica() *iqv1.ReadPolicy { return &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY} }

func maxLag(n int64) *iqv1.ReadPolicy { return &iqv1.ReadPolicy{MaxOffsetLag: &n} }

func maxStaleness(d time.Duration) *iqv1.ReadPolicy {
	return &iqv1.ReadPolicy{MaxStaleness: durationpb.New(d)}
}

// pair starts a node that becomes active and then one that becomes its standby.
func (f *fixture) pair() (active, standby *bubble.Node) {
	f.t.Helper()
	active = f.StartNode("a")
	f.waitRole(active, iqv1.Role_ROLE_ACTIVE)
	standby = f.StartNode("b")
	f.waitRole(standby, iqv1.Role_ROLE_STANDBY)
	return active, standby
}

func (f *fixture) waitRole(n *bubble.Node, role iqv1.Role) {
	f.t.Helper()
	f.Eventually(30*time.Second, role.String(), func() error {
		st, err := f.lag(n)
		if err == nil && (st.GetRole() != role || st.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING) {
			err = errors.New(st.String())
		}
		return err
	})
}

// An idle replica that has read everything is at lag 0 although the log ends with a commit marker, which the position
// of the last record plus one never passes.
func TestS05CommitMarkerLeavesNoLag(t *testing.T) {
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		t.Run(fmt.Sprintf("commit=%v", how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1)
				defer f.close()
				_, b := f.pair()
				w := f.txn("writer")
				defer w.Close()
				f.begin(w)
				f.write(w, tableChangelog, "k0", "v", "k1", "v", "k2", "v")
				f.end(w, how)
				st := f.waitLag(b, 4, 0)
				if st.GetTimeLag() == nil || st.GetTimeLag().AsDuration() > 500*time.Millisecond {
					t.Errorf("time lag %v", st.GetTimeLag())
				}
				want := "v"
				if how == kgo.TryAbort {
					want = "absent"
				}
				f.expect(b, maxLag(0), "k0", want, "k2", want)
			})
		})
	}
}

// A replica is not caught up while a transaction below the end is open, although everything up to the last stable offset
// is applied: what is above may be committed.
func TestS06OpenTransactionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		x := f.txn("X")
		defer x.Close()
		f.begin(x)
		f.write(x, tableChangelog, "k0", "v", "k1", "v", "k2", "v")
		f.end(x, kgo.TryCommit)
		f.begin(x)
		f.write(x, tableChangelog, "k0", "aborted", "k9", "aborted")
		f.end(x, kgo.TryAbort)
		f.begin(x)
		f.write(x, tableChangelog, "k1", "OPEN")
		f.write(f.cl, tableChangelog, "k2", "plain-after-open")

		n := f.StartNode("a")
		st := f.waitLag(n, 7, 2)
		if st.GetState() != iqv1.ReplicaState_REPLICA_STATE_RESTORING {
			t.Errorf("it claims to have caught up: %v", st)
		}
		if _, _, err := f.get(n, "k2", maxLag(0)); !errors.Is(err, iqerr.ErrStale) {
			t.Errorf("a read with max lag 0 gave %v", err)
		}
		if _, _, err := f.get(n, "k2", strong()); !errors.Is(err, iqerr.ErrNoActive) {
			t.Errorf("a strong read gave %v", err)
		}
		got, resp, err := f.get(n, "k2", maxLag(5))
		if err != nil || got != "v" || resp.GetServed().GetOffsetLag() != 2 {
			t.Errorf("a read with max lag 5 gave %q, %v, %v", got, resp, err)
		}

		again := f.txn("X") // its initialisation aborts what is open
		defer again.Close()
		if _, _, err := again.ProducerID(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
		f.expect(n, strong(), "k1", "v", "k2", "plain-after-open", "k9", "absent")
	})
}

// An aborted write never shows and hides no committed one, live or after a rebuild from nothing.
func TestS07AbortedWritesNeverShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		w := f.txn("writer")
		defer w.Close()
		steps := []struct {
			key, value string
			how        kgo.TransactionEndTry
		}{
			{"tx1", "1", kgo.TryCommit},
			{"tx2", "2", kgo.TryAbort},
			{"tx3", "3", kgo.TryCommit},
			{"acct", "committed-100", kgo.TryCommit},
			{"acct", "aborted-999", kgo.TryAbort},
			{"acct", "null", kgo.TryAbort},
		}
		for _, s := range steps {
			f.begin(w)
			f.write(w, tableChangelog, s.key, s.value)
			f.end(w, s.how)
		}
		want := []string{"tx1", "1", "tx2", "absent", "tx3", "3", "acct", "committed-100"}
		f.waitLag(b, 12, 0)
		f.expect(b, maxLag(0), want...)
		c := f.StartNode("c", func(cfg *nodeConfig) { cfg.Standbys = 2 })
		b.Kill() // its place goes to c, which rebuilds from nothing
		f.waitRole(c, iqv1.Role_ROLE_STANDBY)
		f.expect(c, maxLag(0), want...)
	})
}

// A store whose checkpoint lies below the log's start is dropped and rebuilt: the tombstones in between are gone.
func TestS08TruncatedChangelogRebuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		f.write(f.cl, tableChangelog, "k0", "v", "k1", "v", "k2", "v")
		a := f.StartNode("a")
		f.waitRole(a, iqv1.Role_ROLE_ACTIVE)
		f.expect(a, strong(), "k0", "v", "k2", "v")
		a.Stop()
		for i := 3; i < 10; i++ {
			f.write(f.cl, tableChangelog, fmt.Sprintf("k%d", i), "v")
		}
		f.deleteRecords(6)
		for _, id := range []string{"a", "fresh"} {
			n := f.StartNode(id)
			f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
			f.waitLag(n, 10, 0)
			for i := range 10 {
				want := "v"
				if i < 6 {
					want = "absent"
				}
				f.expect(n, strong(), fmt.Sprintf("k%d", i), want)
			}
			n.Stop()
		}
	})
}

// The same while the store follows: the log is cut under a standby that was cut off from Kafka.
func TestS08TruncatedUnderAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		f.write(f.cl, tableChangelog, "k0", "v", "k1", "v")
		f.waitLag(b, 2, 0)
		b.Gate().Freeze()
		f.write(f.cl, tableChangelog, "k2", "v", "k3", "v", "k4", "v")
		f.deleteRecords(4)
		b.Gate().Thaw()
		f.waitLag(b, 5, 0)
		f.expect(b, maxLag(0), "k0", "absent", "k1", "absent", "k3", "absent", "k4", "v")
	})
}

func (f *fixture) deleteRecords(to int64) {
	f.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: tableChangelog, Partition: 0, At: to})
	if _, err := f.adm.DeleteRecords(f.ctx, offsets); err != nil {
		f.t.Fatal(err)
	}
}

// A changelog that is made anew under the same name has nothing to do with what a store holds.
func TestS08RecreatedChangelogRebuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		f.write(f.cl, tableChangelog, "old", "v", "k1", "v")
		a := f.StartNode("a")
		f.waitRole(a, iqv1.Role_ROLE_ACTIVE)
		a.Stop()
		if _, err := f.adm.DeleteTopic(f.ctx, tableChangelog); err != nil {
			t.Fatal(err)
		}
		f.createChangelog(1, nil)
		fresh := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // the other one knows the old topic's id
		defer fresh.Close()
		f.write(fresh, tableChangelog, "new", "v", "k2", "v", "k3", "v")
		a = f.StartNode("a")
		f.waitRole(a, iqv1.Role_ROLE_ACTIVE)
		f.expect(a, strong(), "old", "absent", "k1", "absent", "new", "v", "k3", "v")
	})
}

// The same under a follower, with a log that has outgrown the old position by the time of the next fetch.
func TestS08RecreatedUnderAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		f.write(f.cl, tableChangelog, "old", "v", "k1", "v")
		f.waitLag(b, 2, 0)
		b.Gate().Freeze()
		if _, err := f.adm.DeleteTopic(f.ctx, tableChangelog); err != nil {
			t.Fatal(err)
		}
		f.createChangelog(1, nil)
		fresh := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer fresh.Close()
		for i := range 10 {
			f.write(fresh, tableChangelog, fmt.Sprintf("n%d", i), "v")
		}
		b.Gate().Thaw()
		f.waitLag(b, 10, 0)
		f.expect(b, maxLag(0), "old", "absent", "k1", "absent", "n0", "v", "n9", "v")
	})
}

// An empty changelog may begin anywhere: its replica is caught up at once, at its end.
func TestS09EmptyChangelogWithNonZeroEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		for i := range 10 {
			f.write(f.cl, tableChangelog, fmt.Sprintf("k%d", i), "v")
		}
		a := f.StartNode("a")
		f.waitRole(a, iqv1.Role_ROLE_ACTIVE)
		a.Stop()
		f.deleteRecords(10)
		for _, id := range []string{"a", "fresh"} { // with a checkpoint of 10, and with none
			n := f.StartNode(id)
			start := time.Now()
			f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
			f.waitLag(n, 10, 0)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s took %s", id, took)
			}
			if id == "fresh" {
				f.expect(n, strong(), "k0", "absent")
			}
			n.Stop()
		}
	})
}
