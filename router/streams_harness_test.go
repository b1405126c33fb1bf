package router

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
)

// rowSet is what a store holds, by partition and in order. Fake nodes share it.
type rowSet struct {
	kind  query.Kind
	parts [][]*iqv1.Row
}

// newRowSet puts rows into the partitions that murmur2 says, unless they name one.
func newRowSet(kind query.Kind, partitions int32, rows ...*iqv1.Row) *rowSet {
	s := &rowSet{kind: kind, parts: make([][]*iqv1.Row, partitions)}
	for _, row := range rows {
		p := row.GetPartition()
		if p < 0 {
			all, err := partitioner.Lookup(partitioner.Murmur2(), row.GetKey(), partitions)
			if err != nil {
				panic(err)
			}
			p = all[0]
		}
		row.Partition = p
		row.Cursor = append([]byte("c"), row.GetKey()...)
		if row.StartMs != nil {
			row.Cursor = strconv.AppendInt(append(row.GetCursor(), 0), row.GetStartMs(), 10)
		}
		s.parts[p] = append(s.parts[p], row)
	}
	for _, part := range s.parts {
		slices.SortFunc(part, query.Compare(kind, false))
	}
	return s
}

// keyRows are key-value rows, each with its key as the value.
func keyRows(keys ...string) []*iqv1.Row {
	var rows []*iqv1.Row
	for _, k := range keys {
		rows = append(rows, &iqv1.Row{Key: []byte(k), Value: []byte(k), Partition: -1})
	}
	return rows
}

// numbered are prefix0, prefix1 and so on.
func numbered(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = prefix + strconv.Itoa(i)
	}
	return keys
}

