// Package storetest has a fake store, with faults on demand, and the suite that each implementation of a store passes
// (Run): what the fake and the one on Badger have in common is what the rest of the system may rely on.
package storetest

import "github.com/iqgate/iqgate/store"

// Store is what *store.KV and *Fake have in common. The documentation of store.KV is its contract.
type Store interface {
	// ID is the store's identity.
	ID() store.ID
	// Position is the next changelog offset to apply, or -1.
	Position() int64
	// Checkpoint is position and input position.
	Checkpoint() store.Checkpoint
	// Apply makes changes and a position visible as one step.
	Apply(changes []store.Change, at store.Checkpoint) error
	// Get returns a value, whether it is there, and at which checkpoint.
	Get(key []byte) (store.Value, bool, store.Checkpoint, error)
	// Snapshot pins the last applied state.
	Snapshot() (*store.Snapshot, error)
	// Reader reads the newest state.
	Reader() store.Reader
	// Close ends all use.
	Close() error
}

var (
	_ Store = (*store.KV)(nil)
	_ Store = (*Fake)(nil)
)
