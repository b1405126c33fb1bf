package node

import (
	"sync/atomic"
)

// news wakes everybody who waits for some change: a position, a role. A waiter takes the channel, looks, and waits for it
// to be closed.
type news struct {
	ch      atomic.Pointer[chan struct{}]
	waiting atomic.Bool // somebody took the channel since the last announcement
}

func newNews() *news {
	n := &news{}
	ch := make(chan struct{})
	n.ch.Store(&ch)
	return n
}

// wait returns a channel that is closed by the next announce, or was by one that the caller's look at the state sees.
func (n *news) wait() <-chan struct{} {
	// The channel is taken before waiting is set: the announce that sees waiting closes this channel or a later one has
	// closed it already. The other way round it could be a newer channel that no announce knows anybody waits for.
	ch := *n.ch.Load()
	n.waiting.Store(true)
	return ch
}

// announce wakes everybody who waits.
func (n *news) announce() {
	if !n.waiting.Swap(false) {
		return
	}
	next := make(chan struct{})
	close(*n.ch.Swap(&next))
}
