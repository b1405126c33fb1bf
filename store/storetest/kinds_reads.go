package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/store"
)

// versionsOfOneTransaction writes versions that a store which took them in another order, by key, would refuse.
func versionsOfOneTransaction(t *testing.T, h KindHarness) {
	active, standby := h.Open(t, VersionedSchema), h.Open(t, VersionedSchema)
	o := store.NewOverlay(active.Reader())
	w, err := store.NewVersionedStore(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Put([]byte("b"), []byte("b1"), t0)
	w.Put([]byte("b"), []byte("b2"), t0+10)
	w.Put([]byte("b"), []byte("b0"), t0-10)
	w.Put([]byte("b"), []byte("b1 again"), t0)
	w.Put([]byte("a"), []byte("a"), t0+1000000) // before b in the order of keys, and far ahead in time
	want := dumpVersions(t, w.VersionedReader, "b", store.AllTimes, false)
	records := commit(t, active, o)
	if len(records) != 5 { // and the marker
		t.Errorf("%d changelog records, want 4", len(records)-1)
	}
	follow(t, standby, records)
	for name, s := range map[string]Store{"active": active, "standby": standby} {
		v := versioned(t, s.Reader())
		expect(t, name, dumpVersions(t, v, "b", store.AllTimes, false), want)
		expect(t, name+", b now", asOf(t, v, "b", t0+1000000), "b2")
		expect(t, name+", a now", asOf(t, v, "a", t0+1000000), "a")
	}
	// One by one, as another writer's log might come.
	single := h.Open(t, VersionedSchema)
	for _, r := range records {
		follow(t, single, []Record{r})
	}
	expect(t, "one by one", asOf(t, versioned(t, single.Reader()), "b", t0+1000000), "b2")
}

func dumpVersions(t *testing.T, v store.VersionedReader, key string, times store.Times, reverse bool) string {
	t.Helper()
	var out []string
	for e, err := range v.Versions([]byte(key), times, store.ScanOptions{Reverse: reverse}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Key) != key || e.Value.Timestamp != e.ValidFrom {
			t.Errorf("a version of %s: %+v", key, e)
		}
		out = append(out, fmt.Sprintf("%s[%s,%s)", e.Value.Bytes, rel(e.ValidFrom), rel(e.ValidTo)))
	}
	return strings.Join(out, " ")
}

// refusedNeverReplaces: Kafka Streams logs what it refused, so a changelog may hold a late version of a time that has one.
func refusedNeverReplaces(t *testing.T, h KindHarness) {
	records := []Record{
		{Offset: 0, Key: []byte("k"), Value: []byte("taken"), Timestamp: t0},
		{Offset: 1, Key: []byte("z"), Value: []byte("z"), Timestamp: t0 + 1000000},
		{Offset: 2, Key: []byte("k"), Value: []byte("refused"), Timestamp: t0},
	}
	for name, batches := range map[string][][]Record{
		"one batch": {records}, "one by one": {records[:1], records[1:2], records[2:]}, "two batches": {records[:1], records[1:]},
	} {
		s := h.Open(t, VersionedSchema)
		for _, b := range batches {
			follow(t, s, b)
		}
		expect(t, name, asOf(t, versioned(t, s.Reader()), "k", math.MaxInt64-1), "taken")
	}
	// And without Coalesce before it.
	s := h.Open(t, VersionedSchema)
	var changes []store.Change
	for _, r := range records {
		c, err := VersionedSchema.FromChangelog(r.Key, r.Value, r.Timestamp)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}
	mustApply(t, s, changes, 3)
	expect(t, "as they come", asOf(t, versioned(t, s.Reader()), "k", t0+5000000), "taken")
}

func otherKindRefused(t *testing.T, h KindHarness) {
	for _, schema := range []store.Schema{{}, WindowSchema, SessionSchema, VersionedSchema} {
		s := h.Open(t, schema)
		_, kvErr := store.NewKeyValueReader(s.Reader())
		_, windowErr := store.NewWindowReader(s.Reader())
		_, sessionErr := store.NewSessionReader(s.Reader())
		_, versionedErr := store.NewVersionedReader(s.Reader())
		_, storeErr := store.NewWindowStore(store.NewOverlay(s.Reader()))
		for want, err := range map[store.Kind]error{
			store.KindKeyValue: kvErr, store.KindWindow: errors.Join(windowErr, storeErr), store.KindSession: sessionErr, store.KindVersioned: versionedErr,
		} {
			var kind *store.KindError
			if isOther := errors.As(err, &kind); isOther != (want != schema.Kind) || isOther && (kind.Have != schema.Kind || kind.Want != want) {
				t.Errorf("a %s store read as %s: %v", schema.Kind, want, err)
			}
		}
	}
}

