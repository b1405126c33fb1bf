//go:build synctests

package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A tapped watch is read as it comes, in a goroutine of its own.
type tapped struct {
	stop context.CancelFunc

	mu       sync.Mutex
	messages []*iqv1.WatchResponse
	err      error // what it ended with
	ended    time.Time
}

// watch begins a watch of "table" by any replica, unless edit changes that.
func (f *fixture) watch(n *bubble.Node, edit ...func(*iqv1.WatchRequest)) *tapped {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	tap := &tapped{stop: cancel}
	stream := f.openWatch(ctx, n, edit...)
	go func() {
		for {
			m, err := stream.Recv()
			tap.mu.Lock()
			if err != nil {
				tap.err, tap.ended = iqerr.FromStatus(err), time.Now()
				tap.mu.Unlock()
				return
			}
			tap.messages = append(tap.messages, m)
			tap.mu.Unlock()
		}
	}()
	return tap
}

func (f *fixture) openWatch(ctx context.Context, n *bubble.Node, edit ...func(*iqv1.WatchRequest)) iqv1.QueryService_WatchClient {
	f.t.Helper()
	return f.openWatchBy(ctx, n.Query(), edit...)
}

func (f *fixture) openWatchBy(ctx context.Context, q iqv1.QueryServiceClient, edit ...func(*iqv1.WatchRequest)) iqv1.QueryService_WatchClient {
	f.t.Helper()
	req := &iqv1.WatchRequest{Selection: &iqv1.Selection{Store: "table"}, Policy: anyReplica()}
	for _, e := range edit {
		e(req)
	}
	stream, err := q.Watch(ctx, req)
	if err != nil {
		f.t.Fatal(err)
	}
	return stream
}

// narrow asks a node over a connection on which little is on its way that the caller has not taken: gRPC lets that grow
// with what else passes otherwise.
func (f *fixture) narrow(n *bubble.Node) (q iqv1.QueryServiceClient, stop func()) {
	f.t.Helper()
	const window = 64 << 10
	cc, err := grpc.NewClient("passthrough:///"+n.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(f.Dial), grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	if err != nil {
		f.t.Fatal(err)
	}
	return iqv1.NewQueryServiceClient(cc), func() { _ = cc.Close() }
}

func by(p *iqv1.ReadPolicy) func(*iqv1.WatchRequest) {
	return func(r *iqv1.WatchRequest) { r.Policy = p }
}

func since(position int64) func(*iqv1.WatchRequest) {
	return func(r *iqv1.WatchRequest) { r.From = []*iqv1.PartitionPosition{{Position: position}} }
}

// told is what has come so far: rows and changes, "|" where current is told.
func (w *tapped) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return toldBy(w.messages)
}

func toldBy(messages []*iqv1.WatchResponse) string {
	var words []string
	for _, m := range messages {
		for _, e := range m.GetEvents() {
			word := string(e.GetRow().GetKey())
			if e.GetRow().StartMs != nil {
				word += fmt.Sprintf("@%d", e.GetRow().GetStartMs())
			}
			if e.GetRow().EndMs != nil {
				word += fmt.Sprintf("-%d", e.GetRow().GetEndMs())
			}
			value := string(e.GetRow().GetValue())
			if len(value) == 8 && value[0] == 0 { // a count
				value = fmt.Sprint(binary.BigEndian.Uint64([]byte(value)))
			}
			if e.GetRemoved() {
				value += "gone" // it has no value
			}
			words = append(words, word+"="+value)
		}
		if len(m.GetCurrent()) > 0 {
			words = append(words, "|")
		}
	}
	return strings.Join(words, " ")
}

// position is the last one that was told, -1 before any.
func (w *tapped) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := int64(-1)
	for _, m := range w.messages {
		for _, p := range m.GetPositions() {
			at = p.GetPosition()
		}
	}
	return at
}

func (w *tapped) end() (error, time.Time) { //nolint:staticcheck // the error is the subject
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err, w.ended
}

