package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

// TestOverlayEqualsAMap plays random writes, commits and aborts on an overlay over each kind of base, and compares
// every read with a plain map.
func TestOverlayEqualsAMap(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) storetest.Store{
		"fake": func(*testing.T) storetest.Store { return storetest.NewFake(storetest.TestID) },
		"badger": func(t *testing.T) storetest.Store {
			t.Helper()
			return harness(store.Options{InMemory: true}, 0).Open(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				playOverlay(t, open(t), rand.New(rand.NewPCG(seed, 5)))
			}
		})
	}
}

func playOverlay(t *testing.T, base storetest.Store, rng *rand.Rand) {
	t.Helper()
	o := store.NewOverlay(base.Reader())
	committed, now := map[string]string{}, map[string]string{}
	written := map[string]bool{}
	for step := range 400 {
		key := fmt.Append(nil, rng.IntN(40))
		if rng.IntN(20) == 0 {
			key = nil
		}
		switch op := rng.IntN(100); {
		case op < 40:
			o.Put(key, fmt.Append(nil, step), int64(step))
			now[string(key)], written[string(key)] = fmt.Sprintf("%d@%d", step, step), true
		case op < 60:
			o.Delete(key, int64(step))
			delete(now, string(key))
			written[string(key)] = true
		case op < 63:
			commitOverlay(t, base, o)
			committed = maps.Clone(now)
			clear(written)
		case op < 65:
			o.Reset()
			now = maps.Clone(committed)
			clear(written)
		case op < 80:
			v, found, err := o.Get(key)
			want, there := now[string(key)]
			if err != nil || found != there || there && fmt.Sprintf("%s@%d", v.Bytes, v.Timestamp) != want {
				t.Fatalf("step %d: Get(%s): %s %v %v, want %s", step, key, v.Bytes, found, err, want)
			}
		default:
			from, to, reverse := fmt.Append(nil, rng.IntN(40)), fmt.Append(nil, rng.IntN(40)), rng.IntN(2) == 0
			if rng.IntN(3) == 0 {
				from = nil
			}
			if rng.IntN(3) == 0 {
				to = nil
			}
			if got, want := rangeOf(t, o, from, to, reverse), rangeOfMap(now, from, to, reverse); got != want {
				t.Fatalf("step %d: range %s %s reverse=%v:\n got %s\nwant %s", step, from, to, reverse, got, want)
			}
		}
		if o.Len() != len(written) {
			t.Fatalf("step %d: Len is %d, want %d", step, o.Len(), len(written))
		}
		size := int64(0)
		for _, c := range o.Changes() {
			size += int64(len(c.Key) + len(c.Value))
		}
		if o.Bytes() != size {
			t.Fatalf("step %d: Bytes is %d, want %d", step, o.Bytes(), size)
		}
	}
}

func commitOverlay(t *testing.T, base storetest.Store, o *store.Overlay) {
	t.Helper()
	changes := o.Changes()
	if !slices.IsSortedFunc(changes, func(a, b store.Change) int { return bytes.Compare(a.Key, b.Key) }) {
		t.Fatal("changes are not in the order of their keys")
	}
	o.Reset()
	if err := base.Apply(changes, store.Checkpoint{Position: base.Position() + 1 + int64(len(changes))}); err != nil {
		t.Fatal(err)
	}
}

func rangeOf(t *testing.T, r store.Reader, from, to []byte, reverse bool) string {
	t.Helper()
	var out []string
	for e, err := range r.Range(from, to, reverse) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s=%s@%d", e.Key, e.Value.Bytes, e.Value.Timestamp))
	}
	return strings.Join(out, " ")
}

func rangeOfMap(m map[string]string, from, to []byte, reverse bool) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(from) && (to == nil || k < string(to)) {
			out = append(out, k+"="+m[k])
		}
	}
	if reverse {
		slices.Reverse(out)
	}
	return strings.Join(out, " ")
}

