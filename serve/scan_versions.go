package serve

import (
	"bytes"
	"iter"
	"math"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// A history is the versions of a range of keys that were valid at some time within times, deletions included, in one pass
// over the store. Of times before the horizon, the stream time less the history retention, only what a key's latest version
// covers is there, as in VersionedReader; a deletion that has been the latest since then is as good as none. So what it
// yields does not depend on what is still on disk.
type history struct {
	schema  store.Schema
	times   query.Times
	horizon int64

	key     []byte   // of the version that came last
	from    int64    // when that began
	pending *version // forwards: what came last, which ends where the next one begins
	yield   func(version) bool
}

// version is one version of a key; next is when the one after it begins, or store.NoEnd.
type version struct {
	entry      store.Entry
	key        []byte
	from, next int64
}

// covers says whether the version is one to yield.
func (h *history) covers(v *version) bool {
	switch {
	case v.from > h.times.To:
		return false
	case v.next == store.NoEnd:
		return !v.entry.Empty || v.from > h.horizon
	}
	return h.times.To >= h.horizon && v.next > max(h.times.From, h.horizon)
}

func (h *history) emit(v *version) bool { return v == nil || !h.covers(v) || h.yield(*v) }

// forward takes the next entry of a scan in the order of keys and times; it reports whether to go on.
func (h *history) forward(e store.Entry, key []byte, from int64) bool {
	last := h.pending
	h.pending = &version{entry: e, key: key, from: from, next: store.NoEnd}
	if last != nil && bytes.Equal(last.key, key) {
		last.next = from
	}
	return h.emit(last)
}

// backward takes the next entry of a scan against the order of keys and times.
func (h *history) backward(e store.Entry, key []byte, from int64) bool {
	v := &version{entry: e, key: key, from: from, next: store.NoEnd}
	if h.key != nil && bytes.Equal(h.key, key) {
		v.next = h.from
	}
	h.key, h.from = key, from
	return h.emit(v)
}

// versions yields a history as rows.
func (s *rowScan) versions(after []byte) iter.Seq2[*iqv1.Row, error] {
	return func(yield func(*iqv1.Row, error) bool) {
		schema := s.sn.Schema()
		h := &history{schema: schema, times: s.sel.Times, horizon: schema.Horizon(s.sn.StreamTime())}
		h.yield = func(v version) bool {
			row, err := s.versionRow(v)
			return yield(row, err) && err == nil
		}
		sc := versionRange(s.sel.Keys)
		sc.Reverse, sc.KeysOnly = s.reverse, s.options(nil).KeysOnly
		take := h.forward
		if s.reverse {
			take = h.backward
		}
		if err := s.goOn(h, &sc, after); err != nil {
			yield(nil, err)
			return
		}
		for e, err := range s.sn.Scan(sc) {
			var key []byte
			var span store.Span
			if err == nil {
				key, span, err = schema.Decode(e.Key)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !take(e, key, span.Start) {
				return
			}
		}
		h.emit(h.pending)
	}
}

// goOn narrows the scan to what lies behind a cursor. Backwards, the version at the cursor ends the one before it, and if
// this replica has not got it, the one behind it does.
func (s *rowScan) goOn(h *history, sc *store.Scan, after []byte) error {
	if after == nil {
		return nil
	}
	key, _, err := h.schema.Decode(after)
	if err != nil {
		return err
	}
	if !s.reverse {
		if bytes.Compare(after, sc.From) >= 0 {
			sc.From = append(bytes.Clone(after), 0)
		}
		return nil
	}
	if sc.To == nil || bytes.Compare(after, sc.To) < 0 {
		sc.To = after
	}
	ahead := store.Scan{From: after, To: append(store.VersionKey(key, math.MaxInt64), 0), KeysOnly: true}
	for e, err := range s.sn.Scan(ahead) {
		if err != nil {
			return err
		}
		_, span, err := h.schema.Decode(e.Key)
		h.key, h.from = key, span.Start
		return err
	}
	return nil
}

// versionRange is the scan of all versions of a range of keys.
func versionRange(k query.Keys) store.Scan {
	begin := func(key []byte) []byte { return store.VersionKey(key, math.MinInt64) }
	behind := func(key []byte) []byte { return begin(append(bytes.Clone(key), 0)) } // the next key in byte order
	var sc store.Scan
	switch {
	case len(k.Prefix) > 0:
		sc.From = begin(k.Prefix)
		if end := prefixEnd(k.Prefix); end != nil {
			sc.To = begin(end)
		}
		return sc
	case k.From != nil && k.FromOpen:
		sc.From = behind(k.From)
	case k.From != nil:
		sc.From = begin(k.From)
	}
	switch {
	case k.To != nil && k.ToOpen:
		sc.To = begin(k.To)
	case k.To != nil:
		sc.To = behind(k.To)
	}
	return sc
}

// prefixEnd is the first key above all that begin with the prefix, nil when there is none.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != math.MaxUint8 {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

func (s *rowScan) versionRow(v version) (*iqv1.Row, error) {
	row := s.row(v.key, store.Value{Timestamp: v.from}, v.entry.Key)
	row.StartMs = &v.from
	if v.next != store.NoEnd {
		row.EndMs = &v.next
	}
	row.Deleted = v.entry.Empty
	if v.entry.Value.Bytes == nil { // a scan without values
		return row, nil
	}
	var err error
	_, row.Value, _, err = s.sn.Schema().ToChangelog(store.Change{Key: v.entry.Key, Value: v.entry.Value.Bytes})
	return row, err
}
