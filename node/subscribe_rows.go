package node

import (
	"iter"
	"math"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// rows are the entries of a snapshot that the watch selects, in the order of their cursors, from behind a cursor on. Of a
// versioned store they are the latest versions.
func (p *watchedPart) rows(sn *store.Snapshot, after []byte) iter.Seq2[*iqv1.Row, error] {
	keys, o := keyRange(p.w.query.Keys), store.ScanOptions{After: after}
	partition := p.id.Partition
	schema := sn.Schema()
	switch schema.Kind {
	case store.KindWindow:
		r, err := store.NewWindowReader(sn)
		return rowsFrom(r.FetchRange(keys, store.AllTimes, o), err, func(e store.WindowEntry) *iqv1.Row {
			return &iqv1.Row{Key: e.Key, Value: e.Value.Bytes, TimestampMs: e.Value.Timestamp, Partition: partition, StartMs: &e.Start, EndMs: &e.End, Cursor: e.Cursor}
		})
	case store.KindSession:
		r, err := store.NewSessionReader(sn)
		return rowsFrom(r.FetchRange(keys, store.AllTimes, o), err, func(e store.SessionEntry) *iqv1.Row {
			return &iqv1.Row{Key: e.Key, Value: e.Value.Bytes, TimestampMs: e.Value.Timestamp, Partition: partition, StartMs: &e.Start, EndMs: &e.End, Cursor: e.Cursor}
		})
	case store.KindVersioned:
		r, err := store.NewVersionedReader(sn)
		return rowsFrom(r.FetchRange(keys, math.MaxInt64, o), err, func(e store.Version) *iqv1.Row {
			return &iqv1.Row{Key: e.Key, Value: e.Value.Bytes, TimestampMs: e.ValidFrom, Partition: partition, StartMs: &e.ValidFrom, Cursor: e.Cursor}
		})
	case store.KindKeyValue:
	}
	r, err := store.NewKeyValueReader(sn)
	return rowsFrom(r.FetchRange(keys, o), err, func(e store.Entry) *iqv1.Row {
		return &iqv1.Row{Key: e.Key, Value: e.Value.Bytes, TimestampMs: e.Value.Timestamp, Partition: partition, Cursor: e.Key}
	})
}

func rowsFrom[E any](entries iter.Seq2[E, error], err error, row func(E) *iqv1.Row) iter.Seq2[*iqv1.Row, error] {
	return func(yield func(*iqv1.Row, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		for e, err := range entries {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row(e), nil) {
				return
			}
		}
	}
}

// proto is an event on the wire. A window has its start and end, a session too, a version when it begins; when a version
// ends is not in its record.
func (p *watchedPart) proto(e *event) *iqv1.WatchEvent {
	row := &iqv1.Row{Key: e.key, Value: e.value, TimestampMs: e.timestamp, Partition: p.id.Partition}
	switch p.held.Load().kv.ID().Schema.Kind {
	case store.KindWindow, store.KindSession:
		row.StartMs, row.EndMs = &e.span.Start, &e.span.End
	case store.KindVersioned:
		row.StartMs = &e.span.Start
	case store.KindKeyValue:
	}
	return &iqv1.WatchEvent{Row: row, Removed: e.removed}
}
