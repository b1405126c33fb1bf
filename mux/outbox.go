package mux

import (
	"context"
	"runtime"
	"sync"
)

const (
	// MaxItemBytes is the largest request, and the largest reply, that goes over a stream. What is larger goes by a call.
	MaxItemBytes = 64 << 10
	// maxMessageBytes is where a message is full. It may be longer by one item.
	maxMessageBytes = 64 << 10
	// MinMessageBytes is the least bound of a gRPC message with which a stream works: a message that is nearly full and one item more,
	// or an answer with an error and its details.
	MinMessageBytes = 256 << 10
	// firstMessageBytes is the room that the first message of a stream begins with; later ones begin with that of the last.
	firstMessageBytes = 1 << 10
)

// message is one message being filled.
type message struct {
	bytes []byte
	items int
}

// outbox gathers items into messages. Whoever adds one holds the lock of the outbox's owner; one goroutine sends.
//
//  1. An item is appended to the newest message by open and close, under the owner's lock. A message that is full is followed by
//     another.
//  2. The sender is woken, yields once, and takes the oldest message.
//  3. Nobody writes to a message that was taken, since gRPC keeps it.
//
// It holds no more than the owner's lookups in flight: the owner bounds them.
type outbox struct {
	messages []message
	room     int           // that a new message begins with
	wake     chan struct{} // holds one token when there is something to send
}

func newOutbox() outbox {
	return outbox{room: firstMessageBytes, wake: make(chan struct{}, 1)}
}

// open gives the message to append an item to. The caller passes what it has become to close.
func (o *outbox) open() []byte {
	if n := len(o.messages); n > 0 && len(o.messages[n-1].bytes) < maxMessageBytes {
		return o.messages[n-1].bytes
	}
	o.messages = append(o.messages, message{bytes: make([]byte, 0, o.room)})
	return o.messages[len(o.messages)-1].bytes
}

// close takes the message back with an item more, and wakes the sender.
func (o *outbox) close(b []byte) {
	m := &o.messages[len(o.messages)-1]
	m.bytes = b
	m.items++
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take gives the oldest message; one without items when there is none.
func (o *outbox) take() message {
	if len(o.messages) == 0 {
		return message{}
	}
	m := o.messages[0]
	o.messages[0] = message{} // gRPC has the bytes from now on
	if o.messages = o.messages[1:]; len(o.messages) == 0 {
		o.messages = nil
	}
	o.room = min(max(firstMessageBytes, len(m.bytes)+len(m.bytes)/4), maxMessageBytes+MaxItemBytes)
	return m
}

// run sends until ctx ends or sending fails. sent is told how many items were in each message that was sent.
func (o *outbox) run(ctx context.Context, lock sync.Locker, send func(any) error, sent func(items int)) error {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for {
			runtime.Gosched() // whoever is about to add something does so now: a message with ten items costs hardly more than one
			lock.Lock()
			m := o.take()
			lock.Unlock()
			if m.items == 0 {
				break
			}
			if err := send(&Frame{Bytes: m.bytes}); err != nil {
				return err
			}
			sent(m.items)
		}
	}
}
