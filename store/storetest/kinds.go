package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/store"
)

// KindHarness is an implementation of window, session and versioned stores under test.
type KindHarness struct {
	// Open returns a new, empty store with TestID and a schema.
	Open func(tb testing.TB, schema store.Schema) Store
	// Reopen closes a store and opens what it left; nil when it leaves nothing.
	Reopen func(tb testing.TB, s Store) Store
	// Fixture is the path of the records that Kafka Streams wrote, see Fixture.
	Fixture string
	// MaxValueBytes is a value size that must be taken.
	MaxValueBytes int
}

// The schemas of the fixture's stores, with the retention that S25 has for windows.
var (
	WindowSchema    = store.Schema{Kind: store.KindWindow, WindowSize: time.Minute, Retention: 2 * time.Minute}
	SessionSchema   = store.Schema{Kind: store.KindSession, Retention: 2 * time.Minute}
	VersionedSchema = store.Schema{Kind: store.KindVersioned, Retention: 5 * time.Minute}
)

const t0 = 1700000040000 // the fixture's T

// RunKinds is the suite that every implementation of the other kinds passes.
func RunKinds(t *testing.T, h KindHarness) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, KindHarness){
		"S21WindowsOfKafkaStreams":                      s21Windows,
		"S21SessionsOfKafkaStreams":                     s21Sessions,
		"S22TabOfKafkaStreams":                          s22Tab,
		"S23SessionMergesWhole":                         s23Merges,
		"S24AsOfReads":                                  s24AsOf,
		"S24RetentionOfVersions":                        s24Retention,
		"S25ActiveAndStandbyExpireTheSameWindows":       s25Expiry,
		"S25StreamTimeNeverGoesBack":                    s25NeverBack,
		"S27RangesInOrder":                              s27Ranges,
		"S31LargeValues":                                s31LargeValues,
		"S33CloseEndsTypedScans":                        s33CloseEndsScans,
		"S35LargeApplyOfWindows":                        s35LargeApply,
		"UncommittedStreamTimeStaysInItsOverlay":        overlayTimeStays,
		"KeysWithAnyBytesSortByKeyThenTime":             anyKeySortsByTime,
		"VersionsOfOneTransactionReplayToTheSameState":  versionsOfOneTransaction,
		"RefusedVersionNeverReplacesOneThatWasTaken":    refusedNeverReplaces,
		"ReadersOfAnotherKindAreRefused":                otherKindRefused,
		"MalformedChangelogRecordsAreRefused":           malformedRefused,
		"ScansGoOnBehindACursorOnAnotherReplica":        cursorsGoOn,
		"SnapshotReadsOnePositionWhateverExpiresLater":  snapshotKeepsExpired,
		"SessionsAreFoundByTheTimesTheyOverlap":         sessionsFound,
		"ApplyRefusesKeysThatAreNoneOfTheKind":          applyRefusesOtherKeys,
		"VersionsBetweenTwoTimesAreThoseThatHeldWithin": versionsBetween,
		"InternalKeysTellKeyAndTimes":                   internalKeysDecode,
	} {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

// follow applies changelog records as a standby does, up to each marker or, at the end, to the last record.
func follow(t *testing.T, s Store, records []Record) {
	t.Helper()
	var changes []store.Change
	schema := s.ID().Schema
	for i, r := range records {
		if !r.Control {
			c, err := schema.FromChangelog(r.Key, r.Value, r.Timestamp)
			if err != nil {
				t.Fatalf("offset %d: %v", r.Offset, err)
			}
			changes = append(changes, c)
		}
		if r.Control || i == len(records)-1 {
			mustApply(t, s, schema.Coalesce(changes, s.Checkpoint().StreamTime), r.Offset+1)
			changes = nil
		}
	}
}

// commit applies an overlay as an active does and returns the changelog records, from an offset on.
func commit(t *testing.T, s Store, o *store.Overlay) []Record {
	t.Helper()
	var records []Record
	changes := o.Changes()
	offset := max(0, s.Position())
	for _, c := range changes {
		key, value, ts, err := s.ID().Schema.ToChangelog(c)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, Record{Offset: offset, Key: bytes.Clone(key), Value: bytes.Clone(value), Timestamp: ts})
		offset++
	}
	records = append(records, Record{Offset: offset, Control: true})
	mustApply(t, s, changes, offset+1)
	o.Reset()
	return records
}

