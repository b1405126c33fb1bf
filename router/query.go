package router

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// queryService answers reads.
type queryService struct {
	iqv1.UnimplementedQueryServiceServer
	router *Router
}

// Get looks one key up.
func (s *queryService) Get(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	resp, err := s.router.get(ctx, m)
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return resp, nil
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
func (r *Router) get(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	limit := int64(r.config.MaxInFlight)
	if n := r.inFlight.Add(1); n > limit {
		r.inFlight.Add(-1)
		return nil, &iqerr.OverloadedError{Node: r.name(), InFlight: n - 1, Limit: limit, RetryAfter: routing.RetryAfter}
	}
	defer r.inFlight.Add(-1)
	rd, err := readFromProto(m, r.config.DefaultPolicy, r.board.view().Application())
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rd.wait+r.config.RequestTimeout)
		defer cancel()
	}
	r.retries.earn()
	held := waiter{router: r, until: time.Now().Add(rd.wait)}
	defer held.leave()
	for {
		edition := r.board.load()
		resp, err := r.answer(ctx, edition, &rd)
		if err == nil || rd.wait == 0 || !mayPass(err) {
			return resp, err
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
func (r *Router) answer(ctx context.Context, e *edition, rd *read) (*iqv1.GetResponse, error) {
	m := rd.request
	partitions, err := routing.Locate(e.view, r.config.Partitioners, m.GetStore(), m.GetKey(), rd.partition)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		return &iqv1.GetResponse{}, nil // the partitioner drops every record of this key, so it is nowhere
	}
	p, err := routing.MakePlan(e.view, r.query(rd), partitions, time.Now())
	if err != nil {
		return nil, err
	}
	d := dispatch{router: r, edition: e, read: rd, plan: p}
	resp, err := d.run(ctx)
	if err != nil {
		return nil, err
	}
	if m.GetExplain() {
		resp.Decision = p.ToProto()
	}
	return resp, nil
}

func (r *Router) query(rd *read) routing.Query {
	q := routing.Query{Policy: rd.policy, SampleMaxAge: r.config.SampleMaxAge, Patient: rd.wait > 0}
	q.Store = rd.request.GetStore()
	if q.Policy.Prefer == routing.PreferLeastLoaded {
		q.Outstanding = r.peers.outstanding
	}
	return q
}
