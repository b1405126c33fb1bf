//go:build kafka

package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	// watchedKeys, at watchedRate records a second, are that many changes a second: each key is in a commit once.
	watchedKeys = 1_000
	watchedRate = 5_000
	// watchedFor is how long records are written before the first node is killed, and between two kills.
	watchedFor = 4 * time.Second
)

// A numbered change is one count of one key.
type numbered struct {
	key string
	n   int64
}

// A nodeWatch follows one partition of the store "counts" at one node after another.
type nodeWatch struct {
	app       *app
	partition int32
	nodes     []iqv1.QueryServiceClient // asked in turn

	mu      sync.Mutex
	begun   bool
	from    int64
	at      int64
	rows    map[string]int64
	changes []numbered
	seen    []time.Time // when each of changes came
	resumed int
	err     error // that no watch may end with
}

func (w *nodeWatch) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		err := iqerr.FromStatus(w.once(ctx, w.nodes[i%len(w.nodes)]))
		w.mu.Lock()
		w.resumed++
		switch reason := iqerr.ReasonOf(err); reason { //nolint:exhaustive // the others pass
		case iqv1.Reason_REASON_PAGE_LOST, iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_SLOW_READER, iqv1.Reason_REASON_CORRUPT:
			w.err = err
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		pause := time.NewTimer(pollEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

func (w *nodeWatch) once(ctx context.Context, q iqv1.QueryServiceClient) error {
	req := &iqv1.WatchRequest{
		Selection: &iqv1.Selection{Store: "counts", Partitions: []int32{w.partition}},
		Policy:    &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY},
	}
	if w.begun {
		req.From = []*iqv1.PartitionPosition{{Partition: w.partition, Position: w.at}}
	}
	stream, err := q.Watch(ctx, req)
	if err != nil {
		return err
	}
	var pending []numbered
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, e := range m.GetEvents() {
			pending = append(pending, numbered{string(e.GetRow().GetKey()), int64(binary.BigEndian.Uint64(e.GetRow().GetValue()))})
		}
		if len(m.GetPositions()) == 0 {
			continue
		}
		w.mu.Lock()
		if !w.begun {
			w.begun, w.from, w.rows = true, m.GetPositions()[0].GetPosition(), make(map[string]int64)
			for _, c := range pending {
				w.rows[c.key] = c.n
			}
		} else {
			w.changes = append(w.changes, pending...)
			for range pending {
				w.seen = append(w.seen, time.Now())
			}
		}
		w.at, pending = m.GetPositions()[0].GetPosition(), nil
		w.mu.Unlock()
	}
}

// A watch goes on at the standby when its node is killed by kill -9, and at that one when the standby is killed, as often as
// that happens: every committed count is told once, in order, and they add up to what the store holds.
func TestKafkaWatchGoesOnAtTheStandbyOfAKilledNode(t *testing.T) {
	a := newApp(t, countYAML, map[string]int32{"in": 2, "out": 1})
	nodes := []*server{a.start("a"), a.start("b")}
	var asked []iqv1.QueryServiceClient
	for _, n := range nodes {
		cc, err := grpc.NewClient(n.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cc.Close() })
		asked = append(asked, iqv1.NewQueryServiceClient(cc))
	}
	a.twoCopies(2)
	committed := a.consumeCounts()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	var watches []*nodeWatch
	for p := range int32(2) {
		w := &nodeWatch{app: a, partition: p, nodes: asked}
		watches = append(watches, w)
		watching.Go(func() { w.run(ctx) })
	}
	want := make(map[string]int64)
	write := func(d time.Duration) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; i < int(d.Seconds()*watchedRate); {
			var recs []*kgo.Record
			for range watchedRate / 100 {
				key := fmt.Sprintf("k%d", i%watchedKeys)
				recs = append(recs, &kgo.Record{Topic: a.topic("in"), Key: []byte(key), Value: []byte("x")})
				want[key]++
				i++
			}
			if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			<-tick.C
		}
	}
	write(watchedFor)
	calm := make([]int, len(watches))
	for i, w := range watches {
		w.mu.Lock()
		calm[i] = len(w.changes)
		w.mu.Unlock()
	}
	for round := range 3 {
		n := nodes[round%2]
		n.Kill()
		write(watchedFor / 2)
		n.dropped()
		n.run()
		a.twoCopies(2)
		write(watchedFor / 4)
	}
	a.sumsTo(time.Minute, "counts", want)
	a.eventually(30*time.Second, "each watch has told the last change", func() error {
		for _, w := range watches {
			if err := w.check(committed(), want); err != nil {
				return err
			}
		}
		return nil
	})
	for i, w := range watches {
		t.Logf("partition %d: %d changes told, %d times gone on; in the calm, after a consumer of the changelog has them: %s",
			w.partition, len(w.changes), w.resumed, w.delays(committed(), calm[i]))
		if w.resumed == 0 {
			t.Errorf("partition %d: the watch was never broken", w.partition)
		}
	}
}

// A consumed record is one of the changelog, and when a consumer of committed records had it.
type consumed struct {
	numbered
	offset int64
	at     time.Time
}

// consumeCounts follows the changelog of "counts" as any consumer would, and returns what it has, by partition.
func (a *app) consumeCounts() func() map[int32][]consumed {
	cl := a.client(kgo.ConsumeTopics(a.topic("counts-changelog")), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var mu sync.Mutex
	all := make(map[int32][]consumed)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(a.ctx)
	a.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fs := cl.PollFetches(ctx)
			now := time.Now()
			mu.Lock()
			fs.EachRecord(func(rec *kgo.Record) {
				all[rec.Partition] = append(all[rec.Partition], consumed{numbered{string(rec.Key), int64(binary.BigEndian.Uint64(rec.Value))}, rec.Offset, now})
			})
			mu.Unlock()
		}
	}()
	return func() map[int32][]consumed {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}

// check compares what was told with the changelog and with what was written.
func (w *nodeWatch) check(committed map[int32][]consumed, want map[string]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.app.t.Fatalf("a watch of partition %d ended with %v", w.partition, w.err)
	}
	folded := maps.Clone(w.rows)
	var since []numbered
	for _, c := range committed[w.partition] {
		if c.offset >= w.from {
			since = append(since, c.numbered)
		}
	}
	for i, c := range w.changes {
		folded[c.key] = c.n
		if i < len(since) && since[i] != c {
			w.app.t.Fatalf("partition %d: change %d since %d is %v, told was %v", w.partition, i, w.from, since[i], c)
		}
	}
	if len(since) != len(w.changes) {
		return fmt.Errorf("partition %d: %d changes of %d", w.partition, len(w.changes), len(since))
	}
	for key, n := range folded {
		if want[key] != n {
			return fmt.Errorf("partition %d: %s adds up to %d, not %d", w.partition, key, n, want[key])
		}
	}
	return nil
}

// delays are how long after a consumer the first n changes came, at the median and at the 99th percentile.
func (w *nodeWatch) delays(committed map[int32][]consumed, n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := slices.DeleteFunc(slices.Clone(committed[w.partition]), func(c consumed) bool { return c.offset < w.from })
	var all []time.Duration
	for i := range min(n, len(since)) {
		all = append(all, w.seen[i].Sub(since[i].at))
	}
	if len(all) == 0 {
		return "nothing"
	}
	slices.Sort(all)
	return fmt.Sprintf("p50 %s, p99 %s, most %s", all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
}
