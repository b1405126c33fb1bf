package mux

import "testing"

// TestLookupAllocs holds what a lookup costs the side that asks, beyond gRPC: a message and its place in the outbox, when it is
// alone, and nothing of its own when it shares one.
func TestLookupAllocs(t *testing.T) {
	s := newSlots("the server", MaxInFlight)
	request, reply := make([]byte, 40), appendReply(nil, 0, make([]byte, 120))
	l, _ := newLookup().(*lookup)
	alone := func(more int) float64 {
		return testing.AllocsPerRun(1000, func() {
			for range 1 + more {
				if err := s.begin(l, 0, request); err != nil {
					t.Fatal(err)
				}
				if err := s.answered(reply); err != nil {
					t.Fatal(err)
				}
				<-l.done
			}
			s.out.take()
		})
	}
	if got := alone(0); got > 2 {
		t.Errorf("%v allocations for a lookup alone, ceiling 2", got)
	}
	if got := alone(9); got > 2 {
		t.Errorf("%v allocations for ten lookups in a message, ceiling 2", got)
	}
}
