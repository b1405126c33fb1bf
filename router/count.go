package router

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// maxFanOut is how many nodes or partitions one Count or MultiGet asks at once.
const maxFanOut = 16

// Count sums what each partition counts.
func (s *queryService) Count(ctx context.Context, m *iqv1.CountRequest) (resp *iqv1.CountResponse, err error) {
	defer s.router.begin(tally.Count)(&err)
	resp, err = s.router.count(ctx, m)
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return resp, nil
}

func (r *Router) count(ctx context.Context, m *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	leave, err := r.admit(&r.inFlight, r.config.MaxInFlight)
	if err != nil {
		return nil, err
	}
	defer leave()
	e := r.board.load()
	info, err := selectedStore(e.view, m.GetSelection())
	if err != nil {
		return nil, err
	}
	policy, wait, policyErr := policyFromProto(m.GetPolicy(), r.config.DefaultPolicy)
	q, err := query.ParseCount(m, info)
	err = errors.Join(err, policyErr, checkApplication("selection.application", m.GetSelection().GetApplication(), e.view.Application()))
	if err != nil {
		return nil, err
	}
	partitions, err := r.selected(e, &q.Selection)
	if err != nil || q.Empty() {
		return &iqv1.CountResponse{}, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+r.config.RequestTimeout)
		defer cancel()
	}
	r.retries.earn()
	parts := make([]*iqv1.CountResponse, len(partitions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxFanOut)
	for i, p := range partitions {
		g.Go(func() error {
			f := failover{router: r, query: r.queryOf(info.Name, p, policy), wait: wait}
			one := &iqv1.CountRequest{Selection: proto.CloneOf(m.GetSelection()), Policy: policy.ToProto(m.GetPolicy()), Approximate: m.GetApproximate()}
			one.Selection.Partitions = []int32{p}
			return f.run(ctx, func(ctx context.Context, t routing.Target, p *peer, left int) (err error) {
				parts[i], err = unary(ctx, r, t, p, left, func(ctx context.Context) (*iqv1.CountResponse, error) { return p.query.Count(ctx, one) })
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sum := &iqv1.CountResponse{}
	for _, part := range parts {
		sum.Count += part.GetCount()
		sum.Approximate = sum.GetApproximate() || part.GetApproximate()
		for _, read := range part.GetReads() {
			routing.CompleteStatus(e.view, read.GetServed())
		}
		sum.Reads = append(sum.Reads, part.GetReads()...)
	}
	return sum, nil
}

// unary asks one replica for one answer. While others are left it has a share of the time, at most TryTimeout, and the try
// ends when its node becomes suspect.
func unary[M any](ctx context.Context, r *Router, t routing.Target, p *peer, left int, call func(ctx context.Context) (M, error)) (M, error) {
	ctx, end := p.begin(ctx, left > 0)
	defer end()
	if left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share(ctx, left+1, r.config.TryTimeout))
		defer cancel()
	}
	m, err := call(ctx)
	if err == nil {
		return m, nil
	}
	if nodeLost(ctx, err) {
		return m, lostAt(t)
	}
	return m, iqerr.FromStatus(err)
}
