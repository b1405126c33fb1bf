package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Kind is what a store keeps and for how long, by its documentation.
type Kind struct {
	// Form is Window, Session or Versioned.
	Form Form
	// Retention is how far behind the stream time something is kept.
	Retention time.Duration
}

// Form is what the entries of a store are.
type Form int

// The forms; the zero value is a key-value store's.
const (
	KeyValue Form = iota
	Window
	Session
	Versioned
)

// Row is one entry that a read of a range told.
type Row struct {
	Entry
	Value string
}

// Range says which entries of a partition a read was about: those whose keys have a prefix, or some keys, behind one entry
// and up to another in the order of the read.
type Range struct {
	Prefix  string
	Keys    []string // nil for all
	Reverse bool
	// After is not included, UpTo is; nil for no bound.
	After, UpTo *Entry
	// Counted says that Rows were not told but only how many, in Count.
	Counted bool
	Count   int
}

// String is the range in words.
func (g *Range) String() string {
	s := "range"
	if g.Counted {
		s = fmt.Sprintf("count (%d)", g.Count)
	}
	if g.Keys != nil {
		s += fmt.Sprintf(" of %q", g.Keys)
	}
	if g.Prefix != "" {
		s += fmt.Sprintf(" prefix %q", g.Prefix)
	}
	if g.After != nil {
		s += " after " + g.After.String()
	}
	if g.UpTo != nil {
		s += " up to " + g.UpTo.String()
	}
	if g.Reverse {
		s += " backwards"
	}
	return s
}

// compare is the order in which a store's entries are told: by key, then by time, of sessions the end before the start.
func (f Form) compare(a, b Entry) int {
	if f == Session {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start))
	}
	return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
}

// state is what a partition holds at a position, in order: of a versioned store the latest version of each key. A nil
// range is all of it.
func (h *History) state(p Partition, position int64, g *Range) []Row {
	kind := h.Kinds[p.Store]
	streamTime := int64(math.MinInt64)
	horizon := func() int64 {
		if streamTime == math.MinInt64 {
			return streamTime
		}
		return streamTime - kind.Retention.Milliseconds()
	}
	held := make(map[Entry]Commit)
	for _, c := range h.byPartition[p] {
		if c.Offset >= position {
			break
		}
		e := c.Entry
		switch kind.Form {
		case KeyValue:
		case Window:
			streamTime = max(streamTime, c.Start)
		case Session:
			streamTime = max(streamTime, c.End)
		case Versioned:
			if c.Start < horizon() {
				continue // too old to be kept
			}
			streamTime = max(streamTime, c.Start)
			e = Entry{Key: c.Key} // of all versions the latest counts
			if old, ok := held[e]; ok && old.Start > c.Start {
				continue
			}
		}
		held[e] = c
	}
	var rows []Row
	for _, c := range held {
		expired := kind.Form == Window && c.Start <= horizon() || kind.Form == Session && c.End <= horizon()
		if c.Deleted || expired || !g.selects(kind.Form, c.Entry) {
			continue
		}
		rows = append(rows, Row{c.Entry, c.Value})
	}
	slices.SortFunc(rows, func(a, b Row) int { return g.sign() * kind.Form.compare(a.Entry, b.Entry) })
	return rows
}

// sign is -1 for a range that is told backwards.
func (g *Range) sign() int {
	if g != nil && g.Reverse {
		return -1
	}
	return 1
}

func (g *Range) selects(f Form, e Entry) bool {
	if g == nil {
		return true
	}
	behind := func(bound Entry) int {
		if f == Versioned { // there is one of each key, and which one may change from page to page
			return g.sign() * strings.Compare(e.Key, bound.Key)
		}
		return g.sign() * f.compare(e, bound)
	}
	return strings.HasPrefix(e.Key, g.Prefix) && (g.Keys == nil || slices.Contains(g.Keys, e.Key)) &&
		(g.After == nil || behind(*g.After) > 0) && (g.UpTo == nil || behind(*g.UpTo) <= 0)
}

// ranges: what is told of a range is exactly the state at the position that the reply tells, all of it and nothing twice,
// and was committed.
func (h *History) ranges(report func(string, ...any)) {
	h.answered(func(r *Read) {
		if r.Range == nil {
			return
		}
		want := h.state(r.Partition, r.Served.Position, r.Range)
		if r.Range.Counted {
			if r.Range.Count != len(want) {
				report("%s: at that position there are %d", r, len(want))
			}
			return
		}
		for i := range max(len(want), len(r.Rows)) {
			switch {
			case i == len(r.Rows):
				report("%s: row %d is missing: %s %q", r, i, want[i].Entry, want[i].Value)
			case i == len(want):
				report("%s: row %d is one too many: %s %q", r, i, r.Rows[i].Entry, r.Rows[i].Value)
			case want[i] != r.Rows[i]:
				report("%s: row %d is %s %q, at that position it is %s %q", r, i, r.Rows[i].Entry, r.Rows[i].Value, want[i].Entry, want[i].Value)
			default:
				if c, _ := h.below(r.Partition, want[i].Entry, r.Served.Position); c.NotBefore > r.Returned {
					report("%s: %s %q was committed at %s or later", r, c.Entry, c.Value, c.NotBefore)
				}
				continue
			}
			return // what follows is shifted
		}
	})
}
