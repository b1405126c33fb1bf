package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/iqgate/iqgate/store"
)

// TestID is the identity that a Harness opens its stores with.
var TestID = store.ID{Application: "app", Store: "counts", Partition: 3, Changelog: "app-counts-changelog", TopicID: [16]byte{7}}

// Harness is an implementation of a store under test.
type Harness struct {
	// Open returns a new, empty store with TestID.
	Open func(tb testing.TB) Store
	// Reopen closes a store and opens what it left; nil when it leaves nothing.
	Reopen func(tb testing.TB, s Store) Store
	// MaxValueBytes is a value size that must be taken.
	MaxValueBytes int
}

// Run is the suite that every implementation passes.
func Run(t *testing.T, h Harness) {
	t.Helper()
	tests := map[string]func(*testing.T, Harness){
		"NewStoreIsEmptyBelowPositionZero":      newStoreIsEmpty,
		"S04AnyKeyRoundTripsAndScansInOrder":    anyKeyRoundTrips,
		"S22TombstoneIsNotAnEmptyValue":         tombstoneIsNotEmpty,
		"LargeValueRoundTrips":                  largeValueRoundTrips,
		"LastChangeOfAKeyCounts":                lastChangeCounts,
		"ApplyBackwardsIsRefused":               backwardsIsRefused,
		"EmptyApplyMovesPosition":               emptyApplyMoves,
		"InputPositionsAreMerged":               inputIsMerged,
		"SnapshotStaysAsItWas":                  snapshotStays,
		"ReadersSeeApplyWhole":                  readersSeeApplyWhole,
		"S35LargeApplyIsSeenWholeOrNotAtAll":    largeApplyIsWhole,
		"S33CloseEndsScansWithAnError":          closeEndsScans,
		"ClosedStoreRefusesEverything":          closedRefuses,
		"BytesBelongToTheCaller":                bytesBelongToCaller,
		"RangesEqualASortedMapInBothDirections": rangesEqualSortedMap,
	}
	if h.Reopen != nil {
		tests["ReopenedStoreGoesOnFromWhereItWasClosed"] = reopenedGoesOn
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

func newStoreIsEmpty(t *testing.T, h Harness) {
	s := h.Open(t)
	if s.ID() != TestID {
		t.Errorf("ID is %+v, want %+v", s.ID(), TestID)
	}
	if s.Position() != -1 || len(s.Checkpoint().Input) != 0 {
		t.Errorf("checkpoint is %+v, want position -1 and no input", s.Checkpoint())
	}
	if _, found, at, err := s.Get([]byte("k")); found || at.Position != -1 || err != nil {
		t.Errorf("Get: found=%v at=%+v err=%v, want nothing at -1", found, at, err)
	}
	if got := dump(t, s.Reader(), nil, nil, false); got != "" {
		t.Errorf("range of an empty store: %s", got)
	}
}

// oddKeys are keys that some store has stumbled over, in byte order.
func oddKeys() [][]byte {
	long := bytes.Repeat([]byte("x"), 70_000)
	keys := [][]byte{
		{},
		{0},
		{0, 0},
		[]byte("!badger!"), []byte("!badger!x"), []byte("d"),
		{0xff},
		{0xff, 0xff},
		bytes.Repeat([]byte{0xff}, 9000),
		bytes.Repeat([]byte("!badger!"), 9000),
	}
	// Around every limit: the key length of a plain key (8 KiB), of Badger (65,000), of a uint16.
	for _, n := range []int{1, 8191, 8192, 8193, 8194, 64_999, 65_000, 65_001, 65_535, 65_536, 70_000} {
		keys = append(keys, long[:n])
	}
	for i := range 8 { // a run: the same first 8 KiB, and hashes in whatever order
		keys = append(keys, append(bytes.Clone(long[:8192]), byte(i*31%8)), append(bytes.Clone(long[:9000]), fmt.Sprint(i)...))
	}
	keys = append(keys, append(bytes.Clone(long[:8191]), 'w'), append(bytes.Clone(long[:8191]), "yy"...))
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

func anyKeyRoundTrips(t *testing.T, h Harness) {
	s := h.Open(t)
	keys := oddKeys()
	var changes []store.Change
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(keys)) {
		changes = append(changes, store.Change{Key: keys[i], Value: fmt.Append(nil, i), Timestamp: int64(i)})
	}
	mustApply(t, s, changes, int64(len(changes)))
	for i, key := range keys {
		v, found, _, err := s.Get(key)
		if err != nil || !found || string(v.Bytes) != fmt.Sprint(i) || v.Timestamp != int64(i) {
			t.Fatalf("key %d of %d bytes: %q ts=%d found=%v err=%v", i, len(key), v.Bytes, v.Timestamp, found, err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		from, to := keys[rng.IntN(len(keys))], keys[rng.IntN(len(keys))]
		for _, to := range [][]byte{nil, to} {
			for _, reverse := range []bool{false, true} {
				var got []string
				for e, err := range s.Reader().Range(from, to, reverse) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(e.Key))
				}
				var want []string
				for _, k := range keys {
					if bytes.Compare(k, from) >= 0 && (to == nil || bytes.Compare(k, to) < 0) {
						want = append(want, string(k))
					}
				}
				if reverse {
					slices.Reverse(want)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("range from %s to %s reverse=%v: %d keys, want %d in order", short(from), short(to), reverse, len(got), len(want))
				}
			}
		}
	}
	// Deleting one of a run leaves the others.
	mustApply(t, s, []store.Change{{Key: keys[len(keys)-5], Delete: true}}, 1000)
	for i, key := range keys {
		if _, found, _, err := s.Get(key); err != nil || found != (i != len(keys)-5) {
			t.Fatalf("after the delete, key %d: found=%v err=%v", i, found, err)
		}
	}
}

func tombstoneIsNotEmpty(t *testing.T, h Harness) {
	s := h.Open(t)
	mustApply(t, s, []store.Change{
		{Key: []byte("k3"), Value: []byte("v3")},
		{Key: []byte("ev"), Value: []byte{}, Timestamp: 4},
		{Key: []byte("nil"), Value: nil},
		{Key: []byte("never"), Delete: true},
	}, 4)
	mustApply(t, s, []store.Change{{Key: []byte("k3"), Delete: true}}, 5)
	for key, want := range map[string]bool{"k3": false, "never": false, "ev": true, "nil": true} {
		v, found, _, err := s.Get([]byte(key))
		if err != nil || found != want {
			t.Errorf("%s: found=%v err=%v, want found=%v", key, found, err, want)
		}
		if found && (v.Bytes == nil || len(v.Bytes) != 0) {
			t.Errorf("%s: value %v, want an empty slice", key, v.Bytes)
		}
	}
	if got := dump(t, s.Reader(), nil, nil, false); got != "ev=@4 nil=@0" {
		t.Errorf("scan: %s", got)
	}
}

func largeValueRoundTrips(t *testing.T, h Harness) {
	s := h.Open(t)
	value := make([]byte, h.MaxValueBytes)
	for i := range value {
		value[i] = byte(i * 7 >> 3)
	}
	mustApply(t, s, []store.Change{
		{Key: []byte("a"), Value: []byte("small")},
		{Key: []byte("big"), Value: value, Timestamp: 9},
		{Key: []byte("c"), Value: []byte("small")},
	}, 3)
	v, found, _, err := s.Get([]byte("big"))
	if err != nil || !found || !bytes.Equal(v.Bytes, value) || v.Timestamp != 9 {
		t.Fatalf("a value of %d bytes came back as %d, found=%v err=%v", len(value), len(v.Bytes), found, err)
	}
	n := 0
	for e, err := range s.Reader().Range(nil, nil, true) {
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Key) == "big" && !bytes.Equal(e.Value.Bytes, value) {
			t.Error("the scan has another value")
		}
		n++
	}
	if n != 3 {
		t.Errorf("the scan has %d entries, want 3", n)
	}
}

func lastChangeCounts(t *testing.T, h Harness) {
	s := h.Open(t)
	mustApply(t, s, []store.Change{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte("b"), Value: []byte("1")},
		{Key: []byte("a"), Value: []byte("2")},
		{Key: []byte("b"), Delete: true},
		{Key: []byte("c"), Delete: true},
		{Key: []byte("c"), Value: []byte("3")},
	}, 6)
	if got := dump(t, s.Reader(), nil, nil, false); got != "a=2@0 c=3@0" {
		t.Errorf("state: %s", got)
	}
}

