package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/iqgate/iqgate/store"
)

// Bounds of the search for tables that have gone bad on disk.
const (
	scrubFirst = time.Hour // after the start; what an Open has looked at needs no look now
	scrubEvery = 24 * time.Hour
	// scrubBytesPerSecond is a fraction of what any disk gives, so that nobody notices: 64 GB take three hours.
	scrubBytesPerSecond = 8 << 20
)

// scrub reads all tables of all stores once a day and has those stores rebuilt whose tables are damaged.
func (s *replicaSet) scrub(ctx context.Context) error {
	t := time.NewTimer(scrubFirst)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for _, r := range s.list() {
			if kv := r.kv.Load(); kv != nil && r.broken.Load() == nil {
				r.scrub(ctx, kv)
			}
		}
		t.Reset(scrubEvery)
	}
}

func (r *replica) scrub(ctx context.Context, kv *store.KV) {
	switch _, err := kv.Scrub(ctx, scrubBytesPerSecond); {
	case err == nil || ctx.Err() != nil || errors.Is(err, store.ErrClosed):
	case errors.Is(err, store.ErrCorrupt):
		r.Damaged(err)
	default:
		r.set.log.Warn("cannot read a store's tables", slog.String("store", r.id.String()), slog.Any("error", err))
	}
}