// tells waits until exactly that was told.
func (f *fixture) tells(w *tapped, want string) {
	f.t.Helper()
	f.Eventually(30*time.Second, "a watch tells "+want, func() error {
		if got := w.told(); got != want {
			err, _ := w.end()
			return fmt.Errorf("it told %q, ended with %w", got, err)
		}
		return nil
	})
}

// ends waits until the watch has ended with a fact.
func (f *fixture) ends(w *tapped, limit time.Duration, want error) error {
	f.t.Helper()
	var err error
	f.Eventually(limit, fmt.Sprintf("a watch ends with %v", want), func() error {
		if err, _ = w.end(); !errors.Is(err, want) {
			return fmt.Errorf("it has not: %w; told %s", err, w.told())
		}
		return nil
	})
	return err
}

// What is there comes first, then current, then each change; at the active and at the standby alike, of all keys, one key,
// a prefix or a range, and without what is there where that was asked for.
func TestWatchTellsWhatIsThereAndThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		f.write(f.cl, "in", "a", "1", "b", "1", "ba", "1", "c", "1", "gone", "1", "gone", "null")
		strongly := func(key, want string) {
			t.Helper()
			f.Eventually(10*time.Second, key, func() error {
				got, _, err := f.get(a, key, strong())
				if err == nil && got != want {
					err = errors.New(got)
				}
				return err
			})
		}
		strongly("c", "1")
		strongly("gone", "absent")
		f.Eventually(10*time.Second, "the standby has it", func() error {
			st, err := f.lag(b)
			if err == nil && (st.GetOffsetLag() != 0 || st.GetPosition() == 0) {
				err = errors.New(st.String())
			}
			return err
		})
		key := func(r *iqv1.WatchRequest) { r.Selection.Keys = &iqv1.Selection_Key{Key: []byte("b")} }
		prefix := func(r *iqv1.WatchRequest) { r.Selection.Keys = &iqv1.Selection_Prefix{Prefix: []byte("b")} }
		keys := func(r *iqv1.WatchRequest) {
			r.Selection.Keys = &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("b"), FromExclusive: true}}
		}
		later := func(r *iqv1.WatchRequest) { r.ChangesOnly = true }
		want := map[string]*tapped{}
		for _, n := range []*bubble.Node{a, b} {
			want[n.ID+": a=1 b=1 ba=1 c=1 | a=2 b=gone d=1"] = f.watch(n)
			want[n.ID+": b=1 | b=gone"] = f.watch(n, key)
			want[n.ID+": b=1 ba=1 | b=gone"] = f.watch(n, prefix)
			want[n.ID+": ba=1 c=1 | d=1"] = f.watch(n, keys)
			want[n.ID+": | a=2 b=gone d=1"] = f.watch(n, later)
		}
		for text, w := range want {
			before, _, _ := strings.Cut(text[3:], "|")
			f.tells(w, before+"|")
		}
		f.write(f.cl, "in", "a", "2")
		strongly("a", "2")
		f.write(f.cl, "in", "b", "null")
		strongly("b", "absent")
		f.write(f.cl, "in", "d", "1")
		for text, w := range want {
			f.tells(w, text[3:])
			w.mu.Lock()
			if r := w.messages[0].GetReads(); len(r) != 1 || r[0].GetServed().GetNode() != text[:1] || r[0].GetInputPosition() == nil {
				t.Errorf("%s: its first message is %v", text, w.messages[0])
			}
			for i, m := range w.messages {
				if len(m.GetPositions()) == 0 && len(m.GetEvents()) > 0 {
					t.Errorf("%s: message %d has changes and no position", text, i)
				}
			}
			w.mu.Unlock()
			w.stop()
		}
	})
}

