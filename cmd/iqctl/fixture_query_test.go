package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func readFromB() []*iqv1.PartitionRead {
	return []*iqv1.PartitionRead{{
		Partition: 3, Served: standbyOnB(),
		InputPosition: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "flights", Partition: 3, Offset: 9000}}},
	}}
}

const noon = 1700000040000

// rowsOf are the fixture's rows: those of values, and the windows and versions of the stores that have such.
func rowsOf(store string) []*iqv1.Row {
	var rows []*iqv1.Row
	count := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	price := func(f float64) []byte { return count(math.Float64bits(f)) }
	switch store {
	case "clicks":
		for i := range int64(3) {
			start := noon + i*60_000
			rows = append(rows, &iqv1.Row{
				Key: []byte("/home"), Value: count(uint64(i) + 7), TimestampMs: start + 59_123, Partition: 1, StartMs: &start, EndMs: new(start + 60_000),
			})
		}
	case "prices":
		at := func(n int64) *int64 { return new(noon + n) }
		rows = []*iqv1.Row{
			{Key: []byte("apple"), Value: price(1.5), TimestampMs: noon, StartMs: at(0), EndMs: at(10)},
			{Key: []byte("apple"), Deleted: true, TimestampMs: noon + 10, StartMs: at(10), EndMs: at(20)},
			{Key: []byte("apple"), Value: price(2), TimestampMs: noon + 20, StartMs: at(20)},
		}
	default:
		for k, v := range values()[store] {
			rows = append(rows, &iqv1.Row{Key: []byte(k), Value: v, TimestampMs: noon, Partition: 3})
		}
		slices.SortFunc(rows, func(a, b *iqv1.Row) int { return bytes.Compare(a.GetKey(), b.GetKey()) })
	}
	return rows
}

func selects(sel *iqv1.Selection, r *iqv1.Row) bool {
	k := r.GetKey()
	switch keys := sel.GetKeys().(type) {
	case *iqv1.Selection_Key:
		if !bytes.Equal(k, keys.Key) {
			return false
		}
	case *iqv1.Selection_Prefix:
		if !bytes.HasPrefix(k, keys.Prefix) {
			return false
		}
	case *iqv1.Selection_Range:
		from, to := bytes.Compare(k, keys.Range.GetFrom()), bytes.Compare(k, keys.Range.GetTo())
		if from < 0 || from == 0 && keys.Range.GetFromExclusive() || keys.Range.To != nil && (to > 0 || to == 0 && keys.Range.GetToExclusive()) {
			return false
		}
	}
	t := sel.GetTimes()
	return (t.GetFromMs() <= r.GetStartMs()) && (t == nil || t.ToMs == nil || r.GetStartMs() <= t.GetToMs())
}

