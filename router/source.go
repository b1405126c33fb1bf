package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
)

// nodeStream is what one node sends of one partition. Its messages are Scan's or Watch's.
type nodeStream[M any] struct {
	routing.Target
	stream interface{ Recv() (M, error) }
	ctx    context.Context // the stream's, whose cause says why it ended
	end    func()
	first  M
	over   bool // it ended well without any message: nothing is there
	opened time.Time
}

// errHung is why a try was given up: its node did not begin to answer while others were left to ask.
var errHung = errors.New("its node did not begin to answer in time")

// openStream asks one replica for a stream and waits for its first message, which comes at once. While others are left
// it has a share of the time for that, at most TryTimeout, and the stream ends when its node becomes suspect.
func openStream[M any, S interface{ Recv() (M, error) }](ctx context.Context, r *Router, t routing.Target, p *peer, left int, call func(ctx context.Context) (S, error)) (*nodeStream[M], error) {
	ctx, endTry := p.begin(ctx, left > 0)
	ctx, cancel := context.WithCancelCause(ctx)
	n := &nodeStream[M]{Target: t, ctx: ctx, opened: time.Now(), end: func() { cancel(nil); endTry() }}
	if left > 0 {
		hung := time.AfterFunc(share(ctx, left+1, r.config.TryTimeout), func() { cancel(errHung) })
		defer hung.Stop()
	}
	stream, err := call(ctx)
	if err == nil {
		n.stream = stream
		n.first, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		n.over, err = true, nil
	}
	if err == nil && ctx.Err() != nil { // too late: the stream is cancelled already
		err = ctx.Err()
	}
	if err == nil {
		return n, nil
	}
	err = n.failure(err)
	n.end()
	return nil, err
}

// failure says why the stream ended.
func (n *nodeStream[M]) failure(err error) error {
	switch cause := context.Cause(n.ctx); {
	case nodeLost(n.ctx, err):
		return lostAt(n.Target)
	case errors.Is(cause, errHung):
		return fmt.Errorf("node %s: %w: %w", n.Node.ID, errHung, context.DeadlineExceeded)
	case errors.Is(err, io.EOF):
		return err
	}
	return iqerr.FromStatus(err)
}

// batch is what a source has received, in order.
type batch struct {
	rows []*iqv1.Row
	read *iqv1.PartitionRead // when the rows come from a replica that has not been told of
	err  error               // why nothing follows; io.EOF when all has come
	used chan struct{}       // closed when the rows are no longer held, if the source waits for that
}

// source is one partition of a scan.
//
//  1. It opens the scan at the best replica, behind the last row that it has received.
//  2. It hands on what comes, and holds at most one message more than its consumer; while the consumer holds one that is
//     larger than a message should be, because of one large row, it holds none.
//  3. When the stream breaks it goes on at another replica, by failover, from that row. A node that ends the stream because
//     this reader was slow, as one is whose partition comes late in the order of keys, is asked again.
//
// So each row is handed on once, in order, or the source ends with an error that names the partition.
type source struct {
	failover failover
	scan     *query.Scan
	request  *iqv1.ScanRequest
	policy   *iqv1.ReadPolicy
	place    query.Place
	left     int64 // rows still wanted; 0 for all
	batches  chan batch
}

// run receives until all has come, ctx ends or no replica is left.
func (s *source) run(ctx context.Context) {
	err := s.receive(ctx)
	select {
	case s.batches <- batch{err: err}:
	case <-ctx.Done():
	}
}

// receive returns io.EOF when all has come.
func (s *source) receive(ctx context.Context) error {
	if s.place.State == query.PlaceDone {
		return io.EOF
	}
	for {
		var stream *nodeStream[*iqv1.ScanResponse]
		err := s.failover.run(ctx, func(ctx context.Context, t routing.Target, p *peer, left int) (err error) {
			stream, err = openStream[*iqv1.ScanResponse](ctx, s.failover.router, t, p, left, func(ctx context.Context) (iqv1.QueryService_ScanClient, error) {
				return p.query.Scan(ctx, s.scan.ForPartition(s.request, s.policy, s.place, s.left))
			})
			return err
		})
		if err != nil {
			return err
		}
		err = s.drain(ctx, stream)
		stream.end()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, iqerr.ErrSlowReader) {
			continue
		}
		if err := s.failover.broke(stream.Target, err, stream.opened); err != nil {
			return err
		}
	}
}

// drain hands on what the stream sends until it ends, and says how: io.EOF is well.
func (s *source) drain(ctx context.Context, stream *nodeStream[*iqv1.ScanResponse]) error {
	if stream.over {
		return io.EOF
	}
	m := stream.first
	for {
		if err := s.handOn(ctx, m); err != nil {
			return err
		}
		if s.left < 0 { // a limit, and it is reached
			return io.EOF
		}
		var err error
		if m, err = stream.stream.Recv(); err != nil {
			return stream.failure(err)
		}
	}
}

func (s *source) handOn(ctx context.Context, m *iqv1.ScanResponse) error {
	b := batch{rows: m.GetRows()}
	for _, read := range m.GetReads() {
		if read.GetPartition() == s.place.Partition {
			b.read = read
			routing.CompleteStatus(s.failover.router.board.view(), read.GetServed())
		}
	}
	if len(b.rows) > 0 {
		s.failover.progress()
		last := b.rows[len(b.rows)-1]
		if len(last.GetCursor()) == 0 {
			return naming(fmt.Errorf("a row without a cursor: %w", errBadNode), s.failover.query.String())
		}
		s.place.State, s.place.After = query.PlaceAfter, last.GetCursor()
		if s.left > 0 {
			if s.left -= int64(len(b.rows)); s.left <= 0 {
				s.left = -1
			}
		}
	}
	if len(b.rows) == 0 && b.read == nil {
		return nil
	}
	large := 0
	for _, row := range b.rows {
		large += query.RowBytes(row)
	}
	if large > query.MaxBatchBytes {
		b.used = make(chan struct{})
	}
	select {
	case s.batches <- b:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if b.used != nil {
		select {
		case <-b.used:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// errBadNode is a node that does not keep to what package query says of its streams.
var errBadNode = errors.New("the node broke the protocol")
