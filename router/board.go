package router

import (
	"sync"
	"sync/atomic"

	"github.com/iqgate/iqgate/metadata"
)

// board shows the newest view. Readers load it without a lock; writers take turns; who waits for a change waits on the
// edition that it has read.
type board struct {
	current atomic.Pointer[edition]
	writers sync.Mutex // held while the next view is computed, which does no I/O
}

// edition is one published view.
type edition struct {
	view       *metadata.View
	before     *metadata.View // that of the edition before it
	superseded chan struct{}  // closed when the next one is out
	// urgent says whether it tells more than figures otherwise than the one before. It is computed once, for whoever asks
	// first.
	urgent func() bool
}

func newEdition(before, v *metadata.View) *edition {
	e := &edition{view: v, before: before, superseded: make(chan struct{})}
	e.urgent = sync.OnceValue(func() bool {
		c := metadata.Diff(before, v, "")
		return c.Urgent()
	})
	return e
}

func newBoard(v *metadata.View) *board {
	b := &board{}
	b.current.Store(newEdition(v, v))
	return b
}

func (b *board) load() *edition { return b.current.Load() }

func (b *board) view() *metadata.View { return b.current.Load().view }

// update publishes what next makes of the newest view and returns both. Nobody is woken when next returns its argument.
func (b *board) update(next func(*metadata.View) *metadata.View) (before, after *metadata.View) {
	b.writers.Lock()
	defer b.writers.Unlock()
	old := b.current.Load()
	v := next(old.view)
	if v != old.view {
		b.current.Store(newEdition(old.view, v))
		close(old.superseded)
	}
	return old.view, v
}

// renew publishes the newest view once more, so that whoever waits looks again at what is not part of it.
func (b *board) renew() {
	b.writers.Lock()
	defer b.writers.Unlock()
	old := b.current.Load()
	b.current.Store(newEdition(old.view, old.view))
	close(old.superseded)
}
