package router

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// echo answers every read at once.
type echo struct {
	iqv1.UnimplementedQueryServiceServer
}

func (echo) Get(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	return &iqv1.GetResponse{Found: true, Value: make([]byte, 100)}, nil
}

// BenchmarkGet reads a key over TCP, at the node itself and through the router, which adds a hop. Client, router and node
// share the machine.
func BenchmarkGet(b *testing.B) {
	node := listenTCP(b)
	server := grpc.NewServer()
	iqv1.RegisterQueryServiceServer(server, echo{})
	go func() { _ = server.Serve(node) }()
	defer server.Stop()
	front := listenTCP(b)
	r, err := New(Config{Listener: front, NodeTimeout: time.Hour, SuspectAfter: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	routed := dialTCP(b, front.Addr().String())
	stream, err := iqv1.NewControlServiceClient(routed).Heartbeat(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := stream.Send(&iqv1.HeartbeatRequest{
		Node: "a", Address: node.Addr().String(), Full: true, Sequence: 1, Replicas: []*iqv1.ReplicaStatus{active(1)},
		Stores: []*iqv1.StoreInfo{{Name: "s", Partitions: 1, ActualPartitions: 1}},
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
	for way, conn := range map[string]*grpc.ClientConn{"node": dialTCP(b, node.Addr().String()), "router": routed} {
		for _, inFlight := range []int{1, 64} {
			b.Run(fmt.Sprintf("way=%s/in_flight=%d", way, inFlight), func(b *testing.B) {
				client := iqv1.NewQueryServiceClient(conn)
				b.ReportAllocs()
				b.SetParallelism(inFlight)
				read := func() {
					if _, err := client.Get(ctx, &iqv1.GetRequest{Store: "s", Key: []byte("key")}); err != nil {
						b.Error(err)
					}
				}
				if inFlight == 1 {
					for b.Loop() {
						read()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						read()
					}
				})
			})
		}
	}
}

func listenTCP(b *testing.B) net.Listener {
	b.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func dialTCP(b *testing.B, address string) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
