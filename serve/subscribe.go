package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// Bounds of watches.
const (
	// maxCatchUps is how many of them may hold a batch of a changelog at a time; others wait for their turn.
	maxCatchUps = 8
	// watchCheck is the time between two looks at whether a watch may go on, beside those that news cause.
	watchCheck = 250 * time.Millisecond
	// positionEvery is the time between two positions that come without a change.
	positionEvery = time.Second
)

// watches counts a node's open watches and those that read changelogs. The zero value is ready.
type watches struct {
	open  atomic.Int64
	once  sync.Once
	slots chan struct{} // one for each that may hold a batch
}

// catchUp waits for leave to read a batch of a changelog, which is given back by calling done.
func (w *watches) catchUp(ctx context.Context) (done func(), err error) {
	w.once.Do(func() { w.slots = make(chan struct{}, maxCatchUps) })
	select {
	case w.slots <- struct{}{}:
		return func() { <-w.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A watch is one stream of Watch. Its goroutines:
//
//  1. One follows each partition (subscribe_partition.go) and makes messages.
//  2. One sends them, so that a send that blocks holds up nobody but who has a message too.
//  3. The call's own looks, at each change of a role and each watchCheck, whether the watch may go on: whether
//     the stores are still those that it began with, the policy holds, and the reader reads.
//
// The policy is judged when a partition begins, with the position that it begins at, and again at each look; a bound that is
// passed ends the watch without further grace, since its caller can go on from its position elsewhere at once. at_least
// is judged at the beginning only: positions do not go back.
//
// What a watch tells of a partition is the committed records of its changelog from some position on, each once, in order:
// whatever replica it is asked of, and whatever becomes of the replica's role. So it does not know of entries that expire
// by retention, which no record tells; and where compaction has removed records between the position and now, the values
// in between are not told, only the last.
type watch struct {
	srv     *Server
	query   query.Watch
	policy  policy
	ongoing policy // what must hold later on
	send    func(*iqv1.WatchResponse) error
	parts   []*watchedPart

	out     chan *iqv1.WatchResponse
	base    time.Time
	sending atomic.Int64 // since when a send runs, in nanoseconds of base; 0 while none does
}

// Watch implements QueryService. The stream ends with the caller, or with what keeps it from going on: CLOSING, CORRUPT,
// NO_ACTIVE, STALE and SLOW_READER end a watch that can go on from its positions, here or elsewhere; PAGE_LOST one that
// cannot.
func (s *queryServer) Watch(req *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) (err error) {
	defer s.begin(tally.Watch)(&err)
	ctx := stream.Context()
	err = s.watch(ctx, req, stream.Send)
	s.logFailure(ctx, "a watch failed", req.GetSelection().GetStore(), err)
	return iqerr.Status(err)
}

func (s *Server) watch(ctx context.Context, req *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) error {
	defer s.watches.open.Add(-1)
	if open, limit := s.watches.open.Add(1), int64(s.cfg.MaxWatches); open > limit {
		return &iqerr.OverloadedError{Node: s.cfg.NodeID, InFlight: open - 1, Limit: limit, RetryAfter: noActiveRetry}
	}
	w, err := s.newWatch(req, send)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// run works until ctx ends or the watch cannot go on.
func (w *watch) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var parts sync.WaitGroup
	for _, p := range w.parts {
		parts.Go(func() {
			if err := p.follow(ctx); err != nil {
				end(err)
			}
		})
	}
	// It is not waited for: a send that blocks ends when the call has returned.
	go w.deliver(ctx, end)
	w.supervise(ctx, end)
	parts.Wait()
	return context.Cause(ctx)
}

// supervise looks after the watch until ctx ends.
func (w *watch) supervise(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(watchCheck)
	defer tick.Stop()
	for {
		changed := w.srv.cfg.Roles()
		if err := w.check(ctx); err != nil {
			end(err)
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check says why the watch cannot go on, if so.
func (w *watch) check(ctx context.Context) error {
	if w.srv.closing.Load() {
		return &iqerr.ClosingError{Node: w.srv.cfg.NodeID}
	}
	if since := w.sending.Load(); since != 0 && time.Since(w.base)-time.Duration(since) > w.srv.cfg.ScanIdle {
		return w.slow()
	}
	for _, p := range w.parts {
		if err := p.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// slow ends a watch whose caller does not keep up: it took nothing, or a part of the changelog not whole, for ScanIdle, or
// let a queue run full.
func (w *watch) slow() error {
	e := &iqerr.SlowReaderError{Node: w.srv.cfg.NodeID}
	if since := w.sending.Load(); since != 0 {
		e.Waited = time.Since(w.base) - time.Duration(since)
	}
	return e
}

// deliver sends the messages of all partitions.
func (w *watch) deliver(ctx context.Context, end context.CancelCauseFunc) {
	for {
		select {
		case m := <-w.out:
			w.sending.Store(max(1, int64(time.Since(w.base))))
			err := w.send(m)
			w.sending.Store(0)
			if err != nil {
				end(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// check says why the partition cannot go on, if so.
func (p *watchedPart) check(ctx context.Context) error {
	h := p.held.Load()
	if h == nil {
		return nil // it has not begun
	}
	if err := p.gone(h); err != nil {
		return err
	}
	if o := &p.w.ongoing; o.mode == iqv1.ReadPolicy_MODE_ANY && o.staleness == nil && o.offsets == nil {
		return nil
	}
	_, err := p.w.srv.read(ctx, p.w.ongoing, p.id, func(kv *store.KV) (store.Checkpoint, error) { return kv.Checkpoint(), nil })
	if gone := p.gone(h); gone != nil {
		return gone
	}
	return err
}

// gone says what became of the store that the watch began with, if it is not there any more.
func (p *watchedPart) gone(h *held) error {
	s := p.w.srv
	node := s.node()
	if node.Replica(p.id) != h.r || h.r.State() == metadata.StateClosed {
		return &iqerr.ClosingError{Node: s.cfg.NodeID, Store: p.id.String()}
	}
	if err := node.Usable(p.id.Store); err != nil {
		return err
	}
	was := h.kv.ID()
	_, catalog := node.Kafka()
	if topic, ok := catalog.Topic(was.Changelog); ok && topic.ID != was.TopicID && was.TopicID != [16]byte{} {
		return p.lost("the changelog was made anew")
	}
	if h.r.Broken() || h.r.KV() != h.kv {
		return &iqerr.CorruptError{Node: s.cfg.NodeID, Store: p.id.Store, Partition: p.id.Partition, Problem: "it is rebuilt from the changelog"}
	}
	return nil
}

// lost ends a watch that no replica can go on with.
func (p *watchedPart) lost(problem string) error {
	return &iqerr.PageLostError{Store: p.id.Store, Partition: p.id.Partition, Problem: problem}
}
