package client_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func (r *router) MultiGet(ctx context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	res, err := r.multiGet(ctx, req)
	return res, iqerr.Status(err)
}

func (r *router) Count(ctx context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	res, err := r.count(ctx, req)
	return res, iqerr.Status(err)
}

func (r *router) Scan(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
	return iqerr.Status(r.scan(req, out))
}

func (r *router) Watch(req *iqv1.WatchRequest, out iqv1.QueryService_WatchServer) error {
	return iqerr.Status(r.changes(req, out))
}

func (r *router) Drain(req *iqv1.DrainRequest, out iqv1.ControlService_DrainServer) error {
	return iqerr.Status(r.drain(req, out))
}

func pageLost() error {
	return &iqerr.PageLostError{Store: "orders", Problem: "the changelog was made anew"}
}

func slowReader() error { return &iqerr.SlowReaderError{Node: "n"} }

// shelf is a store that several routers serve alike: rows in order, a page token is the index of the next row.
type shelf struct {
	rows  []*iqv1.Row
	batch int // rows of a message

	mu struct {
		sync.Mutex
		requests []*iqv1.ScanRequest
		fails    func(stream, message int) error // called before each message, and after the last
	}
}

func newShelf(rows, batch int) *shelf {
	s := &shelf{batch: batch}
	for i := range rows {
		s.rows = append(s.rows, &iqv1.Row{
			Key: fmt.Appendf(nil, "k%04d", i), Value: fmt.Appendf(nil, "v%d", i), TimestampMs: int64(i), Partition: int32(i % 3),
		})
	}
	return s
}

func (s *shelf) router() *router { return &router{scan: s.scan} }

func (s *shelf) failing(f func(stream, message int) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fails = f
}

func (s *shelf) requests() []*iqv1.ScanRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.requests)
}

// matching are the rows that a selection means, in the order asked for.
func (s *shelf) matching(req *iqv1.ScanRequest) []*iqv1.Row {
	var rows []*iqv1.Row
	sel := req.GetSelection()
	for _, r := range s.rows {
		in := bytes.HasPrefix(r.GetKey(), sel.GetPrefix())
		if kr := sel.GetRange(); kr != nil {
			from, to := bytes.Compare(r.GetKey(), kr.GetFrom()), bytes.Compare(r.GetKey(), kr.GetTo())
			in = (kr.From == nil || from > 0 || from == 0 && !kr.GetFromExclusive()) && (kr.To == nil || to < 0 || to == 0 && !kr.GetToExclusive())
		}
		if in && (len(sel.GetPartitions()) == 0 || slices.Contains(sel.GetPartitions(), r.GetPartition())) {
			rows = append(rows, r)
		}
	}
	if req.GetOrder() == iqv1.ScanRequest_ORDER_PARTITION {
		slices.SortStableFunc(rows, func(a, b *iqv1.Row) int { return cmp.Compare(a.GetPartition(), b.GetPartition()) })
	}
	if req.GetReverse() {
		slices.Reverse(rows)
	}
	return rows
}

func (s *shelf) scan(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
	s.mu.Lock()
	stream := len(s.mu.requests)
	s.mu.requests = append(s.mu.requests, req)
	fails := s.mu.fails
	s.mu.Unlock()
	if fails == nil {
		fails = func(int, int) error { return nil }
	}
	rows, at := s.matching(req), 0
	if token := req.GetPageToken(); len(token) > 0 {
		at = int(binary.BigEndian.Uint64(token))
	}
	for message, sent := 0, int64(0); ; message++ {
		if err := fails(stream, message); err != nil {
			return err
		}
		n := min(s.batch, len(rows)-at)
		if limit := req.GetLimit(); limit > 0 {
			n = min(n, int(limit-sent))
		}
		if n == 0 {
			return nil
		}
		m := &iqv1.ScanResponse{Rows: rows[at : at+n]}
		for _, r := range m.GetRows() {
			m.Reads = append(m.Reads, &iqv1.PartitionRead{
				Partition: r.GetPartition(), Served: &iqv1.ReplicaStatus{Node: fmt.Sprintf("n%d", stream), Partition: r.GetPartition()},
				InputPosition: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "orders", Partition: r.GetPartition(), Offset: int64(100 + at)}}},
			})
		}
		at, sent = at+n, sent+int64(n)
		if at < len(rows) {
			m.PageToken = binary.BigEndian.AppendUint64(nil, uint64(at))
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
}

// names are the keys of rows.
func names(rows []*iqv1.Row) string {
	var keys []string
	for _, r := range rows {
		keys = append(keys, string(r.GetKey()))
	}
	return strings.Join(keys, " ")
}
