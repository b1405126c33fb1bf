package serve

import (
	"context"
	"iter"
	"math"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// A rowScan is the entries of one partition that a request selects, in one state of it.
type rowScan struct {
	sel       *query.Selection
	sn        *store.Snapshot
	partition int32
	reverse   bool
	keysOnly  bool // rows have neither values nor, but for versions, timestamps
	fields    *query.Fields
}

// lookEvery is how many entries are looked at between two looks at whether the caller is still there.
const lookEvery = 1024

// rows yields the rows behind a cursor, nil for all, in the order of the store. An error is the last thing that it yields.
func (s *rowScan) rows(ctx context.Context, after []byte) iter.Seq2[*iqv1.Row, error] {
	return func(yield func(*iqv1.Row, error) bool) {
		if s.sel.Empty() {
			return
		}
		looked := 0
		for row, err := range s.entries(after) {
			if looked++; err == nil && looked%lookEvery == 0 {
				err = ctx.Err()
			}
			keep := true
			if err == nil && s.sel.Filter != nil {
				keep, err = s.sel.Filter.Match(row)
			}
			if err == nil && keep && s.fields != nil {
				err = s.fields.Project(row)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !keep {
				continue
			}
			if s.keysOnly {
				row.Value = nil
				if s.sel.Kind != query.Versioned {
					row.TimestampMs = 0
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// options are those of the store's scan. A filter may look at values and timestamps, which are read together.
func (s *rowScan) options(after []byte) store.ScanOptions {
	return store.ScanOptions{Reverse: s.reverse, KeysOnly: s.keysOnly && s.sel.Filter == nil, After: after}
}

// entries yields the entries that keys and times select.
func (s *rowScan) entries(after []byte) iter.Seq2[*iqv1.Row, error] {
	switch {
	case s.sel.Kind == query.Window:
		return s.windows(after)
	case s.sel.Kind == query.Session:
		return s.sessions(after)
	case s.sel.Kind == query.Versioned && s.sel.HasTimes:
		return s.versions(after)
	case s.sel.Kind == query.Versioned:
		return s.versionsAt(after)
	}
	r, err := store.NewKeyValueReader(s.sn)
	if err != nil {
		return failed(err)
	}
	return mapped(r.FetchRange(store.KeyRange(s.sel.Keys), s.options(after)), func(e store.Entry) *iqv1.Row {
		return s.row(e.Key, e.Value, e.Key)
	})
}

func (s *rowScan) windows(after []byte) iter.Seq2[*iqv1.Row, error] {
	r, err := store.NewWindowReader(s.sn)
	if err != nil {
		return failed(err)
	}
	times := store.Times(s.sel.Times)
	entries := r.FetchRange(store.KeyRange(s.sel.Keys), times, s.options(after))
	if s.sel.Key != nil {
		entries = r.Fetch(s.sel.Key, times, s.options(after))
	}
	return mapped(entries, func(e store.WindowEntry) *iqv1.Row {
		row := s.row(e.Key, e.Value, e.Cursor)
		row.StartMs, row.EndMs = &e.Start, &e.End
		return row
	})
}

func (s *rowScan) sessions(after []byte) iter.Seq2[*iqv1.Row, error] {
	r, err := store.NewSessionReader(s.sn)
	if err != nil {
		return failed(err)
	}
	times := store.Times(s.sel.Times)
	entries := r.FetchRange(store.KeyRange(s.sel.Keys), times, s.options(after))
	if s.sel.Key != nil {
		entries = r.FindSessions(s.sel.Key, times.From, times.To, s.options(after))
	}
	return mapped(entries, func(e store.SessionEntry) *iqv1.Row {
		row := s.row(e.Key, e.Value, e.Cursor)
		row.StartMs, row.EndMs = &e.Start, &e.End
		return row
	})
}

// versionsAt yields of each key the version at the time asked for, or its latest.
func (s *rowScan) versionsAt(after []byte) iter.Seq2[*iqv1.Row, error] {
	r, err := store.NewVersionedReader(s.sn)
	if err != nil {
		return failed(err)
	}
	at := int64(math.MaxInt64)
	if s.sel.AsOf != nil {
		at = *s.sel.AsOf
	}
	return mapped(r.FetchRange(store.KeyRange(s.sel.Keys), at, s.options(after)), func(v store.Version) *iqv1.Row {
		row := s.row(v.Key, v.Value, v.Cursor)
		row.TimestampMs, row.StartMs = v.ValidFrom, &v.ValidFrom
		if v.ValidTo != store.NoEnd {
			row.EndMs = &v.ValidTo
		}
		return row
	})
}

func (s *rowScan) row(key []byte, v store.Value, cursor []byte) *iqv1.Row {
	return &iqv1.Row{Key: key, Value: v.Bytes, TimestampMs: v.Timestamp, Partition: s.partition, Cursor: cursor}
}

func mapped[E any](entries iter.Seq2[E, error], row func(E) *iqv1.Row) iter.Seq2[*iqv1.Row, error] {
	return func(yield func(*iqv1.Row, error) bool) {
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

func failed(err error) iter.Seq2[*iqv1.Row, error] {
	return func(yield func(*iqv1.Row, error) bool) { yield(nil, err) }
}
