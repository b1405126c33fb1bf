package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Each file of testdata is one rule: histories that it must not complain of, and ones with a made-up violation.
//
// The input of check is one line for each thing that happened, in words of key=value:
//
//	commit s/0 k offset=3 value=1 at=10ms        (at sets both bounds; deleted; from= and by= set them apart)
//	input in/0 k offset=3 value=1                (deletes)
//	read s/0 k any at=20ms value=1 node=a position=4 ...   (master: its role is ACTIVE; lease; restoring)
//	range s/0 any at=20ms node=a position=4 rows=k=1,k@5-9=2   (prefix= keys= after=k@5 upto=k@5 reverse count=)
//	kind s window retention=5ms                  (window, session or versioned; commits have start= and end=)
//	seen s/0 at=20ms node=a position=4 ...       (an observation)
//	look a at=20ms s/0 s/1
//	outage node=a router=r from=1s to=2s
//	final s/0 k value=1
//	settled s/0 at=20ms node=a position=4 ...
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) { //nolint:thelper // it is the test itself
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "check" {
				t.Fatalf("unknown command %s", d.Cmd)
			}
			h := History{SampleMaxAge: time.Second, Grace: 100 * time.Millisecond, Latest: []string{"latest"}, Kinds: make(map[string]Kind)}
			for line := range strings.SplitSeq(d.Input, "\n") {
				if line = strings.TrimSpace(line); line != "" {
					parse(t, &h, line)
				}
			}
			var b strings.Builder
			for _, v := range h.Check() {
				fmt.Fprintln(&b, v)
			}
			if b.Len() == 0 {
				return "right\n"
			}
			return b.String()
		})
	})
}

// words are the key=value words of a line; those without a value are flags.
type words struct {
	t     *testing.T
	line  string
	given map[string]string
}

func (w *words) text(key string) string {
	v := w.given[key]
	delete(w.given, key)
	return v
}

func (w *words) flag(key string) bool {
	_, ok := w.given[key]
	delete(w.given, key)
	return ok
}

func (w *words) number(key string, absent int64) int64 {
	s := w.text(key)
	if s == "" {
		return absent
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		w.t.Fatalf("%s: %v", w.line, err)
	}
	return n
}

func (w *words) moment(key string, absent time.Duration) time.Duration {
	s := w.text(key)
	if s == "" {
		return absent
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatalf("%s: %v", w.line, err)
	}
	return d
}

func (w *words) partition(s string) Partition {
	name, n, _ := strings.Cut(s, "/")
	i, err := strconv.ParseInt(n, 10, 32)
	if err != nil {
		w.t.Fatalf("%s: %q is not store/partition", w.line, s)
	}
	return Partition{Store: name, Partition: int32(i)}
}

// position reads in/0:7.
func (w *words) position(key string) map[TopicPartition]int64 {
	s := w.text(key)
	if s == "" {
		return nil
	}
	tp, offset, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		w.t.Fatalf("%s: %q is not topic/partition:offset", w.line, s)
	}
	p := w.partition(tp)
	return map[TopicPartition]int64{{Topic: p.Store, Partition: p.Partition}: n}
}

func (w *words) replica() Replica {
	r := Replica{
		Node: w.text("node"), Life: int(w.number("life", 1)), Active: w.flag("master"), Running: !w.flag("restoring"),
		LeaseValid: w.flag("lease"), Generation: w.number("generation", 1), Position: w.number("position", Unknown),
		OffsetLag: w.number("offset_lag", Unknown), TimeLag: w.moment("time_lag", Unknown), SampleAge: w.moment("sample", Unknown),
	}
	r.End = r.Position + max(0, r.OffsetLag)
	return r
}

// entry reads k@5-9.
func (w *words) entry(s string) Entry {
	var e Entry
	key, times, _ := strings.Cut(s, "@")
	start, end, _ := strings.Cut(times, "-")
	w.given["start"], w.given["end"] = start, end
	e.Key, e.Start, e.End = key, w.number("start", 0), w.number("end", 0)
	return e
}

