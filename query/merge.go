package query

import (
	"bytes"
	"cmp"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Compare is the order of two entries of a store of a kind by key, then by time, as stores have them. In reverse both are
// turned round.
func Compare(kind Kind, reverse bool) func(a, b *iqv1.Row) int {
	forward := compareKey
	switch kind {
	case KeyValue:
	case Window, Versioned:
		forward = compareStart
	case Session:
		forward = compareSession
	}
	if !reverse {
		return forward
	}
	return func(a, b *iqv1.Row) int { return forward(b, a) }
}

func compareKey(a, b *iqv1.Row) int { return bytes.Compare(a.GetKey(), b.GetKey()) }

func compareStart(a, b *iqv1.Row) int {
	if c := compareKey(a, b); c != 0 {
		return c
	}
	return cmp.Compare(a.GetStartMs(), b.GetStartMs())
}

// compareSession is by end before start, as Kafka Streams' session keys are.
func compareSession(a, b *iqv1.Row) int {
	if c := compareKey(a, b); c != 0 {
		return c
	}
	if c := cmp.Compare(a.GetEndMs(), b.GetEndMs()); c != 0 {
		return c
	}
	return cmp.Compare(a.GetStartMs(), b.GetStartMs())
}

// Merge makes one stream in order out of several that are. Sources are numbered in the order of their partitions, which
// decides between entries that are equal. How it is used:
//
//  1. While Wants names a source, Feed it its next rows, or End it.
//  2. Next hands out the next run of rows, all of one source. When there is none, all have ended.
type Merge struct {
	compare func(a, b *iqv1.Row) int
	rows    [][]*iqv1.Row // what each source has left
	heap    []int         // sources with rows, the one whose row is next first
	hungry  []int         // sources without rows that have not ended
}

// NewMerge merges sources, all of which want to be fed.
func NewMerge(sources int, compare func(a, b *iqv1.Row) int) *Merge {
	m := &Merge{compare: compare, rows: make([][]*iqv1.Row, sources), heap: make([]int, 0, sources)}
	for i := range sources {
		m.hungry = append(m.hungry, sources-1-i)
	}
	return m
}

// Wants is a source without which it is not known which row is next.
func (m *Merge) Wants() (source int, ok bool) {
	if len(m.hungry) == 0 {
		return 0, false
	}
	return m.hungry[len(m.hungry)-1], true
}

// Feed gives the source that Wants names its next rows, in order. None leaves it wanting.
func (m *Merge) Feed(rows []*iqv1.Row) {
	if len(rows) == 0 {
		return
	}
	source := m.hungry[len(m.hungry)-1]
	m.End()
	m.rows[source] = rows
	m.heap = append(m.heap, source)
	for i := len(m.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !m.less(m.heap[i], m.heap[parent]) {
			break
		}
		m.heap[i], m.heap[parent] = m.heap[parent], m.heap[i]
		i = parent
	}
}

// End says that the source that Wants names has no more rows.
func (m *Merge) End() { m.hungry = m.hungry[:len(m.hungry)-1] }

// Next is the next run, of at most most rows, and its source. It is empty when no row is left or Wants names a source.
func (m *Merge) Next(most int) (source int, run []*iqv1.Row) {
	if len(m.heap) == 0 || len(m.hungry) > 0 || most <= 0 {
		return 0, nil
	}
	source = m.heap[0]
	rows := m.rows[source]
	n := m.run(source, rows[:min(len(rows), most)])
	run = rows[:n:n]
	if m.rows[source] = rows[n:]; n == len(rows) {
		m.rows[source] = nil
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.hungry = append(m.hungry, source)
	}
	m.sink()
	return source, run
}

// run is how many of the first source's rows come before the first row of every other.
func (m *Merge) run(source int, rows []*iqv1.Row) int {
	if len(m.heap) == 1 {
		return len(rows)
	}
	second := m.heap[1]
	if len(m.heap) > 2 && m.less(m.heap[2], second) {
		second = m.heap[2]
	}
	head := m.rows[second][0]
	if m.before(source, rows[len(rows)-1], second, head) {
		return len(rows)
	}
	n := 1
	for m.before(source, rows[n], second, head) {
		n++
	}
	return n
}

func (m *Merge) before(a int, rowA *iqv1.Row, b int, rowB *iqv1.Row) bool {
	if c := m.compare(rowA, rowB); c != 0 {
		return c < 0
	}
	return a < b
}

func (m *Merge) less(a, b int) bool { return m.before(a, m.rows[a][0], b, m.rows[b][0]) }

// sink brings the heap in order after its first source has changed.
func (m *Merge) sink() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.less(m.heap[child], m.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}
