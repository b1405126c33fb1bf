package topology

import (
	"iter"
	"testing"
	"time"
)

// oneStore holds one value, whatever the key, and keeps what it is given.
type oneStore struct {
	value     []byte
	timestamp int64
}

func (s *oneStore) Get([]byte) (value []byte, timestamp int64, found bool, err error) {
	return s.value, s.timestamp, s.value != nil, nil
}

func (s *oneStore) Put(_, value []byte, timestamp int64) error {
	s.value, s.timestamp = value, timestamp
	return nil
}

func (s *oneStore) Delete([]byte, int64) error { return nil }

func (s *oneStore) Range(_, _ []byte, _ bool) iter.Seq2[Entry, error] {
	return func(func(Entry, error) bool) {}
}

// sinkhole counts what is sent.
type sinkhole struct {
	store oneStore
	last  Record
	n     int
}

func (o *sinkhole) Store(string) KeyValueStore { return &o.store }

func (o *sinkhole) Send(_ *Sink, r Record) error {
	o.last = r
	o.n++
	return nil
}

// hotTasks returns the two tasks of a count by a CSV field: the one that selects and the one that counts.
func hotTasks(tb testing.TB) (selects, counts *Task, record, passed Record) {
	tb.Helper()
	c := &Config{
		Application: "a",
		Sources: []SourceConfig{{Topic: "t", Format: FormatCSV, Columns: []string{
			"year", "month", "day", "sched_dep_time", "dep_delay", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance",
		}}},
		Aggregates: []AggregateConfig{{Store: "s", Source: "t", Key: KeyConfig{Field: "dest"}, Op: OpCount}},
	}
	topo, err := c.Build(nil)
	if err != nil {
		tb.Fatal(err)
	}
	out := &sinkhole{}
	if selects, err = topo.Subtopologies()[0].NewTask(0, out); err != nil {
		tb.Fatal(err)
	}
	if counts, err = topo.Subtopologies()[1].NewTask(0, out); err != nil {
		tb.Fatal(err)
	}
	record = Record{Topic: "t", Key: []byte("1"), Value: []byte("2013,1,1,515,2,11,UA,1545,N14228,EWR,IAH,227,1400"), Timestamp: 1}
	if err := selects.Process(record); err != nil {
		tb.Fatal(err)
	}
	if string(out.last.Key) != "IAH" {
		tb.Fatalf("the key is %q, want IAH", out.last.Key)
	}
	passed = out.last
	passed.Partition = 0
	return selects, counts, record, passed
}

// Selecting allocates nothing; counting allocates the new value, which the store keeps.
func TestCountAllocs(t *testing.T) {
	selects, counts, record, passed := hotTasks(t)
	process := func(task *Task, r Record) func() {
		return func() {
			if err := task.Process(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := testing.AllocsPerRun(100, process(selects, record)); got > 0 {
		t.Errorf("selecting: %v allocations, want none", got)
	}
	if got := testing.AllocsPerRun(100, process(counts, passed)); got > 1 {
		t.Errorf("counting: %v allocations, want 1", got)
	}
}

// oneWindow holds one window, whatever the key, and keeps what it is given.
type oneWindow struct{ oneStore }

func (s *oneWindow) Put(_, value []byte, _, timestamp int64) error {
	s.value, s.timestamp = value, timestamp
	return nil
}

func (s *oneWindow) Fetch([]byte, int64) (value []byte, timestamp int64, found bool, err error) {
	return s.value, s.timestamp, s.value != nil, nil
}

func (s *oneWindow) FetchRange([]byte, int64, int64) iter.Seq2[WindowEntry, error] {
	return func(func(WindowEntry, error) bool) {}
}

func (s *oneWindow) StreamTime() int64 { return 0 }

type windowSinkhole struct {
	sinkhole
	window oneWindow
}

func (o *windowSinkhole) WindowStore(string) WindowStore       { return &o.window }
func (o *windowSinkhole) SessionStore(string) SessionStore     { return nil }
func (o *windowSinkhole) VersionedStore(string) VersionedStore { return nil }

// windowTask returns the task of a count in tumbling windows.
func windowTask(tb testing.TB) (*Task, Record) {
	tb.Helper()
	c := &Config{
		Application: "a",
		Sources:     []SourceConfig{{Topic: "t", Format: FormatRaw}},
		Aggregates:  []AggregateConfig{{Store: "s", Source: "t", Op: OpCount, Window: Tumbling(time.Minute)}},
	}
	topo, err := c.Build(nil)
	if err != nil {
		tb.Fatal(err)
	}
	task, err := topo.Subtopologies()[0].NewTask(0, &windowSinkhole{})
	if err != nil {
		tb.Fatal(err)
	}
	return task, Record{Topic: "t", Key: []byte("k"), Value: []byte("v"), Timestamp: 1}
}

// Counting in windows allocates the new value and the key of the window, which go downstream.
func TestWindowedCountAllocs(t *testing.T) {
	task, r := windowTask(t)
	got := testing.AllocsPerRun(100, func() {
		if err := task.Process(r); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("%v allocations, want 2", got)
	}
}

func BenchmarkWindowedCount(b *testing.B) {
	task, r := windowTask(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := task.Process(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	selects, counts, record, passed := hotTasks(b)
	for name, run := range map[string]struct {
		task *Task
		r    Record
	}{"half=select": {selects, record}, "half=count": {counts, passed}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := run.task.Process(run.r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
