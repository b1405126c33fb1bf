package router

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// queryService answers reads. Get is not among its methods: mux has it answered by lookup, from bytes to bytes, as it has each
// lookup of a Lookups stream.
type queryService struct {
	iqv1.UnimplementedQueryServiceServer
	router *Router
	stream mux.Server
}

func newQueryService(r *Router) *queryService {
	return &queryService{router: r, stream: mux.Server{Handler: r.lookup, Stopping: r.stopping, Readers: &r.streams.open}}
}

// Lookups answers a stream of lookups, each as Get is answered.
func (s *queryService) Lookups(stream iqv1.QueryService_LookupsServer) error {
	return s.stream.Serve(stream)
}

// lookup looks one key up: a GetRequest is answered by a GetResponse, both as they are on the wire.
func (r *Router) lookup(ctx context.Context, request []byte) ([]byte, error) {
	began := time.Now()
	reply, err := r.get(ctx, request)
	r.counts.Requests.End(tally.Get, time.Since(began), err)
	if err != nil {
		return nil, auth.ConfineError(ctx, r.status(ctx, err))
	}
	return reply, nil
}

// status is what the caller gets to see of an error. What nobody has planned for is logged.
func (r *Router) status(ctx context.Context, err error) error {
	_, fromNode := status.FromError(err)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if iqerr.ReasonOf(err) == iqv1.Reason_REASON_UNSPECIFIED && !fromNode && !ended {
		r.log.ErrorContext(ctx, "read failed", slog.Any("error", err))
	}
	return iqerr.Status(err)
}

// get is a read from its request to its answer: decide, ask, and with wait begin again when the view has changed.
func (r *Router) get(ctx context.Context, request []byte) ([]byte, error) {
	limit := int64(r.config.MaxInFlight)
	if n := r.inFlight.Add(1); n > limit {
		r.inFlight.Add(-1)
		return nil, &iqerr.OverloadedError{Node: r.name(), InFlight: n - 1, Limit: limit, RetryAfter: routing.RetryAfter}
	}
	defer r.inFlight.Add(-1)
	m, err := query.ParseGet(request)
	if err != nil {
		return nil, err
	}
	if err := auth.CheckLookup(ctx, m.Store, m.Key); err != nil {
		return nil, err
	}
	rd, err := newRead(m, r.config.DefaultPolicy, r.board.view().Application())
	if err != nil {
		return nil, err
	}
	reply, err := r.getRead(ctx, &rd)
	r.journal.note(&rd, err)
	if err != nil {
		r.readsOf(m.Store).Refused(tally.Policy(rd.policy.Mode), err)
	}
	return reply, err
}

// getRead is get for a read that is in order.
func (r *Router) getRead(ctx context.Context, rd *read) ([]byte, error) {
	now := time.Now()
	rd.began = now
	until, ok := ctx.Deadline()
	if !ok {
		until = now.Add(rd.wait + r.config.RequestTimeout)
	}
	rd.until = until
	r.retries.earn()
	if rd.wait == 0 {
		return r.answer(ctx, r.board.load(), rd, now)
	}
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return r.getPatiently(ctx, rd, now)
}

// getPatiently is get for a read that may wait.
func (r *Router) getPatiently(ctx context.Context, rd *read, now time.Time) ([]byte, error) {
	held := waiter{router: r, until: now.Add(rd.wait)}
	defer held.leave()
	for {
		edition := r.board.load()
		reply, err := r.answer(ctx, edition, rd, time.Now())
		if err == nil || rd.wait == 0 || !mayPass(err) {
			return reply, err
		}
		over, err := held.forNext(ctx, edition, rd.failures, err)
		if err != nil {
			return nil, err
		}
		if over {
			rd.wait = 0 // once more, and now suspect nodes are asked too for want of others
		}
	}
}

// answer asks whom the view of one edition names.
func (r *Router) answer(ctx context.Context, e *edition, rd *read, now time.Time) ([]byte, error) {
	partitions, err := routing.Locate(e.view, r.config.Partitioners, rd.request.Store, rd.request.Key, rd.partition)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		r.readsOf(rd.request.Store).Nowhere(tally.Policy(rd.policy.Mode))
		return []byte{}, nil // the partitioner drops every record of this key, so it is nowhere
	}
	rd.served.partition = partitions[0]
	p, err := routing.MakePlan(e.view, r.query(rd), partitions, now)
	if err != nil {
		return nil, err
	}
	d := dispatch{router: r, edition: e, read: rd, plan: p}
	return d.run(ctx)
}

func (r *Router) query(rd *read) routing.Query {
	q := routing.Query{Policy: rd.policy, SampleMaxAge: r.config.SampleMaxAge, Patient: rd.wait > 0}
	q.Store = rd.request.Store
	if q.Policy.Prefer == routing.PreferLeastLoaded {
		q.Outstanding = r.peers.outstanding
	}
	return q
}
