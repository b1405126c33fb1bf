//go:build synctests

package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// What the stores of the model's topology keep, and for how long.
const (
	modelWindow  = 1_000  // milliseconds
	modelKept    = 5_000  // windows and sessions
	modelHistory = 4_000  // versions
	modelMarker  = "\xfe" // the key under which each store keeps the offset of the newest input record
)

// modelOp is one input record.
type modelOp struct {
	Store  string `json:"store"`
	Key    []byte `json:"key"`
	Value  []byte `json:"value"` // nil deletes
	Start  int64  `json:"start"` // of a window or session; when a version begins
	End    int64  `json:"end"`   // of a session
	Offset int64  `json:"-"`
	At     int64  `json:"-"` // the record's timestamp
}

func (o modelOp) encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return b
}

// modelEntry is one entry of a store: what it is called and what it has.
type modelEntry struct {
	key        string
	start, end int64
}

type modelValue struct {
	value   []byte
	at      int64
	deleted bool // of a version
}

// modelStore is one partition of a store, kept as plainly as can be.
type modelStore struct {
	kind    string
	entries map[modelEntry]modelValue
	time    int64 // the stream time
}

// modelOf is what a store has after the ops, by what its documentation says.
func modelOf(kind string, ops []modelOp) *modelStore {
	m := &modelStore{kind: kind, entries: make(map[modelEntry]modelValue), time: -1}
	for _, o := range ops {
		if o.Store == kind {
			m.put(string(o.Key), o.Start, o.End, o.Value, o.At)
		}
		newest := max(m.time, o.At) // where the processor puts its marker
		m.put(modelMarker, newest, newest, []byte(strconv.FormatInt(o.Offset, 10)), newest)
	}
	return m
}

func (m *modelStore) put(key string, start, end int64, value []byte, at int64) {
	e := modelEntry{key: key}
	switch m.kind {
	case "win":
		e.start, e.end = start, start+modelWindow
		m.time = max(m.time, start)
	case "sess":
		e.start, e.end = start, end
		m.time = max(m.time, end)
	case "ver":
		if start < m.time-modelHistory {
			return
		}
		e.start, at = start, start
		m.time = max(m.time, start)
		m.entries[e] = modelValue{value, at, value == nil}
		return
	}
	if value == nil {
		delete(m.entries, e)
	} else {
		m.entries[e] = modelValue{value, at, false}
	}
}

// rows are all entries that a selection means, in order.
func (m *modelStore) rows(partition int32, sel *iqv1.Selection) []*iqv1.Row {
	var rows []*iqv1.Row
	for e, v := range m.entries {
		row := &iqv1.Row{Key: []byte(e.key), Value: v.value, TimestampMs: v.at, Partition: partition, Deleted: v.deleted}
		if m.kind != "kv" {
			row.StartMs = &e.start
		}
		if m.kind == "win" || m.kind == "sess" {
			row.EndMs = &e.end
		}
		if m.keyMeant(row.GetKey(), sel) && m.timeMeant(row, sel) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, m.compare)
	return rows
}

func (m *modelStore) keyMeant(key []byte, sel *iqv1.Selection) bool {
	switch k := sel.GetKeys().(type) {
	case *iqv1.Selection_Key:
		return bytes.Equal(key, k.Key)
	case *iqv1.Selection_Prefix:
		return bytes.HasPrefix(key, k.Prefix)
	case *iqv1.Selection_Range:
		r := k.Range
		from, to := bytes.Compare(key, r.GetFrom()), bytes.Compare(key, r.GetTo())
		return (r.From == nil || from > 0 || from == 0 && !r.GetFromExclusive()) && (r.To == nil || to < 0 || to == 0 && !r.GetToExclusive())
	}
	return true
}

func (m *modelStore) timeMeant(row *iqv1.Row, sel *iqv1.Selection) bool {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if t := sel.GetTimes(); t != nil && t.FromMs != nil {
		from = t.GetFromMs()
	}
	if t := sel.GetTimes(); t != nil && t.ToMs != nil {
		to = t.GetToMs()
	}
	if from > to {
		return false
	}
	switch m.kind {
	case "win":
		return row.GetStartMs() > m.time-modelKept && from <= row.GetStartMs() && row.GetStartMs() <= to
	case "sess":
		return row.GetEndMs() > m.time-modelKept && row.GetEndMs() >= from && row.GetStartMs() <= to
	case "ver":
		return m.versionMeant(row, sel, from, to)
	}
	return true
}

// versionMeant also says when the version ended.
func (m *modelStore) versionMeant(row *iqv1.Row, sel *iqv1.Selection, from, to int64) bool {
	next := int64(math.MaxInt64)
	for e := range m.entries {
		if e.key == string(row.GetKey()) && e.start > row.GetStartMs() {
			next = min(next, e.start)
		}
	}
	latest := next == math.MaxInt64
	if !latest {
		row.EndMs = &next
	}
	horizon := m.time - modelHistory
	if sel.GetTimes() != nil {
		switch {
		case row.GetStartMs() > to:
			return false
		case latest:
			return !row.GetDeleted() || row.GetStartMs() > horizon
		}
		return to >= horizon && next > max(from, horizon)
	}
	if row.GetDeleted() {
		return false
	}
	if sel.AsOfMs == nil {
		return latest
	}
	asOf := sel.GetAsOfMs()
	return row.GetStartMs() <= asOf && (latest || asOf < next && asOf >= horizon)
}

// compare is the order of a store: by key, then by time, of sessions the end before the start.
func (m *modelStore) compare(a, b *iqv1.Row) int {
	if m.kind == "sess" {
		return cmp.Or(bytes.Compare(a.GetKey(), b.GetKey()), cmp.Compare(a.GetEndMs(), b.GetEndMs()), cmp.Compare(a.GetStartMs(), b.GetStartMs()))
	}
	return cmp.Or(bytes.Compare(a.GetKey(), b.GetKey()), cmp.Compare(a.GetStartMs(), b.GetStartMs()))
}