// TestOverlayRangeGoesOnUnderWrites: a processor that deletes what it walks over sees each entry once.
func TestOverlayRangeGoesOnUnderWrites(t *testing.T) {
	t.Parallel()
	base := storetest.NewFake(storetest.TestID)
	o := store.NewOverlay(base.Reader())
	for i := range 100 {
		o.Put(fmt.Appendf(nil, "k%03d", i), []byte("v"), 1)
	}
	if err := base.Apply(o.Changes()[:50], store.Checkpoint{Position: 50}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range o.Range(nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		o.Delete(e.Key, 2)
		o.Put(append(e.Key, "-more"...), []byte("v"), 2)
		n++
	}
	if n != 100 {
		t.Errorf("walked over %d entries, want 100", n)
	}
	if got := len(strings.Fields(rangeOf(t, o, nil, nil, true))); got != 100 {
		t.Errorf("%d entries left, want the 100 new ones", got)
	}
}

func TestOverlayOwnsItsBytesAndGivesAwayCopies(t *testing.T) {
	t.Parallel()
	o := store.NewOverlay(storetest.NewFake(storetest.TestID).Reader())
	key, value := []byte("k"), []byte("v")
	o.Put(key, value, 1)
	clear(key)
	clear(value)
	for range 2 {
		v, found, err := o.Get([]byte("k"))
		if err != nil || !found || string(v.Bytes) != "v" {
			t.Fatalf("Get: %q %v %v", v.Bytes, found, err)
		}
		clear(v.Bytes)
		for e, err := range o.Range(nil, nil, false) {
			if err != nil || string(e.Key) != "k" || string(e.Value.Bytes) != "v" {
				t.Fatalf("Range: %q=%q %v", e.Key, e.Value.Bytes, err)
			}
			clear(e.Key)
			clear(e.Value.Bytes)
		}
	}
	changes := o.Changes()
	o.Reset()
	o.Put([]byte("k"), []byte("other"), 2)
	if string(changes[0].Value) != "v" {
		t.Errorf("Reset took the changes away: %q", changes[0].Value)
	}
}

// TestS22OverlayTellsEmptyValueFromTombstone holds before the commit and after.
func TestS22OverlayTellsEmptyValueFromTombstone(t *testing.T) {
	t.Parallel()
	base := storetest.NewFake(storetest.TestID)
	o := store.NewOverlay(base.Reader())
	o.Put([]byte("empty"), []byte{}, 1)
	o.Put([]byte("nil"), nil, 1)
	o.Put([]byte("gone"), []byte("v"), 1)
	o.Delete([]byte("gone"), 2)
	for range 2 {
		for key, want := range map[string]bool{"empty": true, "nil": true, "gone": false} {
			if v, found, err := o.Get([]byte(key)); found != want || err != nil || found && v.Bytes == nil {
				t.Errorf("%s: %v found=%v err=%v", key, v.Bytes, found, err)
			}
		}
		commitOverlay(t, base, o)
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Get([]byte) (store.Value, bool, error) { return store.Value{}, false, r.err }

func (r brokenReader) Schema() store.Schema          { return store.Schema{} }
func (r brokenReader) StreamTime() int64             { return store.NoStreamTime }
func (r brokenReader) Pin() (*store.Snapshot, error) { return nil, r.err }

func (r brokenReader) Scan(sc store.Scan) iter.Seq2[store.Entry, error] {
	return r.Range(sc.From, sc.To, sc.Reverse)
}

func (r brokenReader) Range([]byte, []byte, bool) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		_ = yield(store.Entry{Key: []byte("b")}, nil) && yield(store.Entry{}, r.err)
	}
}

func TestOverlayRangeEndsWithTheErrorOfItsBase(t *testing.T) {
	t.Parallel()
	o := store.NewOverlay(brokenReader{store.ErrClosed})
	o.Put([]byte("a"), nil, 1)
	o.Put([]byte("c"), nil, 1)
	var keys []string
	var last error
	for e, err := range o.Range(nil, nil, false) {
		if last = err; err == nil {
			keys = append(keys, string(e.Key))
		}
	}
	if !errors.Is(last, store.ErrClosed) || !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("range: %v and %v, want a, b and then the error: c must not make it look complete", keys, last)
	}
}
