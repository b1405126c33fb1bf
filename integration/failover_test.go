//go:build synctests

package integration

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// lease is the nodes' lease by default.
const lease = 2 * time.Second

// A trio is three nodes with one standby of each partition, two routers, and how often each key was written.
type trio struct {
	*bubble.Cluster
	t       *testing.T
	cl      *kgo.Client
	nodes   map[string]*bubble.Node
	routers map[string]*bubble.Router
	counts  map[string]int64
	keys    []string // one of each partition
}

// readPause is the time between two reads of one key with one policy.
const readPause = 100 * time.Millisecond

const trioPartitions = 6

func newTrio(t *testing.T) *trio {
	t.Helper()
	c := bubble.New(t, bubble.Options{
		Topics: map[string]int32{"in": trioPartitions}, Topology: countByKey, Log: verboseLog(t), Routers: []string{"r1", "r2"},
	})
	w := &trio{Cluster: c, t: t, cl: c.Client(), nodes: make(map[string]*bubble.Node), routers: make(map[string]*bubble.Router), counts: make(map[string]int64)}
	for _, r := range []string{"r1", "r2"} {
		w.routers[r] = c.StartRouter(r)
	}
	for _, id := range []string{"a", "b", "c"} {
		w.nodes[id] = c.StartNode(id)
	}
	found := make(map[int32]string)
	for i := 0; len(found) < trioPartitions; i++ {
		key := fmt.Sprint("k", i)
		if p := w.write(key); found[p] == "" {
			found[p] = key
		}
	}
	for p := range int32(trioPartitions) {
		w.keys = append(w.keys, found[p])
	}
	w.settle()
	return w
}

func (w *trio) stop() {
	w.cl.Close()
	w.Close()
}

// write counts one more of a key and says which partition it is in.
func (w *trio) write(key string) int32 {
	w.t.Helper()
	rec := &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("x")}
	if err := w.cl.ProduceSync(w.t.Context(), rec).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	w.counts[key]++
	return rec.Partition
}

// settle waits until every partition has a serving active and every node as much to do as the others, and every replica
// has caught up.
func (w *trio) settle() {
	w.t.Helper()
	w.Eventually(time.Minute, "settled", func() error {
		resp, err := w.routers["r1"].Metadata().ListLags(w.t.Context(), &iqv1.ListLagsRequest{})
		if err != nil {
			return err
		}
		active, copies := make(map[string]int), 0
		for _, r := range resp.GetReplicas() {
			copies++
			if r.GetOffsetLag() != 0 || r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
				return fmt.Errorf("%v", r)
			}
			if r.GetRole() == iqv1.Role_ROLE_ACTIVE {
				active[r.GetNode()]++
			}
		}
		if copies < 2*trioPartitions || len(active) != len(w.nodes) {
			return fmt.Errorf("%d copies, active %v", copies, active)
		}
		for _, n := range active {
			if n != trioPartitions/len(w.nodes) {
				return fmt.Errorf("active %v", active)
			}
		}
		return w.exact()
	})
	time.Sleep(2 * lease)
}

// exact says whether every key's strong count is right.
func (w *trio) exact() error {
	for key, want := range w.counts {
		got, err := getCount(w.t.Context(), w.routers["r1"].Query(), key, strong())
		if err != nil || got != want {
			return fmt.Errorf("%s is %d, not %d: %w", key, got, want, err)
		}
	}
	return nil
}

// tasksOf are the partitions that a node is the running active of.
func (w *trio) tasksOf(id string) []int32 {
	w.t.Helper()
	ps, err := runningActives(w.t, w.nodes[id])
	if err != nil {
		w.t.Fatal(err)
	}
	return ps
}

// strongGap is how long the slowest strong read of the partitions took that began now.
func (w *trio) strongGap(partitions []int32) time.Duration {
	w.t.Helper()
	began, gap := time.Now(), time.Duration(0)
	done := make(chan error, len(partitions))
	for _, p := range partitions {
		go func() {
			got, err := getCount(w.t.Context(), w.routers["r2"].Query(), w.keys[p], &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG, Wait: durationpb.New(20 * time.Second)})
			if err == nil && got != w.counts[w.keys[p]] {
				err = fmt.Errorf("%s is %d, not %d", w.keys[p], got, w.counts[w.keys[p]])
			}
			done <- err
		}()
	}
	for range partitions {
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		gap = max(gap, time.Since(began))
	}
	return gap
}

