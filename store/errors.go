package store

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call on a store after Close has begun, and by a scan that Close cut short.
	ErrClosed = errors.New("store is closed")

	// ErrCorrupt says that a directory does not hold what it must: its store has to be dropped (Remove) and
	// rebuilt from its changelog. It is always wrapped with what was found.
	ErrCorrupt = errors.New("store is corrupt")

	// ErrLocked says that another KV, of this process or another, has the directory open.
	ErrLocked = errors.New("store directory is in use")

	// ErrReleased is returned by a read on a snapshot after Release.
	ErrReleased = errors.New("snapshot is released")

	// ErrTwoWriters says that Apply was called while another Apply ran. A store has one writer at a time (I3).
	ErrTwoWriters = errors.New("store has another writer")

	// ErrDrain says that reads were still running when Close's bound passed. The store takes no new calls and
	// closes its database when the last of them ends.
	ErrDrain = errors.New("reads still running after the drain timeout")

	// ErrNoSpace says that the disk has less free space than Options.MinFreeBytes. Nothing was written.
	ErrNoSpace = errors.New("too little free disk space")
)

// IdentityError says that a directory holds another store, partition or changelog than the one asked for.
type IdentityError struct {
	Want ID // asked for
	Have ID // found in the database
}

// Error names the first field that differs.
func (e *IdentityError) Error() string {
	field, want, have := e.Want.difference(e.Have)
	return fmt.Sprintf("store directory belongs to another store: %s is %s, want %s", field, have, want)
}

// OnlyTopicID says that the directory is of the right store, of an earlier changelog topic of the same name.
func (e *IdentityError) OnlyTopicID() bool {
	have := e.Have
	have.TopicID = e.Want.TopicID
	field, _, _ := e.Want.difference(have)
	return field == ""
}

// PositionError says that Apply was asked to move a store backwards.
type PositionError struct {
	Have int64 // position of the store
	Want int64 // position that Apply was given
}

// Error gives both positions.
func (e *PositionError) Error() string {
	return fmt.Sprintf("apply at position %d: the store is already at %d", e.Want, e.Have)
}

// SizeError says that a change is too large to be kept. Nothing of its Apply was written.
type SizeError struct {
	Index int // of the change in its Apply
	Bytes int // of the stored value, and of the key when that is stored beside it
	Max   int
}

// Error names the change and the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("change %d: entry of %d bytes is over the limit of %d", e.Index, e.Bytes, e.Max)
}

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}
