package client

import (
	"context"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// CountTime is what a target may take to count, or to find the next row that a filter lets through, on top of what any call
// may: it reads all that it counts or passes over.
const CountTime = time.Minute

// Counted is the answer to a Count.
type Counted struct {
	// Count is the number of entries that a Scan with the same options would give.
	Count int64
	// Approximate says that it is an estimate; only where Approximate was given.
	Approximate bool
	// Reads says for each partition which replica counted, at which position.
	Reads []*iqv1.PartitionRead
}

// Count counts what a Scan with the same options would give.
func (c *Client) Count(ctx context.Context, store string, opts ...ReadOption) (Counted, error) {
	return c.countIn(ctx, nil, store, opts)
}

func (c *Client) countIn(ctx context.Context, s *Session, store string, opts []ReadOption) (Counted, error) {
	r, err := c.readWide(callCount, s, store, opts)
	if err != nil {
		return Counted{}, err
	}
	if s != nil {
		if err := s.begin(ctx, r); err != nil {
			return Counted{}, err
		}
	}
	req := &iqv1.CountRequest{Selection: &r.wide.selection, Policy: r.get.Policy, Approximate: r.wide.approximate}
	res, _, err := ask(ctx, c, (*target).count, req, r.wait()+CountTime)
	if err != nil {
		return Counted{}, err
	}
	if s != nil {
		for _, read := range res.GetReads() {
			s.saw(store, read.GetInputPosition())
		}
	}
	return Counted{Count: res.GetCount(), Approximate: res.GetApproximate(), Reads: res.GetReads()}, nil
}

func (t *target) count(ctx context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	return t.query.Count(ctx, req)
}