func malformedRefused(t *testing.T, _ KindHarness) {
	session := func(end, start int64) []byte { // as changelogKey, with two times
		return append(changelogKey(WindowSchema, "k", end)[:9], changelogKey(WindowSchema, "", start)[:8]...)
	}
	for name, c := range map[string]struct {
		schema store.Schema
		key    []byte
		reason string
	}{
		"short window":    {WindowSchema, make([]byte, 11), "shorter"},
		"duplicates":      {WindowSchema, append(make([]byte, 11), 7), "sequence 7"},
		"short session":   {SessionSchema, make([]byte, 15), "shorter"},
		"session upended": {SessionSchema, session(t0, t0+1), "after end"},
		"unknown kind":    {store.Schema{Kind: 9}, []byte("k"), "unknown"},
	} {
		_, err := c.schema.FromChangelog(c.key, []byte("v"), 0)
		var malformed *store.RecordError
		if !errors.As(err, &malformed) || malformed.Bytes != len(c.key) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := SessionSchema.FromChangelog(session(t0, t0), nil, 0); err != nil {
		t.Errorf("a session of one moment: %v", err)
	}
}

func applyRefusesOtherKeys(t *testing.T, h KindHarness) {
	for _, schema := range []store.Schema{WindowSchema, SessionSchema, VersionedSchema} {
		s := h.Open(t, schema)
		if err := s.Apply([]store.Change{{Key: []byte("plain"), Value: []byte("v")}}, store.Checkpoint{Position: 1}); err == nil || s.Position() != -1 {
			t.Errorf("%s: Apply of a plain key: %v, position %d", schema, err, s.Position())
		}
		if schema.Kind != store.KindVersioned {
			continue
		}
		gone := store.Change{Key: store.VersionKey([]byte("k"), t0), Delete: true}
		if err := s.Apply([]store.Change{gone}, store.Checkpoint{Position: 1}); err == nil || s.Position() != -1 {
			t.Errorf("Apply of a version's removal: %v, position %d", err, s.Position())
		}
	}
}

// cursorsGoOn reads pages, each from another replica than the one before, and wants what one scan gives.
func cursorsGoOn(t *testing.T, h KindHarness) {
	for _, schema := range []store.Schema{{}, WindowSchema, SessionSchema, VersionedSchema} {
		replicas := []Store{h.Open(t, schema), h.Open(t, schema)}
		var records []Record
		for i := range 40 {
			ms := int64(t0 + i%4)
			records = append(records, Record{Offset: int64(i), Key: changelogKey(schema, fmt.Sprint("k", i/4), ms), Value: fmt.Append(nil, i), Timestamp: ms})
		}
		for _, s := range replicas {
			follow(t, s, records)
		}
		for _, reverse := range []bool{false, true} {
			page := func(s Store, after []byte, limit int) (values []string, cursor []byte) {
				o := store.ScanOptions{Reverse: reverse, After: after}
				add := func(v store.Value, c []byte, err error) bool {
					if err != nil {
						t.Fatal(err)
					}
					values, cursor = append(values, string(v.Bytes)), c
					return len(values) < limit
				}
				keys := store.KeyRange{From: []byte("k1"), To: []byte("k8"), ToOpen: true}
				scanAny(t, s.Reader(), keys, o, add)
				return values, cursor
			}
			whole, _ := page(replicas[0], nil, 1000)
			var paged []string
			var after []byte
			for i := 0; ; i++ {
				values, cursor := page(replicas[i%2], after, 3)
				if len(values) == 0 {
					break
				}
				paged, after = append(paged, values...), cursor
			}
			expect(t, fmt.Sprintf("%s reverse=%v", schema, reverse), strings.Join(paged, " "), strings.Join(whole, " "))
			if len(whole) < 7 {
				t.Errorf("%s: the scan has only %d entries", schema, len(whole))
			}
		}
	}
	// The versions of one key.
	s := h.Open(t, VersionedSchema)
	var records []Record
	for i := range 10 {
		r := Record{Offset: int64(i), Key: []byte("k"), Value: fmt.Append(nil, i), Timestamp: t0 + int64(i)}
		if i%4 == 2 {
			r.Value = nil
		}
		records = append(records, r)
	}
	follow(t, s, records)
	v := versioned(t, s.Reader())
	for _, reverse := range []bool{false, true} {
		var paged []string
		var after []byte
		for {
			n := 0
			for e, err := range v.Versions([]byte("k"), store.Times{From: t0 + 1, To: t0 + 8}, store.ScanOptions{Reverse: reverse, After: after}) {
				if err != nil {
					t.Fatal(err)
				}
				paged, after = append(paged, fmt.Sprintf("%s[%s,%s)", e.Value.Bytes, rel(e.ValidFrom), rel(e.ValidTo))), e.Cursor
				if n++; n == 2 {
					break
				}
			}
			if n == 0 {
				break
			}
		}
		expect(t, fmt.Sprintf("pages of versions, reverse=%v", reverse), strings.Join(paged, " "), dumpVersions(t, v, "k", store.Times{From: t0 + 1, To: t0 + 8}, reverse))
	}
	for _, err := range v.Versions([]byte("k"), store.AllTimes, store.ScanOptions{After: []byte("x")}) {
		if err == nil {
			t.Error("a cursor that is none is taken")
		}
	}
}

// scanAny scans a range of keys of a store of any kind, until add returns false.
func scanAny(t *testing.T, r store.Reader, keys store.KeyRange, o store.ScanOptions, add func(store.Value, []byte, error) bool) {
	t.Helper()
	switch r.Schema().Kind {
	case store.KindKeyValue:
		kv, err := store.NewKeyValueReader(r)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range kv.FetchRange(keys, o) {
			if !add(e.Value, e.Key, err) {
				return
			}
		}
	case store.KindWindow:
		for e, err := range windows(t, r).FetchRange(keys, store.AllTimes, o) {
			if !add(e.Value, e.Cursor, err) {
				return
			}
		}
	case store.KindSession:
		for e, err := range sessions(t, r).FetchRange(keys, store.AllTimes, o) {
			if !add(e.Value, e.Cursor, err) {
				return
			}
		}
	case store.KindVersioned:
		for e, err := range versioned(t, r).FetchRange(keys, math.MaxInt64, o) {
			if !add(e.Value, e.Cursor, err) {
				return
			}
		}
	}
}

func snapshotKeepsExpired(t *testing.T, h KindHarness) {
	s := h.Open(t, WindowSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-win-changelog", 0))
	all := allWindows(t, s.Reader())
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Release()
	for i := range int64(5) { // enough for every expired window to be removed
		ms := t0 + (i+1)*1_000_000
		follow(t, s, []Record{{Offset: 10 + i, Key: changelogKey(WindowSchema, "z", ms), Value: []byte("z"), Timestamp: ms}})
	}
	expect(t, "snapshot", allWindows(t, sn), all)
	expect(t, "snapshot again", allWindows(t, sn), all)
	if sn.StreamTime() != t0+60000 {
		t.Errorf("the snapshot's stream time is %s", rel(sn.StreamTime()))
	}
	expect(t, "now", allWindows(t, s.Reader()), "z[5000000,5060000)=z")
}

func sessionsFound(t *testing.T, h KindHarness) {
	s := h.Open(t, store.Schema{Kind: store.KindSession, Retention: 1000 * 1000 * 1000 * 1000})
	o := store.NewOverlay(s.Reader())
	w, err := store.NewSessionStore(o)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, start, end int64) {
		if !w.Put([]byte(key), t0+start, t0+end, []byte("v"), t0) {
			t.Errorf("%s [%d,%d] is not kept", key, start, end)
		}
	}
	put("a", 0, 10)
	put("a", 20, 30)
	put("a", 5, 100)
	put("ab", 0, 10)
	if w.Put([]byte("a"), t0+2, t0+1, []byte("v"), t0) {
		t.Error("a session that ends before it starts is kept")
	}
	commit(t, s, o)
	put("a", 20, 40)
	w.Delete([]byte("a"), t0+20, t0+30, t0)
	find := func(earliestEnd, latestStart int64, reverse bool) string {
		var out []string
		for e, err := range w.FindSessions([]byte("a"), t0+earliestEnd, t0+latestStart, store.ScanOptions{Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s[%s,%s]", e.Key, rel(e.Start), rel(e.End)))
		}
		return strings.Join(out, " ")
	}
	expect(t, "all", find(-1000, 1000, false), "a[0,10] a[20,40] a[5,100]")
	expect(t, "reverse", find(-1000, 1000, true), "a[5,100] a[20,40] a[0,10]")
	expect(t, "around 10", find(10, 10, false), "a[0,10] a[5,100]")
	expect(t, "around 11", find(11, 11, false), "a[5,100]")
	expect(t, "around 40 to 20", find(40, 20, false), "a[20,40] a[5,100]")
	expect(t, "around 101", find(101, 101, false), "")
	if _, found, err := w.Get([]byte("a"), t0+20, t0+40); !found || err != nil {
		t.Errorf("a [20,40]: found=%v err=%v", found, err)
	}
	if n, err := w.Count(store.KeyRange{Prefix: []byte("a")}, store.Times{From: t0 + 10, To: t0 + 10}); n != 3 || err != nil {
		t.Errorf("%d sessions around T+10, want 3, err=%v", n, err)
	}
}

func versionsBetween(t *testing.T, h KindHarness) {
	s := h.Open(t, VersionedSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-ver-changelog", 2))
	v := versioned(t, s.Reader())
	between := func(from, to int64, want string) {
		t.Helper()
		times := store.Times{From: t0 + from, To: t0 + to}
		expect(t, fmt.Sprintf("from T%+d to T%+d", from, to), dumpVersions(t, v, "p", times, false), want)
		words := strings.Fields(want)
		for i := range len(words) / 2 {
			words[i], words[len(words)-1-i] = words[len(words)-1-i], words[i]
		}
		expect(t, fmt.Sprintf("from T%+d down to T%+d", to, from), dumpVersions(t, v, "p", times, true), strings.Join(words, " "))
	}
	between(-1000, 1000000, "10[0,50000) 11[50000,100000) 12[100000,200000)")
	between(0, 0, "10[0,50000)")
	between(49999, 50000, "10[0,50000) 11[50000,100000)")
	between(60000, 70000, "11[50000,100000)")
	between(200000, 300000, "")
	between(199999, 300000, "12[100000,200000)")
	between(-5, -1, "")
	between(10, 5, "")
	// The stream time moves on: only what holds at or after T+150000 is left.
	follow(t, s, []Record{{Offset: 5, Key: []byte("z"), Value: []byte("z"), Timestamp: t0 + 450000}})
	between(-1000, 1000000, "12[100000,200000)")
	between(-1000, 150000, "12[100000,200000)")
	between(-1000, 149999, "") // all of it before the retention, and no latest version covers it
	expect(t, "as of T+150000", asOf(t, v, "p", t0+150000), "12")
	expect(t, "as of T+149999", asOf(t, v, "p", t0+149999), "miss")
	expect(t, "z", dumpVersions(t, v, "z", store.Times{From: t0, To: t0 + 450000}, false), "z[450000,-)")
	// All keys as of a time, in both directions.
	for _, reverse := range []bool{false, true} {
		for ms, want := range map[int64]string{math.MaxInt64: "z", t0 + 199999: "12", t0 + 450000: "z"} {
			var out []string
			for e, err := range v.FetchRange(store.KeyRange{}, ms, store.ScanOptions{Reverse: reverse}) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(e.Value.Bytes))
			}
			expect(t, fmt.Sprintf("all as of %s reverse=%v", rel(ms), reverse), strings.Join(out, " "), want)
		}
	}
}

func internalKeysDecode(t *testing.T, _ KindHarness) {
	for name, c := range map[string]struct {
		schema   store.Schema
		internal []byte
		want     store.Span
	}{
		"window":        {WindowSchema, store.WindowKey([]byte("k\x00"), t0), store.Span{Start: t0, End: t0 + 60000}},
		"endless":       {WindowSchema, store.WindowKey([]byte("k\x00"), math.MaxInt64-5), store.Span{Start: math.MaxInt64 - 5, End: math.MaxInt64}},
		"session":       {SessionSchema, store.SessionKey([]byte("k\x00"), t0, t0+5), store.Span{Start: t0, End: t0 + 5}},
		"version":       {VersionedSchema, store.VersionKey([]byte("k\x00"), -5), store.Span{Start: -5, End: store.NoEnd}},
		"a plain store": {store.Schema{}, []byte("k\x00"), store.Span{}},
	} {
		if key, span, err := c.schema.Decode(c.internal); err != nil || string(key) != "k\x00" || span != c.want {
			t.Errorf("%s: %q %+v err=%v, want %+v", name, key, span, err, c.want)
		}
	}
	if _, _, err := WindowSchema.Decode([]byte("k")); err == nil {
		t.Error("a plain key decodes as a window's")
	}
}
