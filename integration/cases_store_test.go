//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// input writes records to the topic "in" as they are: nil stays nil.
func (f *fixture) input(recs ...*kgo.Record) {
	f.t.Helper()
	for _, r := range recs {
		r.Topic = "in"
		if err := f.cl.ProduceSync(f.ctx, r).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// settled waits until a strong read of key gives value.
func (f *fixture) settled(n *bubble.Node, key, value string) {
	f.t.Helper()
	f.Eventually(30*time.Second, fmt.Sprintf("%.20s=%.20s", key, value), func() error {
		got, _, err := f.get(n, key, strong())
		if err == nil && got != value {
			err = errors.New(got)
		}
		return err
	})
}

// An empty key and keys that the database would refuse are keys like any other; a null key is no key: skipped, no crash.
func TestS04AnyKeyAndNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		long := strings.Repeat("x", 65_001)
		f.input(
			&kgo.Record{Key: []byte("1"), Value: []byte("1")},
			&kgo.Record{Key: nil, Value: []byte("2")},
			&kgo.Record{Key: []byte{}, Value: []byte("emptykey")},
			&kgo.Record{Key: []byte(long), Value: []byte("long")},
			&kgo.Record{Key: []byte("!badger!x"), Value: []byte("reserved")},
			&kgo.Record{Key: []byte("1"), Value: []byte("3")},
		)
		f.settled(a, "1", "3")
		f.expect(a, strong(), "", "emptykey", long, "long", "!badger!x", "reserved")
		f.Eventually(20*time.Second, "the standby has all", func() error {
			st, err := f.lag(b)
			if err == nil && (st.GetOffsetLag() != 0 || st.GetPosition() == 0) { // at first it has all of nothing
				err = errors.New(st.String())
			}
			return err
		})
		f.expect(b, maxLag(0), "1", "3", "", "emptykey", long, "long", "!badger!x", "reserved")
		if got := f.committed(); got != 6 {
			t.Errorf("committed offset %d, want 6", got)
		}
	})
}

// A tombstone deletes, an empty value is a value, on active, standby and after a rebuild.
func TestS22TombstoneIsNoEmptyValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		f.input(
			&kgo.Record{Key: []byte("k3"), Value: []byte("v3")},
			&kgo.Record{Key: []byte("ev"), Value: []byte{}},
			&kgo.Record{Key: []byte("k5"), Value: []byte("v5")},
			&kgo.Record{Key: []byte("k3"), Value: nil},
			&kgo.Record{Key: []byte("k5"), Value: []byte("late-but-last")},
		)
		f.settled(a, "k5", "late-but-last")
		want := []string{"k3", "absent", "ev", "", "k5", "late-but-last"}
		f.expect(a, strong(), want...)
		f.Eventually(20*time.Second, "standby", func() error {
			got, _, err := f.get(b, "k5", maxLag(0))
			if err == nil && got != "late-but-last" {
				err = errors.New(got)
			}
			return err
		})
		f.expect(b, maxLag(0), want...)
		a.Stop()
		b.Stop()
		c := f.StartNode("c") // from nothing
		f.waitRole(c, iqv1.Role_ROLE_ACTIVE)
		f.expect(c, strong(), want...)
	})
}