// A standby applies a batch of several transactions as one step, the last value of each key. Its watch tells each
// committed change all the same, and none of an aborted transaction.
func TestWatchOfStandbyTellsEachChangeOfABatchOfTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		w := f.watch(b)
		f.tells(w, "|")
		b.Kafka().Freeze() // and nothing is fetched
		tx := f.txn("writer")
		defer tx.Close()
		for i := range 5 {
			f.begin(tx)
			f.write(tx, tableChangelog, "k", fmt.Sprint(i), "other", fmt.Sprint(i))
			f.end(tx, kgo.TransactionEndTry(i != 3))
		}
		f.begin(tx)
		f.write(tx, tableChangelog, "k", "null")
		f.end(tx, kgo.TryCommit)
		b.Kafka().Thaw()
		f.tells(w, "| k=0 other=0 k=1 other=1 k=2 other=2 k=4 other=4 k=gone")
		if at := f.waitLag(b, 17, 0).GetPosition(); w.position() != at { // 11 records and 6 markers
			t.Errorf("the last position told is %d, want %d", w.position(), at)
		}
		w.stop()
		again := f.watch(b, since(3)) // after the first transaction
		f.tells(again, "| k=1 other=1 k=2 other=2 k=4 other=4 k=gone")
		again.stop()
		middle := f.watch(b, since(4)) // within the second
		f.tells(middle, "| other=1 k=2 other=2 k=4 other=4 k=gone")
		middle.stop()
	})
}

// A position that no replica can go on from is refused as lost, and a watch whose changelog is made anew ends as that.
func TestWatchFromAPositionThatIsNotThereIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		f.write(f.cl, tableChangelog, "k", "0", "k", "1", "k", "2", "k", "3")
		f.waitLag(b, 4, 0)
		ok := f.watch(b, since(1))
		f.tells(ok, "| k=1 k=2 k=3")
		cut := make(kadm.Offsets)
		cut.Add(kadm.Offset{Topic: tableChangelog, At: 2})
		if _, err := f.adm.DeleteRecords(f.ctx, cut); err != nil {
			t.Fatal(err)
		}
		for at, want := range map[int64]string{0: "lost", 1: "lost", 2: "| k=2 k=3", 3: "| k=3", 4: "|", 5: "lost", 1000: "lost"} {
			w := f.watch(b, since(at))
			if want == "lost" {
				_ = f.ends(w, 10*time.Second, iqerr.ErrPageLost)
			} else {
				f.tells(w, want)
			}
			w.stop()
		}
		if _, err := f.adm.DeleteTopic(f.ctx, tableChangelog); err != nil {
			t.Fatal(err)
		}
		f.createChangelog(1, nil)
		_ = f.ends(ok, 10*time.Second, iqerr.ErrPageLost)
	})
}

// A standby that cannot reach Kafka any more ends a watch with a bound within little more than the bound, with its lag; one
// without a bound goes on, and tells what it missed when it can.
func TestWatchEndsAsStaleWhenItsBoundIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		const bound = 2 * time.Second
		bounded, unbounded := f.watch(b, by(maxStaleness(bound))), f.watch(b)
		f.tells(bounded, "|")
		f.tells(unbounded, "|")
		b.Kafka().Freeze()
		frozen := time.Now()
		f.write(f.cl, "in", "k", "v")
		err := f.ends(bounded, time.Minute, iqerr.ErrStale)
		stale, ok := errors.AsType[*iqerr.StaleError](err)
		if !ok || len(stale.Candidates) != 1 || stale.Candidates[0].GetReplica().GetTimeLag().AsDuration() <= bound {
			t.Errorf("it ended with %#v", err)
		}
		if _, at := bounded.end(); at.Sub(frozen) > bound+time.Second {
			t.Errorf("it ended %s after the network was gone", at.Sub(frozen))
		}
		b.Kafka().Thaw()
		f.tells(unbounded, "| k=v")
		unbounded.stop()
	})
}

