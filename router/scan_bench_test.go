package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// shelf is a node that sends the same rows of each partition over and over, without reading any: what a scan costs beyond
// is the router's, the wire's and the client's.
type shelf struct {
	iqv1.UnimplementedQueryServiceServer
	rows  int // a scan, over all partitions
	parts [][]*iqv1.ScanResponse
}

func newShelf(rows, partitions int, apart bool) *shelf {
	s := &shelf{rows: rows, parts: make([][]*iqv1.ScanResponse, partitions)}
	for i := range rows {
		p := i % partitions
		if apart {
			p = i * partitions / rows
		}
		messages := s.parts[p]
		if n := len(messages); n == 0 || len(messages[n-1].GetRows()) == query.MaxBatchRows {
			messages = append(messages, &iqv1.ScanResponse{})
		}
		key := fmt.Appendf(nil, "key-%08d", i)
		last := messages[len(messages)-1]
		last.Rows = append(last.Rows, &iqv1.Row{Key: key, Value: make([]byte, 100), TimestampMs: 1700000040000, Partition: int32(p), Cursor: key})
		s.parts[p] = messages
	}
	return s
}

func (s *shelf) Scan(m *iqv1.ScanRequest, stream iqv1.QueryService_ScanServer) error {
	p := m.GetSelection().GetPartitions()[0]
	err := stream.Send(&iqv1.ScanResponse{Reads: []*iqv1.PartitionRead{{Partition: p}}})
	for i := 0; i < len(s.parts[p]) && err == nil; i++ {
		err = stream.Send(s.parts[p][i])
	}
	return err
}

// BenchmarkScan scans rows of 100 B over TCP. Client, router and node share the machine.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		partitions int
		apart      bool // in the order of keys the partitions follow one another
		order      iqv1.ScanRequest_Order
	}{
		{1, false, iqv1.ScanRequest_ORDER_KEY},
		{3, false, iqv1.ScanRequest_ORDER_KEY},
		{3, true, iqv1.ScanRequest_ORDER_KEY},
		{3, false, iqv1.ScanRequest_ORDER_PARTITION},
		{12, false, iqv1.ScanRequest_ORDER_KEY},
	} {
		b.Run(fmt.Sprintf("partitions=%d/apart=%t/order=%s", c.partitions, c.apart, c.order), func(b *testing.B) {
			benchmarkScan(b, newShelf(300_000, c.partitions, c.apart), c.order)
		})
	}
}

func benchmarkScan(b *testing.B, s *shelf, order iqv1.ScanRequest_Order) {
	b.Helper()
	node := listenTCP(b)
	server := grpc.NewServer(grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes))
	iqv1.RegisterQueryServiceServer(server, s)
	go func() { _ = server.Serve(node) }()
	defer server.Stop()
	client, stop := benchRouter(b, node.Addr().String(), int32(len(s.parts)))
	defer stop()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		stream, err := client.Scan(ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}, Order: order})
		if err != nil {
			b.Fatal(err)
		}
		rows := 0
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			rows += len(m.GetRows())
		}
		if rows != s.rows {
			b.Fatalf("%d rows, want %d", rows, s.rows)
		}
	}
	b.ReportMetric(float64(s.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkMultiGet reads 100 keys in one request; BenchmarkGet of package router has what single ones cost.
func BenchmarkMultiGet(b *testing.B) {
	const keys = 100
	node := listenTCP(b)
	server := grpc.NewServer()
	iqv1.RegisterQueryServiceServer(server, echo{})
	go func() { _ = server.Serve(node) }()
	defer server.Stop()
	client, stop := benchRouter(b, node.Addr().String(), 3)
	defer stop()
	m := &iqv1.MultiGetRequest{Store: "s"}
	for i := range keys {
		m.Keys = append(m.Keys, fmt.Appendf(nil, "key-%08d", i))
	}
	for _, inFlight := range []int{1, 16} {
		b.Run(fmt.Sprintf("keys=%d/in_flight=%d", keys, inFlight), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(inFlight)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if resp, err := client.MultiGet(b.Context(), m); err != nil || len(resp.GetResults()) != keys || !resp.GetResults()[0].GetFound() {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(keys)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

// MultiGet answers every key at once.
func (echo) MultiGet(_ context.Context, m *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	resp := &iqv1.MultiGetResponse{Partitions: []*iqv1.PartitionRead{{}}}
	for range m.GetKeys() {
		resp.Results = append(resp.Results, &iqv1.KeyResult{Found: true, Value: make([]byte, 100), Read: new(int32(0))})
	}
	return resp, nil
}

// benchRouter runs a router that knows one node, which has all partitions. The caller calls stop.
func benchRouter(b *testing.B, node string, partitions int32) (client iqv1.QueryServiceClient, stop func()) {
	b.Helper()
	front := listenTCP(b)
	r, err := New(Config{Listener: front, NodeTimeout: time.Hour, SuspectAfter: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	routed := dialTCP(b, front.Addr().String())
	heartbeats, err := iqv1.NewControlServiceClient(routed).Heartbeat(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var all []int32
	for p := range partitions {
		all = append(all, p)
	}
	if err := heartbeats.Send(&iqv1.HeartbeatRequest{
		Node: "a", Address: node, Full: true, Sequence: 1, Replicas: of(active(1), all...),
		Stores: []*iqv1.StoreInfo{{Name: "s", Partitions: partitions, ActualPartitions: partitions}},
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := heartbeats.Recv(); err != nil {
		b.Fatal(err)
	}
	return iqv1.NewQueryServiceClient(routed), func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}
