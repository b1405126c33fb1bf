package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// cluster is a router in memory: node a was the active of flights-by-dest/3 and is dead, b has a standby that is 12
// offsets and 84 ms behind, c one that is restoring. On e the task of tails/1 has stopped. It judges the bounds of a read for b as a router does.
type cluster struct {
	iqv1.UnimplementedQueryServiceServer
	iqv1.UnimplementedMetadataServiceServer
	iqv1.UnimplementedControlServiceServer
	empty bool // no node has reported
}

func standbyOnB() *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Node: "b", Address: "10.0.0.2:7001", Store: "flights-by-dest", Partition: 3, Role: iqv1.Role_ROLE_STANDBY,
		State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 7, Position: 988, EndPosition: 1000,
		OffsetLag: new(int64(12)), TimeLag: durationpb.New(84*time.Millisecond - 300), SampleAge: durationpb.New(61 * time.Millisecond),
	}
}

func restoringOnC() *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Node: "c", Address: "10.0.0.3:7001", Store: "flights-by-dest", Partition: 3, Role: iqv1.Role_ROLE_WARMUP,
		State: iqv1.ReplicaState_REPLICA_STATE_RESTORING, Generation: 7, Position: 90, EndPosition: 1000, OffsetLag: new(int64(910)),
	}
}

// suspendedOnE is of a task that stopped.
func suspendedOnE() *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Node: "e", Address: "10.0.0.5:7001", Store: "tails", Partition: 1, Role: iqv1.Role_ROLE_ACTIVE,
		State: iqv1.ReplicaState_REPLICA_STATE_SUSPENDED, Generation: 7, Position: 40, EndPosition: 40, OffsetLag: new(int64(0)),
	}
}

// decide gives the fixture's candidates under a policy, and the refusal when there is no eligible one.
func decide(req *iqv1.GetRequest) (*iqv1.Decision, error) {
	b := &iqv1.Candidate{Replica: standbyOnB(), Eligible: true, Why: "within the policy", Rank: 1}
	c := &iqv1.Candidate{Replica: restoringOnC(), Why: "restoring: position 90 of 1000", Reason: iqv1.Reason_REASON_STALE}
	d := &iqv1.Decision{Store: req.GetStore(), Partition: 3, Candidates: []*iqv1.Candidate{c, b}}
	r := iqerr.Refusals{Store: req.GetStore(), Partition: 3, Candidates: d.Candidates}
	p := req.GetPolicy()
	refuse := func(reason iqv1.Reason, why string) { b.Eligible, b.Rank, b.Reason, b.Why = false, 0, reason, why }
	switch {
	case p.GetMode() == iqv1.ReadPolicy_MODE_STRONG || p.GetMode() == iqv1.ReadPolicy_MODE_ACTIVE:
		refuse(iqv1.Reason_REASON_NO_ACTIVE, "not the active")
		return d, &iqerr.NoActiveError{Refusals: r, RetryAfter: 250 * time.Millisecond}
	case p.GetAtLeast() != nil:
		refuse(iqv1.Reason_REASON_POSITION_NOT_REACHED, "has reached flights/0:9000 of flights/0:9001")
		return d, &iqerr.PositionError{Refusals: r, AtLeast: p.GetAtLeast()}
	case p.GetMaxStaleness() != nil && p.GetMaxStaleness().AsDuration() < 84*time.Millisecond:
		refuse(iqv1.Reason_REASON_STALE, "84ms behind, more than "+p.GetMaxStaleness().AsDuration().String())
		return d, &iqerr.StaleError{Refusals: r, MaxStaleness: new(p.GetMaxStaleness().AsDuration())}
	case p != nil && p.MaxOffsetLag != nil && p.GetMaxOffsetLag() < 12:
		refuse(iqv1.Reason_REASON_STALE, "12 offsets behind, more than 5")
		return d, &iqerr.StaleError{Refusals: r, MaxOffsetLag: p.MaxOffsetLag}
	}
	return d, nil
}

// values are the fixture's stores, by store and key bytes.
func values() map[string]map[string][]byte {
	return map[string]map[string][]byte{
		"flights-by-dest": {
			"ATL": binary.BigEndian.AppendUint64(nil, 1396), "bad": []byte("\x00\x01\x02"),
			"-17": binary.BigEndian.AppendUint64(nil, 17), "": binary.BigEndian.AppendUint64(nil, 0),
		},
		"delays": {
			string(binary.BigEndian.AppendUint32(nil, 7)):  binary.BigEndian.AppendUint64(nil, math.Float64bits(12.5)),
			string(binary.BigEndian.AppendUint32(nil, 13)): binary.BigEndian.AppendUint64(nil, math.Float64bits(math.NaN())),
		},
		"tails": {"N14228": []byte(`{"tail":"N14228","dest":"IAH"}`)},
	}
}

