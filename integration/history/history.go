package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Unknown is a lag, position or sequence number that nobody told.
const Unknown = -1

// Partition is one partition of a store.
type Partition struct {
	Store     string
	Partition int32
}

// String is store/partition.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Store, p.Partition) }

// TopicPartition is one partition of an input topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Entry names one entry of a store: a key, and the times of a window (Start), a session (both) or a version (Start), in
// milliseconds since the epoch. Both are 0 in a key-value store.
type Entry struct {
	Key        string
	Start, End int64
}

// String is the key, and the times where there are some.
func (e Entry) String() string {
	if e.Start == 0 && e.End == 0 {
		return strconv.Quote(e.Key)
	}
	return fmt.Sprintf("%q [%d, %d]", e.Key, e.Start, e.End)
}

// Commit is one committed record of a store's changelog.
type Commit struct {
	Partition
	Entry
	Offset  int64
	Value   string
	Deleted bool // a tombstone; Value is empty
	// NotBefore and By bound the moment at which the transaction was committed.
	NotBefore, By time.Duration
}

// Input is one record of a topic whose newest record for each key is what a store keeps.
type Input struct {
	TopicPartition
	Offset int64
	Key    string
	Value  string
	// Deletes is set when the record deletes its key.
	Deletes bool
}

// Mode is what a read promises.
type Mode int

// The modes, as iq.v1 has them.
const (
	Strong Mode = iota + 1
	Active
	Bounded
	Any
)

// String is the mode's name.
func (m Mode) String() string {
	switch m {
	case Strong:
		return "strong"
	case Active:
		return "active"
	case Bounded:
		return "bounded"
	case Any:
		return "any"
	}
	return fmt.Sprintf("mode(%d)", int(m))
}

// Policy is what a read asked for.
type Policy struct {
	Mode Mode
	// MaxStaleness bounds the time lag, MaxOffsetLag the offset lag; Unknown for no bound.
	MaxStaleness time.Duration
	MaxOffsetLag int64
	// AtLeast is the input position asked for; nil for none.
	AtLeast map[TopicPartition]int64
}

// String is the policy in words.
func (p Policy) String() string {
	s := p.Mode.String()
	if p.MaxStaleness != Unknown {
		s += " max_staleness=" + p.MaxStaleness.String()
	}
	if p.MaxOffsetLag != Unknown {
		s += fmt.Sprintf(" max_offset_lag=%d", p.MaxOffsetLag)
	}
	if p.AtLeast != nil {
		s += fmt.Sprintf(" at_least=%v", p.AtLeast)
	}
	return s
}

// Replica is what a reply or a status tells of the replica.
type Replica struct {
	Node string
	// Life counts the starts of the node, from 1; 0 when the test does not know which one it was.
	Life       int
	Active     bool // its role is ACTIVE
	Running    bool // its state is RUNNING
	LeaseValid bool
	Generation int64
	Position   int64
	End        int64
	// OffsetLag, TimeLag and SampleAge are Unknown when not told.
	OffsetLag          int64
	TimeLag, SampleAge time.Duration
}

// Read is one read and what came of it.
type Read struct {
	Partition
	Key    string
	Policy Policy
	// Router is who was asked; Direct says that it is a node, which answers what it holds alone.
	Router            string
	Direct            bool
	Invoked, Returned time.Duration
	// Range says that it is a read of a range of the partition and not of Key; nil for a Get.
	Range *Range
	// Failed is the error; empty when the read was answered. What follows is told by an answer only. A range that failed has
	// partition Unknown when the failure is not about one.
	Failed string
	Found  bool
	Value  string
	// Rows are those of a Range, in order.
	Rows   []Row
	Served Replica
	// Input is the input position told; nil when it was not.
	Input map[TopicPartition]int64
}

// Observation is what a node said of one of its replicas when the test asked it directly.
type Observation struct {
	Partition
	At      time.Duration
	Replica Replica
}

// Look is a moment at which the test asked a node for all of its replicas and was answered.
type Look struct {
	Node     string
	At       time.Duration
	Replicas []Partition // with an open store
}

// Outage is a time in which the test kept a node, a router or the link between the two from working.
type Outage struct {
	Node, Router string // either may be empty; both name the link
	From, To     time.Duration
}

// History is everything that happened in one run.
type History struct {
	Commits      []Commit
	Inputs       []Input
	Reads        []Read
	Observations []Observation
	Looks        []Look
	Outages      []Outage
	// Final is the right last value of each key of a store; Commit has only store, partition, key, value and Deleted.
	Final []Commit
	// Settled are the replicas at the end, when nothing has been written or disturbed for a while.
	Settled []Observation
	// Latest names the stores that keep the newest record of each key of Inputs.
	Latest []string
	// Kinds are the stores that are not key-value ones.
	Kinds map[string]Kind
	// SampleMaxAge is how old a sample of a changelog's end may be for an offset lag to be judged by it.
	SampleMaxAge time.Duration
	// Grace is the time in which a cluster may still not know that a node or router is back.
	Grace time.Duration

	byPartition map[Partition][]Commit        // by offset
	byEntry     map[Partition]map[Entry][]int // indexes into byPartition
	byInput     map[string][]Input            // by key
	looks       map[string][]Look             // by node, by time
}

