package topology_test

import (
	"errors"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// allKinds is an Output with one store of each kind.
type allKinds struct {
	recorder
	window    topology.WindowStore
	session   topology.SessionStore
	versioned topology.VersionedStore
}

func (o *allKinds) WindowStore(string) topology.WindowStore       { return o.window }
func (o *allKinds) SessionStore(string) topology.SessionStore     { return o.session }
func (o *allKinds) VersionedStore(string) topology.VersionedStore { return o.versioned }

// newKinds returns an output with good stores that keep things for a minute.
func newKinds() *allKinds {
	return &allKinds{
		recorder: recorder{store: topologytest.NewStore()}, window: topologytest.NewWindowStore(time.Minute),
		session: topologytest.NewSessionStore(time.Minute), versioned: topologytest.NewVersionedStore(time.Minute),
	}
}

// kinds is a topology with a store of each kind, named for it, at one processor.
func kinds(t *testing.T, p topology.ProcessorFunc) *topology.Subtopology {
	t.Helper()
	topo, err := topology.New().
		Source("in", "t").
		Processor("p", func() topology.Processor { return p }, "in").
		Store(topology.StoreSpec{Name: "k"}, "p").
		Store(topology.StoreSpec{Name: "w", Kind: topology.Window, WindowSize: time.Second, Retention: time.Minute}, "p").
		Store(topology.StoreSpec{Name: "s", Kind: topology.Session, Retention: time.Minute}, "p").
		Store(topology.StoreSpec{Name: "v", Kind: topology.Versioned, Retention: time.Minute}, "p").
		Build("app")
	if err != nil {
		t.Fatal(err)
	}
	return topo.Subtopologies()[0]
}

func TestNewTaskNeedsAnOutputWithTheKindsOfItsStores(t *testing.T) {
	sub := kinds(t, pass)
	_, err := sub.NewTask(0, &recorder{store: topologytest.NewStore()})
	want := `task 0_0: store "w" is a window store, and the task's output (*topology_test.recorder) has key-value stores only
task 0_0: store "s" is a session store, and the task's output (*topology_test.recorder) has key-value stores only
task 0_0: store "v" is a versioned store, and the task's output (*topology_test.recorder) has key-value stores only`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
	_, err = sub.NewTask(0, &allKinds{recorder: recorder{store: topologytest.NewStore()}})
	want = "task 0_0: store \"w\" is missing\ntask 0_0: store \"s\" is missing\ntask 0_0: store \"v\" is missing"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
	if _, err := sub.NewTask(0, newKinds()); err != nil {
		t.Error(err)
	}
}

// failing fails every call of every kind of store.
type failing struct{ broken }

func (failing) StreamTime() int64 { return -1 }

type failingWindows struct{ failing }

func (failingWindows) Put(_, _ []byte, _, _ int64) error { return errDisk }
func (failingWindows) Fetch([]byte, int64) ([]byte, int64, bool, error) {
	return nil, 0, false, errDisk
}

func (failingWindows) FetchRange([]byte, int64, int64) iter.Seq2[topology.WindowEntry, error] {
	return func(yield func(topology.WindowEntry, error) bool) { yield(topology.WindowEntry{}, errDisk) }
}

type failingSessions struct{ failing }

func (failingSessions) Put(_, _ []byte, _, _, _ int64) error     { return errDisk }
func (failingSessions) Remove([]byte, int64, int64, int64) error { return errDisk }
func (failingSessions) FindSessions([]byte, int64, int64) iter.Seq2[topology.SessionEntry, error] {
	return func(yield func(topology.SessionEntry, error) bool) { yield(topology.SessionEntry{}, errDisk) }
}

type failingVersions struct{ failing }

func (failingVersions) Put(_, _ []byte, _ int64) (bool, error) { return false, errDisk }
func (failingVersions) GetAsOf([]byte, int64) ([]byte, int64, bool, error) {
	return nil, 0, false, errDisk
}

// A processor that drops the error of a store of any kind must not hide it, nor skip it. Nor may it use a store that is
// not its own, or as what it is not, or put what cannot be.
func TestFailureOfAnyKindOfStoreStopsTheTask(t *testing.T) {
	bad := &allKinds{
		recorder: recorder{store: broken{}}, window: failingWindows{}, session: failingSessions{}, versioned: failingVersions{},
	}
	key, value := []byte("k"), []byte("v")
	for _, c := range []struct {
		name string
		out  *allKinds
		want string
		use  func(ctx topology.Context)
	}{
		{"window put", bad, `store "w": put: disk is full`, func(ctx topology.Context) { _ = ctx.WindowStore("w").Put(key, value, 1, 1) }},
		{"window fetch", bad, `store "w": fetch: disk is full`, func(ctx topology.Context) { _, _, _, _ = ctx.WindowStore("w").Fetch(key, 1) }},
		{"window range", bad, `store "w": fetch range: disk is full`, func(ctx topology.Context) {
			for _, err := range ctx.WindowStore("w").FetchRange(key, 1, 1) {
				_ = err
			}
		}},
		{"session put", bad, `store "s": put: disk is full`, func(ctx topology.Context) { _ = ctx.SessionStore("s").Put(key, value, 1, 1, 1) }},
		{"session remove", bad, `store "s": remove: disk is full`, func(ctx topology.Context) { _ = ctx.SessionStore("s").Put(key, nil, 1, 1, 1) }},
		{"session find", bad, `store "s": find sessions: disk is full`, func(ctx topology.Context) {
			for _, err := range ctx.SessionStore("s").FindSessions(key, 1, 1) {
				_ = err
			}
		}},
		{"versioned put", bad, `store "v": put: disk is full`, func(ctx topology.Context) { _, _ = ctx.VersionedStore("v").Put(key, value, 1) }},
		{"versioned get", bad, `store "v": get: disk is full`, func(ctx topology.Context) { _, _, _, _ = ctx.VersionedStore("v").Get(key) }},
		{"versioned as of", bad, `store "v": get as of: disk is full`, func(ctx topology.Context) { _, _, _, _ = ctx.VersionedStore("v").GetAsOf(key, 1) }},

		{"negative window", newKinds(), `store "w": put: window start -1 is negative`, func(ctx topology.Context) { _ = ctx.WindowStore("w").Put(key, value, -1, 1) }},
		{"negative session", newKinds(), `store "s": put: session start -1 is negative`, func(ctx topology.Context) { _ = ctx.SessionStore("s").Put(key, value, -1, 1, 1) }},
		{"reverse session", newKinds(), `store "s": remove: session end 1 is before its start, 2`, func(ctx topology.Context) { _ = ctx.SessionStore("s").Remove(key, 2, 1, 1) }},
		{"negative version", newKinds(), `store "v": put: timestamp -1 is negative`, func(ctx topology.Context) { _, _ = ctx.VersionedStore("v").Put(key, value, -1) }},

		{"window as key-value", newKinds(), `store "w" is a window store, and processor "p" asks for a keyvalue store`, func(ctx topology.Context) { _ = ctx.Store("w").Put(key, value, 1) }},
		{"session as window put", newKinds(), `store "s" is a session store, and processor "p" asks for a window store`, func(ctx topology.Context) { _ = ctx.WindowStore("s").Put(key, value, 1, 1) }},
		{"session as window fetch", newKinds(), `store "s" is a session store`, func(ctx topology.Context) { _, _, _, _ = ctx.WindowStore("s").Fetch(key, 1) }},
		{"session as window range", newKinds(), `store "s" is a session store`, func(ctx topology.Context) {
			if ctx.WindowStore("s").StreamTime() != -1 {
				panic("a store that is not there has a stream time")
			}
			for _, err := range ctx.WindowStore("s").FetchRange(key, 1, 1) {
				_ = err
			}
		}},
		{"key-value as session put", newKinds(), `store "k" is a keyvalue store`, func(ctx topology.Context) { _ = ctx.SessionStore("k").Put(key, value, 1, 1, 1) }},
		{"key-value as session remove", newKinds(), `store "k" is a keyvalue store`, func(ctx topology.Context) { _ = ctx.SessionStore("k").Remove(key, 1, 1, 1) }},
		{"key-value as session find", newKinds(), `store "k" is a keyvalue store`, func(ctx topology.Context) {
			if ctx.SessionStore("k").StreamTime() != -1 {
				panic("a store that is not there has a stream time")
			}
			for _, err := range ctx.SessionStore("k").FindSessions(key, 1, 1) {
				_ = err
			}
		}},
		{"unknown versioned put", newKinds(), `store "x" is not connected to processor "p"`, func(ctx topology.Context) { _, _ = ctx.VersionedStore("x").Put(key, value, 1) }},
		{"unknown versioned get", newKinds(), `store "x" is not connected`, func(ctx topology.Context) { _, _, _, _ = ctx.VersionedStore("x").Get(key) }},
		{"unknown versioned as of", newKinds(), `store "x" is not connected`, func(ctx topology.Context) {
			if ctx.VersionedStore("x").StreamTime() != -1 {
				panic("a store that is not there has a stream time")
			}
			_, _, _, _ = ctx.VersionedStore("x").GetAsOf(key, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, err := kinds(t, func(ctx topology.Context, _ topology.Record) error {
				c.use(ctx)
				return nil
			}).NewTask(0, c.out)
			if err != nil {
				t.Fatal(err)
			}
			err = task.Process(in("k", 5))
			var r *topology.RecordError
			if !errors.As(err, &r) || r.Node != "p" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a RecordError at p with %q", err, c.want)
			}
		})
	}
}

// countMinutes is a task that counts records in tumbling windows of a minute without grace.
func countMinutes(t *testing.T, out topology.Output) *topology.Task {
	t.Helper()
	topo, err := topology.New().
		Source("in", "t").
		WindowedAggregate("count", topology.StoreSpec{Name: "w"}, topology.Tumbling(time.Minute), topology.Counter(), "in").
		Build("app")
	if err != nil {
		t.Fatal(err)
	}
	task, err := topo.Subtopologies()[0].NewTask(0, out)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func process(t *testing.T, task *topology.Task, timestamps ...int64) {
	t.Helper()
	for _, ts := range timestamps {
		if err := task.Process(in("k", ts)); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that was not late before an abort is not late after it, and one that was late before is late after it: what the
// processor has observed goes back to the commit, neither further nor less far.
func TestStreamTimeOfWindowsGoesBackToTheCommitWithAnAbort(t *testing.T) {
	task := countMinutes(t, newKinds())
	process(t, task, 1000, 90_000)
	task.Commit()
	process(t, task, 200_000, 100_000)
	if got := task.Skipped(); got[topology.SkipLate] != 1 {
		t.Fatalf("skipped %v before the abort, want 1 late", got)
	}
	if got := task.StreamTimes(); !maps.Equal(got, map[string]int64{"count": 200_000}) {
		t.Fatalf("stream times are %v before the abort", got)
	}
	if err := task.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := task.StreamTimes(); !maps.Equal(got, map[string]int64{"count": 90_000}) {
		t.Fatalf("stream times are %v after the abort", got)
	}
	again := countMinutes(t, newKinds()) // with the stores as they were at the commit
	again.AdvanceStreamTimes(task.StreamTimes())
	again.AdvanceStreamTimes(map[string]int64{"count": 5, "other": 1 << 60})
	process(t, again, 100_000, 59_999)
	if got := again.Skipped(); got[topology.SkipLate] != 1 {
		t.Errorf("skipped %v after the abort, want 1 late", got)
	}
	if err := again.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := again.StreamTimes(); !maps.Equal(got, map[string]int64{"count": 90_000}) {
		t.Errorf("stream times are %v after another abort, want what was given", got)
	}
}

// After a move to another node, which knows nothing of the earlier run, the store tells a part of the stream time: what
// ended before its newest window began is closed.
func TestNewestWindowInTheStoreClosesOlderOnesAfterAMove(t *testing.T) {
	out := newKinds()
	process(t, countMinutes(t, out), 200_000)
	task := countMinutes(t, out)
	process(t, task, 179_999, 180_000)
	if got := task.Skipped(); got[topology.SkipLate] != 1 {
		t.Errorf("skipped %v, want 1 late", got)
	}
}

// Records that never reach the aggregate close no windows, however late they are: the stream time is the processor's own.
func TestRecordsThatAreSkippedCloseNoWindows(t *testing.T) {
	task := countMinutes(t, newKinds())
	process(t, task, 1000)
	for _, r := range []topology.Record{
		{Topic: "t", Value: []byte("v"), Timestamp: 1 << 50},
		{Topic: "t", Key: []byte("k"), Timestamp: 1 << 50},
		{Topic: "t", Key: []byte("k"), Value: []byte("v"), Timestamp: 1 << 62},
	} {
		if err := task.Process(r); err != nil {
			t.Fatal(err)
		}
	}
	process(t, task, 2000)
	want := map[string]int64{topology.SkipNullKey: 1, topology.SkipNullValue: 1, topology.SkipTimestamp: 1}
	if got := task.Skipped(); !maps.Equal(got, want) {
		t.Errorf("skipped %v, want %v", got, want)
	}
	if task.StreamTime() != 1<<62 {
		t.Errorf("the task's stream time is %d", task.StreamTime())
	}
}

// What an aggregator says goes through codecs, and what it must not say stops the task.
func TestAggregatorInGoIsAskedForEachRecordAndMerge(t *testing.T) {
	type longest struct{ Word string }
	longer := func(a, b longest) (longest, error) {
		if len(b.Word) > len(a.Word) {
			return b, nil
		}
		return a, nil
	}
	a := topology.TypedAggregator(topology.String, topology.JSON[longest](), func(a longest, word string) (longest, error) {
		if word == "bad" {
			return a, errBad
		}
		return longer(a, longest{word})
	}, longer)
	var out *allKinds
	start := func(a topology.Aggregator) *topology.Task {
		t.Helper()
		topo, err := topology.New().
			Source("in", "t").
			WindowedAggregate("longest", topology.StoreSpec{Name: "s", ValueSerde: topology.NameJSON}, topology.Sessions(time.Second).WithGrace(time.Second), a, "in").
			Build("app")
		if err != nil {
			t.Fatal(err)
		}
		out = newKinds()
		task, err := topo.Subtopologies()[0].NewTask(0, out)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	put := func(task *topology.Task, word string, timestamp int64) error {
		return task.Process(topology.Record{Topic: "t", Key: []byte("k"), Value: []byte(word), Timestamp: timestamp})
	}
	task := start(a)
	for i, word := range []string{"one", "three", "two"} {
		if err := put(task, word, []int64{1000, 2500, 1800}[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(task, "bad", 2000); !errors.Is(err, errBad) {
		t.Errorf("%v, want %v", err, errBad)
	}
	store, _ := out.session.(*topologytest.SessionStore)
	all := store.All()
	if len(all) != 1 || all[0].Start != 1000 || all[0].End != 2500 || string(all[0].Value) != `{"Word":"three"}` {
		t.Errorf("the store holds %v", all)
	}
	if err := store.Put([]byte("k"), []byte("{"), 2000, 2600, 1); err != nil {
		t.Fatal(err)
	}
	if err := put(task, "four", 2700); err == nil || !strings.Contains(err.Error(), `later aggregate of "k"`) {
		t.Errorf("a broken aggregate gives %v", err)
	}
	nothing := topology.Aggregator{
		Add:   func(topology.Record, []byte) ([]byte, error) { return nil, nil },
		Merge: func(_, _, _ []byte) ([]byte, error) { return nil, nil },
	}
	if err := put(start(nothing), "one", 1000); err == nil || !strings.Contains(err.Error(), "the aggregator returned nil") {
		t.Errorf("an aggregator that returns nil gives %v", err)
	}
}

func TestWindowKeysRoundTrip(t *testing.T) {
	for _, key := range []string{"", "alice", "\x00\xff"} {
		data := topology.WindowKey([]byte(key), 7)
		got, start, err := topology.ParseWindowKey(data)
		if err != nil || string(got) != key || start != 7 {
			t.Errorf("%q: %q, %d, %v", key, got, start, err)
		}
		data = topology.SessionKey([]byte(key), 7, 9)
		got, start, end, err := topology.ParseSessionKey(data)
		if err != nil || string(got) != key || start != 7 || end != 9 {
			t.Errorf("%q: %q, %d, %d, %v", key, got, start, end, err)
		}
	}
	if _, _, err := topology.ParseWindowKey([]byte("1234567")); err == nil || !strings.Contains(err.Error(), "7 bytes, want 8 or more") {
		t.Errorf("a short window key gives %v", err)
	}
	if _, _, _, err := topology.ParseSessionKey([]byte("123456789012345")); err == nil || !strings.Contains(err.Error(), "15 bytes, want 16 or more") {
		t.Errorf("a short session key gives %v", err)
	}
}
