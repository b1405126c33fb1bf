package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// flights is a router in memory with one store of three airports, served by a standby that is 84 ms behind.
type flights struct {
	iqv1.UnimplementedQueryServiceServer
}

func (flights) Get(_ context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	if req.GetStore() != "flights-by-dest" {
		return nil, iqerr.Status(&iqerr.StoreUnknownError{Store: req.GetStore(), Known: []string{"flights-by-dest"}})
	}
	standby := &iqv1.ReplicaStatus{
		Node: "b", Partition: 3, Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING,
		OffsetLag: new(int64(12)), TimeLag: durationpb.New(84 * time.Millisecond),
	}
	if limit := req.GetPolicy(); limit.GetMaxStaleness() != nil && limit.GetMaxStaleness().AsDuration() < standby.GetTimeLag().AsDuration() {
		return nil, iqerr.Status(&iqerr.StaleError{
			Refusals: iqerr.Refusals{
				Store: req.GetStore(), Partition: 3,
				Candidates: []*iqv1.Candidate{{Replica: standby, Reason: iqv1.Reason_REASON_STALE}},
			},
			MaxStaleness: new(limit.GetMaxStaleness().AsDuration()),
		})
	}
	counts := map[string]string{"ATL": "1396", "ORD": "1269", "BOS": "1245"}
	v, found := counts[string(req.GetKey())]
	return &iqv1.GetResponse{Found: found, Value: []byte(v), Served: standby}, nil
}

// startRouter gives the option that leads a client to a router in memory; outside of tests there is no such thing.
func startRouter() (client.Option, func()) {
	l, s := bufconn.Listen(1<<16), grpc.NewServer()
	iqv1.RegisterQueryServiceServer(s, flights{})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }
	return client.WithDialOptions(grpc.WithContextDialer(dial)), func() { s.Stop(); <-done }
}

func Example() {
	inMemory, stop := startRouter()
	defer stop()
	c, err := client.New([]string{"127.0.0.1:7000"}, inMemory)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	r, err := c.Get(ctx, "flights-by-dest", []byte("ATL"), client.MaxStaleness(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %v behind\n", r.Value, r.TimeLag)
	fmt.Println(r.ServedBy())

	// A key that is absent is an answer.
	r, err = c.Get(ctx, "flights-by-dest", []byte("XXX"), client.Any())
	fmt.Println(r.Found, err)
	// Output:
	// 1396, 84ms behind
	// served by b (standby, running), 12 offsets / 84ms behind, partition 3
	// false <nil>
}

// Nobody is fresh enough: the error says how fresh the best replica is, so the caller can decide.
func ExampleClient_Get_tooStale() {
	inMemory, stop := startRouter()
	defer stop()
	c, err := client.New([]string{"127.0.0.1:7000"}, inMemory)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = c.Get(context.Background(), "flights-by-dest", []byte("ATL"), client.MaxStaleness(10*time.Millisecond))
	fmt.Println(err)
	if stale, ok := errors.AsType[*iqerr.StaleError](err); ok {
		best := stale.Candidates[0].GetReplica()
		fmt.Println("asked for", *stale.MaxStaleness, "and", best.GetNode(), "has", best.GetTimeLag().AsDuration())
	}
	// Output:
	// flights-by-dest/3: no replica within max_staleness 10ms: b (standby, running) is 12 offsets / 84ms behind
	// asked for 10ms and b has 84ms
}

// Options that every read of a client shares; a read that gives a policy of its own replaces the shared one.
func ExampleWithReadOptions() {
	inMemory, stop := startRouter()
	defer stop()
	c, err := client.New([]string{"127.0.0.1:7000"}, inMemory,
		client.WithReadOptions(client.MaxStaleness(time.Minute), client.LeastLoaded()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r, err := c.Get(context.Background(), "flights-by-dest", []byte("ORD"))
	fmt.Println(string(r.Value), err)
	// Output:
	// 1269 <nil>
}