// Violation is one thing that must not happen.
type Violation struct {
	Rule string
	What string
}

// String is rule: what.
func (v Violation) String() string { return v.Rule + ": " + v.What }

// Check judges the history by every rule and returns what is wrong, in the order of the rules.
func (h *History) Check() []Violation {
	h.index()
	var all []Violation
	for _, rule := range []struct {
		name  string
		check func(report func(format string, args ...any))
	}{
		{"committed", h.committed},
		{"ranges", h.ranges},
		{"fresh", h.fresh},
		{"offsets", h.offsets},
		{"strong", h.strong},
		{"active", h.active},
		{"position", h.position},
		{"monotonic", h.monotonic},
		{"available", h.available},
		{"grown", h.grown},
		{"final", h.final},
		{"idle", h.idle},
	} {
		rule.check(func(format string, args ...any) {
			all = append(all, Violation{Rule: rule.name, What: fmt.Sprintf(format, args...)})
		})
	}
	return all
}

func (h *History) index() {
	h.byPartition = make(map[Partition][]Commit)
	h.byEntry = make(map[Partition]map[Entry][]int)
	for _, c := range h.Commits {
		h.byPartition[c.Partition] = append(h.byPartition[c.Partition], c)
	}
	for p, commits := range h.byPartition {
		slices.SortFunc(commits, func(a, b Commit) int { return cmp.Compare(a.Offset, b.Offset) })
		entries := make(map[Entry][]int)
		for i := range commits {
			entries[commits[i].Entry] = append(entries[commits[i].Entry], i)
			if i > 0 { // a later record that was seen earlier makes the earlier one seen too: the observer reads in order
				commits[i].By = max(commits[i].By, commits[i-1].By)
			}
		}
		h.byEntry[p] = entries
	}
	h.byInput = make(map[string][]Input)
	for _, in := range h.Inputs {
		h.byInput[in.Key] = append(h.byInput[in.Key], in)
	}
	h.looks = make(map[string][]Look)
	for _, l := range h.Looks {
		h.looks[l.Node] = append(h.looks[l.Node], l)
	}
	for _, ls := range h.looks {
		slices.SortStableFunc(ls, func(a, b Look) int { return cmp.Compare(a.At, b.At) })
	}
	slices.SortStableFunc(h.Reads, func(a, b Read) int { return cmp.Compare(a.Invoked, b.Invoked) })
}

// newest is the offset of the newest record of p that was certainly committed before t; Unknown when none was. Moments
// are compared strictly: at one and the same moment the order is not known.
func (h *History) newest(p Partition, t time.Duration) int64 {
	commits := h.byPartition[p]
	n := sort.Search(len(commits), func(i int) bool { return commits[i].By >= t })
	if n == 0 {
		return Unknown
	}
	return commits[n-1].Offset
}

// below is the newest commit of an entry below a position.
func (h *History) below(p Partition, e Entry, position int64) (Commit, bool) {
	indexes := h.byEntry[p][e]
	commits := h.byPartition[p]
	n := sort.Search(len(indexes), func(i int) bool { return commits[indexes[i]].Offset >= position })
	if n == 0 {
		return Commit{}, false
	}
	return commits[indexes[n-1]], true
}

// answered are the reads that were answered.
func (h *History) answered(f func(r *Read)) {
	for i := range h.Reads {
		if h.Reads[i].Failed == "" {
			f(&h.Reads[i])
		}
	}
}

// String is the read in words, for reports.
func (r *Read) String() string {
	what := strconv.Quote(r.Key)
	if r.Range != nil {
		what = r.Range.String()
	}
	s := fmt.Sprintf("read of %s %s with %s through %s, %s to %s", r.Partition, what, r.Policy, r.Router, r.Invoked, r.Returned)
	switch {
	case r.Failed != "":
		return s + ": failed: " + r.Failed
	case r.Range != nil:
		return fmt.Sprintf("%s: %d rows from %s", s, len(r.Rows), r.Served)
	}
	value := "absent"
	if r.Found {
		value = fmt.Sprintf("%q", r.Value)
	}
	return s + ": " + value + " from " + r.Served.String()
}

// String is the replica in words, for reports.
func (r Replica) String() string {
	role := "standby"
	if r.Active {
		role = "active"
	}
	if !r.Running {
		role += " not running"
	}
	if r.LeaseValid {
		role += " with lease"
	}
	s := fmt.Sprintf("%s#%d (%s, generation %d, position %d of %d", r.Node, r.Life, role, r.Generation, r.Position, r.End)
	if r.OffsetLag != Unknown {
		s += fmt.Sprintf(", offset lag %d by a sample %s old", r.OffsetLag, r.SampleAge)
	}
	if r.TimeLag != Unknown {
		s += ", time lag " + r.TimeLag.String()
	}
	return s + ")"
}

// sorted are the partitions of a map, in order.
func sorted[T any](m map[Partition]T) []Partition {
	return slices.SortedFunc(maps.Keys(m), func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Partition, b.Partition))
	})
}

// String is the observation in words, for reports.
func (o Observation) String() string {
	return fmt.Sprintf("replica of %s at %s: %s", o.Partition, o.At, o.Replica)
}
