package serve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/tally"
)

// overloadedRetry is when a caller that was refused for others' sake may try again.
const overloadedRetry = 50 * time.Millisecond

// enter admits a read, which then calls exit. A read that is refused has cost next to nothing, and its caller asks another
// replica, while one that is begun where too many are would be late for its caller and make the others late.
func (s *Server) enter() error {
	return s.within(&s.inFlight, s.cfg.MaxInFlight)
}

func (s *Server) exit() { s.inFlight.Add(-1) }

// begin notes when a request began. The function returned counts it, with how it ended.
func (s *Server) begin(call tally.Call) func(err *error) {
	began := time.Now()
	return func(err *error) { s.cfg.Requests.End(call, time.Since(began), *err) }
}

// within counts one more, and refuses it past a limit.
func (s *Server) within(count *atomic.Int32, limit int) error {
	if n := count.Add(1); int(n) > limit {
		count.Add(-1)
		return &iqerr.OverloadedError{Node: s.cfg.NodeID, InFlight: int64(n) - 1, Limit: int64(limit), RetryAfter: overloadedRetry}
	}
	return nil
}

// settle waits until the commit that is in flight is there to be read. Of the reads that may be under way only half may do so,
// for a commit can take as long as Kafka does not answer, and reads that need no commit go on then.
func (s *Server) settle(ctx context.Context, r Replica) error {
	if err := s.within(&s.settling, max(1, s.cfg.MaxInFlight/2)); err != nil {
		return err
	}
	defer s.settling.Add(-1)
	return r.Settle(ctx)
}