// A watch that asked for the active ends when the lease is lost. One of any replica goes on over the change of its role, and
// over its return, without a gap.
func TestWatchGoesOnOverAChangeOfRoleUnlessItAskedForTheActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		active, whatever := f.watch(a, by(&iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE})), f.watch(a)
		want := "|"
		put := func(value string) {
			t.Helper()
			f.write(f.cl, "in", "k", value)
			want += " k=" + value
		}
		put("1")
		f.tells(active, want)
		f.tells(whatever, want)
		a.Kafka().Freeze()
		_ = f.ends(active, 10*time.Second, iqerr.ErrNoActive)
		f.waitRole(b, iqv1.Role_ROLE_ACTIVE)
		put("2")
		time.Sleep(time.Second)
		f.tells(whatever, "| k=1")
		a.Kafka().Thaw()
		f.waitRole(a, iqv1.Role_ROLE_STANDBY)
		put("3")
		f.tells(whatever, want)
		b.Kafka().Freeze()
		f.waitRole(a, iqv1.Role_ROLE_ACTIVE)
		put("4")
		f.tells(whatever, want)
		b.Kafka().Thaw()
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		put("5")
		f.tells(whatever, want)
		whatever.stop()
	})
}

// A node that stops ends its watches as closing, soon; the caller goes on at another one where it was.
func TestWatchOfANodeThatStopsGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		w := f.watch(a)
		f.write(f.cl, "in", "k", "1")
		f.tells(w, "| k=1")
		began := time.Now()
		a.Stop()
		_ = f.ends(w, 10*time.Second, iqerr.ErrClosing)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the node took %s to stop", took)
		}
		f.write(f.cl, "in", "k", "2")
		again := f.watch(b, since(w.position()))
		f.tells(again, "| k=2")
		again.stop()
	})
}

// A caller who takes nothing for the idle time is ended; it holds up neither commits nor other watches, and goes on from
// its last position without loss.
func TestWatchWhoseCallerTakesNothingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, _ := f.pair()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		q, hangUp := f.narrow(a)
		defer hangUp()
		idle, busy := f.openWatchBy(ctx, q), f.watch(a)
		f.tells(busy, "|")
		const writes = 30
		large := strings.Repeat("x", 20_000)
		for i := range writes {
			f.write(f.cl, "in", fmt.Sprintf("k%02d", i), large)
		}
		f.Eventually(5*time.Second, "the other watch tells all", func() error {
			if n := strings.Count(busy.told(), "="); n != writes {
				return fmt.Errorf("%d changes", n)
			}
			return nil
		})
		time.Sleep(31 * time.Second)
		if n := strings.Count(busy.told(), "="); n != writes {
			t.Errorf("%d changes", n)
		}
		var got []*iqv1.WatchResponse
		var err error
		for err == nil {
			var m *iqv1.WatchResponse
			if m, err = idle.Recv(); err == nil {
				got = append(got, m)
			}
		}
		slow, ok := errors.AsType[*iqerr.SlowReaderError](iqerr.FromStatus(err))
		if !ok || slow.Waited < 30*time.Second {
			t.Fatalf("it ended with %v", iqerr.FromStatus(err))
		}
		at := int64(-1)
		for _, m := range got {
			for _, p := range m.GetPositions() {
				at = p.GetPosition()
			}
		}
		again := f.watch(a, since(at))
		f.Eventually(10*time.Second, "it goes on", func() error {
			if all := toldBy(got) + strings.TrimPrefix(again.told(), "|"); all != busy.told() {
				return fmt.Errorf("%d of %d bytes", len(all), len(busy.told()))
			}
			return nil
		})
		again.stop()
		busy.stop()
	})
}

