package group

import (
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func TestLeaseCountsFromTheSending(t *testing.T) {
	l := NewLease(2*time.Second, t0)
	if l.Valid(at(0)) {
		t.Error("a lease without a heartbeat is valid")
	}
	l.Renew(at(100)) // whenever the answer came
	for ms, want := range map[int]bool{100: true, 2099: true, 2100: false, 5000: false} {
		if got := l.Valid(at(ms)); got != want {
			t.Errorf("valid at %dms: %v", ms, got)
		}
	}
	if got := l.End(); !got.Equal(at(2100)) {
		t.Errorf("it ends at %s", got)
	}
}

func TestLeaseIsNotShortenedByAnOlderAnswer(t *testing.T) {
	l := NewLease(2*time.Second, t0)
	l.Renew(at(1000))
	l.Renew(at(500))
	if !l.Valid(at(2900)) {
		t.Error("an answer that came late shortened the lease")
	}
}

// While a rebalance goes on the member is known, but the next generation may be formed without it once the rebalance
// timeout has passed since the last heartbeat that knew of no rebalance.
func TestLeaseInARebalanceEndsBeforeTheRebalanceCan(t *testing.T) {
	l := NewLease(2*time.Second, t0)
	l.Renew(at(1000))
	for ms := 1250; ms <= 6000; ms += 250 {
		l.renewDuring(at(ms), 6*time.Second)
	}
	if !l.Valid(at(6900)) || l.Valid(at(7000)) {
		t.Errorf("the lease ends at %s after the start, want 7s", l.End().Sub(t0))
	}
}

func TestRevokedLeaseStaysRevoked(t *testing.T) {
	l := NewLease(2*time.Second, t0)
	l.Renew(at(1000))
	l.revoke()
	l.renewDuring(at(1100), 6*time.Second)
	if l.Valid(at(1200)) {
		t.Error("a heartbeat in a rebalance gave a lease back")
	}
}
