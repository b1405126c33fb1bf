package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// openMemory is an empty store in memory.
func openMemory(tb testing.TB, schema store.Schema) *store.KV {
	tb.Helper()
	kv, err := store.Open("", store.ID{Application: "app", Store: "s", Changelog: "app-s-changelog", Schema: schema}, store.Options{InMemory: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = kv.Close() })
	return kv
}

// Who subscribes while somebody applies gets each step that the store's position, looked at after that, does not have, and
// none before it twice: with the position, they are all steps, in order.
func TestSubscriptionAndPositionLeaveNoGap(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	var c Changes
	const steps, readers = 3_000, 4
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for stop := false; !stop; {
				select {
				case <-done:
					stop = true // and once more
				default:
				}
				sub := c.subscribe(kv)
				at := kv.Position()
				for range r.IntN(20) {
					select {
					case <-sub.wake:
					case <-done:
					}
					taken, ok := sub.take()
					if !ok {
						break // it was not scheduled for long
					}
					for _, st := range taken {
						if st.next <= at {
							continue
						}
						if st.from > at {
							t.Errorf("after %d comes the step from %d to %d", at, st.from, st.next)
						}
						at = st.next
					}
				}
				c.unsubscribe(sub)
			}
		})
	}
	for at := range int64(steps) {
		from := kv.Position()
		if err := kv.Apply([]store.Change{{Key: []byte("k"), Value: []byte("v")}}, store.Checkpoint{Position: at + 1}); err != nil {
			t.Fatal(err)
		}
		c.Committed(kv, from, at+1, at, []store.Change{{Key: []byte("k")}})
	}
	close(done)
	all.Wait()
	if c.subs.Load() != nil {
		t.Error("somebody is still subscribed")
	}
}

// A full queue costs its subscriber alone, and nothing of it is kept.
func TestFullQueueIsGivenUpAndNobodyElseIsTouched(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	var c Changes
	idle, busy := c.subscribe(kv), c.subscribe(kv)
	defer c.unsubscribe(idle)
	defer c.unsubscribe(busy)
	got := 0
	for at := range int64(maxPendingSteps + 1) {
		c.Committed(kv, at, at+1, at, []store.Change{{Key: []byte("k")}})
		if at%100 == 0 || at == maxPendingSteps {
			steps, ok := busy.take()
			if !ok {
				t.Fatal("the one that takes was given up")
			}
			got += len(steps)
		}
	}
	if got != maxPendingSteps+1 {
		t.Errorf("%d steps", got)
	}
	select {
	case <-idle.full:
	default:
		t.Error("more steps wait than may")
	}
	if steps, ok := idle.take(); ok || len(steps) != 0 {
		t.Errorf("%d steps are left of a queue that was given up, %v", len(steps), ok)
	}
	c.Committed(kv, 5000, 5001, 5000, []store.Change{{Key: []byte("k")}}) // is ignored, not fatal

	large := c.subscribe(kv)
	defer c.unsubscribe(large)
	for range 2 { // one of any size is taken when nothing waits
		c.Committed(kv, 0, 1, 0, []store.Change{{Value: make([]byte, maxPendingBytes+1)}})
		if steps, ok := large.take(); !ok || len(steps) != 1 {
			t.Fatalf("%d steps, %v", len(steps), ok)
		}
	}
	for range 2 {
		c.Committed(kv, 0, 1, 0, []store.Change{{Value: make([]byte, maxPendingBytes/2)}})
	}
	if _, ok := large.take(); ok {
		t.Error("more bytes wait than may")
	}
}

// Steps of another store, one that was rebuilt, say, are none of a subscription's.
func TestSubscriptionIsToOneLifeOfAStore(t *testing.T) {
	t.Parallel()
	old, rebuilt := openMemory(t, store.Schema{}), openMemory(t, store.Schema{})
	var c Changes
	sub := c.subscribe(old)
	defer c.unsubscribe(sub)
	c.Committed(rebuilt, 0, 1, 0, []store.Change{{Key: []byte("k")}})
	if steps, ok := sub.take(); len(steps) != 0 || !ok {
		t.Errorf("%d steps of another store, %v", len(steps), ok)
	}
}