func windows(t *testing.T, r store.Reader) store.WindowReader {
	t.Helper()
	w, err := store.NewWindowReader(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sessions(t *testing.T, r store.Reader) store.SessionReader {
	t.Helper()
	s, err := store.NewSessionReader(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func versioned(t *testing.T, r store.Reader) store.VersionedReader {
	t.Helper()
	v, err := store.NewVersionedReader(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rel prints a time relative to T when it is near.
func rel(ms int64) string {
	if ms == store.NoEnd {
		return "-"
	}
	if ms > t0-1e9 {
		return fmt.Sprint(ms - t0)
	}
	return fmt.Sprintf("=%d", ms)
}

// show prints a value: a number of 8 bytes, or text.
func show(b []byte) string {
	if len(b) == 8 {
		return fmt.Sprint(binary.BigEndian.Uint64(b))
	}
	return string(b)
}

func dumpWindows(t *testing.T, w store.WindowReader, keys store.KeyRange, times store.Times, o store.ScanOptions) string {
	t.Helper()
	var out []string
	for e, err := range w.FetchRange(keys, times, o) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s[%s,%s)=%s", e.Key, rel(e.Start), rel(e.End), show(e.Value.Bytes)))
	}
	return strings.Join(out, " ")
}

func allWindows(t *testing.T, r store.Reader) string {
	t.Helper()
	return dumpWindows(t, windows(t, r), store.KeyRange{}, store.AllTimes, store.ScanOptions{})
}

func allSessions(t *testing.T, r store.Reader) string {
	t.Helper()
	var out []string
	for e, err := range sessions(t, r).FetchRange(store.KeyRange{}, store.AllTimes, store.ScanOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s[%s,%s]=%s", e.Key, rel(e.Start), rel(e.End), show(e.Value.Bytes)))
	}
	return strings.Join(out, " ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// again returns a store and, if it can be, the same one reopened; each is to give the same answers.
func again(t *testing.T, h KindHarness, s Store, check func(name string, s Store)) {
	t.Helper()
	check("at once", s)
	if h.Reopen != nil {
		check("reopened", h.Reopen(t, s))
	}
}

func s21Windows(t *testing.T, h KindHarness) {
	s := h.Open(t, WindowSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-win-changelog", 0))
	again(t, h, s, func(name string, s Store) {
		expect(t, name, allWindows(t, s.Reader()), "alice[0,60000)=3 alice[60000,120000)=1 bob[0,60000)=1")
		if v, found, err := windows(t, s.Reader()).Get([]byte("alice"), t0); err != nil || !found || show(v.Bytes) != "3" || v.Timestamp != t0+35000 {
			t.Errorf("alice at T: %s@%s found=%v err=%v", show(v.Bytes), rel(v.Timestamp), found, err)
		}
		if s.Position() != 10 || s.Checkpoint().StreamTime != t0+60000 {
			t.Errorf("%s: checkpoint %+v", name, s.Checkpoint())
		}
	})
}

func s21Sessions(t *testing.T, h KindHarness) {
	s := h.Open(t, SessionSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-sess-changelog", 0))
	again(t, h, s, func(name string, s Store) {
		expect(t, name, allSessions(t, s.Reader()), "alice[0,60000]=4 bob[20000,20000]=1")
		if s.Checkpoint().StreamTime != t0+60000 {
			t.Errorf("%s: checkpoint %+v", name, s.Checkpoint())
		}
	})
}

func s22Tab(t *testing.T, h KindHarness) {
	total := 0
	for partition := range 3 {
		s := h.Open(t, store.Schema{})
		follow(t, s, Fixture(t, h.Fixture, "javaapp-tab-changelog", partition))
		kv, err := store.NewKeyValueReader(s.Reader())
		if err != nil {
			t.Fatal(err)
		}
		n, err := kv.Count(store.KeyRange{})
		if err != nil {
			t.Fatal(err)
		}
		total += int(n)
		for e, err := range kv.FetchRange(store.KeyRange{}, store.ScanOptions{KeysOnly: true}) {
			if err != nil || e.Value.Bytes != nil || e.Empty != (string(e.Key) == "ev") {
				t.Errorf("%q: %+v err=%v", e.Key, e, err)
			}
		}
		switch partition {
		case 0:
			if v, found, err := kv.Get([]byte("k5")); err != nil || !found || string(v.Bytes) != "late-but-last" || v.Timestamp != t0+40 {
				t.Errorf("k5: %q@%s found=%v err=%v", v.Bytes, rel(v.Timestamp), found, err)
			}
		case 1:
			if _, found, err := kv.Get([]byte("k3")); found || err != nil {
				t.Errorf("k3: found=%v err=%v", found, err)
			}
		case 2:
			if v, found, err := kv.Get([]byte("ev")); err != nil || !found || v.Bytes == nil || len(v.Bytes) != 0 {
				t.Errorf("ev: %v found=%v err=%v", v.Bytes, found, err)
			}
		}
	}
	if total != 13 {
		t.Errorf("%d keys, want 13", total)
	}
}

func s23Merges(t *testing.T, h KindHarness) {
	rows := Fixture(t, h.Fixture, "javaapp-sess-changelog", 0)
	row := func(offset int) []Record { return rows[offset : offset+1] }
	s := h.Open(t, SessionSchema)
	for _, step := range []struct {
		offset int
		want   string
	}{
		{0, "alice[0,0]=1"},
		{2, ""},
		{3, "alice[0,10000]=2"},
		{5, "alice[0,10000]=2 bob[20000,20000]=1"},
		{7, "alice[0,10000]=2 alice[60000,60000]=1 bob[20000,20000]=1"},
		{9, "alice[60000,60000]=1 bob[20000,20000]=1"},
		{10, "bob[20000,20000]=1"},
		{11, "alice[0,60000]=4 bob[20000,20000]=1"},
	} {
		follow(t, s, row(step.offset))
		expect(t, fmt.Sprintf("after row %d alone", step.offset), allSessions(t, s.Reader()), step.want)
	}
	// By transactions: what a reader sees before and after rows 9 to 11, which share a marker.
	s = h.Open(t, SessionSchema)
	follow(t, s, rows[:9])
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	follow(t, s, rows[9:])
	expect(t, "before the merge", allSessions(t, before), "alice[0,10000]=2 alice[60000,60000]=1 bob[20000,20000]=1")
	before.Release()
	expect(t, "after the merge", allSessions(t, s.Reader()), "alice[0,60000]=4 bob[20000,20000]=1")
	// From row 2 on: its put was compacted away, and the tombstone is of a session never seen.
	s = h.Open(t, SessionSchema)
	follow(t, s, rows[2:])
	expect(t, "from row 2 on", allSessions(t, s.Reader()), "alice[0,60000]=4 bob[20000,20000]=1")
}

func asOf(t *testing.T, v store.VersionedReader, key string, ms int64) string {
	t.Helper()
	got, found, err := v.GetAsOf([]byte(key), ms)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return "miss"
	}
	if ms < got.ValidFrom || ms >= got.ValidTo {
		t.Errorf("%s as of %s is a version from %s to %s", key, rel(ms), rel(got.ValidFrom), rel(got.ValidTo))
	}
	return string(got.Value.Bytes)
}

func checkAsOf(t *testing.T, name string, v store.VersionedReader, want map[int64]string) {
	t.Helper()
	for d, value := range want {
		expect(t, fmt.Sprintf("%s: p as of T%+d", name, d), asOf(t, v, "p", t0+d), value)
	}
}

func s24AsOf(t *testing.T, h KindHarness) {
	before := map[int64]string{
		-1: "miss", 0: "10", 49999: "10", 50000: "11", 99999: "11", 100000: "12", 199999: "12", 200000: "miss",
	}
	after := map[int64]string{60000: "miss", 900000: "miss"}
	z := Record{Key: []byte("z"), Value: []byte("z"), Timestamp: t0 + 1000000}

	// One partition, as an active writes it.
	active, standby := h.Open(t, VersionedSchema), h.Open(t, VersionedSchema)
	o := store.NewOverlay(active.Reader())
	w, err := store.NewVersionedStore(o)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string, ms int64) {
		var b []byte
		if value != "" {
			b = []byte(value)
		}
		if !w.Put([]byte(key), b, ms) {
			t.Errorf("%s@%s is refused", key, rel(ms))
		}
	}
	put("p", "10", t0)
	put("p", "12", t0+100000)
	put("p", "11", t0+50000)
	put("p", "", t0+200000)
	put("q", "1", t0-90000)
	checkAsOf(t, "overlay", w.VersionedReader, before)
	follow(t, standby, commit(t, active, o))
	for name, s := range map[string]Store{"active": active, "standby": standby} {
		checkAsOf(t, name, versioned(t, s.Reader()), before)
	}
	put("z", "z", t0+1000000)
	follow(t, standby, commit(t, active, o))
	for name, s := range map[string]Store{"active": active, "standby": standby} {
		again(t, h, s, func(when string, s Store) {
			v := versioned(t, s.Reader())
			checkAsOf(t, name+" "+when, v, after)
			expect(t, "q as of T+500000", asOf(t, v, "q", t0+500000), "1")
			if got, found, err := v.Get([]byte("q")); err != nil || !found || string(got.Value.Bytes) != "1" || got.ValidFrom != t0-90000 || got.ValidTo != store.NoEnd {
				t.Errorf("q: %+v found=%v err=%v", got, found, err)
			}
		})
	}

	// The replicas of the fixture: p and z in partition 2, q in 0.
	s := h.Open(t, VersionedSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-ver-changelog", 2))
	checkAsOf(t, "fixture", versioned(t, s.Reader()), before)
	z.Offset = s.Position()
	follow(t, s, []Record{z})
	checkAsOf(t, "fixture and z", versioned(t, s.Reader()), after)
	s = h.Open(t, VersionedSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-ver-changelog", 0))
	expect(t, "q of the fixture", asOf(t, versioned(t, s.Reader()), "q", t0+500000), "1")
}

func s24Retention(t *testing.T, h KindHarness) {
	s := h.Open(t, VersionedSchema)
	o := store.NewOverlay(s.Reader())
	w, err := store.NewVersionedStore(o)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Put([]byte("z"), []byte("z"), t0) {
		t.Error("the first put is refused")
	}
	edge := int64(t0 - 300000)
	if w.Put([]byte("a"), []byte("late"), edge-1) || w.Delete([]byte("a"), edge-1) {
		t.Error("a version older than the retention is taken")
	}
	if !w.Put([]byte("a"), []byte("edge"), edge) {
		t.Error("a version just within the retention is refused")
	}
	if o.Len() != 2 {
		t.Errorf("the overlay has %d writes, want 2", o.Len())
	}
	commit(t, s, o)
	v := versioned(t, s.Reader())
	expect(t, "a at the edge", asOf(t, v, "a", edge), "edge")
	expect(t, "a now", asOf(t, v, "a", t0), "edge")
	expect(t, "a before", asOf(t, v, "a", edge-1), "miss")
}

func s25Expiry(t *testing.T, h KindHarness) {
	active, standby := h.Open(t, WindowSchema), h.Open(t, WindowSchema)
	fixture := Fixture(t, h.Fixture, "javaapp-win-changelog", 0)
	follow(t, active, fixture)
	follow(t, standby, fixture)
	o := store.NewOverlay(active.Reader())
	w, err := store.NewWindowStore(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		carol int64
		alice string
	}{
		{60000, "0=3 60000=1"}, // the stream time is there already
		{119999, "0=3 60000=1"},
		{120000, "60000=1"},
		{180000, ""},
		{5, ""}, // nothing comes back
	} {
		kept := w.Put([]byte("carol"), t0+step.carol, []byte("c"), t0+step.carol)
		if want := step.carol != 5; kept != want {
			t.Errorf("carol@T+%d: kept=%v", step.carol, kept)
		}
		check := func(name string, r store.Reader) {
			t.Helper()
			var got []string
			for e, err := range windows(t, r).Fetch([]byte("alice"), store.AllTimes, store.ScanOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rel(e.Start)+"="+show(e.Value.Bytes))
			}
			expect(t, fmt.Sprintf("%s, carol@T+%d", name, step.carol), strings.Join(got, " "), step.alice)
			for _, start := range []int64{0, 60000} {
				_, found, err := windows(t, r).Get([]byte("alice"), t0+start)
				if want := strings.Contains(" "+step.alice, fmt.Sprintf(" %d=", start)); found != want || err != nil {
					t.Errorf("%s, carol@T+%d: alice at T+%d found=%v err=%v", name, step.carol, start, found, err)
				}
			}
		}
		check("overlay", o)
		records := commit(t, active, o)
		follow(t, standby, records)
		check("active", active.Reader())
		check("standby", standby.Reader())
		if h.Reopen != nil {
			standby = h.Reopen(t, standby)
			check("reopened", standby.Reader())
		}
		if a, b := active.Checkpoint().StreamTime, standby.Checkpoint().StreamTime; a != b {
			t.Errorf("stream time is %s on the active, %s on the standby", rel(a), rel(b))
		}
	}
}

func s25NeverBack(t *testing.T, h KindHarness) {
	for _, schema := range []store.Schema{WindowSchema, SessionSchema, VersionedSchema} {
		s := h.Open(t, schema)
		if got := s.Checkpoint().StreamTime; got != store.NoStreamTime {
			t.Errorf("%s: a new store has stream time %d", schema, got)
		}
		at := func(ms, position int64) {
			c, err := schema.FromChangelog(changelogKey(schema, "k", ms), []byte("v"), ms)
			if err != nil {
				t.Fatal(err)
			}
			mustApply(t, s, []store.Change{c}, position)
		}
		at(t0, 1)
		at(t0-50000, 2)
		mustApply(t, s, nil, 3)
		if h.Reopen != nil {
			s = h.Reopen(t, s)
		}
		at(t0-40000, 4)
		if got := s.Checkpoint().StreamTime; got != t0 {
			t.Errorf("%s: stream time %s, want T", schema, rel(got))
		}
		if r := s.Reader(); r.StreamTime() != t0 {
			t.Errorf("%s: a reader's stream time %s, want T", schema, rel(r.StreamTime()))
		}
	}
}

// changelogKey is a key as Kafka Streams writes it, for one moment.
func changelogKey(schema store.Schema, key string, ms int64) []byte {
	b := []byte(key)
	switch schema.Kind {
	case store.KindWindow:
		b = binary.BigEndian.AppendUint64(b, uint64(ms))
		b = append(b, 0, 0, 0, 0)
	case store.KindSession:
		b = binary.BigEndian.AppendUint64(b, uint64(ms))
		b = binary.BigEndian.AppendUint64(b, uint64(ms))
	case store.KindKeyValue, store.KindVersioned:
	}
	return b
}

func s27Ranges(t *testing.T, h KindHarness) {
	s := h.Open(t, store.Schema{})
	var changes []store.Change
	for i := range 12 {
		changes = append(changes, store.Change{Key: fmt.Append(nil, "k", i), Value: []byte("v")})
	}
	mustApply(t, s, changes, 12)
	kv, err := store.NewKeyValueReader(s.Reader())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys    store.KeyRange
		reverse bool
		want    string
	}{
		{store.KeyRange{From: []byte("k0"), To: []byte("k9")}, false, "k0 k1 k10 k11 k2 k3 k4 k5 k6 k7 k8 k9"},
		{store.KeyRange{From: []byte("k1"), To: []byte("k2")}, true, "k2 k11 k10 k1"},
		{store.KeyRange{From: []byte("k1"), To: []byte("k2"), FromOpen: true, ToOpen: true}, false, "k10 k11"},
		{store.KeyRange{Prefix: []byte("k1")}, false, "k1 k10 k11"},
		{store.KeyRange{Prefix: []byte("k1"), From: []byte("k10")}, true, "k11 k10"},
		{store.KeyRange{From: []byte("k9")}, false, "k9"},
		{store.KeyRange{To: []byte{}}, false, ""},
		{store.KeyRange{From: []byte("k3"), To: []byte("k2")}, false, ""},
		{store.OneKey([]byte("k7")), false, "k7"},
	} {
		var got []string
		for e, err := range kv.FetchRange(c.keys, store.ScanOptions{Reverse: c.reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Key))
		}
		expect(t, fmt.Sprintf("%s reverse=%v", c.keys, c.reverse), strings.Join(got, " "), c.want)
		if n, err := kv.Count(c.keys); err != nil || int(n) != len(got) {
			t.Errorf("count of %s: %d err=%v, want %d", c.keys, n, err, len(got))
		}
	}
	ws := h.Open(t, store.Schema{Kind: store.KindWindow, WindowSize: time.Minute, Retention: time.Hour})
	follow(t, ws, []Record{
		{Offset: 0, Key: changelogKey(WindowSchema, "a", 0), Value: []byte("x")},
		{Offset: 1, Key: changelogKey(WindowSchema, "b", 10), Value: []byte("y")},
		{Offset: 2, Key: changelogKey(WindowSchema, "b", 11), Value: []byte("out")},
	})
	got := dumpWindows(t, windows(t, ws.Reader()), store.KeyRange{From: []byte("a"), To: []byte("b")}, store.Times{From: 0, To: 10}, store.ScanOptions{})
	expect(t, "windows", got, "a[=0,=60000)=x b[=10,=60010)=y")
}

func s31LargeValues(t *testing.T, h KindHarness) {
	value := make([]byte, h.MaxValueBytes)
	for i := range value {
		value[i] = byte(i * 7 >> 3)
	}
	s := h.Open(t, VersionedSchema)
	follow(t, s, []Record{{Offset: 0, Key: []byte("k"), Value: value, Timestamp: t0}, {Offset: 1, Key: []byte("k"), Value: []byte{}, Timestamp: t0 + 1}})
	v := versioned(t, s.Reader())
	if got, found, err := v.GetAsOf([]byte("k"), t0); err != nil || !found || !bytes.Equal(got.Value.Bytes, value) {
		t.Errorf("a version of %d bytes came back as %d, found=%v err=%v", len(value), len(got.Value.Bytes), found, err)
	}
	if got, found, err := v.Get([]byte("k")); err != nil || !found || got.Value.Bytes == nil || len(got.Value.Bytes) != 0 {
		t.Errorf("an empty version: %v found=%v err=%v", got.Value.Bytes, found, err)
	}
	if n, err := v.Count(store.KeyRange{}, math.MaxInt64); n != 1 || err != nil {
		t.Errorf("count: %d err=%v", n, err)
	}
}

func s33CloseEndsScans(t *testing.T, h KindHarness) {
	for _, schema := range []store.Schema{WindowSchema, SessionSchema, VersionedSchema} {
		s := h.Open(t, schema)
		var records []Record
		for i := range 3000 {
			records = append(records, Record{Offset: int64(i), Key: changelogKey(schema, fmt.Sprintf("k%06d", i), t0), Value: []byte("v"), Timestamp: t0})
		}
		follow(t, s, records)
		closed := make(chan error, 1)
		n := 0
		var last error
		step := func(err error) {
			if err != nil {
				last = err
				return
			}
			if n++; n == 100 {
				go func() { closed <- s.Close() }()
				for {
					if _, _, _, err := s.Get([]byte("x")); errors.Is(err, store.ErrClosed) {
						break
					}
				}
			}
		}
		switch schema.Kind {
		case store.KindWindow:
			for _, err := range windows(t, s.Reader()).FetchRange(store.KeyRange{}, store.AllTimes, store.ScanOptions{}) {
				step(err)
			}
		case store.KindSession:
			for _, err := range sessions(t, s.Reader()).FetchRange(store.KeyRange{}, store.AllTimes, store.ScanOptions{Reverse: true}) {
				step(err)
			}
		case store.KindVersioned, store.KindKeyValue:
			for _, err := range versioned(t, s.Reader()).FetchRange(store.KeyRange{}, math.MaxInt64, store.ScanOptions{}) {
				step(err)
			}
		}
		if !errors.Is(last, store.ErrClosed) || n > 102 {
			t.Errorf("%s: the scan ended after %d entries with %v, want ErrClosed after 100", schema, n, last)
		}
		if err := <-closed; err != nil {
			t.Errorf("%s: Close: %v", schema, err)
		}
	}
}

// s35LargeApply applies 100,000 windows at once, twice: the second time most of the first expire.
func s35LargeApply(t *testing.T, h KindHarness) {
	s := h.Open(t, WindowSchema)
	const n = 100_000
	for round := range int64(2) {
		changes := make([]store.Change, n)
		for i := range changes {
			ms := t0 + round*100_000 + int64(i%100_000)
			c, err := WindowSchema.FromChangelog(changelogKey(WindowSchema, fmt.Sprintf("key-%05d", i%50_000), ms), []byte{byte(round)}, ms)
			if err != nil {
				t.Fatal(err)
			}
			changes[i] = c
		}
		mustApply(t, s, changes, (round+1)*n)
	}
	live := int64(0)
	for i := range int64(2 * n) { // starts T to T+199,999; expired up to T+79,999
		if i > 199_999-120_000 {
			live++
		}
	}
	again(t, h, s, func(name string, s Store) {
		got, err := windows(t, s.Reader()).Count(store.KeyRange{}, store.AllTimes)
		if err != nil || got != live || s.Position() != 2*n {
			t.Errorf("%s: %d windows at %d, want %d at %d, err=%v", name, got, s.Position(), live, 2*n, err)
		}
	})
}

func overlayTimeStays(t *testing.T, h KindHarness) {
	s := h.Open(t, WindowSchema)
	follow(t, s, Fixture(t, h.Fixture, "javaapp-win-changelog", 0))
	o := store.NewOverlay(s.Reader())
	w, err := store.NewWindowStore(o)
	if err != nil {
		t.Fatal(err)
	}
	all := "alice[0,60000)=3 alice[60000,120000)=1 bob[0,60000)=1"
	w.Put([]byte("carol"), t0+500000, []byte("c"), t0+500000)
	pinned, err := o.Pin()
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	w.Put([]byte("dave"), t0+600000, []byte("d"), t0+600000)
	expect(t, "overlay", allWindows(t, o), "carol[500000,560000)=c dave[600000,660000)=d")
	expect(t, "overlay pinned before", allWindows(t, pinned), "carol[500000,560000)=c")
	if pinned.StreamTime() != t0+500000 || o.StreamTime() != t0+600000 || s.Reader().StreamTime() != t0+60000 {
		t.Errorf("stream times %s, %s, %s", rel(pinned.StreamTime()), rel(o.StreamTime()), rel(s.Reader().StreamTime()))
	}
	if w.Put([]byte("alice"), t0+60000, []byte("late"), t0+60000) || w.Delete([]byte("alice"), t0, t0) {
		t.Error("a write to a window that is expired in the overlay is kept")
	}
	expect(t, "committed", allWindows(t, s.Reader()), all)
	o.Reset() // an abort
	expect(t, "overlay after the abort", allWindows(t, o), all)
	if !w.Put([]byte("alice"), t0+60000, []byte("9"), t0+60000) {
		t.Error("after the abort the window is not kept")
	}
}

// anyKeySortsByTime puts every odd key at several times and reads them back one by one, and all in order.
func anyKeySortsByTime(t *testing.T, h KindHarness) {
	schema := store.Schema{Kind: store.KindWindow, WindowSize: time.Minute, Retention: time.Hour}
	s := h.Open(t, schema)
	keys := append(oddKeys(), []byte("a"), []byte("a\x00"), []byte("a\x00\x01"), []byte("a\x00\xff"), []byte("a\x01"), []byte("ab"), []byte("a\xff"))
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	starts := []int64{0, 1, 255, 256, 1 << 20}
	var records []Record
	for _, start := range starts {
		for _, key := range keys {
			records = append(records, Record{Offset: int64(len(records)), Key: changelogKey(schema, string(key), start), Value: fmt.Append(nil, start)})
		}
	}
	follow(t, s, records)
	w := windows(t, s.Reader())
	for _, reverse := range []bool{false, true} {
		type at struct {
			key   string
			start int64
		}
		var want, got []at
		for _, key := range keys {
			for _, start := range starts {
				want = append(want, at{string(key), start})
			}
		}
		if reverse {
			slices.Reverse(want)
		}
		for e, err := range w.FetchRange(store.KeyRange{}, store.AllTimes, store.ScanOptions{Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, at{string(e.Key), e.Start})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("reverse=%v: %d windows, want %d in order", reverse, len(got), len(want))
		}
		for _, key := range keys {
			var times []int64
			for e, err := range w.Fetch(key, store.Times{From: 1, To: 256}, store.ScanOptions{Reverse: reverse}) {
				if err != nil || !bytes.Equal(e.Key, key) || string(e.Value.Bytes) != fmt.Sprint(e.Start) {
					t.Fatalf("%s: %s at %d = %s err=%v", short(key), short(e.Key), e.Start, e.Value.Bytes, err)
				}
				times = append(times, e.Start)
			}
			want := []int64{1, 255, 256}
			if reverse {
				slices.Reverse(want)
			}
			if !slices.Equal(times, want) {
				t.Fatalf("%s reverse=%v: %v, want %v", short(key), reverse, times, want)
			}
		}
	}
	// Each open and closed end, and each prefix, as a plain filter has it.
	for i, key := range keys {
		other := keys[(i*7+3)%len(keys)]
		for n, r := range []store.KeyRange{
			{From: key, To: other}, {From: other, To: key, FromOpen: true}, {From: other, ToOpen: true, To: key}, {Prefix: key}, {Prefix: key, To: other},
		} {
			want := int64(0)
			for _, k := range keys {
				if inRange(r, k) {
					want += int64(len(starts))
				}
			}
			if got, err := w.Count(r, store.AllTimes); got != want || err != nil {
				t.Fatalf("range %d of %s and %s: %d windows, want %d, err=%v", n, short(key), short(other), got, want, err)
			}
		}
	}
}

func inRange(r store.KeyRange, key []byte) bool {
	from, to := bytes.Compare(key, r.From), bytes.Compare(key, r.To)
	return (r.From == nil || from > 0 || from == 0 && !r.FromOpen) &&
		(r.To == nil || to < 0 || to == 0 && !r.ToOpen) &&
		bytes.HasPrefix(key, r.Prefix)
}