func backwardsIsRefused(t *testing.T, h Harness) {
	s := h.Open(t)
	mustApply(t, s, []store.Change{{Key: []byte("a"), Value: []byte("1")}}, 10)
	for _, changes := range [][]store.Change{nil, {{Key: []byte("a"), Value: []byte("2")}}} {
		var refused *store.PositionError
		err := s.Apply(changes, store.Checkpoint{Position: 9})
		if !errors.As(err, &refused) || refused.Have != 10 || refused.Want != 9 {
			t.Errorf("Apply at 9: %v", err)
		}
	}
	if got := dump(t, s.Reader(), nil, nil, false); got != "a=1@0" || s.Position() != 10 {
		t.Errorf("state at %d: %s", s.Position(), got)
	}
	mustApply(t, s, []store.Change{{Key: []byte("a"), Value: []byte("3")}}, 10) // the same position again is no step back
	if got := dump(t, s.Reader(), nil, nil, false); got != "a=3@0" {
		t.Errorf("state: %s", got)
	}
}

func emptyApplyMoves(t *testing.T, h Harness) {
	s := h.Open(t)
	for p := range int64(200) {
		mustApply(t, s, nil, p)
		if _, _, at, err := s.Get([]byte("a")); at.Position != p || err != nil {
			t.Fatalf("position is %d after an empty Apply at %d, err=%v", at.Position, p, err)
		}
	}
	mustApply(t, s, []store.Change{{Key: []byte("a"), Value: []byte("1")}}, 200)
	if h.Reopen != nil {
		mustApply(t, s, nil, 5000)
		if s = h.Reopen(t, s); s.Position() != 5000 {
			t.Errorf("reopened at %d, want 5000", s.Position())
		}
		mustApply(t, s, []store.Change{{Key: []byte("a"), Value: []byte("2")}}, 5001)
		if got := dump(t, s.Reader(), nil, nil, false); got != "a=2@0" {
			t.Errorf("state: %s", got)
		}
	}
}