// Time lag has nothing to do with the records' timestamps: data of 2023 that are all applied are not years old.
func TestS26TimeLagIgnoresEventTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		old := time.UnixMilli(1700000040000)
		write := func(n int) {
			for i := range n {
				r := &kgo.Record{Topic: tableChangelog, Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v"), Timestamp: old}
				if err := f.cl.ProduceSync(f.ctx, r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(5)
		f.waitLag(b, 5, 0)
		time.Sleep(time.Minute)
		st := f.waitLag(b, 5, 0)
		if got := st.GetTimeLag().AsDuration(); got > 300*time.Millisecond {
			t.Errorf("after an idle minute the time lag is %s", got)
		}
		f.expect(b, maxStaleness(10*time.Second), "k0", "v")

		b.Gate().Freeze() // neither records nor ends reach it
		write(10)
		time.Sleep(4500 * time.Millisecond)
		st, err := f.lag(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.GetTimeLag().AsDuration(); got < 4400*time.Millisecond || got > 4900*time.Millisecond {
			t.Errorf("after 4.5s without Kafka the time lag is %s", got)
		}
		f.expect(b, maxStaleness(10*time.Second), "k0", "v")
		if _, _, err := f.get(b, "k0", maxStaleness(time.Second)); !errors.Is(err, iqerr.ErrStale) {
			t.Errorf("a read with max staleness 1s gave %v", err)
		}
		if _, _, err := f.get(b, "k0", maxLag(1000)); err != nil {
			t.Errorf("a sample of 4.5s is young enough to judge by: %v", err)
		}
		time.Sleep(time.Second)
		if _, _, err := f.get(b, "k0", maxLag(1000)); !errors.Is(err, iqerr.ErrStale) {
			t.Errorf("an offset lag was judged by an end that is 6s old: %v", err)
		}
		b.Gate().Thaw()
		f.waitLag(b, 15, 0)
	})
}

// A source topic that gets more partitions moves keys: node and router refuse reads with both counts, whatever the key, and
// never answer with a key miss; what is written meanwhile is left alone; and a node does not start on such a topic.
func TestS29ChangedPartitionCountIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: table, Routers: []string{"r"}, Log: verboseLog(t)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		f.adm = kadm.NewClient(f.cl)
		defer f.close()
		r, a := c.StartRouter("r"), c.StartNode("a")
		hash := f.Client()
		defer hash.Close()
		const keys = 12
		for i := range keys {
			if err := bubble.Produce(f.ctx, hash, "in", fmt.Sprintf("k%d", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range keys {
			f.settled(a, fmt.Sprintf("k%d", i), "v")
		}
		was := f.committedAll("in")
		if _, err := f.adm.CreatePartitions(f.ctx, 3, "in"); err != nil {
			t.Fatal(err)
		}
		for who, ask := range map[string]struct {
			q iqv1.QueryServiceClient
			m iqv1.MetadataServiceClient
		}{"node": {a.Query(), a.Metadata()}, "router": {r.Query(), r.Metadata()}} {
			f.Eventually(10*time.Second, "reads are refused at the "+who, func() error {
				var answered error
				for i := range keys {
					key := fmt.Appendf(nil, "k%d", i)
					resp, err := ask.q.Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: key, Policy: anyReplica()})
					if err == nil && string(resp.GetValue()) != "v" {
						t.Fatalf("%s is %v at the %s", key, resp, who)
					}
					if err == nil {
						answered = fmt.Errorf("%s is answered", key)
						continue
					}
					threeNotSix(t, who+": Get", err)
				}
				return answered
			})
			for i := range keys {
				key := fmt.Appendf(nil, "k%d", i)
				_, err := ask.m.QueryKey(f.ctx, &iqv1.QueryKeyRequest{Store: "table", Key: key})
				threeNotSix(t, who+": QueryKey", err)
				_, err = ask.m.QueryKey(f.ctx, &iqv1.QueryKeyRequest{Store: "table", Key: key, Partitioner: "crc32"})
				threeNotSix(t, who+": QueryKey by a partitioner", err)
				_, err = ask.q.Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: key, Partition: new(int32), Policy: anyReplica()})
				threeNotSix(t, who+": Get from a partition", err)
			}
			why, err := ask.m.Explain(f.ctx, &iqv1.ExplainRequest{Get: &iqv1.GetRequest{Store: "table", Key: []byte("k0")}})
			if err != nil || why.GetReason() != iqv1.Reason_REASON_PARTITIONS_CHANGED {
				t.Errorf("%s explains %v, %v", who, why, err)
			}
			stores, err := ask.m.ListStores(f.ctx, &iqv1.ListStoresRequest{})
			if err != nil || stores.GetStores()[0].GetPartitions() != 3 || stores.GetStores()[0].GetActualPartitions() != 6 {
				t.Errorf("%s tells of %v, %v", who, stores, err)
			}
		}
		fresh := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // knows the new count
		defer fresh.Close()
		for p := range int32(6) {
			if err := fresh.ProduceSync(f.ctx, &kgo.Record{Topic: "in", Partition: p, Key: []byte("k0"), Value: []byte("late")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if now := f.committedAll("in"); fmt.Sprint(now) != fmt.Sprint(was) {
			t.Errorf("the input went on from %v to %v", was, now)
		}
		_, err := a.Query().Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: []byte("k0"), Policy: anyReplica()})
		threeNotSix(t, "node: Get after writes", err)
		a.Stop()
		again := f.StartNode("a")
		err = again.Wait()
		if err == nil || !strings.Contains(err.Error(), "expected 6, actual 3") {
			t.Errorf("a node that starts on it ended with %v", err)
		}
	})
}