func (*cluster) Get(_ context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	d, err := decide(req)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	if req.Partition != nil && req.GetPartition() > 3 {
		return nil, iqerr.Status(iqerr.Invalid("partition", req.GetPartition(), "the store's partitions are 0 to 3"))
	}
	v, found := values()[req.GetStore()][string(req.GetKey())]
	res := &iqv1.GetResponse{
		Found: found, Value: v, Served: standbyOnB(),
		InputPosition: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "flights", Partition: 0, Offset: 9000}}},
		Attempts: []*iqv1.Attempt{{
			Node: "a", Address: "10.0.0.1:7001", Code: "Unavailable", Message: "connection refused", Elapsed: durationpb.New(2 * time.Millisecond),
		}},
	}
	if found {
		res.TimestampMs = 1700000040000
	}
	if req.GetExplain() {
		res.Decision = d
	}
	return res, nil
}

func (*cluster) Explain(_ context.Context, req *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	d, err := decide(req.GetGet())
	res := &iqv1.ExplainResponse{Decision: d}
	if err != nil {
		res.Reason = iqerr.ReasonOf(err)
		_, res.Error = iqerr.RefusalsOf(err)
	}
	return res, nil
}

func (c *cluster) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	if c.empty {
		return &iqv1.ListStoresResponse{}, nil
	}
	kv := func(name, key, value string, actual int32) *iqv1.StoreInfo {
		return &iqv1.StoreInfo{
			Name: name, Partitions: 4, Kind: "keyvalue", KeySerde: key, ValueSerde: value, Partitioner: "murmur2",
			Changelog: "flights-app-" + name + "-changelog", SourceTopics: []string{"flights"}, ActualPartitions: actual,
		}
	}
	return &iqv1.ListStoresResponse{Stores: []*iqv1.StoreInfo{
		kv("tails", "string", "json", 4), kv("flights-by-dest", "string", "int64", 4), kv("delays", "int32", "double", 6), kv("own", "avro", "avro", 4),
		{Name: "clicks", Partitions: 2, Kind: "window", KeySerde: "string", ValueSerde: "int64", Partitioner: "murmur2"},
		{Name: "prices", Partitions: 2, Kind: "versioned", KeySerde: "string", ValueSerde: "double", Partitioner: "murmur2"},
	}}, nil
}

func (c *cluster) ListInstances(_ context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	if c.empty {
		return &iqv1.ListInstancesResponse{}, nil
	}
	b0 := standbyOnB()
	b0.Partition, b0.Role, b0.OffsetLag, b0.TimeLag = 0, iqv1.Role_ROLE_ACTIVE, new(int64(0)), durationpb.New(0)
	hosts := func(i *iqv1.Instance) bool {
		return slices.Contains(i.GetActiveStores(), req.GetStore()) || slices.Contains(i.GetStandbyStores(), req.GetStore())
	}
	all := []*iqv1.Instance{
		{
			Node: "c", Address: "10.0.0.3:7001", Rack: "r2", Alive: true, Suspect: true, Generation: 7, Incarnation: 3,
			LastHeard: durationpb.New(640 * time.Millisecond), StandbyStores: []string{"flights-by-dest"}, Replicas: []*iqv1.ReplicaStatus{restoringOnC()},
		},
		{
			Node: "b", Address: "10.0.0.2:7001", Rack: "r1", Alive: true, Generation: 7, Incarnation: 2, LastHeard: durationpb.New(52 * time.Millisecond),
			ActiveStores: []string{"flights-by-dest"}, StandbyStores: []string{"flights-by-dest"}, Replicas: []*iqv1.ReplicaStatus{standbyOnB(), b0},
			ActivePartitions: []*iqv1.TopicPartition{{Topic: "flights"}}, StandbyPartitions: []*iqv1.TopicPartition{{Topic: "flights", Partition: 3}},
		},
		{Node: "a", Address: "10.0.0.1:7001", Generation: 6, Incarnation: 1, LastHeard: durationpb.New(12 * time.Second)},
		{
			Node: "d", Address: "10.0.0.4:7001", Alive: true, Generation: 7, ActiveStores: []string{"tails"}, Draining: true,
			Misplaced: []*iqv1.Misplaced{{
				Store: "tails", Topic: "flights", Partition: 1, Records: 17, FirstOffset: 40, FirstKey: []byte("N14228"), Expected: []int32{0, 2},
			}},
			Dropped: []*iqv1.Dropped{{Sink: "alerts", Topic: "alerts", Records: 1}},
		},
		{
			Node: "e", Address: "10.0.0.5:7001", Alive: true, Generation: 7, LastHeard: durationpb.New(31 * time.Millisecond),
			ActiveStores: []string{"tails"}, Replicas: []*iqv1.ReplicaStatus{suspendedOnE()},
		},
	}
	if req.GetStore() != "" {
		all = slices.DeleteFunc(all, func(i *iqv1.Instance) bool { return !hosts(i) })
	}
	return &iqv1.ListInstancesResponse{Instances: all}, nil
}