// Scan sends a row a message. Its page token is the number of rows before; the token "lost" is of another life, and the
// filter "late" fails after the first row.
func (c *cluster) Scan(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
	sel := req.GetSelection()
	if string(req.GetPageToken()) == "lost" {
		return iqerr.Status(&iqerr.PageLostError{Store: sel.GetStore(), Partition: 3, Problem: "the changelog was made anew"})
	}
	rows := slices.DeleteFunc(rowsOf(sel.GetStore()), func(r *iqv1.Row) bool { return !selects(sel, r) })
	if req.GetReverse() {
		slices.Reverse(rows)
	}
	at := 0
	if len(req.GetPageToken()) > 0 {
		at = int(req.GetPageToken()[0])
	}
	for sent := int64(0); at < len(rows) && (req.GetLimit() == 0 || sent < req.GetLimit()); sent++ {
		if sel.GetFilter() == "late" && sent == 1 {
			return iqerr.Status(iqerr.Invalid("filter", "late", "key N14228: no such field"))
		}
		r := rows[at]
		at++
		if req.GetKeysOnly() {
			r.Value = nil
		}
		m := &iqv1.ScanResponse{Rows: []*iqv1.Row{r}, Reads: readFromB()}
		if at < len(rows) {
			m.PageToken = []byte{byte(at)}
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) Count(_ context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	n := len(slices.DeleteFunc(rowsOf(req.GetSelection().GetStore()), func(r *iqv1.Row) bool { return !selects(req.GetSelection(), r) }))
	return &iqv1.CountResponse{Count: int64(n), Approximate: req.GetApproximate(), Reads: readFromB()}, nil
}

func (c *cluster) MultiGet(_ context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	res := &iqv1.MultiGetResponse{Partitions: readFromB()}
	for _, k := range req.GetKeys() {
		if string(k) == "stale" {
			_, err := decide(&iqv1.GetRequest{Store: req.GetStore(), Policy: &iqv1.ReadPolicy{MaxOffsetLag: new(int64(5))}})
			res.Results = append(res.Results, &iqv1.KeyResult{Error: &iqv1.KeyError{
				Code: int32(codes.FailedPrecondition), Reason: iqerr.ReasonOf(err), Message: err.Error(), Refusals: &iqv1.ReplicaRefusals{Store: req.GetStore(), Partition: 3},
			}})
			continue
		}
		v, found := values()[req.GetStore()][string(k)]
		r := &iqv1.KeyResult{Found: found, Value: v, Read: new(int32(0))}
		if found {
			r.TimestampMs = noon
		}
		res.Results = append(res.Results, r)
	}
	return res, nil
}

// Watch tells the rows, then a removal of the first, then breaks off; from a position it tells one more change.
func (c *cluster) Watch(req *iqv1.WatchRequest, out iqv1.QueryService_WatchServer) error {
	sel := req.GetSelection()
	if len(req.GetFrom()) > 0 {
		if req.GetFrom()[0].GetPosition() == 666 {
			return iqerr.Status(&iqerr.PageLostError{Store: sel.GetStore(), Partition: 3, Problem: "the changelog begins at 700"})
		}
		more := &iqv1.Row{Key: []byte("ATL"), Value: binary.BigEndian.AppendUint64(nil, 1397), TimestampMs: noon + 5, Partition: 3}
		err := out.Send(&iqv1.WatchResponse{
			Events:    []*iqv1.WatchEvent{{Row: more}},
			Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: req.GetFrom()[0].GetPosition() + 1}},
		})
		return cmp.Or(err, status.Error(codes.Unavailable, "broken"))
	}
	rows := slices.DeleteFunc(rowsOf(sel.GetStore()), func(r *iqv1.Row) bool { return !selects(sel, r) })
	m := &iqv1.WatchResponse{Reads: readFromB(), Current: []int32{3}, Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: 988}}}
	for _, r := range rows {
		m.Events = append(m.Events, &iqv1.WatchEvent{Row: r})
	}
	if err := out.Send(m); err != nil {
		return err
	}
	if len(rows) > 0 {
		gone := &iqv1.Row{Key: rows[0].GetKey(), Partition: 3}
		err := out.Send(&iqv1.WatchResponse{
			Events: []*iqv1.WatchEvent{{Row: gone, Removed: true}}, Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: 989}},
		})
		if err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "broken")
}

func (c *cluster) Drain(req *iqv1.DrainRequest, out iqv1.ControlService_DrainServer) error {
	switch {
	case req.GetNode() == "a":
		return status.Error(codes.Unavailable, `node "a" is not alive: silent for 12s`)
	case !strings.Contains("bc", req.GetNode()):
		return status.Errorf(codes.NotFound, "node %q is unknown; known are a, b, c, d, e", req.GetNode())
	}
	for _, m := range []*iqv1.DrainResponse{{ActiveTasks: 2}, {ActiveTasks: 2}, {ActiveTasks: 1}, {}, {Relieved: true}, {Relieved: true, Done: true}} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// WatchMetadata tells of b and c, then that c runs, and that b has gone.
func (c *cluster) WatchMetadata(_ *iqv1.WatchMetadataRequest, out iqv1.MetadataService_WatchMetadataServer) error {
	b := &iqv1.Instance{Node: "b", Address: "10.0.0.2:7001", Alive: true, Generation: 7, Replicas: []*iqv1.ReplicaStatus{standbyOnB()}}
	other := &iqv1.Instance{Node: "c", Address: "10.0.0.3:7001", Alive: true, Generation: 7, Replicas: []*iqv1.ReplicaStatus{restoringOnC()}}
	running := &iqv1.Instance{Node: "c", Address: "10.0.0.3:7001", Alive: true, Draining: true, Generation: 7, Replicas: []*iqv1.ReplicaStatus{restoringOnC()}}
	running.Replicas[0].State, running.Replicas[0].OffsetLag = iqv1.ReplicaState_REPLICA_STATE_RUNNING, new(int64(0))
	stores := []*iqv1.StoreInfo{{Name: "flights-by-dest", Partitions: 4, ActualPartitions: 4, Kind: "keyvalue", Partitioner: "murmur2"}}
	for _, m := range []*iqv1.WatchMetadataResponse{
		{Version: 1, Snapshot: true, Instances: []*iqv1.Instance{b, other}, Stores: stores},
		{Version: 2, Instances: []*iqv1.Instance{other}}, // nothing but a lag, as far as is shown
		{Version: 3, Instances: []*iqv1.Instance{running}, Gone: []string{"b"}},
	} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "broken")
}