// threeNotSix checks that an error says that the store has 3 partitions and the topic 6.
func threeNotSix(t *testing.T, what string, err error) {
	t.Helper()
	var e *iqerr.PartitionsChangedError
	if !errors.As(iqerr.FromStatus(err), &e) || e.Want != 3 || e.Have != 6 || e.Store != "table" || e.Topic != "in" {
		t.Errorf("%s gave %v", what, err)
	}
}

// committedAll are the group's committed offsets of a topic, by partition.
func (f *fixture) committedAll(topic string) map[int32]int64 {
	f.t.Helper()
	got, err := f.adm.FetchOffsets(f.ctx, "app")
	if err != nil {
		f.t.Fatal(err)
	}
	at := map[int32]int64{}
	got.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			at[o.Partition] = o.At
		}
	})
	return at
}

// A changelog that has another partition count than the source topic is of another application, or of one whose topic was
// made anew: a node refuses to start on it, and changes nothing.
func TestS29ChangelogWithAnotherPartitionCountIsRefusedAtStart(t *testing.T) {
	for _, have := range []int32{1, 2, 6} {
		t.Run(fmt.Sprintf("changelog=%d", have), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: table, Log: verboseLog(t)})
				f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
				f.adm = kadm.NewClient(f.cl)
				defer f.close()
				f.createChangelog(have, nil)
				f.write(f.cl, tableChangelog, "k", "v")
				err := f.StartNode("a").Wait()
				if err == nil || !strings.Contains(err.Error(), tableChangelog) || !strings.Contains(err.Error(), fmt.Sprintf("expected 3, actual %d", have)) {
					t.Errorf("the node ended with %v", err)
				}
				topics, err := f.adm.ListTopics(f.ctx, tableChangelog, "in")
				if err != nil || len(topics[tableChangelog].Partitions) != int(have) || len(topics["in"].Partitions) != 3 {
					t.Errorf("topics are %v, %v", topics, err)
				}
			})
		})
	}
}

// A node that is killed while it restores goes on from its own position, and never answers as caught up before it is.
func TestS10KilledWhileRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		const total = 20_000
		pad := strings.Repeat("p", 1000)
		for i := range total {
			f.cl.Produce(f.ctx, &kgo.Record{Topic: tableChangelog, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%d%s", i, pad)}, nil)
		}
		if err := f.cl.Flush(f.ctx); err != nil {
			t.Fatal(err)
		}
		for _, part := range []int64{total / 4, total / 2, total * 3 / 4} {
			n := f.StartNode("a", func(cfg *nodeConfig) { cfg.TaskRetry = time.Hour })
			f.Eventually(30*time.Second, "part", func() error {
				st, err := f.lag(n)
				if err != nil {
					return err
				}
				if p := st.GetPosition(); p < total && st.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING {
					t.Fatalf("it runs at position %d of %d", p, total)
				}
				if st.GetPosition() < part {
					return errors.New(st.String())
				}
				return nil
			})
			n.Kill()
		}
		n := f.StartNode("a")
		f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
		for i := range total {
			f.expect(n, strong(), fmt.Sprintf("key-%d", i), fmt.Sprintf("%d%s", i, pad))
		}
	})
}

// New partitions of a topic that is only re-keyed move no key of a store: they are processed, without a restart. They
// were never read, and nobody said so.
func TestS29NewPartitionsOfARekeyedTopicAreProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 2, "out": 1}, Topology: countByField, Log: verboseLog(t)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		f.adm = kadm.NewClient(f.cl)
		defer f.close()
		a, b := c.StartNode("a"), c.StartNode("b")
		write := func(partitions int) {
			for i := range 10 * partitions {
				f.input(&kgo.Record{Partition: int32(i % partitions), Key: []byte("x"), Value: []byte("g,1")})
			}
		}
		write(2)
		if _, err := f.adm.CreatePartitions(f.ctx, 2, "in"); err != nil {
			t.Fatal(err)
		}
		fresh := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // knows the new count
		defer fresh.Close()
		f.cl.Close()
		f.cl = fresh
		write(4)
		f.Eventually(30*time.Second, "all are counted", func() error {
			var errs []error
			for _, n := range []*bubble.Node{a, b} {
				got, err := getCount(f.ctx, n.Query(), "g", strong())
				if err == nil && got == 60 {
					return nil
				}
				errs = append(errs, err, fmt.Errorf("count is %d at %s, want 60", got, n.ID))
			}
			return errors.Join(errs...)
		})
	})
}
