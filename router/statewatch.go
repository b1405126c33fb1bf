package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// watchPatience is how long a watch that has begun looks for another replica of a partition whose replica it has lost: a
// takeover is over long before. A longer wait of its policy holds instead.
const watchPatience = 10 * time.Second

// Watch streams what a selection holds now, and its changes. See watchSource.
func (s *queryService) Watch(m *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) (err error) {
	defer s.router.begin(tally.Watch)(&err)
	r, ctx := s.router, stream.Context()
	return r.status(ctx, r.watchState(ctx, m, stream.Send))
}

func (r *Router) watchState(ctx context.Context, m *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) error {
	leave, err := r.admit(&r.watches, r.config.MaxWatches)
	if err != nil {
		return err
	}
	defer leave()
	e := r.board.load()
	info, err := selectedStore(e.view, m.GetSelection())
	if err != nil {
		return err
	}
	policy, wait, policyErr := policyFromProto(m.GetPolicy(), r.config.DefaultPolicy)
	q, err := query.ParseWatch(m, info)
	err = errors.Join(err, policyErr, checkApplication("selection.application", m.GetSelection().GetApplication(), e.view.Application()))
	if err != nil {
		return err
	}
	partitions, err := r.selected(e, &q.Selection)
	if err != nil {
		return err
	}
	r.retries.earn()
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	messages, failed := make(chan *iqv1.WatchResponse), make(chan error)
	for _, p := range partitions {
		src := &watchSource{
			failover: failover{router: r, query: r.queryOf(info.Name, p, policy), wait: wait}, request: m,
			policy: policy.ToProto(m.GetPolicy()), partition: p, changesOnly: q.ChangesOnly, messages: messages,
		}
		if position, given := q.From[p]; given {
			src.from = &position
		}
		sources.Go(func() {
			select {
			case failed <- src.run(ctx):
			case <-ctx.Done():
			}
		})
	}
	out := newSender(ctx, r.name(), r.config.ScanIdle, send)
	for {
		select {
		case resp := <-messages:
			if err := out.send(resp); err != nil {
				return err
			}
		case err := <-failed:
			_ = out.finish() // what has come goes out before the end
			return err
		case <-out.ended:
			return out.err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.stopping:
			return &iqerr.ClosingError{Node: r.name()}
		}
	}
}

// watchSource is one partition of a watch.
//
//  1. It opens the watch at the best replica and hands on what comes, one message at a time.
//  2. When that breaks it goes on at another replica from the last position that it has handed on.
//  3. When it breaks before all that was there has come, there is no such position. What is there is then sent again, as
//     another replica has it. After that the changes begin at the position at which the first replica was read, should that
//     be lower: an entry that was sent and has gone in between must be told of.
//
// Positions are handed on only when it is right to go on from them, which it is not before all that was there has come.
type watchSource struct {
	failover  failover
	request   *iqv1.WatchRequest
	policy    *iqv1.ReadPolicy
	partition int32

	changesOnly bool
	from        *int64 // the position to go on from; nil while there is none
	floor       *int64 // where the changes begin after what is there; nil for where that was read
	current     bool   // the caller knows that all that was there was sent
	messages    chan<- *iqv1.WatchResponse
}

// errRewind ends a stream whose changes begin too late.
var errRewind = errors.New("changes begin at a lower position")

func (s *watchSource) run(ctx context.Context) error {
	for {
		var stream *nodeStream[*iqv1.WatchResponse]
		err := s.failover.run(ctx, func(ctx context.Context, t routing.Target, p *peer, left int) (err error) {
			stream, err = openStream[*iqv1.WatchResponse](ctx, s.failover.router, t, p, left, func(ctx context.Context) (iqv1.QueryService_WatchClient, error) {
				return p.query.Watch(ctx, s.ask())
			})
			return err
		})
		if err != nil {
			return err
		}
		s.failover.wait = max(s.failover.wait, watchPatience)
		err = s.drain(ctx, stream)
		stream.end()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errRewind), errors.Is(err, iqerr.ErrSlowReader):
			continue
		}
		if err := s.failover.broke(stream.Target, err, stream.opened); err != nil {
			return err
		}
	}
}

func (s *watchSource) ask() *iqv1.WatchRequest {
	m := &iqv1.WatchRequest{Selection: proto.CloneOf(s.request.GetSelection()), Policy: s.policy, ChangesOnly: s.changesOnly}
	m.Selection.Partitions = []int32{s.partition}
	if s.from != nil {
		m.From = []*iqv1.PartitionPosition{{Partition: s.partition, Position: *s.from}}
	}
	return m
}

// drain hands on what the stream sends, and says how it ended, which is never well.
func (s *watchSource) drain(ctx context.Context, stream *nodeStream[*iqv1.WatchResponse]) error {
	if stream.over {
		return fmt.Errorf("a watch that ends by itself: %w", errBadNode)
	}
	var readAt *int64 // where this stream's replica was read when it began
	for m := stream.first; ; {
		for _, read := range m.GetReads() {
			if readAt == nil && read.GetPartition() == s.partition {
				readAt = new(read.GetServed().GetPosition())
			}
		}
		done, err := s.handOn(ctx, m, readAt)
		if done || err != nil {
			return err
		}
		if m, err = stream.stream.Recv(); err != nil {
			if s.from == nil && readAt != nil && (s.floor == nil || *readAt < *s.floor) {
				s.floor = readAt
			}
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("a watch that ends by itself: %w", errBadNode)
			}
			return stream.failure(err)
		}
	}
}

// handOn gives the caller what concerns it of a message. It says errRewind when the stream has told all that was there and
// its changes begin too late.
func (s *watchSource) handOn(ctx context.Context, m *iqv1.WatchResponse, readAt *int64) (done bool, err error) {
	out := &iqv1.WatchResponse{Events: m.GetEvents(), Reads: m.GetReads()}
	for _, event := range out.GetEvents() {
		if row := event.GetRow(); row != nil {
			row.Cursor, row.Partition = nil, s.partition
		}
	}
	view := s.failover.router.board.view()
	for _, read := range out.GetReads() {
		routing.CompleteStatus(view, read.GetServed())
	}
	if s.changesOnly && s.from == nil {
		s.from = readAt
	}
	all := false
	for _, p := range m.GetCurrent() {
		all = all || p == s.partition
	}
	if all && !s.current {
		s.current = true
		out.Current = []int32{s.partition}
		if s.from == nil {
			s.from = readAt
		}
		if s.floor != nil && (s.from == nil || *s.floor < *s.from) {
			s.from, s.floor = s.floor, nil
			done, err = true, errRewind
		}
	}
	if !done && s.from != nil {
		for _, p := range m.GetPositions() {
			if p.GetPartition() == s.partition {
				s.from = new(p.GetPosition())
				out.Positions = append(out.Positions, p)
			}
		}
	}
	if len(m.GetEvents()) > 0 || all || len(m.GetPositions()) > 0 {
		s.failover.progress()
	}
	if len(out.GetEvents()) == 0 && len(out.GetReads()) == 0 && len(out.GetPositions()) == 0 && len(out.GetCurrent()) == 0 {
		return done, err
	}
	select {
	case s.messages <- out:
		return done, err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}
