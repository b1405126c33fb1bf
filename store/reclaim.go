package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// Values above about 1 MiB are in files of their own, and Badger learns that one is garbage only when a compaction drops the
// entry that points to it. These entries are so small that the memtable which holds them is as good as never full: a store of
// large values alone would never be compacted and grow for ever. So when the files have doubled since it was tried last, the
// next Applies write as much filling as it takes to have the memtables written and compacted (spillRounds), and delete it.
const (
	// reclaimRatio is the share of a file that must be garbage for ReclaimSpace to rewrite it.
	reclaimRatio = 0.5
	// spillRounds is the number of Applies that fill a memtable each: so many tables Badger compacts.
	spillRounds = 5
	// spillSlack is how much larger than twice what it was all files may be before it is tried.
	spillSlack = 2 * valueLogFileBytes

	maxSpillValue = 256 << 10
)

// ReclaimSpace rewrites one file of large values that is mostly garbage and reports whether there was one. Everything but
// values above about 1 MiB is compacted as it is written. It may run beside reads and Apply; call it now and then, one call at
// a time, until it reports false.
func (s *KV) ReclaimSpace() (bool, error) {
	if !s.enter() {
		return false, ErrClosed
	}
	defer s.leave()
	if s.opt.InMemory {
		return false, nil
	}
	err := s.db.RunValueLogGC(reclaimRatio)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, badger.ErrRejected):
		return false, nil
	case !errors.Is(err, badger.ErrNoRewrite):
		return false, fmt.Errorf("reclaim space of store %s/%d: %w", s.id.Store, s.id.Partition, err)
	}
	size, err := valueFileBytes(filepath.Join(s.dir, databaseName))
	if err != nil {
		return false, err
	}
	s.spillFloor = min(s.spillFloor, size)
	if size >= 2*s.spillFloor+spillSlack {
		s.spillFloor = size
		s.spillAsked.Store(true)
	}
	return false, nil
}

// valueFileBytes is the size of all files of large values but the newest, which is written to and mapped larger than it is.
func valueFileBytes(folder string) (sum int64, err error) {
	entries, err := os.ReadDir(folder) // by name, which is by age
	if err != nil {
		return 0, err
	}
	newest := int64(0)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), valueSuffix) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		newest = info.Size()
		sum += newest
	}
	return sum - newest, nil
}

// spill adds filling to a batch while it is asked for, and deletes it in the last round.
func (s *KV) spill(b *batch) error {
	if s.spillAsked.Swap(false) {
		s.w.spilling = spillRounds + 1
	}
	if s.w.spilling == 0 {
		return nil
	}
	size := min(int(s.opt.valueThreshold())/2, maxSpillValue)
	for i := range int(s.opt.MemTableBytes)/size + 1 {
		key := []byte{prefixSpill, byte(i >> 8), byte(i)}
		var err error
		if s.w.spilling == 1 {
			err = b.place(key, nil, true)
		} else {
			err = b.place(key, make([]byte, size), false)
		}
		if err != nil {
			return fmt.Errorf("have the memtable written: %w", err)
		}
	}
	return nil
}