// A node's death is known at once by its broken connections and its address, which refuses; its member is removed, its
// transaction ended, and its partitions have another active within a second. Without an eviction that takes the session
// timeout, ten seconds.
func TestKilledNodeIsReplacedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, id := range []string{"a", "b", "c"} {
			tasks := w.tasksOf(id)
			w.write(w.keys[tasks[0]]) // may be in a transaction that is open when it dies
			time.Sleep(30 * time.Millisecond)
			w.nodes[id].Kill()
			if gap := w.strongGap(tasks); gap > time.Second {
				t.Errorf("%s was killed: its partitions had no active for %s", id, gap)
			}
			w.nodes[id] = w.StartNode(id)
			w.settle()
		}
	})
}

// A node whose host vanishes refuses nothing: whoever takes its tasks waits for its lease, and when it is back it answers
// nothing as the active before it has joined again.
func TestS30VanishedNodeIsReplacedWhenItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, id := range []string{"a", "b", "c"} {
			tasks := w.tasksOf(id)
			w.nodes[id].Gate().Freeze()
			gap := w.strongGap(tasks)
			if gap > lease+1500*time.Millisecond {
				t.Errorf("%s vanished: its partitions had no active for %s", id, gap)
			}
			if gap < lease-400*time.Millisecond { // less the age of its last heartbeat
				t.Errorf("%s vanished: another was active after %s, before its lease can have run out", id, gap)
			}
			for _, p := range tasks {
				w.write(w.keys[p])
			}
			time.Sleep(time.Second)
			w.nodes[id].Gate().Thaw()
			for range 200 {
				for _, p := range tasks {
					got, err := getCount(t.Context(), w.nodes[id].Query(), w.keys[p], &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE})
					if err == nil && got != w.counts[w.keys[p]] {
						t.Fatalf("%s is back and answers %d for %s as its active, not %d", id, got, w.keys[p], w.counts[w.keys[p]])
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
			w.settle()
		}
	})
}

// A node that both routers cannot reach lives all the same: it stays in the group, and what it runs goes on.
func TestNodeThatOnlyRoutersHaveLostStaysInTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		tasks := w.tasksOf("a")
		before := w.generation("b")
		for _, r := range []string{"r1", "r2"} {
			w.Link("a", r).Freeze()
		}
		time.Sleep(20 * time.Second)
		if after := w.generation("b"); after != before {
			t.Errorf("the group went from generation %d to %d", before, after)
		}
		for _, p := range tasks {
			if got, err := getCount(t.Context(), w.nodes["a"].Query(), w.keys[p], strong()); err != nil || got != w.counts[w.keys[p]] {
				t.Errorf("%s at a: %d, %v", w.keys[p], got, err)
			}
		}
		for _, r := range []string{"r1", "r2"} {
			w.Link("a", r).Thaw()
		}
		w.settle()
	})
}

// One router that still hears a node is enough to leave it alone.
func TestNodeThatOneRouterHasLostStaysInTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		before := w.generation("b")
		w.Link("a", "r1").Cut()
		time.Sleep(20 * time.Second)
		if after := w.generation("b"); after != before {
			t.Errorf("the group went from generation %d to %d", before, after)
		}
		w.Link("a", "r1").Mend()
		w.settle()
	})
}

// Without any router the session timeout does it.
func TestDeadNodeIsReplacedWithoutRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, r := range w.routers {
			r.Kill()
		}
		w.nodes["a"].Kill()
		w.Eventually(15*time.Second, "b and c run everything", func() error {
			if n := len(w.tasksOf("b")) + len(w.tasksOf("c")); n != trioPartitions {
				return fmt.Errorf("they run %d", n)
			}
			return nil
		})
		delete(w.routers, "r1")
		w.routers["r1"] = w.StartRouter("r1")
		w.Eventually(10*time.Second, "exact", w.exact)
	})
}

// A node that is started again within the session timeout is taken back as it was: the same tasks, no rebalance (S37).
func TestS37RestartWithinTheSessionTimeoutMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, r := range w.routers {
			r.Kill() // who would have it evicted
		}
		for _, id := range []string{"a", "b", "c"} { // one of them leads
			other := map[string]string{"a": "b", "b": "c", "c": "a"}[id]
			tasks, before := w.tasksOf(id), w.generation(other)
			w.nodes[id].Kill()
			time.Sleep(3 * time.Second)
			w.nodes[id] = w.StartNode(id)
			w.Eventually(5*time.Second, id+" runs what it ran", func() error {
				now, err := runningActives(t, w.nodes[id])
				if err == nil && fmt.Sprint(now) != fmt.Sprint(tasks) {
					err = fmt.Errorf("it runs %v, and ran %v", now, tasks)
				}
				return err
			})
			time.Sleep(15 * time.Second)
			if after := w.generation(other); after != before {
				t.Errorf("%s was started again: the group went from generation %d to %d", id, before, after)
			}
			w.write(w.keys[tasks[0]])
		}
		delete(w.routers, "r1")
		w.routers["r1"] = w.StartRouter("r1")
		w.Eventually(10*time.Second, "exact", w.exact)
	})
}