func inputIsMerged(t *testing.T, h Harness) {
	s := h.Open(t)
	a, b := store.TopicPartition{Topic: "in", Partition: 0}, store.TopicPartition{Topic: "in", Partition: 1}
	change := []store.Change{{Key: []byte("k"), Value: []byte("v")}}
	for i, step := range []struct {
		changes []store.Change
		input   map[store.TopicPartition]int64
		want    map[store.TopicPartition]int64
	}{
		{change, map[store.TopicPartition]int64{a: 5}, map[store.TopicPartition]int64{a: 5}},
		{nil, map[store.TopicPartition]int64{b: 7}, map[store.TopicPartition]int64{a: 5, b: 7}},
		{change, nil, map[store.TopicPartition]int64{a: 5, b: 7}},
		{change, map[store.TopicPartition]int64{a: 9}, map[store.TopicPartition]int64{a: 9, b: 7}},
	} {
		before := s.Checkpoint()
		kept := maps.Clone(before.Input)
		if err := s.Apply(step.changes, store.Checkpoint{Position: int64(i + 1), Input: step.input}); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(before.Input, kept) {
			t.Errorf("step %d wrote to a checkpoint that was given away", i)
		}
		if got := s.Checkpoint().Input; !maps.Equal(got, step.want) {
			t.Errorf("step %d: input is %v, want %v", i, got, step.want)
		}
	}
	if h.Reopen != nil {
		if s = h.Reopen(t, s); !maps.Equal(s.Checkpoint().Input, map[store.TopicPartition]int64{a: 9, b: 7}) {
			t.Errorf("reopened with input %v", s.Checkpoint().Input)
		}
	}
}

