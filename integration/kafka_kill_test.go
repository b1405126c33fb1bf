//go:build kafka

package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
)

const (
	// kills is how many processes TestKafkaKillFiftyTimesLosesNothing kills.
	kills = 50
	// killEvery is the mean time between two kills; a node needs about half of it to be active again.
	killEvery = time.Second
	// takeoverEvery says which kills leave the node dead until the group has given its tasks to others; after the other ones
	// it is back before.
	takeoverEvery = 10
	// crashPatience is how long a kill waits for a node to reach the step at which it is to crash.
	crashPatience = 10 * time.Second
	// maxCrashCount bounds the n of "crash when the step is reached for the n-th time".
	maxCrashCount = 8
	// groups are the keys of the rows that a feed writes.
	groups = 7
)

// crashSteps are the steps of the commit at which a node can be made to crash.
var crashSteps = []string{"produce", "flush", "offsets", "end", "sent", "apply", "applied"}

// A feed writes rows to the topic "in", for sumsYAML, at a steady rate until it is stopped, and knows what they add up to.
type feed struct {
	stop func() error // returns after the last row is written

	counts, sums map[string]int64 // by group; read them after stop
}

// startFeed writes a row of each group every interval.
func (a *app) startFeed(interval time.Duration) *feed {
	f := &feed{counts: make(map[string]int64), sums: make(map[string]int64)}
	halt, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- a.feed(halt, f, interval) }()
	f.stop = sync.OnceValue(func() error {
		close(halt)
		return <-done
	})
	a.t.Cleanup(func() { _ = f.stop() })
	return f
}

func (a *app) feed(halt <-chan struct{}, f *feed, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := int64(1); ; n++ {
		var rows []*kgo.Record
		for g := range int64(groups) {
			group := fmt.Sprintf("g%d", g)
			f.counts[group]++
			f.sums[group] += n * g
			rows = append(rows, &kgo.Record{Topic: a.topic("in"), Key: fmt.Append(nil, n*groups+g), Value: fmt.Appendf(nil, "%s,%d", group, n*g)})
		}
		if err := a.kafka.ProduceSync(a.ctx, rows...).FirstErr(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-halt:
			return nil
		}
	}
}

// sumsApp is an application with the rows' sums.
func sumsApp(t *testing.T, flags ...string) *app {
	t.Helper()
	return newApp(t, sumsYAML, map[string]int32{"in": 3, "out": 2}, flags...)
}

// exact waits until the stores have what the feed has written, and compares every standby and the topic of changes too.
func (a *app) exact(f *feed, limit time.Duration) {
	a.t.Helper()
	a.sumsTo(limit, "counts", f.counts)
	a.sumsTo(limit, "sums", f.sums)
	a.copiesEqual("counts", f.counts)
	a.copiesEqual("sums", f.sums)
	a.changesComplete("out", f.counts)
}

// copiesEqual reads every key from every node that has caught up with its partition since the call: an offset lag of 0 alone
// may be that of a moment ago.
func (a *app) copiesEqual(store string, want map[string]int64) {
	a.t.Helper()
	began := time.Now()
	for key, n := range want {
		a.eventually(20*time.Second, "two copies of "+key, func() error {
			copies := 0
			for _, node := range a.nodes {
				got, err := a.number(node.Client, store, key, client.MaxOffsetLag(0), client.MaxStaleness(max(time.Millisecond, time.Since(began))))
				if err == nil && got != n {
					a.t.Fatalf("%s of %s is %d at %s with lag 0, want %d", store, key, got, node.id, n)
				}
				if err == nil {
					copies++
				}
			}
			if copies < 2 {
				return fmt.Errorf("only %d", copies)
			}
			return nil
		})
	}
}

// hasAll waits until every count is served under a policy.
func (a *app) hasAll(from *client.Client, policy client.ReadOption) {
	a.t.Helper()
	for g := range groups {
		key := fmt.Sprintf("g%d", g)
		a.eventually(30*time.Second, "a count of "+key, func() error {
			n, err := a.number(from, "counts", key, policy)
			if err == nil && n == 0 {
				err = errors.New("absent")
			}
			return err
		})
	}
}

// changesComplete checks a topic that has each new count of each key: every number once, in order.
func (a *app) changesComplete(topic string, want map[string]int64) {
	a.t.Helper()
	last := make(map[string]int64)
	for _, r := range a.readAll(topic) {
		key, n := string(r.Key), int64(binary.BigEndian.Uint64(r.Value)) // Java's big-endian long
		if n != last[key]+1 {
			a.t.Fatalf("%s: after %d of %s comes %d, at offset %d of partition %d", topic, last[key], key, n, r.Offset, r.Partition)
		}
		last[key] = n
	}
	for key, n := range want {
		if last[key] != n {
			a.t.Errorf("%s ends with %d of %s, want %d", topic, last[key], key, n)
		}
	}
}

// Nodes that die by kill -9, at random moments and at each step of the commit, and go on with their state directories,
// neither lose nor repeat a record: in stores behind a repartition topic, in their copies and in an output topic.
func TestKafkaKillFiftyTimesLosesNothing(t *testing.T) {
	a := sumsApp(t)
	nodes := []*server{a.start("a"), a.start("b"), a.start("c")}
	f := a.startFeed(40 * time.Millisecond)
	planned := make(map[*server]string) // where a node is to crash; none for a random moment
	crashed := make(map[string]int)     // by step
	for i := range kills {
		a.pause(killEvery/2 + rand.N(killEvery))
		n := nodes[i%len(nodes)]
		if step := planned[n]; step != "" {
			select {
			case <-n.Done():
				if n.Signal() != syscall.SIGKILL {
					t.Fatalf("node %s ended by itself: %v", n.id, n.Err())
				}
				crashed[step]++
			case <-time.After(crashPatience):
			}
		}
		n.Kill()
		if i%takeoverEvery == takeoverEvery-1 {
			n.dropped()
		}
		planned[n] = ""
		if i%2 == 0 && i+len(nodes) < kills {
			planned[n] = crashSteps[i/2%len(crashSteps)]
			n.run(fmt.Sprintf("IQNODE_CRASH_AT=%s:%d", planned[n], 1+rand.IntN(maxCrashCount)))
		} else {
			n.run()
		}
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for _, step := range crashSteps {
		if crashed[step] == 0 {
			t.Errorf("no node crashed at step %s", step)
		}
	}
	t.Logf("%d rows of each group; crashes by step: %v, %d at random moments", f.counts["g0"], crashed, kills-total(crashed))
	began := time.Now()
	a.exact(f, time.Minute)
	t.Logf("exact after another %s", time.Since(began))
	fenced := 0
	for _, n := range nodes {
		log, err := n.Log()
		if err != nil {
			t.Fatal(err)
		}
		fenced += strings.Count(log, "msg=fenced")
	}
	if fenced == 0 {
		t.Error("no node has fenced a dead one")
	}
	t.Logf("%d times a survivor fenced a dead node", fenced)
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