// What a record is to a watcher: its key and times, its value, or that it removes.
func TestEventsOfEveryKind(t *testing.T) {
	t.Parallel()
	number := func(ms int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ms)) }
	for _, test := range []struct {
		schema store.Schema
		key    []byte
		value  []byte
		want   event
	}{
		{store.Schema{}, []byte("k"), []byte("v"), event{key: []byte("k"), value: []byte("v")}},
		{store.Schema{}, []byte("k"), []byte{}, event{key: []byte("k"), value: []byte{}}},
		{store.Schema{}, []byte("k"), nil, event{key: []byte("k"), removed: true}},
		{store.Schema{}, []byte{}, []byte("v"), event{key: []byte{}, value: []byte("v")}},
		{
			store.Schema{Kind: store.KindWindow, WindowSize: time.Second, Retention: time.Hour},
			slices.Concat([]byte("k\x00"), number(5000), []byte{0, 0, 0, 0}), []byte("v"),
			event{key: []byte("k\x00"), value: []byte("v"), span: store.Span{Start: 5000, End: 6000}},
		},
		{
			store.Schema{Kind: store.KindSession, Retention: time.Hour},
			slices.Concat([]byte("k"), number(9), number(7)), nil,
			event{key: []byte("k"), removed: true, span: store.Span{Start: 7, End: 9}},
		},
		{
			store.Schema{Kind: store.KindVersioned, Retention: time.Hour},
			[]byte("k"), []byte("v"),
			event{key: []byte("k"), value: []byte("v"), span: store.Span{Start: 77, End: store.NoEnd}},
		},
		{
			store.Schema{Kind: store.KindVersioned, Retention: time.Hour},
			[]byte("k"),
			[]byte{},
			event{key: []byte("k"), value: []byte{}, span: store.Span{Start: 77, End: store.NoEnd}},
		},
		{
			store.Schema{Kind: store.KindVersioned, Retention: time.Hour},
			[]byte("k"), nil,
			event{key: []byte("k"), removed: true, span: store.Span{Start: 77, End: store.NoEnd}},
		},
	} {
		rec := &kgo.Record{Key: test.key, Value: test.value, Timestamp: time.UnixMilli(77), Offset: 3}
		foreign := &kgo.Record{Value: []byte("x")} // without a key: nothing that a store wrote
		got := eventsOf(test.schema, []*kgo.Record{foreign, rec})
		test.want.timestamp, test.want.offset = 77, 3
		if len(got) != 1 || !sameEvent(got[0], test.want) {
			t.Errorf("%s: %q=%q is %+v, want %+v", test.schema, test.key, test.value, got, test.want)
		}
		// The active publishes changes and the tail records; both tell the same.
		change, err := test.schema.FromChangelog(test.key, test.value, 77)
		if err != nil {
			t.Fatal(err)
		}
		st := &step{kv: openMemory(t, test.schema), from: 3, next: 4, first: 3, changes: []store.Change{change}}
		if got := st.all(); len(got) != 1 || !sameEvent(got[0], test.want) {
			t.Errorf("%s: the change of %q=%q is %+v, want %+v", test.schema, test.key, test.value, got, test.want)
		}
	}
}

func sameEvent(a, b event) bool {
	return a.offset == b.offset && bytes.Equal(a.key, b.key) && bytes.Equal(a.value, b.value) && (a.value == nil) == (b.value == nil) &&
		a.timestamp == b.timestamp && a.span == b.span && a.removed == b.removed
}