func snapshotStays(t *testing.T, h Harness) {
	s := h.Open(t)
	const keys = 50
	write := func(round int) {
		var changes []store.Change
		for k := range keys {
			if (k+round)%7 == 0 {
				changes = append(changes, store.Change{Key: fmt.Append(nil, "k", k), Delete: true})
				continue
			}
			changes = append(changes, store.Change{Key: fmt.Append(nil, "k", k), Value: fmt.Appendf(nil, "%d-%0200d", round, k)})
		}
		mustApply(t, s, changes, int64(round+1))
	}
	var snaps []*store.Snapshot
	var want []string
	for round := range 60 {
		write(round)
		if round%10 == 0 {
			sn, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			snaps, want = append(snaps, sn), append(want, dump(t, sn, nil, nil, false))
		}
	}
	for i, sn := range snaps {
		if got := dump(t, sn, nil, nil, false); got != want[i] {
			t.Errorf("snapshot %d changed", i)
		}
		if got, want := sn.Position(), int64(i*10+1); got != want {
			t.Errorf("snapshot %d is at %d, want %d", i, got, want)
		}
		sn.Release()
		sn.Release()
		if _, _, err := sn.Get([]byte("k1")); !errors.Is(err, store.ErrReleased) {
			t.Errorf("Get after Release: %v", err)
		}
		for _, err := range sn.Range(nil, nil, false) {
			if !errors.Is(err, store.ErrReleased) {
				t.Errorf("Range after Release: %v", err)
			}
		}
	}
}

// readersSeeApplyWhole writes the position as the value of every key; a reader that sees two values saw a torn Apply.
func readersSeeApplyWhole(t *testing.T, h Harness) {
	s := h.Open(t)
	const keys, rounds = 20, 300
	apply := func(p int) error {
		changes := make([]store.Change, keys)
		for k := range changes {
			changes[k] = store.Change{Key: []byte{byte(k)}, Value: fmt.Append(nil, p)}
		}
		return s.Apply(changes, store.Checkpoint{Position: int64(p)})
	}
	if err := apply(1); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			last := int64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				at, err := readWhole(s, r, keys)
				if err != nil {
					t.Error(err)
					return
				}
				if at < last {
					t.Errorf("a reader went back from %d to %d", last, at)
					return
				}
				last = at
			}
		})
	}
	for p := 2; p <= rounds; p++ {
		if err := apply(p); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	readers.Wait()
}

// readWhole reads all keys in one of three ways and returns the position at which they all were.
func readWhole(s Store, way, keys int) (int64, error) {
	var got []string
	at := int64(-1)
	switch way {
	case 0:
		v, found, cp, err := s.Get([]byte{3})
		if err != nil || !found {
			return 0, fmt.Errorf("get: found=%v err=%w", found, err)
		}
		got, at, keys = append(got, string(v.Bytes)), cp.Position, 1
	case 1:
		sn, err := s.Snapshot()
		if err != nil {
			return 0, err
		}
		defer sn.Release()
		at = sn.Position()
		for k := range keys {
			v, _, err := sn.Get([]byte{byte(k)})
			if err != nil {
				return 0, err
			}
			got = append(got, string(v.Bytes))
		}
	default:
		for e, err := range s.Reader().Range(nil, nil, way%2 == 0) {
			if err != nil {
				return 0, err
			}
			got = append(got, string(e.Value.Bytes))
		}
	}
	if slices.ContainsFunc(got, func(v string) bool { return v != got[0] }) || len(got) != keys {
		return 0, fmt.Errorf("torn read: %v", got)
	}
	if at >= 0 && fmt.Sprint(at) != got[0] {
		return 0, fmt.Errorf("values of position %s read at %d", got[0], at)
	}
	if at < 0 {
		_, err := fmt.Sscan(got[0], &at)
		return at, err
	}
	return at, nil
}