// generation is the group's, as a node knows it.
func (w *trio) generation(id string) int64 {
	w.t.Helper()
	resp, err := w.nodes[id].Metadata().ListInstances(w.t.Context(), &iqv1.ListInstancesRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	newest := int64(0)
	for _, in := range resp.GetInstances() {
		newest = max(newest, in.GetGeneration())
	}
	return newest
}

// A node that is stopped in order hands its tasks to copies that have caught up and answers until they run: no read fails,
// whatever its policy, and a strong one waits a moment at most (S32).
func TestS32RollingRestartFailsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		end := w.reads(map[string]*iqv1.ReadPolicy{
			"any":           anyReplica(),
			"max_staleness": maxStaleness(time.Second),
			"active":        {Mode: iqv1.ReadPolicy_MODE_ACTIVE, Wait: durationpb.New(2 * time.Second)},
			"strong":        {Mode: iqv1.ReadPolicy_MODE_STRONG, Wait: durationpb.New(2 * time.Second)},
		})
		for _, id := range []string{"a", "b", "c"} {
			began := time.Now()
			w.nodes[id].Stop()
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s took %s to stop", id, took)
			}
			if err := w.nodes[id].Err(); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			time.Sleep(time.Second)
			w.nodes[id] = w.StartNode(id)
			w.settle()
		}
		longest := end()
		for policy, bound := range map[string]time.Duration{
			"any": 150 * time.Millisecond, "max_staleness": 150 * time.Millisecond, "active": 700 * time.Millisecond, "strong": 700 * time.Millisecond,
		} {
			if longest[policy] > bound {
				t.Errorf("the slowest read with %s took %s", policy, longest[policy])
			}
		}
	})
}

// reads reads a key of each partition with each policy every readPause until it is stopped, reports each that fails, and then
// gives how long the slowest of each policy took.
func (w *trio) reads(policies map[string]*iqv1.ReadPolicy) (end func() (longest map[string]time.Duration)) {
	var (
		ending  = make(chan struct{})
		running sync.WaitGroup
		mu      sync.Mutex
		longest = make(map[string]time.Duration)
	)
	for policy, p := range policies {
		for i, key := range w.keys {
			q := w.routers[[]string{"r1", "r2"}[i%2]].Query()
			running.Go(func() {
				for {
					select {
					case <-ending:
						return
					case <-time.After(readPause):
					}
					began := time.Now()
					_, err := getCount(w.t.Context(), q, key, p)
					if err != nil {
						w.t.Errorf("%s of %s: %v", policy, key, err)
					}
					mu.Lock()
					longest[policy] = max(longest[policy], time.Since(began))
					mu.Unlock()
				}
			})
		}
	}
	return func() map[string]time.Duration {
		close(ending)
		running.Wait()
		w.t.Logf("slowest: %v", longest)
		return longest
	}
}

// Who drains a node by hand through a router hears how it goes to the end, and the process ends.
func TestDrainByHandEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		st, err := w.routers["r1"].Control().Drain(t.Context(), &iqv1.DrainRequest{Node: "b"})
		if err != nil {
			t.Fatal(err)
		}
		began, last := time.Now(), &iqv1.DrainResponse{}
		for !last.GetDone() {
			if last, err = st.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if last.GetActiveTasks() != 0 || !last.GetRelieved() {
			t.Errorf("it ended as %v", last)
		}
		if err := w.nodes["b"].Wait(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
		delete(w.nodes, "b")
		w.settle()
	})
}

// A node that joins reads up beside the others before it is given anything, and what moves to it then moves in a moment.
func TestJoiningNodeFailsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		end := w.reads(map[string]*iqv1.ReadPolicy{
			"any":    anyReplica(),
			"strong": {Mode: iqv1.ReadPolicy_MODE_STRONG, Wait: durationpb.New(2 * time.Second)},
		})
		w.nodes["d"] = w.StartNode("d")
		w.Eventually(time.Minute, "d has its share", func() error {
			if ps, err := runningActives(t, w.nodes["d"]); err != nil || len(ps) == 0 {
				return fmt.Errorf("d runs %v: %w", ps, err)
			}
			return nil
		})
		time.Sleep(5 * time.Second)
		longest := end()
		if longest["any"] > 150*time.Millisecond || longest["strong"] > 700*time.Millisecond {
			t.Errorf("the slowest reads took %v", longest)
		}
		w.Eventually(10*time.Second, "exact", w.exact)
	})
}