// covers selects what a scan of the same range finds.
func TestWatchedKeysAreThoseOfAScan(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	var keys [][]byte
	var all []store.Change
	for _, k := range []string{"", "\x00", "a", "a\x00", "ab", "b", "ba", "\xff", "\xff\xff"} {
		keys = append(keys, []byte(k))
		all = append(all, store.Change{Key: []byte(k), Value: []byte("v")})
	}
	if err := kv.Apply(all, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	r, err := store.NewKeyValueReader(kv.Reader())
	if err != nil {
		t.Fatal(err)
	}
	bounds := append([][]byte{nil, []byte("aa")}, keys...)
	check := func(k query.Keys) {
		var want, got []string
		for e, err := range r.FetchRange(store.KeyRange(k), store.ScanOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(e.Key))
		}
		for _, key := range keys {
			if covers(k, key) {
				got = append(got, string(key))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, a scan finds %q", k, got, want)
		}
	}
	for _, from := range bounds {
		check(query.Keys{Prefix: from})
		for _, to := range bounds {
			for open := range 4 {
				check(query.Keys{From: from, To: to, FromOpen: from != nil && open&1 > 0, ToOpen: to != nil && open&2 > 0})
			}
		}
	}
}

// newTestPart is a partition of a watch that takes steps from a store and hands its messages to the test.
func newTestPart(tb testing.TB, kv *store.KV, c *Changes) *watchedPart {
	tb.Helper()
	w := &watch{srv: &Server{cfg: Config{NodeID: "a"}}, out: make(chan *iqv1.WatchResponse), base: time.Now()}
	p := newWatchedPart(w, metadata.Partition{Store: "s"})
	p.held.Store(&held{kv: kv})
	p.sub, p.base, p.at = c.subscribe(kv), 0, 0
	tb.Cleanup(func() { c.unsubscribe(p.sub) })
	return p
}

// A caller who takes nothing while commits go on is told so when the queue is full, in the middle of a message that waits.
func TestCallerWhoLetsTheQueueRunFullIsEnded(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	var c Changes
	p := newTestPart(t, kv, &c)
	ended := make(chan error, 1)
	go func() { ended <- p.live(t.Context()) }()
	for at := range int64(3 * maxPendingSteps) { // the first ones are in the message that nobody takes
		c.Committed(kv, at, at+1, at, []store.Change{{Key: []byte("k"), Value: []byte("v")}})
	}
	if err := <-ended; !errors.Is(err, iqerr.ErrSlowReader) {
		t.Errorf("it ends with %v", err)
	}
}

// However steps are cut into messages, and wherever in one a caller's position lies, the messages tell each change from
// there on once; and each position is that of what was told with it.
func TestMessagesTellEachChangeOnceFromAnyPosition(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	r := rand.New(rand.NewPCG(3, 3))
	var steps []*step
	var values []string // by offset; empty for what is no change of the selection
	for len(values) < 20_000 {
		st := &step{kv: kv, from: int64(len(values)), first: int64(len(values))}
		size := []int{0, 10, 100, 1000}[r.IntN(4)]
		for range 1 + r.IntN(1+[]int{3, 300, 3000}[r.IntN(3)]) {
			key := []string{"other", "k1", "k2"}[r.IntN(3)]
			value := fmt.Sprintf("%d%s", len(values), bytes.Repeat([]byte("x"), r.IntN(size+1)))
			offset := int64(len(values))
			if key == "other" {
				values = append(values, "")
			} else {
				values = append(values, value)
			}
			st.changes = append(st.changes, store.Change{Key: []byte(key), Value: []byte(value)})
			st.records = append(st.records, &kgo.Record{Offset: offset, Key: []byte(key), Value: []byte(value)})
			st.bytes += len(key) + len(value) + changeCost
		}
		if st.next = int64(len(values)); r.IntN(2) == 0 {
			st.changes = nil
			values = append(values, "") // a marker
			st.next++
		} else {
			st.records = nil
		}
		steps = append(steps, st)
	}
	for range 60 {
		var c Changes
		p := newTestPart(t, kv, &c)
		p.w.query.Keys.Prefix = []byte("k")
		p.at = r.Int64N(int64(len(values)))
		at := p.at
		var pending []string
		messages := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer close(messages)
			for at < int64(len(values)) {
				var m *iqv1.WatchResponse
				select {
				case m = <-p.w.out:
				case <-ctx.Done():
					messages <- fmt.Errorf("ended at %d", at)
					return
				}
				for _, e := range m.GetEvents() {
					pending = append(pending, string(e.GetRow().GetValue()))
				}
				if len(m.GetEvents()) > query.MaxBatchRows || len(m.GetPositions()) != 1 {
					messages <- fmt.Errorf("%d events and the positions %v", len(m.GetEvents()), m.GetPositions())
					return
				}
				next := m.GetPositions()[0].GetPosition()
				want := slices.DeleteFunc(slices.Clone(values[at:next]), func(v string) bool { return v == "" })
				if !slices.Equal(pending, want) {
					messages <- fmt.Errorf("from %d to %d: %d changes, want %d", at, next, len(pending), len(want))
					return
				}
				at, pending = next, nil
			}
		}()
		for i, st := range steps {
			if err := p.apply(ctx, st); err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) == 0 || i == len(steps)-1 {
				if err := p.flush(ctx, p.at); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := <-messages
		stop()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A commit whose changes do not lie side by side in the changelog tells a position only at its end: a caller who goes on
// from the one before gets it again whole.
func TestCommitOfUnknownOffsetsHasItsPositionAtItsEnd(t *testing.T) {
	t.Parallel()
	kv := openMemory(t, store.Schema{})
	var c Changes
	p := newTestPart(t, kv, &c)
	var changed []store.Change
	for i := range 3 * query.MaxBatchRows / 2 {
		changed = append(changed, store.Change{Key: fmt.Append(nil, i), Value: []byte("v")})
	}
	next := int64(len(changed)) + 5
	c.Committed(kv, 0, 1, 0, changed[:1])
	c.Committed(kv, 1, next, 1, changed[1:]) // 4 offsets are somebody else's
	go func() { _ = p.live(t.Context()) }()
	var positions [][]*iqv1.PartitionPosition
	for events := 0; events < len(changed); {
		m := <-p.w.out
		events += len(m.GetEvents())
		positions = append(positions, m.GetPositions())
	}
	if n := len(positions); n < 2 || len(positions[n-1]) != 1 || positions[n-1][0].GetPosition() != next {
		t.Fatalf("positions are %v, want the last one alone to be %d", positions, next)
	}
	for _, at := range positions[:len(positions)-1] {
		if len(at) > 0 && at[0].GetPosition() != 1 {
			t.Errorf("position %v in the middle of the commit", at)
		}
	}
}

// A writer whom nobody watches pays nothing worth counting, and one who is watched one allocation a step.
func TestPublishAllocs(t *testing.T) {
	kv := openMemory(t, store.Schema{})
	batch := kafka.Batch{Next: 500, Records: make([]*kgo.Record, 500)}
	for i := range batch.Records {
		batch.Records[i] = &kgo.Record{Key: []byte("k")}
	}
	var c Changes
	if n := testing.AllocsPerRun(100, func() { c.Tailed(kv, batch) }); n != 0 {
		t.Errorf("%v allocations without subscribers", n)
	}
	sub := c.subscribe(kv)
	defer c.unsubscribe(sub)
	for range maxPendingSteps { // and then it is given up, and its queue does not grow any more
		c.Tailed(kv, batch)
	}
	if n := testing.AllocsPerRun(100, func() { c.Tailed(kv, batch) }); n > 1 {
		t.Errorf("%v allocations with a subscriber", n)
	}
}

// BenchmarkPublish is what the writer pays for those who watch, beside the Apply.
func BenchmarkPublish(b *testing.B) {
	for _, subs := range []int{0, 1, 100} {
		for _, size := range []int{1, 500} {
			b.Run(fmt.Sprintf("subscribers=%d/changes=%d", subs, size), func(b *testing.B) {
				kv := openMemory(b, store.Schema{})
				var c Changes
				ctx, stop := context.WithCancel(b.Context())
				var readers sync.WaitGroup
				for range subs {
					sub := c.subscribe(kv)
					readers.Go(func() {
						for {
							select {
							case <-sub.wake:
								_, _ = sub.take()
							case <-ctx.Done():
								return
							}
						}
					})
				}
				records := make([]*kgo.Record, size)
				for i := range records {
					records[i] = &kgo.Record{Key: []byte("key"), Value: make([]byte, 100), Offset: int64(i)}
				}
				batch := kafka.Batch{From: 0, Next: int64(size), Records: records}
				b.ReportAllocs()
				for b.Loop() {
					c.Tailed(kv, batch)
				}
				b.StopTimer()
				stop()
				readers.Wait()
			})
		}
	}
}