func largeApplyIsWhole(t *testing.T, h Harness) {
	s := h.Open(t)
	const keys = 100_000
	changes := make([]store.Change, keys)
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%06d", i) }
	fill := func(value string) {
		for i := range changes {
			changes[i] = store.Change{Key: key(i), Value: []byte(value)}
		}
	}
	fill("one")
	mustApply(t, s, changes, keys)
	fill("two")
	again := []store.Change{{Key: key(5), Value: []byte("early")}, {Key: key(5), Value: []byte("two")}} // far behind the first
	changes = slices.Concat(changes, again)
	done := make(chan error, 1)
	go func() { done <- s.Apply(changes, store.Checkpoint{Position: 2 * keys}) }()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
		sn, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := "one"
		if sn.Position() == 2*keys {
			want = "two"
		}
		for i := 0; i < keys; i += keys / 10 {
			if v, _, err := sn.Get(key(i)); err != nil || string(v.Bytes) != want {
				t.Fatalf("key %d at position %d is %q, err=%v", i, sn.Position(), v.Bytes, err)
			}
		}
		sn.Release()
	}
	n := 0
	for e, err := range s.Reader().Range(nil, nil, false) {
		if err != nil || string(e.Value.Bytes) != "two" {
			t.Fatalf("%s=%s err=%v", e.Key, e.Value.Bytes, err)
		}
		n++
	}
	if n != keys || s.Position() != 2*keys {
		t.Errorf("%d keys at position %d", n, s.Position())
	}
}

