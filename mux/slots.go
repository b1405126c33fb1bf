package mux

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
)

// MaxInFlight is how many lookups one stream carries at a time, on either side.
const MaxInFlight = 8192

// overloadedRetry is when a lookup that found no free slot may be tried again: a server that answers at all has answered some
// by then.
const overloadedRetry = 50 * time.Millisecond

// lookup is one lookup from the side that asks.
type lookup struct {
	slot   uint32
	yields bool          // GiveUp may end it
	done   chan struct{} // gets a token when reply and err are there
	reply  []byte
	err    error
}

func newLookup() any { return &lookup{done: make(chan struct{}, 1)} }

// gone stands in a slot for a lookup whose caller does not wait any more. The slot is free when its answer has come.
var gone = &lookup{}

// slots are the lookups in flight on one stream, from the side that asks, with what is still to be sent of them. The number of
// a slot is the lookup's id.
type slots struct {
	server string
	limit  int

	mu     sync.Mutex
	table  []*lookup // nil where free
	free   []uint32
	out    outbox
	broken error // of a stream that has ended: no lookup begins
}

func newSlots(server string, limit int) *slots {
	return &slots{server: server, limit: limit, out: newOutbox()}
}

// begin takes a slot and sends the lookup.
func (s *slots) begin(l *lookup, timeout time.Duration, request []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := len(s.free); {
	case s.broken != nil:
		return ErrByCall
	case n > 0:
		l.slot, s.free = s.free[n-1], s.free[:n-1]
	case len(s.table) < s.limit:
		l.slot = uint32(len(s.table))
		s.table = append(s.table, nil)
	default:
		return iqerr.Status(&iqerr.OverloadedError{Node: s.server, InFlight: int64(s.limit), Limit: int64(s.limit), RetryAfter: overloadedRetry})
	}
	s.table[l.slot] = l
	s.out.close(appendAsking(s.out.open(), l.slot, timeout, request))
	return nil
}

// leave gives a lookup up for its caller and says whether it was still without an answer; with tell the server hears of it.
// The slot stays taken.
func (s *slots) leave(l *lookup, tell bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(l.slot) >= len(s.table) || s.table[l.slot] != l {
		return false
	}
	s.abandon(l.slot, tell)
	return true
}

// abandon leaves a slot to its late answer. The caller holds the lock.
func (s *slots) abandon(slot uint32, tell bool) {
	s.table[slot] = gone
	if tell && s.broken == nil {
		s.out.close(appendCancel(s.out.open(), slot))
	}
}

// giveUp ends every lookup that yields with an error.
func (s *slots) giveUp(err error) {
	var ended []*lookup
	s.mu.Lock()
	for i, l := range s.table {
		if l != nil && l.yields {
			s.abandon(uint32(i), true)
			ended = append(ended, l)
		}
	}
	s.mu.Unlock()
	for _, l := range ended {
		l.end(nil, err)
	}
}

// end tells whoever waits. Only who has taken the lookup out of its slot may call it.
func (l *lookup) end(reply []byte, err error) {
	l.reply, l.err = reply, err
	l.done <- struct{}{}
}

// answered ends the lookups that a message of the server has the answers to. The error says what is wrong with the message.
func (s *slots) answered(message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return walk(message, func(item []byte) error {
		a, err := parseAnswer(item)
		if err != nil {
			return err
		}
		if int64(a.id) >= int64(len(s.table)) || s.table[a.id] == nil {
			return status.Errorf(codes.Internal, "an answer to lookup %d, which was not asked", a.id)
		}
		l := s.table[a.id]
		s.table[a.id] = nil
		s.free = append(s.free, a.id)
		switch {
		case l == gone:
		case a.status.GetCode() != int32(codes.OK):
			l.end(nil, status.FromProto(a.status).Err())
		case a.reply != nil && !a.tooLarge:
			l.end(a.reply, nil)
		default: // too large, or nothing that this version knows: no reply is not an empty one, which says that there is no value
			l.end(nil, ErrByCall)
		}
		return nil
	})
}

// breakOff ends every lookup with an error, and refuses new ones.
func (s *slots) breakOff(err error) {
	s.mu.Lock()
	all := s.table
	s.table, s.free, s.broken = nil, nil, err
	s.mu.Unlock()
	for _, l := range all {
		if l != nil && l != gone {
			l.end(nil, err)
		}
	}
}
