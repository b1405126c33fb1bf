package store_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

// ask puts a query to a store of any kind.
func ask(r store.Reader, m *model, q query) ([]string, error) {
	switch r.Schema().Kind {
	case store.KindWindow:
		return askWindows(r, m, q)
	case store.KindSession:
		return askSessions(r, m, q)
	case store.KindVersioned:
		return askVersions(r, q)
	case store.KindKeyValue:
	}
	return nil, fmt.Errorf("unexpected kind %s", r.Schema())
}

func askWindows(r store.Reader, m *model, q query) (out []string, err error) {
	w, err := store.NewWindowReader(r)
	if err != nil {
		return nil, err
	}
	o := store.ScanOptions{Reverse: q.reverse}
	for e, err := range w.Fetch([]byte(q.key), q.times, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, "fetch "+line(string(e.Key), e.Start, 0, string(e.Value.Bytes)))
	}
	for e, err := range w.FetchRange(q.keys, q.times, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, "range "+line(string(e.Key), e.Start, 0, string(e.Value.Bytes)))
	}
	n, err := w.Count(q.keys, q.times)
	if err != nil {
		return nil, err
	}
	out = append(out, fmt.Sprint("count ", n))
	for _, c := range m.sorted(false, func(c cell) bool { return c.key == q.key }) { // expired ones too
		v, found, err := w.Get([]byte(c.key), c.a)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, "get "+line(c.key, c.a, 0, string(v.Bytes)))
		}
	}
	return append(out, fmt.Sprint("stream time ", r.StreamTime())), nil
}

func askSessions(r store.Reader, m *model, q query) (out []string, err error) {
	s, err := store.NewSessionReader(r)
	if err != nil {
		return nil, err
	}
	o := store.ScanOptions{Reverse: q.reverse}
	for e, err := range s.FindSessions([]byte(q.key), q.times.From, q.times.To, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, "fetch "+line(string(e.Key), e.End, e.Start, string(e.Value.Bytes)))
	}
	for e, err := range s.FetchRange(q.keys, q.times, o) {
		if err != nil {
			return nil, err
		}
		out = append(out, "range "+line(string(e.Key), e.End, e.Start, string(e.Value.Bytes)))
	}
	n, err := s.Count(q.keys, q.times)
	if err != nil {
		return nil, err
	}
	out = append(out, fmt.Sprint("count ", n))
	for _, c := range m.sorted(false, func(c cell) bool { return c.key == q.key }) {
		v, found, err := s.Get([]byte(c.key), c.b, c.a)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, "get "+line(c.key, c.a, c.b, string(v.Bytes)))
		}
	}
	return append(out, fmt.Sprint("stream time ", r.StreamTime())), nil
}

func askVersions(r store.Reader, q query) (out []string, err error) {
	v, err := store.NewVersionedReader(r)
	if err != nil {
		return nil, err
	}
	say := func(what string, e store.Version, found bool, err error) error {
		if err == nil && found {
			out = append(out, what+line(string(e.Key), e.ValidFrom, e.ValidTo, string(e.Value.Bytes)))
		}
		return err
	}
	key := []byte(q.key)
	e, found, err := v.Get(key)
	if found && err == nil { // Get does not look for what is behind the latest, so its end is not in question
		err = say("latest ", e, found, err)
	}
	if err != nil {
		return nil, err
	}
	for _, at := range []struct {
		what string
		ms   int64
	}{{"from ", q.times.From}, {"to ", q.times.To}} {
		e, found, err := v.GetAsOf(key, at.ms)
		if err := say(at.what, e, found, err); err != nil {
			return nil, err
		}
	}
	o := store.ScanOptions{Reverse: q.reverse}
	for e, err := range v.Versions(key, q.times, o) {
		if err := say("version ", e, true, err); err != nil {
			return nil, err
		}
	}
	for _, ms := range []int64{math.MaxInt64, q.times.To} {
		for e, err := range v.FetchRange(q.keys, ms, o) {
			if err := say(fmt.Sprintf("all as of %d ", ms), e, true, err); err != nil {
				return nil, err
			}
		}
		n, err := v.Count(q.keys, ms)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprint("count ", n))
	}
	return append(out, fmt.Sprint("stream time ", r.StreamTime())), nil
}

