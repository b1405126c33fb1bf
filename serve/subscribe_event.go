package serve

import (
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

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
