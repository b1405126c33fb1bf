package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// scrubSlice is the shortest sleep of Scrub: it reads ahead by as much as the rate gives in that time.
const scrubSlice = 20 * time.Millisecond

// Scrub reads all tables again and compares them with their checksums, bytesPerSecond of them in a second, or as fast as it
// can when that is 0. It is ErrCorrupt when one does not fit: the store must be removed and rebuilt. It may run beside
// everything else. Logs and large values are not read: a log is read whole at the next Open, a large value is compared
// whenever it is read. It returns how many bytes it has read.
func (s *KV) Scrub(ctx context.Context, bytesPerSecond int64) (read int64, err error) {
	if s.opt.InMemory {
		return 0, nil
	}
	begun := time.Now()
	took := func(n int) error {
		read += int64(n)
		if s.gate.closing.Load() {
			return ErrClosed
		}
		if bytesPerSecond <= 0 {
			return ctx.Err()
		}
		due := time.Duration(float64(read) / float64(bytesPerSecond) * float64(time.Second))
		ahead := due - time.Since(begun)
		if ahead < scrubSlice {
			return ctx.Err()
		}
		select {
		case <-time.After(ahead):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ids, err := s.tableIDs()
	if err != nil {
		return 0, err
	}
	for id := range ids {
		err := checkTable(filepath.Join(s.dir, databaseName, tableName(id)), false, took)
		if missing := errors.Is(err, fs.ErrNotExist); missing || errors.Is(err, ErrCorrupt) {
			now, listErr := s.tableIDs()
			if listErr != nil {
				return read, listErr
			}
			if !now[id] {
				continue // compacted away meanwhile: Badger cuts a table to nothing before it removes it
			}
			if missing {
				err = corruptf("table %s is missing", tableName(id))
			}
		}
		if err != nil {
			return read, fmt.Errorf("scrub store %s/%d: %w", s.id.Store, s.id.Partition, err)
		}
	}
	return read, nil
}

// tableIDs are the tables in use. It holds no read open: Close need not wait for a scrub.
func (s *KV) tableIDs() (map[uint64]bool, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	defer s.leave()
	ids := make(map[uint64]bool)
	for _, t := range s.db.Tables() {
		ids[t.ID] = true
	}
	return ids, nil
}