// historyKeys are few, so that they meet, and such that a sloppy encoding mixes them up.
var historyKeys = []string{
	"", "\x00", "\x00\x00", "\x00\x01", "a", "a\x00", "a\x00\x01", "a\x00\xff", "a\x01", "ab", "b", "\xff", "\xff\xff",
	strings.Repeat("l", 8190), strings.Repeat("l", 8192), strings.Repeat("l", 9000), strings.Repeat("l", 9000) + "m",
}

// story makes a random history.
type story struct {
	*rand.Rand
	now int64
}

func (s *story) key() string {
	if s.IntN(3) > 0 {
		return historyKeys[4+s.IntN(5)]
	}
	return historyKeys[s.IntN(len(historyKeys))]
}

// time is mostly near the present, which goes on slowly, and now and then far off.
func (s *story) time() int64 {
	switch s.IntN(60) {
	case 0:
		s.now += 900 + s.Int64N(3000)
	case 1:
		return s.now - s.Int64N(3000)
	}
	s.now += s.Int64N(12)
	return s.now - s.Int64N(600)
}

func (s *story) query() query {
	q := query{key: s.key(), times: store.AllTimes, reverse: s.IntN(2) == 0}
	if s.IntN(4) > 0 {
		q.times.From = s.now - s.Int64N(1500)
		q.times.To = q.times.From + s.Int64N(1000) - 50
	}
	if s.IntN(3) > 0 {
		q.keys.From, q.keys.FromOpen = []byte(s.key()), s.IntN(2) == 0
	}
	if s.IntN(3) > 0 {
		q.keys.To, q.keys.ToOpen = []byte(s.key()), s.IntN(2) == 0
	}
	if s.IntN(4) == 0 {
		q.keys.Prefix = []byte(s.key())
	}
	return q
}

// write makes a random write to an overlay and to the model; both must agree whether it is kept.
func (s *story) write(t *testing.T, o *store.Overlay, m *model) {
	t.Helper()
	key, at := s.key(), s.time()
	var value []byte
	switch s.IntN(8) {
	case 0, 1: // a delete
	case 2:
		value = []byte{}
	case 3:
		value = bytes.Repeat([]byte{byte(at)}, s.IntN(5000))
	default:
		value = fmt.Append(nil, "v", at, s.IntN(1000))
	}
	c := cell{key: key, a: at}
	var kept bool
	switch m.schema.Kind {
	case store.KindWindow:
		w, err := store.NewWindowStore(o)
		if err != nil {
			t.Fatal(err)
		}
		c.a -= ((c.a % 50) + 50) % 50
		if value == nil {
			kept = w.Delete([]byte(key), c.a, at)
		} else {
			kept = w.Put([]byte(key), c.a, value, at)
		}
	case store.KindSession:
		w, err := store.NewSessionStore(o)
		if err != nil {
			t.Fatal(err)
		}
		c.a -= ((c.a % 50) + 50) % 50
		c.b = c.a - 50*s.Int64N(4)
		if value == nil {
			kept = w.Delete([]byte(key), c.b, c.a, at)
		} else {
			kept = w.Put([]byte(key), c.b, c.a, value, at)
		}
	case store.KindVersioned, store.KindKeyValue:
		w, err := store.NewVersionedStore(o)
		if err != nil {
			t.Fatal(err)
		}
		kept = w.Put([]byte(key), value, at)
	}
	if want := m.write(c, value); kept != want {
		t.Fatalf("write of %+v: kept=%v, want %v", c, kept, want)
	}
}

func check(t *testing.T, name string, r store.Reader, m *model, q query) {
	t.Helper()
	got, err := ask(r, m, q)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := m.answer(q)
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	at := func(lines []string) string {
		if i < len(lines) {
			return lines[i]
		}
		return "nothing more"
	}
	t.Fatalf("%s: %.20q+%d, %.60s, times %+v reverse=%v: line %d of %d and %d:\n got %s\nwant %s",
		name, q.key, len(q.key), q.keys, q.times, q.reverse, i, len(got), len(want), at(got), at(want))
}

// follower is a replica that is fed with changelog records in batches of its own.
type follower struct {
	name    string
	s       storetest.Store
	reopen  func(testing.TB, storetest.Store) storetest.Store
	applied int // records
}

