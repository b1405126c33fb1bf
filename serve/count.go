package serve

import (
	"context"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// Count implements QueryService: each partition is counted at one position.
func (s *queryServer) Count(ctx context.Context, req *iqv1.CountRequest) (resp *iqv1.CountResponse, err error) {
	defer s.begin(tally.Count)(&err)
	if err := s.enter(); err != nil {
		return nil, iqerr.Status(err)
	}
	defer s.exit()
	resp, err = s.count(ctx, req)
	s.logFailure(ctx, "count", req.GetSelection().GetStore(), err)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	return resp, nil
}

func (s *queryServer) count(ctx context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	defer s.leave()
	if err := s.admit(); err != nil {
		return nil, err
	}
	p, info, err := s.selected(req.GetPolicy(), req.GetSelection())
	if err != nil {
		return nil, err
	}
	q, err := query.ParseCount(req, info)
	if err != nil {
		return nil, err
	}
	ids, err := s.partitionsFor(&q.Selection, func(int32) bool { return false })
	if err != nil {
		return nil, err
	}
	resp := &iqv1.CountResponse{Approximate: q.Approximate && q.Whole()}
	for _, id := range ids {
		n, rd, err := s.countOne(ctx, p, id, &q)
		if err != nil {
			return nil, err
		}
		resp.Count += n
		resp.Reads = append(resp.Reads, rd.proto())
	}
	return resp, nil
}

// countOne counts one partition.
func (s *Server) countOne(ctx context.Context, p policy, id metadata.Partition, q *query.Count) (count int64, rd reading, err error) {
	if q.Approximate && q.Whole() {
		err = s.await(ctx, p, func() error {
			rd, err = s.read(ctx, p, id, func(kv *store.KV) (store.Checkpoint, error) {
				at := kv.Checkpoint()
				stats, err := kv.Stats()
				count = stats.Entries
				return at, err
			})
			return err
		})
		s.counted(p, id, &rd, err)
		return count, rd, err
	}
	pr, err := s.pin(ctx, p, id)
	if err != nil {
		return 0, reading{}, err
	}
	defer pr.release()
	rows := rowScan{sel: &q.Selection, sn: pr.sn, partition: id.Partition, keysOnly: true}
	for _, err := range rows.rows(ctx, nil) {
		if err != nil {
			return 0, reading{}, pr.failed(err)
		}
		count++
	}
	return count, pr.reading, nil
}