// ranged reads what is told of a range.
func (w *words) ranged(r *Read) {
	g := &Range{Prefix: w.text("prefix"), Reverse: w.flag("reverse")}
	if s := w.text("keys"); s != "" {
		g.Keys = strings.Split(s, ",")
	}
	for word, bound := range map[string]**Entry{"after": &g.After, "upto": &g.UpTo} {
		if s := w.text(word); s != "" {
			*bound = new(w.entry(s))
		}
	}
	if n := w.number("count", Unknown); n != Unknown {
		g.Counted, g.Count = true, int(n)
	}
	if s := w.text("rows"); s != "" {
		for row := range strings.SplitSeq(s, ",") {
			e, value, _ := strings.Cut(row, "=")
			r.Rows = append(r.Rows, Row{w.entry(e), value})
		}
	}
	r.Range = g
}

func parse(t *testing.T, h *History, line string) {
	t.Helper()
	fields := strings.Fields(line)
	w := &words{t: t, line: line, given: make(map[string]string)}
	var names []string
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		switch {
		case ok:
			w.given[key] = value
		case strings.Contains(f, "/") || len(names) == 0 || len(names) == 1 && fields[0] != "look" && strings.Contains(names[0], "/") && !slices.Contains([]string{"seen", "settled", "range"}, fields[0]):
			names = append(names, f)
		default:
			w.given[f] = ""
		}
	}
	at := w.moment("at", 0)
	switch fields[0] {
	case "commit", "final":
		c := Commit{
			Partition: w.partition(names[0]), Entry: Entry{Key: names[1], Start: w.number("start", 0), End: w.number("end", 0)}, Offset: w.number("offset", 0), Value: w.text("value"), Deleted: w.flag("deleted"),
			NotBefore: w.moment("from", at), By: w.moment("by", at),
		}
		if fields[0] == "final" {
			h.Final = append(h.Final, c)
		} else {
			h.Commits = append(h.Commits, c)
		}
	case "input":
		p := w.partition(names[0])
		h.Inputs = append(h.Inputs, Input{
			TopicPartition: TopicPartition{Topic: p.Store, Partition: p.Partition}, Key: names[1], Offset: w.number("offset", 0),
			Value: w.text("value"), Deletes: w.flag("deletes"),
		})
	case "kind":
		forms := map[string]Form{"window": Window, "session": Session, "versioned": Versioned}
		for name, form := range forms {
			if w.flag(name) {
				h.Kinds[names[0]] = Kind{Form: form, Retention: w.moment("retention", 0)}
			}
		}
	case "read", "range":
		r := Read{Partition: w.partition(names[0]), Router: "r", Direct: w.flag("direct"), Invoked: at, Returned: w.moment("until", at)}
		if fields[0] == "range" {
			w.ranged(&r)
		} else {
			r.Key = names[1]
		}
		r.Policy = Policy{MaxStaleness: w.moment("max_staleness", Unknown), MaxOffsetLag: w.number("max_offset_lag", Unknown), AtLeast: w.position("at_least")}
		for _, m := range []Mode{Strong, Active, Bounded, Any} {
			if w.flag(m.String()) {
				r.Policy.Mode = m
			}
		}
		r.Failed = w.text("failed")
		_, r.Found = w.given["value"]
		r.Value, r.Input, r.Served = w.text("value"), w.position("input"), w.replica()
		h.Reads = append(h.Reads, r)
	case "seen", "settled":
		o := Observation{Partition: w.partition(names[0]), At: at, Replica: w.replica()}
		if fields[0] == "seen" {
			h.Observations = append(h.Observations, o)
		} else {
			h.Settled = append(h.Settled, o)
		}
	case "look":
		l := Look{Node: names[0], At: at}
		for _, p := range names[1:] {
			l.Replicas = append(l.Replicas, w.partition(p))
		}
		h.Looks = append(h.Looks, l)
	case "outage":
		h.Outages = append(h.Outages, Outage{Node: w.text("node"), Router: w.text("router"), From: w.moment("from", 0), To: w.moment("to", 0)})
	default:
		t.Fatalf("unknown: %s", line)
	}
	for key := range w.given {
		t.Fatalf("%s: unknown word %q", line, key)
	}
}
