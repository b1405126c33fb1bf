package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/iqgate/iqgate/store"
)

// Bounds of the reclaiming of disk space.
const (
	// reclaimInterval is the time between two rounds over the stores.
	reclaimInterval = time.Minute
	// maxReclaims bounds the files of one store that are rewritten in a round, each of 64 MiB at most: the others get their
	// turn, and reads and commits the disk.
	maxReclaims = 4
)

// reclaim gives the disk back what large values, which stores keep apart, leave when they are overwritten or deleted; it goes
// from store to store, one at a time, beside reads and writes. Everything else is compacted as it is written.
func (s *replicaSet) reclaim(ctx context.Context) error {
	tick := time.NewTicker(reclaimInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, r := range s.list() {
			if kv := r.kv.Load(); kv != nil && ctx.Err() == nil {
				s.reclaimStore(r, kv)
			}
		}
	}
}

// reclaimStore rewrites what is mostly garbage in one store, up to maxReclaims files.
func (s *replicaSet) reclaimStore(r *replica, kv *store.KV) {
	for n := range maxReclaims {
		more, err := kv.ReclaimSpace()
		if err != nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("cannot reclaim disk space", slog.String("store", r.id.String()), slog.Any("error", err))
		}
		if err != nil || !more {
			return
		}
		s.log.Debug("reclaimed disk space", slog.String("store", r.id.String()), slog.Int("files", n+1))
	}
}
