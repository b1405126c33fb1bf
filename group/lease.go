package group

import (
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/fault"
)

// A Lease says until when this node may answer as the active of what it owns. It counts from the SENDING of a group
// heartbeat that came back without any error, so that it ends before the group can have given the node's tasks away:
// the group waits at least a session timeout since then, which is well above the lease.
type Lease struct {
	length time.Duration
	base   time.Time // the origin that until is counted from; carries the monotonic clock
	until  atomic.Int64
	lastOK atomic.Int64 // when the last heartbeat without error was sent, from base
}

// NewLease makes a lease of a length, which holds from the first Renew on. Moments are counted from base, which must carry
// the monotonic clock.
func NewLease(length time.Duration, base time.Time) *Lease {
	l := &Lease{length: length, base: base}
	l.until.Store(-1)
	return l
}

// Renew extends the lease after a heartbeat sent at sent came back without error.
func (l *Lease) Renew(sent time.Time) {
	at := int64(sent.Sub(l.base))
	l.lastOK.Store(at)
	l.extend(at + int64(l.length))
}

// renewDuring extends the lease after a heartbeat sent at sent was answered with REBALANCE_IN_PROGRESS: the node is
// still a member and the next generation is not formed. It may be formed without this node once the rebalance
// timeout has passed, counted from the last heartbeat that knew of no rebalance, so the lease never goes past that.
func (l *Lease) renewDuring(sent time.Time, rebalanceTimeout time.Duration) {
	if l.until.Load() < 0 {
		return
	}
	l.extend(min(int64(sent.Sub(l.base))+int64(l.length), l.lastOK.Load()+int64(rebalanceTimeout)))
}

func (l *Lease) extend(until int64) {
	for {
		old := l.until.Load()
		if until <= old || l.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// revoke ends the lease at once: the group said that the node is no member any more.
func (l *Lease) revoke() { l.until.Store(-1) }

// Valid says whether the lease holds at now.
func (l *Lease) Valid(now time.Time) bool {
	until := l.until.Load()
	if fault.LeaseIgnored {
		return l.lastOK.Load() > 0
	}
	return until >= 0 && int64(now.Sub(l.base)) < until
}

// End is when the lease ends or ended; the zero time when there is none.
func (l *Lease) End() time.Time {
	until := l.until.Load()
	if until < 0 {
		return time.Time{}
	}
	return l.base.Add(time.Duration(until))
}