func closeEndsScans(t *testing.T, h Harness) {
	s := h.Open(t)
	const keys = 5000
	changes := make([]store.Change, keys)
	for i := range changes {
		changes[i] = store.Change{Key: fmt.Appendf(nil, "k%06d", i), Value: []byte("v")}
	}
	mustApply(t, s, changes, keys)
	halfway, closing := make(chan struct{}), make(chan error, 1)
	go func() {
		<-halfway
		closing <- s.Close()
	}()
	n := 0
	var last error
	for _, err := range s.Reader().Range(nil, nil, false) {
		if err != nil {
			last = err
			continue
		}
		if n++; n == 100 {
			close(halfway)
		}
		if n == 200 { // by now Close must have shut the door; a read tells when
			for {
				if _, _, _, err := s.Get([]byte("k000001")); errors.Is(err, store.ErrClosed) {
					break
				}
			}
		}
	}
	if !errors.Is(last, store.ErrClosed) || n > 200 {
		t.Errorf("the scan ended after %d entries with %v, want ErrClosed after 100 to 200", n, last)
	}
	if err := <-closing; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func closedRefuses(t *testing.T, h Harness) {
	s := h.Open(t)
	mustApply(t, s, []store.Change{{Key: []byte("a"), Value: []byte("1")}}, 1)
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	r := s.Reader()
	if err := s.Close(); err != nil {
		t.Fatalf("Close with an idle snapshot: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	_, _, _, getErr := s.Get([]byte("a"))
	_, snapErr := s.Snapshot()
	_, _, pinnedErr := sn.Get([]byte("a"))
	_, _, readerErr := r.Get([]byte("a"))
	errs := map[string]error{
		"Get": getErr, "Snapshot": snapErr, "Snapshot.Get": pinnedErr, "Reader.Get": readerErr,
		"Apply":       s.Apply([]store.Change{{Key: []byte("a")}}, store.Checkpoint{Position: 2}),
		"empty Apply": s.Apply(nil, store.Checkpoint{Position: 2}),
	}
	for name, r := range map[string]store.Reader{"Snapshot.Range": sn, "Reader.Range": r} {
		for _, err := range r.Range(nil, nil, false) {
			errs[name] = err
		}
	}
	for _, name := range []string{"Get", "Snapshot", "Snapshot.Get", "Reader.Get", "Apply", "empty Apply", "Snapshot.Range", "Reader.Range"} {
		if !errors.Is(errs[name], store.ErrClosed) {
			t.Errorf("%s on a closed store: %v", name, errs[name])
		}
	}
	sn.Release()
}

func bytesBelongToCaller(t *testing.T, h Harness) {
	s := h.Open(t)
	long := bytes.Repeat([]byte("l"), 10_000)
	changes := []store.Change{{Key: []byte("a"), Value: []byte("11")}, {Key: bytes.Clone(long), Value: []byte("22")}}
	mustApply(t, s, changes, 2)
	for _, c := range changes {
		clear(c.Key)
		clear(c.Value)
	}
	for range 2 {
		for key, want := range map[string]string{"a": "11", string(long): "22"} {
			v, found, _, err := s.Get([]byte(key))
			if err != nil || !found || string(v.Bytes) != want {
				t.Fatalf("%s: %q found=%v err=%v", short([]byte(key)), v.Bytes, found, err)
			}
			clear(v.Bytes)
			_ = append(v.Bytes, "more"...)
		}
		var entries []store.Entry
		for e, err := range s.Reader().Range(nil, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		if len(entries) != 2 || string(entries[0].Value.Bytes) != "11" || !bytes.Equal(entries[1].Key, long) {
			t.Fatalf("scan: %d entries", len(entries))
		}
		for _, e := range entries {
			clear(e.Key)
			clear(e.Value.Bytes)
		}
	}
}

func rangesEqualSortedMap(t *testing.T, h Harness) {
	s := h.Open(t)
	rng := rand.New(rand.NewPCG(3, 4))
	twin := map[string]string{}
	for step := range 60 {
		var changes []store.Change
		for range 20 {
			key := fmt.Append(nil, rng.IntN(120))
			if rng.IntN(3) == 0 {
				delete(twin, string(key))
				changes = append(changes, store.Change{Key: key, Delete: true})
				continue
			}
			twin[string(key)] = fmt.Sprint(step)
			changes = append(changes, store.Change{Key: key, Value: fmt.Append(nil, step)})
		}
		mustApply(t, s, changes, int64(step))
		for range 6 {
			from, to, reverse := fmt.Append(nil, rng.IntN(120)), fmt.Append(nil, rng.IntN(120)), rng.IntN(2) == 0
			if rng.IntN(4) == 0 {
				from = nil
			}
			if rng.IntN(4) == 0 {
				to = nil
			}
			var want []string
			for _, k := range slices.Sorted(maps.Keys(twin)) {
				if k >= string(from) && (to == nil || k < string(to)) {
					want = append(want, k+"="+twin[k]+"@0")
				}
			}
			if reverse {
				slices.Reverse(want)
			}
			if got := dump(t, s.Reader(), from, to, reverse); got != strings.Join(want, " ") {
				t.Fatalf("step %d from=%s to=%s reverse=%v:\n got %s\nwant %s", step, from, to, reverse, got, strings.Join(want, " "))
			}
		}
	}
	for _, err := range s.Reader().Range(nil, nil, false) {
		if err != nil {
			t.Error(err)
		}
		break // a scan may be left
	}
}

func reopenedGoesOn(t *testing.T, h Harness) {
	s := h.Open(t)
	var want string
	for round := range 4 {
		mustApply(t, s, []store.Change{{Key: fmt.Append(nil, "k", round), Value: []byte("v"), Timestamp: 1}}, int64(10*round+10))
		want = dump(t, s.Reader(), nil, nil, false)
		s = h.Reopen(t, s)
		if got := dump(t, s.Reader(), nil, nil, false); got != want || s.Position() != int64(10*round+10) || s.ID() != TestID {
			t.Fatalf("reopened as %+v at %d with %s, want %s", s.ID(), s.Position(), got, want)
		}
	}
}

func mustApply(tb testing.TB, s Store, changes []store.Change, position int64) {
	tb.Helper()
	if err := s.Apply(changes, store.Checkpoint{Position: position}); err != nil {
		tb.Fatal(err)
	}
}

// dump prints a range as key=value@timestamp.
func dump(tb testing.TB, r store.Reader, from, to []byte, reverse bool) string {
	tb.Helper()
	var out []string
	for e, err := range r.Range(from, to, reverse) {
		if err != nil {
			tb.Fatalf("range: %v", err)
		}
		out = append(out, fmt.Sprintf("%s=%s@%d", e.Key, e.Value.Bytes, e.Value.Timestamp))
	}
	return strings.Join(out, " ")
}

func short(key []byte) string {
	if key == nil {
		return "nil"
	}
	return fmt.Sprintf("%.12q(%d bytes)", key, len(key))
}
