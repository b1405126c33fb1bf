//go:build synctests

package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// committed is the group's committed offset of in-0, -1 when there is none.
func (f *fixture) committed() int64 {
	f.t.Helper()
	got, err := f.adm.FetchOffsets(f.ctx, "app")
	if err != nil {
		f.t.Fatal(err)
	}
	if o, ok := got.Lookup("in", 0); ok {
		return o.At
	}
	return -1
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

// A changelog record that the broker does not take aborts the whole transaction: nothing of it shows, no offset moves, and
// the task rests with an error that names it while reads of what was committed go on.
func TestS11OversizedRecordAborts(t *testing.T) {
	for _, size := range []int{929, 930, 5000} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: table, Log: verboseLog(t)})
				f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
				f.adm = kadm.NewClient(f.cl)
				defer f.close()
				f.createChangelog(1, map[string]string{"max.message.bytes": "1000"})
				f.write(f.cl, "in", "before", "v")
				n := f.StartNode("a", func(cfg *nodeConfig) { cfg.TaskRetry = time.Minute })
				f.Eventually(20*time.Second, "first record", func() error {
					got, _, err := f.get(n, "before", strong())
					if err == nil && got != "v" {
						err = errors.New(got)
					}
					return err
				})
				big := random(size)
				var failed atomic.Int64
				for _, kv := range [][2]string{{"ok", "v"}, {"b", big}} { // sent together, so processed in one transaction
					f.cl.Produce(f.ctx, &kgo.Record{Topic: "in", Key: []byte(kv[0]), Value: []byte(kv[1])}, func(_ *kgo.Record, err error) {
						if err != nil {
							failed.Add(1)
						}
					})
				}
				if err := f.cl.Flush(f.ctx); err != nil || failed.Load() > 0 {
					t.Fatalf("flush: %v, %d failed", err, failed.Load())
				}
				if size <= 929 {
					f.Eventually(20*time.Second, "both records", func() error {
						got, _, err := f.get(n, "b", strong())
						if err == nil && got != big {
							err = fmt.Errorf("%d bytes", len(got))
						}
						return err
					})
					return
				}
				f.Eventually(20*time.Second, "the task rests", func() error {
					st, err := f.lag(n)
					if err == nil && st.GetState() != iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
						err = errors.New(st.String())
					}
					return err
				})
				time.Sleep(10 * time.Second) // and does not come back by itself before its time
				f.expect(n, anyReplica(), "before", "v", "ok", "absent", "b", "absent")
				if _, _, err := f.get(n, "ok", strong()); !errors.Is(err, iqerr.ErrNoActive) {
					t.Errorf("a strong read gave %v", err)
				}
				if got := f.committed(); got != 1 {
					t.Errorf("committed offset %d, want 1", got)
				}
			})
		})
	}
}

// A transaction that Kafka has timed out leaves a client that is dead for good: the node makes another one, processes the
// input again, and does not try in a hot loop.
func TestS12TimedOutTransactionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		var inits atomic.Int64
		c.Kafka.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.Kafka.KeepControl()
			inits.Add(1)
			return nil, nil, false
		})
		paused := false
		n := c.StartNode("a", func(cfg *nodeConfig) {
			cfg.TransactionTimeout = 3 * time.Second
			cfg.Step = func(step string) error {
				if step == "offsets" && !paused {
					paused = true
					time.Sleep(15 * time.Second)
				}
				return nil
			}
		})
		cl := c.Client()
		defer cl.Close()
		for range 100 {
			if err := bubble.Produce(t.Context(), cl, "in", "k", "1"); err != nil {
				t.Fatal(err)
			}
		}
		c.Eventually(45*time.Second, "count of 100", func() error {
			got, err := getCount(t.Context(), n.Query(), "k", strong())
			if err == nil && got != 100 {
				err = fmt.Errorf("count is %d", got)
			}
			return err
		})
		if !paused {
			t.Error("the pause never happened")
		}
		if got := inits.Load(); got > 6 {
			t.Errorf("%d producers were initialised within a minute", got)
		}
	})
}

// A node that is cut off from Kafka never answers as the active once another may have replaced it, and learns that it was
// replaced when it is back.
func TestS13CutOffNodeNeverAnswersAsActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		f.write(f.cl, "in", "k1", "1")
		f.Eventually(20*time.Second, "k1=1", func() error {
			got, _, err := f.get(a, "k1", strong())
			if err == nil && got != "1" {
				err = errors.New(got)
			}
			return err
		})
		a.Gate().Freeze()
		frozen := time.Now()
		var refusedAfter time.Duration
		check := func() (answered bool) { // a may answer with 1 only as long as nobody else can have written
			for _, mode := range []iqv1.ReadPolicy_Mode{iqv1.ReadPolicy_MODE_ACTIVE, iqv1.ReadPolicy_MODE_STRONG} {
				if _, _, err := f.get(a, "k1", &iqv1.ReadPolicy{Mode: mode}); err == nil {
					answered = true
				}
			}
			return answered
		}
		f.write(f.cl, "in", "k1", "2") // nobody processes it before b has taken over
		f.Eventually(60*time.Second, "b is active with k1=2", func() error {
			if !check() && refusedAfter == 0 {
				refusedAfter = time.Since(frozen)
			}
			got, _, err := f.get(b, "k1", &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG})
			if err == nil && got != "2" {
				err = errors.New(got)
			}
			if err == nil && check() {
				t.Fatal("a answered as active although b has replaced it")
			}
			return err
		})
		if refusedAfter == 0 || refusedAfter > 2100*time.Millisecond {
			t.Errorf("a refused after %s, its lease is 2s", refusedAfter)
		}
		a.Gate().Thaw()
		f.Eventually(60*time.Second, "a follows again", func() error {
			if got, _, err := f.get(a, "k1", &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE}); err == nil && got != "2" {
				t.Fatalf("a answered %s as active", got)
			}
			got, _, err := f.get(a, "k1", maxLag(0))
			if err == nil && got != "2" {
				err = errors.New(got)
			}
			return err
		})
	})
}