// fakeStreams is what a test may change of a node's scans and watches, by behave once it has been asked.
type fakeStreams struct {
	// scanned is called before each row of a scan is sent; an error ends the stream with it. send sends what is gathered.
	scanned func(ctx context.Context, p int32, sent int) error
	hangs   bool // a scan says nothing at all
	large   int  // rows of more than query.MaxBatchBytes of which sending was begun
	batch   int  // rows a message; 0 for query.MaxBatchRows
	scans   []*iqv1.ScanRequest
	gets    []*iqv1.MultiGetRequest
	multi   func(key []byte) *iqv1.KeyResult // nil for what the store holds
	count   func(m *iqv1.CountRequest) (*iqv1.CountResponse, error)
	watch   func(m *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error
}

// behave changes what the node does with the requests to come.
func (n *fakeNode) behave(edit func(s *fakeStreams)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit(&n.streams)
}

// replicaOf is what the node reports of one partition; nil when it does not hold it.
func (n *fakeNode) replicaOf(p int32) *iqv1.ReplicaStatus {
	return n.status(&iqv1.GetRequest{Store: "s", Partition: &p})
}

func (n *fakeNode) refuses(p int32, mode iqv1.ReadPolicy_Mode) error {
	s := n.replicaOf(p)
	switch {
	case s == nil:
		return iqerr.Status(&iqerr.NotHostedError{Node: n.id, Store: "s", Partition: p})
	case s.GetRole() != iqv1.Role_ROLE_ACTIVE && mode == iqv1.ReadPolicy_MODE_ACTIVE:
		return iqerr.Status(&iqerr.NoActiveError{Refusals: iqerr.Refusals{Store: "s", Partition: p}})
	}
	return nil
}

// Scan sends what the store holds as package query says that a node does.
func (n *fakeNode) Scan(m *iqv1.ScanRequest, stream iqv1.QueryService_ScanServer) error {
	n.mu.Lock()
	n.streams.scans = append(n.streams.scans, m)
	info := n.report.GetStores()[0]
	st := n.streams
	n.mu.Unlock()
	q, err := query.ParseScan(m, routing.StoreFromProto(info))
	if err == nil && len(q.Partitions) != 1 {
		err = iqerr.Invalid("selection.partitions", len(q.Partitions), "a node is asked for one partition at a time")
	}
	if err != nil {
		return iqerr.Status(err)
	}
	p := q.Partitions[0]
	if err := n.refuses(p, m.GetPolicy().GetMode()); err != nil {
		return err
	}
	if st.hangs {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	if err := stream.Send(&iqv1.ScanResponse{Reads: []*iqv1.PartitionRead{{Partition: p, Served: n.replicaOf(p)}}}); err != nil {
		return err
	}
	rows := slices.Clone(n.w.rows.parts[p])
	if q.Reverse {
		slices.Reverse(rows)
	}
	if from := q.Place(p); from.State == query.PlaceAfter {
		i := slices.IndexFunc(rows, func(r *iqv1.Row) bool { return bytes.Equal(r.GetCursor(), from.After) })
		rows = rows[i+1:]
	}
	out, size, sent := &iqv1.ScanResponse{}, 0, 0
	flush := func() error {
		defer func() { out, size = &iqv1.ScanResponse{}, 0 }()
		if len(out.GetRows()) == 0 {
			return nil
		}
		if size > query.MaxBatchBytes {
			n.mu.Lock()
			n.streams.large++
			n.mu.Unlock()
		}
		return stream.Send(out)
	}
	most := st.batch
	if most == 0 {
		most = query.MaxBatchRows
	}
	for _, row := range rows {
		k := q.Keys
		if (k.From != nil && bytes.Compare(row.GetKey(), k.From) < 0) || (k.To != nil && bytes.Compare(row.GetKey(), k.To) > 0) ||
			!bytes.HasPrefix(row.GetKey(), k.Prefix) || row.GetStartMs() < q.Times.From || row.GetStartMs() > q.Times.To {
			continue
		}
		if m.GetLimit() > 0 && int64(sent) == m.GetLimit() {
			break
		}
		if len(out.GetRows()) == most || (size > 0 && size+query.RowBytes(row) > query.MaxBatchBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		if st.scanned != nil {
			if err := st.scanned(stream.Context(), p, sent); err != nil {
				if !errors.Is(err, errCut) {
					_ = flush()
				}
				return iqerr.Status(err)
			}
		}
		out.Rows = append(out.Rows, row)
		size += query.RowBytes(row)
		sent++
	}
	return flush()
}

// errCut ends a fake scan without what is gathered.
var errCut = errors.New("cut")

// MultiGet answers the keys that the node holds.
func (n *fakeNode) MultiGet(_ context.Context, m *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	n.mu.Lock()
	n.streams.gets = append(n.streams.gets, m)
	n.asked++
	n.mu.Unlock()
	resp := &iqv1.MultiGetResponse{}
	reads := map[int32]int32{}
	for _, key := range m.GetKeys() {
		if n.streams.multi != nil {
			if res := n.streams.multi(key); res != nil {
				resp.Results = append(resp.Results, res)
				continue
			}
		}
		partitions, err := partitioner.Lookup(partitioner.Murmur2(), key, int32(len(n.w.rows.parts)))
		if err != nil {
			return nil, err
		}
		p := partitions[0]
		if err := n.refuses(p, m.GetPolicy().GetMode()); err != nil {
			resp.Results = append(resp.Results, &iqv1.KeyResult{Error: iqerr.ToKeyError(err)})
			continue
		}
		if _, told := reads[p]; !told {
			reads[p] = int32(len(resp.GetPartitions()))
			resp.Partitions = append(resp.Partitions, &iqv1.PartitionRead{Partition: p, Served: n.replicaOf(p)})
		}
		res := &iqv1.KeyResult{Read: new(reads[p])}
		for _, row := range n.w.rows.parts[p] {
			if bytes.Equal(row.GetKey(), key) {
				res.Found, res.Value = true, row.GetValue()
			}
		}
		resp.Results = append(resp.Results, res)
	}
	return resp, nil
}

// Count counts what the partition asked for holds.
func (n *fakeNode) Count(_ context.Context, m *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	if n.streams.count != nil {
		return n.streams.count(m)
	}
	if len(m.GetSelection().GetPartitions()) != 1 {
		return nil, status.Error(codes.InvalidArgument, "one partition at a time")
	}
	p := m.GetSelection().GetPartitions()[0]
	if err := n.refuses(p, m.GetPolicy().GetMode()); err != nil {
		return nil, err
	}
	return &iqv1.CountResponse{
		Count: int64(len(n.w.rows.parts[p])), Reads: []*iqv1.PartitionRead{{Partition: p, Served: n.replicaOf(p)}},
	}, nil
}

// Watch does as the test has said.
func (n *fakeNode) Watch(m *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
	n.mu.Lock()
	watch := n.streams.watch
	n.mu.Unlock()
	return watch(m, stream)
}

// holding makes a world whose store has the rows given.
func (w *world) holding(kind query.Kind, partitions int32, rows ...*iqv1.Row) {
	w.info = &iqv1.StoreInfo{
		Name: "s", Partitions: partitions, ActualPartitions: partitions, Partitioner: "murmur2", Kind: kind.String(),
		ValueSerde: "json", ChangelogId: "log-1", SourceTopics: []string{"in"},
	}
	w.rows = newRowSet(kind, partitions, rows...)
}

// of makes one replica of each partition named.
func of(s *iqv1.ReplicaStatus, partitions ...int32) []*iqv1.ReplicaStatus {
	var all []*iqv1.ReplicaStatus
	for _, p := range partitions {
		one := replica(s.GetRole(), s.GetPosition(), s.GetEndPosition(), s.GetTimeLag().AsDuration())
		one.Partition = p
		all = append(all, one)
	}
	return all
}

// scanned is what came of a scan.
type scanned struct {
	rows     []*iqv1.Row
	messages []*iqv1.ScanResponse
	err      error // nil for OK
}

func (s *scanned) keys() []string {
	var keys []string
	for _, r := range s.rows {
		keys = append(keys, string(r.GetKey()))
	}
	return keys
}

// scan reads a scan to its end.
func (w *world) scan(m *iqv1.ScanRequest) *scanned {
	w.t.Helper()
	return collect(w.t, w.t.Context(), w.client, m)
}

func collect(t *testing.T, ctx context.Context, client iqv1.QueryServiceClient, m *iqv1.ScanRequest) *scanned { //nolint:revive // t comes first in tests
	t.Helper()
	if m.GetSelection() == nil {
		m.Selection = &iqv1.Selection{}
	}
	m.Selection.Store = "s"
	s := &scanned{}
	stream, err := client.Scan(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			s.err = err
			return s
		}
		s.rows = append(s.rows, resp.GetRows()...)
		s.messages = append(s.messages, resp)
	}
}

func anyPolicy() *iqv1.ReadPolicy { return &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY} }