// A caller who takes its time over a large store, while more is committed than waits for it, is told all of the store
// and then each change since, read from the changelog.
func TestWatchThatIsSlowAtTheBeginningMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		_, b := f.pair()
		const rows, changes = 400, 1_200
		large := strings.Repeat("x", 5_000)
		var want []string
		for i := range rows {
			key := fmt.Sprintf("k%03d", i)
			f.write(f.cl, tableChangelog, key, large)
			want = append(want, key+"="+large)
		}
		f.waitLag(b, rows, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		q, hangUp := f.narrow(b)
		defer hangUp()
		stream := f.openWatchBy(ctx, q)
		var got []*iqv1.WatchResponse
		take := func(until int) {
			t.Helper()
			for n := strings.Count(toldBy(got), "="); n < until; {
				m, err := stream.Recv()
				if err != nil {
					t.Fatalf("after %d: %v", n, iqerr.FromStatus(err))
				}
				got = append(got, m)
				n += len(m.GetEvents())
			}
		}
		take(1)
		want = append(want, "|")
		for i := range changes { // each a step of its own, more than a queue takes
			f.write(f.cl, tableChangelog, "k", fmt.Sprint(i))
			f.waitLag(b, int64(rows+i+1), 0)
			want = append(want, fmt.Sprint("k=", i))
		}
		take(rows + changes)
		f.write(f.cl, tableChangelog, "k", "last")
		want = append(want, "k=last")
		take(rows + changes + 1)
		if toldBy(got) != strings.Join(want, " ") {
			t.Error("what was told is not what was there and then each change")
		}
	})
}

// A transaction that is larger than a message comes in several, each with the position to go on from.
func TestLargeTransactionIsToldInMessagesWithPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		atActive, atStandby := f.watch(a), f.watch(b)
		const n = 3_000
		var recs []*kgo.Record
		for i := range n {
			recs = append(recs, &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "k%04d", i), Value: []byte(strings.Repeat("v", 200))})
		}
		if err := f.cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*tapped{atActive, atStandby} {
			f.Eventually(10*time.Second, "all", func() error {
				if got := strings.Count(w.told(), "="); got != n {
					return fmt.Errorf("%d", got)
				}
				return nil
			})
			w.stop()
		}
		if atActive.told() != atStandby.told() {
			t.Error("active and standby tell different things")
		}
		atActive.mu.Lock()
		all := slices.Clone(atActive.messages)
		atActive.mu.Unlock() // a lock that is held over a wait stops the bubble's clock for whoever wants it
		if len(all) < 4 {
			t.Errorf("%d messages", len(all))
		}
		for i := range all {
			ms := all[:i+1]
			if len(ms[i].GetEvents()) == 0 {
				continue
			}
			if len(ms[i].GetPositions()) != 1 {
				t.Fatalf("message %d has the positions %v", i, ms[i].GetPositions())
			}
			rest := f.watch(b, since(ms[i].GetPositions()[0].GetPosition()))
			f.Eventually(10*time.Second, "the rest", func() error {
				got := strings.TrimSpace(toldBy(ms) + strings.TrimPrefix(rest.told(), "|"))
				if got != strings.TrimSpace(atStandby.told()) {
					return fmt.Errorf("after message %d: %d bytes of %d", i, len(got), len(atStandby.told()))
				}
				return nil
			})
			rest.stop()
		}
	})
}

// Only so many watches are open at a time; one that ends makes room.
func TestWatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		n := f.StartNode("a", func(c *nodeConfig) { c.MaxWatches = 3 })
		f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
		open := []*tapped{f.watch(n), f.watch(n), f.watch(n)}
		for _, w := range open {
			f.tells(w, "|")
		}
		err := f.ends(f.watch(n), time.Second, iqerr.ErrOverloaded)
		if o, ok := errors.AsType[*iqerr.OverloadedError](err); !ok || o.Limit != 3 {
			t.Errorf("%#v", err)
		}
		open[1].stop()
		f.Eventually(time.Second, "room", func() error {
			w := f.watch(n)
			time.Sleep(100 * time.Millisecond)
			err, _ := w.end()
			open = append(open, w)
			return err
		})
		for _, w := range open {
			w.stop()
		}
	})
}