// feed applies the records up to a number of them, in random batches, and compares at some positions.
func (f *follower) feed(t *testing.T, st *story, records []storetest.Record, states []*model, upTo int) {
	t.Helper()
	schema := f.s.ID().Schema
	for f.applied < upTo {
		to := min(upTo, f.applied+1+st.IntN(40))
		var changes []store.Change
		for _, r := range records[f.applied:to] {
			c, err := schema.FromChangelog(r.Key, r.Value, r.Timestamp)
			if err != nil {
				t.Fatal(err)
			}
			changes = append(changes, c)
		}
		if st.IntN(2) == 0 {
			changes = schema.Coalesce(changes, f.s.Checkpoint().StreamTime)
		}
		if err := f.s.Apply(changes, store.Checkpoint{Position: int64(to)}); err != nil {
			t.Fatal(err)
		}
		f.applied = to
		if f.reopen != nil && st.IntN(15) == 0 {
			f.s = f.reopen(t, f.s)
		}
		if st.IntN(3) == 0 {
			check(t, fmt.Sprintf("%s at position %d", f.name, to), f.s.Reader(), states[to], st.query())
		}
	}
}

// TestKindsEqualAPlainModel plays random histories of transactions, committed and aborted, on an active, and feeds what
// it writes to a changelog to replicas. At each position each must give a plain model's answers to every query: the
// active's overlay in the middle of a transaction, the active, a standby, one reopened now and then, and a copy that
// is restored from the changelog at the end.
func TestKindsEqualAPlainModel(t *testing.T) {
	for _, schema := range []store.Schema{
		{Kind: store.KindWindow, WindowSize: 50 * time.Millisecond, Retention: time.Second},
		{Kind: store.KindSession, Retention: time.Second},
		{Kind: store.KindVersioned, Retention: time.Second},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/seed=%d", schema.Kind, seed), func(t *testing.T) {
				t.Parallel()
				playKinds(t, schema, &story{Rand: rand.New(rand.NewPCG(seed, 99)), now: 2000})
			})
		}
	}
}

func playKinds(t *testing.T, schema store.Schema, st *story) {
	t.Helper()
	memory := kindHarness(store.Options{InMemory: true}, 0)
	tiny := kindHarness(store.Options{MemTableBytes: 128 << 10}, 0)
	active := memory.Open(t, schema)
	followers := []*follower{
		{name: "standby", s: memory.Open(t, schema)},
		{name: "reopened", s: tiny.Open(t, schema), reopen: tiny.Reopen},
		{name: "fake", s: storetest.NewFake(active.ID())},
	}
	o := store.NewOverlay(active.Reader())
	committed := newModel(schema)
	var records []storetest.Record
	states := []*model{committed} // by the number of records
	for range 60 {
		open := committed.clone()
		for range 1 + st.IntN(40) {
			st.write(t, o, open)
		}
		check(t, "overlay", o, open, st.query())
		check(t, "active beside its overlay", active.Reader(), committed, st.query())
		if st.IntN(5) == 0 { // an abort
			o.Reset()
			check(t, "overlay after an abort", o, committed, st.query())
			continue
		}
		changes := o.Changes()
		state := committed
		for _, c := range changes {
			key, value, ts, err := schema.ToChangelog(c)
			if err != nil {
				t.Fatal(err)
			}
			r := storetest.Record{Offset: int64(len(records)), Key: bytes.Clone(key), Value: bytes.Clone(value), Timestamp: ts}
			records = append(records, r)
			state = state.clone()
			state.record(r)
			states = append(states, state)
		}
		if err := active.Apply(changes, store.Checkpoint{Position: int64(len(records))}); err != nil {
			t.Fatal(err)
		}
		o.Reset()
		committed = open
		if state.streamTime != committed.streamTime {
			t.Fatalf("the records end at stream time %d, the writes at %d", state.streamTime, committed.streamTime)
		}
		q := st.query()
		check(t, "active", active.Reader(), committed, q)
		check(t, "active by its records", active.Reader(), state, q)
		for _, f := range followers {
			if st.IntN(3) == 0 {
				f.feed(t, st, records, states, len(records))
			}
		}
	}
	followers = append(followers, &follower{name: "restored", s: tiny.Open(t, schema)})
	for _, f := range followers {
		f.feed(t, st, records, states, len(records))
		for range 5 {
			check(t, f.name+" at the end", f.s.Reader(), committed, st.query())
		}
	}
}
