package store_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

// model is the slow, obvious twin of a window, session or versioned store: all that was ever put, and rules.
type model struct {
	schema     store.Schema
	streamTime int64
	cells      map[cell]string // a deleted window or session is not there; a deletion of a version is "absent"
}

// cell is what has a value: a window's key and start (a), a session's key, start (b) and end (a), a key's version (a).
type cell struct {
	key  string
	a, b int64
}

const absent = "\x00absent"

func newModel(schema store.Schema) *model {
	return &model{schema: schema, streamTime: -1, cells: map[cell]string{}}
}

func (m *model) clone() *model {
	return &model{schema: m.schema, streamTime: m.streamTime, cells: maps.Clone(m.cells)}
}

func (m *model) horizon() int64 {
	return m.streamTime - m.schema.Retention.Milliseconds()
}

// write puts a value, or deletes when it is nil; it reports whether the write is kept.
func (m *model) write(c cell, value []byte) bool {
	if m.schema.Kind == store.KindVersioned {
		if c.a < m.horizon() {
			return false
		}
		m.streamTime = max(m.streamTime, c.a)
		m.cells[c] = absent
		if value != nil {
			m.cells[c] = string(value)
		}
		return true
	}
	m.streamTime = max(m.streamTime, c.a)
	if c.a <= m.horizon() {
		return false
	}
	delete(m.cells, c)
	if value != nil {
		m.cells[c] = string(value)
	}
	return true
}

// record is the write of a changelog record, read byte by byte.
func (m *model) record(r storetest.Record) {
	num := func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
	n := len(r.Key)
	switch m.schema.Kind {
	case store.KindWindow:
		m.write(cell{string(r.Key[:n-12]), num(r.Key[n-12:]), 0}, r.Value)
	case store.KindSession:
		m.write(cell{string(r.Key[:n-16]), num(r.Key[n-16:]), num(r.Key[n-8:])}, r.Value)
	case store.KindVersioned, store.KindKeyValue:
		m.write(cell{string(r.Key), r.Timestamp, 0}, r.Value)
	}
}

// query is one question, answered by the model and by a store as lines of text.
type query struct {
	key     string
	keys    store.KeyRange
	times   store.Times
	reverse bool
}

func inRange(r store.KeyRange, s string) bool {
	key := []byte(s)
	from, to := bytes.Compare(key, r.From), bytes.Compare(key, r.To)
	return (r.From == nil || from > 0 || from == 0 && !r.FromOpen) &&
		(r.To == nil || to < 0 || to == 0 && !r.ToOpen) &&
		bytes.HasPrefix(key, r.Prefix)
}

// sorted returns the cells that are wanted by key and time.
func (m *model) sorted(reverse bool, wanted func(cell) bool) []cell {
	var out []cell
	for c := range m.cells {
		if wanted(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y cell) int {
		if reverse {
			x, y = y, x
		}
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	return out
}

func line(key string, a, b int64, value string) string {
	return fmt.Sprintf("%.20q+%d %d %d %.30q+%d", key, len(key), a, b, value, len(value))
}

// answer is what the model says to a query.
func (m *model) answer(q query) []string {
	if m.schema.Kind == store.KindVersioned {
		return m.answerVersions(q)
	}
	live := func(c cell) bool { return c.a > m.horizon() }
	within := func(c cell) bool {
		if m.schema.Kind == store.KindSession {
			return c.a >= q.times.From && c.b <= q.times.To
		}
		return q.times.From <= c.a && c.a <= q.times.To
	}
	var out []string
	for _, c := range m.sorted(q.reverse, func(c cell) bool { return live(c) && within(c) && c.key == q.key }) {
		out = append(out, "fetch "+line(c.key, c.a, c.b, m.cells[c]))
	}
	ranged := m.sorted(q.reverse, func(c cell) bool { return live(c) && within(c) && inRange(q.keys, c.key) })
	for _, c := range ranged {
		out = append(out, "range "+line(c.key, c.a, c.b, m.cells[c]))
	}
	out = append(out, fmt.Sprint("count ", len(ranged)))
	for _, c := range m.sorted(false, live) {
		if c.key == q.key {
			out = append(out, "get "+line(c.key, c.a, c.b, m.cells[c]))
		}
	}
	return append(out, fmt.Sprint("stream time ", m.streamTime))
}

// asOf is a key's version at a time and when the next one begins.
func (m *model) asOf(key string, ms int64) (c cell, next int64, found bool) {
	next = store.NoEnd
	for _, v := range m.sorted(false, func(c cell) bool { return c.key == key }) {
		if v.a > ms {
			next = v.a
			break
		}
		c, found = v, true
	}
	if !found || m.cells[c] == absent || next != store.NoEnd && ms < m.horizon() {
		return cell{}, 0, false
	}
	return c, next, true
}

func (m *model) answerVersions(q query) []string {
	var out []string
	say := func(what, key string, ms int64) {
		if c, next, found := m.asOf(key, ms); found {
			out = append(out, what+line(key, c.a, next, m.cells[c]))
		}
	}
	say("latest ", q.key, math.MaxInt64)
	say("from ", q.key, q.times.From)
	say("to ", q.key, q.times.To)
	versions := m.sorted(false, func(c cell) bool { return c.key == q.key })
	var held []string
	for i, v := range versions {
		next := int64(store.NoEnd)
		if i+1 < len(versions) {
			next = versions[i+1].a
		}
		// It held at some moment of the times asked for; of moments before the horizon only the latest tells.
		first, last := max(v.a, q.times.From), min(next-1, q.times.To)
		if next != store.NoEnd {
			first = max(first, m.horizon())
		}
		if m.cells[v] != absent && first <= last {
			held = append(held, "version "+line(v.key, v.a, next, m.cells[v]))
		}
	}
	if q.reverse {
		slices.Reverse(held)
	}
	out = append(out, held...)
	keys := map[string]bool{}
	for c := range m.cells {
		keys[c.key] = inRange(q.keys, c.key)
	}
	ordered := slices.Sorted(maps.Keys(keys))
	if q.reverse {
		slices.Reverse(ordered)
	}
	for _, ms := range []int64{math.MaxInt64, q.times.To} {
		n := len(out)
		for _, key := range ordered {
			if keys[key] {
				say(fmt.Sprintf("all as of %d ", ms), key, ms)
			}
		}
		out = append(out, fmt.Sprint("count ", len(out)-n))
	}
	return append(out, fmt.Sprint("stream time ", m.streamTime))
}