func (c *cluster) QueryKey(_ context.Context, req *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	if c.empty {
		return nil, iqerr.Status(&iqerr.NotReadyError{Node: "router-1", Waiting: "a report of any node"})
	}
	if p := req.GetPartitioner(); p != "" && p != "crc32" {
		return nil, iqerr.Status(iqerr.Invalid("partitioner", p, "is not known"))
	} else if p == "crc32" {
		return &iqv1.QueryKeyResponse{Partitions: []*iqv1.KeyPartition{{Partition: 1, Active: suspendedOnE()}}}, nil
	}
	if string(req.GetKey()) == "drop-1" {
		return &iqv1.QueryKeyResponse{}, nil
	}
	return &iqv1.QueryKeyResponse{Partitions: []*iqv1.KeyPartition{{
		Partition: 3, Standbys: []*iqv1.ReplicaStatus{standbyOnB(), restoringOnC()},
	}}}, nil
}

func (c *cluster) ListLags(_ context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	if c.empty {
		return nil, iqerr.Status(&iqerr.NotReadyError{Node: "router-1", Waiting: "a report of any node"})
	}
	if req.GetStore() != "" && req.GetStore() != "flights-by-dest" {
		return nil, iqerr.Status(&iqerr.StoreUnknownError{Store: req.GetStore(), Known: []string{"delays", "flights-by-dest"}})
	}
	return &iqv1.ListLagsResponse{Replicas: []*iqv1.ReplicaStatus{restoringOnC(), standbyOnB()}}, nil
}

// runInMemory runs one command line against routers in memory: "up" is the cluster, "empty" a router that no node has
// reported to, "hung" one that answers nothing; every other name refuses connections.
func runInMemory(t *testing.T, args []string, env map[string]string) (stdout, stderr string, code int) {
	t.Helper()
	var wg sync.WaitGroup
	var servers []*grpc.Server
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
		wg.Wait()
	}()
	listeners := map[string]*bufconn.Listener{}
	for address, node := range map[string]string{"10.0.0.2:7001": "b", "10.0.0.3:7001": "c"} {
		l := bufconn.Listen(1 << 16)
		s := grpc.NewServer()
		iqv1.RegisterVerifyServiceServer(s, &verifier{node: node})
		wg.Go(func() { _ = s.Serve(l) })
		servers, listeners[address] = append(servers, s), l
	}
	for name, c := range map[string]*cluster{"up": {}, "empty": {empty: true}, "hung": {}} {
		l := bufconn.Listen(1 << 16)
		s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if name == "hung" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, req)
		}))
		iqv1.RegisterQueryServiceServer(s, c)
		iqv1.RegisterMetadataServiceServer(s, c)
		iqv1.RegisterControlServiceServer(s, c)
		wg.Go(func() { _ = s.Serve(l) })
		servers = append(servers, s)
		listeners[name] = l
	}
	return execute(t, args, env, listeners)
}

// execute runs one command line where listeners are all the network there is.
func execute(t *testing.T, args []string, env map[string]string, listeners map[string]*bufconn.Listener) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{
		out: &out, errs: &errs, getenv: func(name string) string { return env[name] },
		dial: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			if l, ok := listeners[name]; ok {
				return l.DialContext(ctx)
			}
			return nil, errors.New("dial " + name + ": connection refused")
		})},
	}
	code = run(t.Context(), args, a)
	return out.String(), errs.String(), code
}
