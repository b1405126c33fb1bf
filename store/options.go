package store

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	defaultMemTableBytes = 8 << 20
	minMemTableBytes     = 128 << 10 // the longest plain key and a value below the threshold must fit one Badger transaction
	maxMemTableBytes     = 256 << 20
	defaultMinFreeBytes  = 64 << 20
	defaultDrainTimeout  = 5 * time.Second

	valueLogFileBytes = 64 << 20 // also the largest value; the default of 1 GiB maps 2 GiB of address space a database
	maxValueThreshold = 1 << 20  // Badger's own limit
	keyReserveBytes   = 16 << 10 // room that the value threshold leaves for a key, the witness and the position
)

// Options configure a KV. The zero value means the defaults.
type Options struct {
	// InMemory keeps everything in memory; the directory is not used and entries are limited to 1 MiB
	// (less with small memtables).
	InMemory bool

	// SyncWrites syncs every Badger transaction to disk. Without it (the default) a store survives the death of its
	// process, but one that was not closed before the machine went down is refused as corrupt and has to be rebuilt.
	SyncWrites bool

	// MemTableBytes is the size of a memtable; up to three exist at once. Default 8 MiB; from 128 KiB to 256 MiB.
	MemTableBytes int64

	// MinFreeBytes is the free disk space below which Apply refuses to write. Badger writes through memory maps, so a
	// disk that is full to the last block kills the process (SIGBUS). Default 64 MiB; negative turns the check off.
	MinFreeBytes int64

	// FreeBytes says how much space is free for the directory, instead of the file system; tests fill a disk with it.
	FreeBytes func(dir string) (int64, error)

	// DrainTimeout is how long Close waits for running reads. Default 5s; at most 1m.
	DrainTimeout time.Duration

	// Logger takes the database's warnings and, at debug level, its messages. Default: slog.Default().
	Logger *slog.Logger

	hooks hooks
}

// hooks let the package's tests stand in the middle of an Apply or a Get.
type hooks struct {
	beforeCommit func(n int) error               // before the n-th Badger transaction of an Apply is sent, from 1
	acknowledged func(n int, err error) error    // with what Badger says of the n-th; what it returns stands
	freeBytes    func(dir string) (int64, error) // instead of asking the file system
	bootID       func() string                   // instead of asking the kernel
	found        func()                          // when an entry was found and its value is not read yet; may be nil
}

// Validate reports every bad field.
func (o Options) Validate() error {
	var errs []error
	if o.MemTableBytes != 0 && (o.MemTableBytes < minMemTableBytes || o.MemTableBytes > maxMemTableBytes) {
		errs = append(errs, fmt.Errorf("Options.MemTableBytes is %d, want %d to %d", o.MemTableBytes, minMemTableBytes, maxMemTableBytes))
	}
	if o.DrainTimeout < 0 || o.DrainTimeout > time.Minute {
		errs = append(errs, fmt.Errorf("Options.DrainTimeout is %s, want 0s to 1m", o.DrainTimeout))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = defaultMinFreeBytes
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = defaultDrainTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.hooks.beforeCommit == nil {
		o.hooks.beforeCommit = func(int) error { return nil }
	}
	if o.hooks.acknowledged == nil {
		o.hooks.acknowledged = func(_ int, err error) error { return err }
	}
	if o.FreeBytes == nil {
		o.FreeBytes = freeBytes
	}
	if o.hooks.freeBytes == nil {
		o.hooks.freeBytes = o.FreeBytes
	}
	if o.hooks.bootID == nil {
		o.hooks.bootID = bootID
	}
	return o
}

// valueThreshold is the size above which a value goes to the value log. Badger refuses more than 15% of the
// memtable, its largest transaction.
func (o Options) valueThreshold() int64 {
	return min(maxValueThreshold, o.MemTableBytes*15/100-keyReserveBytes)
}

// maxEntryBytes is the largest stored value. In memory Badger takes none above the threshold.
func (o Options) maxEntryBytes() int {
	if o.InMemory {
		return int(o.valueThreshold())
	}
	return valueLogFileBytes
}

// badger returns the database's options: small memtables, and everything off that costs memory and is not used.
func (o Options) badger(dir string) badger.Options {
	if o.InMemory {
		dir = ""
	}
	return badger.DefaultOptions(dir).
		WithInMemory(o.InMemory).
		WithBypassLockGuard(dirsAreLocked).
		WithSyncWrites(o.SyncWrites).
		WithMemTableSize(o.MemTableBytes).
		WithNumMemtables(2).
		WithNumCompactors(2). // 1 is refused
		WithValueLogFileSize(valueLogFileBytes).
		WithValueThreshold(o.valueThreshold()).
		WithCompression(options.None). // with compression and no block cache Badger panics
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithDetectConflicts(false).
		WithVerifyValueChecksum(true). // a value that fails is found to be missing (errShortValue); off, it would be served
		WithMetricsEnabled(false).
		WithNumVersionsToKeep(1).
		WithLogger(badgerLog{o.Logger})
}