// What a watch cannot be asked is refused by field.
func TestWatchRefusesWhatItCannotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		n := f.StartNode("a")
		f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
		for field, edit := range map[string]func(*iqv1.WatchRequest){
			"selection.store":         func(r *iqv1.WatchRequest) { r.Selection.Store = "" },
			"selection.times":         func(r *iqv1.WatchRequest) { r.Selection.Times = &iqv1.TimeRange{} },
			"selection.partitions[0]": func(r *iqv1.WatchRequest) { r.Selection.Partitions = []int32{7} },
			"from[0].position":        since(-1),
			"from[0].partition":       func(r *iqv1.WatchRequest) { r.From = []*iqv1.PartitionPosition{{Partition: 7}} },
			"policy.isolation": func(r *iqv1.WatchRequest) {
				r.Policy = &iqv1.ReadPolicy{Isolation: iqv1.ReadPolicy_ISOLATION_READ_UNCOMMITTED}
			},
		} {
			err := f.ends(f.watch(n, edit), time.Second, iqerr.ErrInvalid)
			if !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
		_ = f.ends(f.watch(n, func(r *iqv1.WatchRequest) { r.Selection.Store = "none" }), time.Second, iqerr.ErrStoreUnknown)
	})
}

// Windows, sessions and versions are told with their times, at the active and at the standby; sessions that another one
// took in are told as gone.
func TestWatchTellsWindowsSessionsAndVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Log: verboseLog(t), Topology: topologyOf(`
application: app
sources:
  - {topic: in, format: raw, value_serde: string}
tables:
  - {store: history, source: in, versioned: {history: 1h}}
aggregates:
  - {store: minutes, source: in, count: true, window: {tumbling: 60s, grace: 10s}}
  - {store: visits, source: in, count: true, window: {session: 30s, grace: 1m}}
`)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		defer f.close()
		a, b := c.StartNode("a"), c.StartNode("b")
		of := func(store string) func(*iqv1.WatchRequest) {
			return func(r *iqv1.WatchRequest) { r.Selection.Store = store }
		}
		put := func(value string, second int64) {
			t.Helper()
			rec := &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(value), Timestamp: time.Unix(second, 0)}
			if value == "null" {
				rec.Value = nil
			}
			if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // a commit of its own
		}
		for _, n := range []*bubble.Node{a, b} {
			f.Eventually(30*time.Second, n.ID+" has caught up", func() error {
				resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
				running := slices.DeleteFunc(resp.GetReplicas(), func(r *iqv1.ReplicaStatus) bool { return r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING })
				if err == nil && len(running) != 3 {
					err = errors.New(resp.String())
				}
				return err
			})
		}
		put("v1", 1000)
		put("v2", 1050)
		want := map[string]string{
			"history": "k@1050000=v2 | k@1025000=v3 k@1060000=gone k@1070000=v5",
			"minutes": "k@960000-1020000=1 k@1020000-1080000=1 | k@1020000-1080000=2 k@1020000-1080000=3",
			"visits":  "k@1000000-1000000=1 k@1050000-1050000=1 | k@1000000-1000000=gone k@1000000-1050000=3 k@1050000-1050000=gone k@1000000-1050000=gone k@1000000-1070000=4",
		}
		taps := make(map[string][]*tapped)
		for _, n := range []*bubble.Node{a, b} {
			for store := range want {
				taps[store] = append(taps[store], f.watch(n, of(store)))
			}
		}
		time.Sleep(time.Second)
		put("v3", 1025)
		put("null", 1060)
		put("v5", 1070)
		for store, text := range want {
			for _, w := range taps[store] {
				f.tells(w, text)
				w.stop()
			}
		}
	})
}

// A caller who goes leaves nothing behind: the bubble would not end with goroutines that wait.
func TestWatchOfACallerWhoGoesEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		n := f.StartNode("a", func(c *nodeConfig) { c.MaxWatches = 1 })
		f.waitRole(n, iqv1.Role_ROLE_ACTIVE)
		for range 20 {
			w := f.watch(n)
			f.tells(w, "|")
			w.stop()
			f.Eventually(100*time.Millisecond, "it has ended", func() error {
				if err, _ := w.end(); status.Code(err) != codes.Canceled {
					return fmt.Errorf("it ended with %w", err)
				}
				return nil
			})
			time.Sleep(10 * time.Millisecond) // then there is room again
		}
	})
}
