package topologytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/topology"
)

// check shows what it got where it is not what was wanted.
func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// S25: a window is expired when it began retention or more before the newest, whatever key that has; old ones move nothing
// back, and the put of an expired one does nothing.
func TestS25WindowsExpireByTheLargestStart(t *testing.T) {
	s := NewWindowStore(100 * time.Millisecond)
	if s.StreamTime() != -1 {
		t.Errorf("stream time is %d before the first put, want -1", s.StreamTime())
	}
	windows := func(key string, from, to int64) (all []string) {
		for e, err := range s.FetchRange([]byte(key), from, to) {
			must(t, err)
			all = append(all, fmt.Sprintf("%s@%d=%s/%d", e.Key, e.Start, e.Value, e.Timestamp))
		}
		return all
	}
	must(t, s.Put([]byte("a"), []byte("1"), 50, 51))
	must(t, s.Put([]byte("a"), []byte("2"), 100, 101))
	must(t, s.Put([]byte("a"), []byte("3"), 0, 1))
	must(t, s.Put([]byte("b"), []byte(""), 100, 102))
	check(t, "those of a", windows("a", 0, 200), []string{"a@50=1/51", "a@100=2/101"})
	check(t, "in a range", windows("a", 50, 99), []string{"a@50=1/51"})
	must(t, s.Put([]byte("a"), []byte("4"), 50, 60))
	must(t, s.Put([]byte("a"), nil, 100, 103))
	check(t, "after a change and a deletion", windows("a", 0, 200), []string{"a@50=4/60"})
	must(t, s.Put([]byte("b"), []byte("5"), 149, 149))
	check(t, "at the edge", windows("a", 0, 200), []string{"a@50=4/60"})
	must(t, s.Put([]byte("b"), []byte("6"), 150, 150))
	check(t, "past the edge", windows("a", 0, 200), nil)
	if value, timestamp, found, err := s.Fetch([]byte("b"), 100); err != nil || !found || value == nil || timestamp != 102 {
		t.Errorf("an empty value is %v at %d, %v, %v", value, timestamp, found, err)
	}
	if _, _, found, _ := s.Fetch([]byte("a"), 50); found {
		t.Error("an expired window is found")
	}
	if got := len(s.All()); got != 3 || s.StreamTime() != 150 {
		t.Errorf("%d windows at %d, want 3 at 150", got, s.StreamTime())
	}
}

// Sessions expire by their end.
func TestSessionsExpireByTheLargestEnd(t *testing.T) {
	s := NewSessionStore(100 * time.Millisecond)
	sessions := func(earliestEnd, latestStart int64) (all []string) {
		for e, err := range s.FindSessions([]byte("a"), earliestEnd, latestStart) {
			must(t, err)
			all = append(all, fmt.Sprintf("%d..%d=%s", e.Start, e.End, e.Value))
		}
		return all
	}
	must(t, s.Put([]byte("a"), []byte("1"), 10, 50, 1))
	must(t, s.Put([]byte("a"), []byte("2"), 60, 60, 1))
	must(t, s.Put([]byte("a"), []byte("3"), 0, 50, 1))
	must(t, s.Put([]byte("a"), []byte("4"), 70, 90, 1))
	check(t, "all", sessions(0, 1000), []string{"0..50=3", "10..50=1", "60..60=2", "70..90=4"})
	check(t, "by end", sessions(51, 1000), []string{"60..60=2", "70..90=4"})
	check(t, "by start", sessions(0, 60), []string{"0..50=3", "10..50=1", "60..60=2"})
	must(t, s.Remove([]byte("a"), 60, 60, 1))
	must(t, s.Remove([]byte("a"), 61, 61, 1)) // was never there
	check(t, "without one", sessions(0, 1000), []string{"0..50=3", "10..50=1", "70..90=4"})
	must(t, s.Remove([]byte("x"), 149, 150, 1))
	check(t, "expired by a removal elsewhere", sessions(0, 1000), []string{"70..90=4"})
	must(t, s.Put([]byte("a"), []byte("5"), 10, 50, 1))
	check(t, "put when expired", sessions(0, 1000), []string{"70..90=4"})
	if s.StreamTime() != 150 {
		t.Errorf("stream time is %d, want 150", s.StreamTime())
	}
}

// S24: the latest version is found as of any later time, older ones as of times within the history.
func TestS24VersionsAreFoundAsOfTimesWithinTheHistory(t *testing.T) {
	s := NewVersionedStore(100 * time.Millisecond)
	put := func(key, value string, timestamp int64, want bool) {
		t.Helper()
		data := []byte(value)
		if value == "~" {
			data = nil
		}
		if accepted, err := s.Put([]byte(key), data, timestamp); err != nil || accepted != want {
			t.Errorf("put of %s at %d is accepted %v, %v, want %v", key, timestamp, accepted, err, want)
		}
	}
	asOf := func(key string, times ...int64) (all []string) {
		for _, at := range times {
			value, timestamp, found, err := s.GetAsOf([]byte(key), at)
			must(t, err)
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s/%d", value, timestamp), map[bool]string{false: "/0"}[found]))
		}
		return all
	}
	put("p", "10", 100, true)
	put("p", "12", 200, true)
	put("p", "11", 150, true)
	put("p", "eleven", 150, true)
	put("q", "", 120, true)
	check(t, "p", asOf("p", 99, 100, 149, 150, 199, 200, 1000), []string{"", "10/100", "10/100", "eleven/150", "eleven/150", "12/200", "12/200"})
	put("p", "~", 300, true)
	put("p", "late", 199, false)
	put("p", "not late", 200, true)
	check(t, "p within the history", asOf("p", 199, 200, 299, 300), []string{"", "not late/200", "not late/200", ""})
	check(t, "q", asOf("q", 119, 120, 199, 500), []string{"", "/120", "/120", "/120"})
	if _, _, found, _ := s.Get([]byte("p")); found {
		t.Error("p was deleted, and is found")
	}
	if value, timestamp, found, _ := s.Get([]byte("q")); !found || value == nil || timestamp != 120 {
		t.Errorf("q is %q from %d, %v", value, timestamp, found)
	}
}

func TestDriverShowsStoresOfEachKindByTheirOwnMethods(t *testing.T) {
	topo := build(t, topology.New().
		Source("in", "t").
		WindowedAggregate("p", topology.StoreSpec{Name: "w"}, topology.Tumbling(time.Second), topology.Counter(), "in"))
	d, err := New(topo, nil)
	must(t, err)
	must(t, d.Put(topology.Record{Topic: "t", Key: []byte("k"), Value: []byte("v"), Timestamp: 1500}))
	if _, err := d.All("w"); err == nil || !strings.Contains(err.Error(), `"w" is a window store`) {
		t.Errorf("all keys of a window store: %v", err)
	}
	if _, _, err := d.Get("w", []byte("k"), nil); err == nil || !strings.Contains(err.Error(), `"w" is a window store`) {
		t.Errorf("a key of a window store: %v", err)
	}
	if _, err := d.Changelog("x", 0); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("the changelog of an unknown store: %v", err)
	}
	log, err := d.Changelog("w", 0)
	must(t, err)
	if len(log) != 1 || fmt.Sprintf("%x=%x", log[0].Key, log[0].Value) != "6b00000000000003e800000000=0000000000000001" {
		t.Errorf("the changelog is %v", log)
	}
	if d.Task(d.Tasks()[0]) == nil || d.Task(topology.TaskID{Subtopology: 9}) != nil {
		t.Error("tasks are not found by their ids")
	}
}