// Aborted transactions and rebalances neither skip nor repeat a record.
func TestS44AbortsAndRebalancesSkipNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 5}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		var ends atomic.Int64
		c.Kafka.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.Kafka.KeepControl()
			n := ends.Add(1)
			if n%10 != 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.EndTxnResponse) //nolint:forcetypeassert // of this request
			resp.ErrorCode = kerr.InvalidTxnState.Code
			if n%20 == 0 {
				resp.ErrorCode = kerr.ConcurrentTransactions.Code
			}
			return resp, nil, true
		})
		nodes := []*bubble.Node{c.StartNode("a"), c.StartNode("b")}
		cl := c.Client()
		defer cl.Close()
		ctx := t.Context()
		churn, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { // a third node comes and goes: a rebalance every 2 s
			defer close(done)
			for churn.Err() == nil {
				n := c.StartNode("churn") //nolint:contextcheck // it ends by Stop
				time.Sleep(2 * time.Second)
				n.Stop()
				time.Sleep(2 * time.Second)
			}
		}()
		const keys, total = 500, 5000
		for i := range total {
			cl.Produce(ctx, &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "key-%d", i%keys), Value: []byte("1")}, nil)
			if i%100 == 99 {
				time.Sleep(400 * time.Millisecond)
			}
		}
		if err := cl.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		stop()
		<-done
		for k := range keys {
			key := fmt.Sprintf("key-%d", k)
			c.Eventually(time.Minute, key, func() error {
				var errs []error
				for _, n := range nodes {
					got, err := getCount(ctx, n.Query(), key, strong())
					if err == nil && got == total/keys {
						return nil
					}
					errs = append(errs, err, fmt.Errorf("%s is %d at %s", key, got, n.ID))
				}
				return errors.Join(errs...)
			})
		}
		if ends.Load() < 20 {
			t.Errorf("only %d transactions ended", ends.Load())
		}
	})
}

// A task begins only when no transaction is open that commits offsets of its inputs (KIP-447): what an earlier owner had
// committed last may just be on its way.
func TestOffsetsOfAnOpenTransactionAreWaitedFor(t *testing.T) {
	for how, want := range map[kgo.TransactionEndTry]int64{kgo.TryCommit: 6, kgo.TryAbort: 10} {
		t.Run(fmt.Sprintf("commit=%v", how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t)})
				f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client()}
				defer f.close()
				for range 10 {
					if err := bubble.Produce(f.ctx, f.cl, "in", "k", "x"); err != nil {
						t.Fatal(err)
					}
				}
				owner := f.Client(kgo.TransactionalID("an earlier owner"), kgo.MaxVersions(kversion.V3_6_0()))
				defer owner.Close()
				f.begin(owner)
				if err := bubble.Produce(f.ctx, owner, "in", "other", "x"); err != nil { // so that the client ends the transaction
					t.Fatal(err)
				}
				f.offsetsInTxn(owner, 4)

				n := f.StartNode("a")
				time.Sleep(5 * time.Second)
				if _, err := getCount(f.ctx, n.Query(), "k", strong()); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoActive) {
					t.Errorf("while the transaction is open a strong read gives %v", err)
				}
				f.end(owner, how)
				f.Eventually(30*time.Second, "the rest is counted", func() error {
					got, err := getCount(f.ctx, n.Query(), "k", strong())
					if err == nil && got != want {
						err = fmt.Errorf("count is %d, want %d", got, want)
					}
					return err
				})
			})
		})
	}
}

// offsetsInTxn commits an offset of in-0 for the group in the client's transaction.
func (f *fixture) offsetsInTxn(cl *kgo.Client, offset int64) {
	f.t.Helper()
	id, epoch, err := cl.ProducerID(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.Group, add.ProducerID, add.ProducerEpoch = "an earlier owner", "app", id, epoch
	if resp, err := add.RequestWith(f.ctx, cl); err != nil || resp.ErrorCode != 0 {
		f.t.Fatal(err, resp)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = add.TransactionalID, add.Group, id, epoch, -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = "in"
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset, part.LeaderEpoch = offset, -1
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(f.ctx, cl)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		f.t.Fatal(err, resp)
	}
}
