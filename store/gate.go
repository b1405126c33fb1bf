package store

import (
	"sync/atomic"
	"time"
)

// gate counts the calls inside a store, so that Close can wait for them: a read on a closed Badger database is a
// SIGSEGV. A refused call touches the count and nothing else.
type gate struct {
	inside    atomic.Int64
	closing   atomic.Bool
	abandoned atomic.Bool   // Close gave up waiting; the last call out closes the database
	drained   chan struct{} // of size 1: the count reached zero after closing
}

// enter counts a call and reports whether it may go on; it has to leave in either case.
func (g *gate) enter() bool {
	g.inside.Add(1)
	return !g.closing.Load()
}

// leave reports whether the caller must close the database.
func (g *gate) leave() bool {
	if g.inside.Add(-1) != 0 || !g.closing.Load() {
		return false
	}
	select {
	case g.drained <- struct{}{}:
	default:
	}
	return g.abandoned.Load()
}

func (g *gate) close() bool {
	return g.closing.CompareAndSwap(false, true)
}

// drain waits until no call is inside, up to a bound.
func (g *gate) drain(bound time.Duration) bool {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for g.inside.Load() != 0 {
		select {
		case <-g.drained:
		case <-timer.C:
			return g.inside.Load() == 0
		}
	}
	return true
}

// abandon leaves the closing to the last call; it reports whether that has already gone.
func (g *gate) abandon() bool {
	g.abandoned.Store(true)
	return g.inside.Load() == 0
}
