package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/gateway/local"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// fake is a router whose answers are known. A key "error NAME" fails with the reason of that name.
type fake struct {
	iqv1.UnimplementedQueryServiceServer
	iqv1.UnimplementedMetadataServiceServer
	empty bool // no node has reported

	mu    sync.Mutex
	asked []string

	// scan and watch send what a test wants; nil for what is below.
	scan  func(ctx context.Context, m *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error
	watch func(ctx context.Context, m *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) error
}

// newFake makes a gateway in front of a fake.
func newFake(t *testing.T, f *fake, edit ...func(*Config)) *Gateway {
	t.Helper()
	calls := local.New(nil, nil)
	iqv1.RegisterQueryServiceServer(calls, f)
	iqv1.RegisterMetadataServiceServer(calls, f)
	c := Config{Calls: calls, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	for _, e := range edit {
		e(&c)
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// note keeps a request for the test to print.
func (f *fake) note(m proto.Message) {
	text, err := protojson.Marshal(m)
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, text)
	}
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf("%s %s", m.ProtoReflect().Descriptor().Name(), b.String()))
}

// took gives the requests since the last call.
func (f *fake) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

func storeInfos() []*iqv1.StoreInfo {
	of := func(name, kind, key, value string) *iqv1.StoreInfo {
		return &iqv1.StoreInfo{
			Name: name, Partitions: 4, ActualPartitions: 4, Kind: kind, KeySerde: key, ValueSerde: value, Partitioner: "murmur2",
			Changelog: "app-" + name + "-changelog", SourceTopics: []string{"in"},
		}
	}
	win := of("clicks", "window", "string", "int64")
	win.WindowSize, win.Retention = durationpb.New(time.Minute), durationpb.New(time.Hour)
	return []*iqv1.StoreInfo{
		of("counts", "", "string", "int64"), of("docs", "keyvalue", "string", "json"), of("delays", "keyvalue", "int32", "double"),
		of("raw", "keyvalue", "bytes", "bytes"), of("own", "keyvalue", "avro", "avro"), of("ids", "keyvalue", "json", "uuid"), win,
		of("visits", "session", "string", "int64"), of("prices", "versioned", "string", "double"),
	}
}

// values are what the stores hold, by store and key bytes.
func values() map[string]map[string][]byte {
	int64s := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	double := func(v float64) []byte { return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)) }
	int32s := func(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	return map[string]map[string][]byte{
		"counts": {"ATL": int64s(1396), "": int64s(0), "..": int64s(2), "a/b ü": int64s(-3), "bad": {0, 1, 2}, "big": int64s(math.MaxInt64)},
		"docs":   {"N1": []byte(`{"tail": "N1", "dest":["<IAH>"]}`), "bad": []byte(`{`), "latin": []byte("\"\xe4\"")},
		"delays": {int32s(7): double(12.5), int32s(-13): double(math.NaN())},
		"raw":    {"text": []byte("text"), "\x00\xff": {0, 255}},
		"own":    {"k": {7, 7}},
		"ids":    {`{"a":1}`: []byte("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")},
		"clicks": {"home": int64s(3)}, "visits": {"alice": int64s(4)}, "prices": {"apple": double(1.5)},
	}
}

func served(store string) *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Node: "b", Address: "10.0.0.2:7001", Store: store, Partition: 3, Role: iqv1.Role_ROLE_STANDBY,
		State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 7, Position: 988, EndPosition: 1000,
		OffsetLag: new(int64(12)), TimeLag: durationpb.New(84*time.Millisecond - 300), SampleAge: durationpb.New(61 * time.Millisecond),
	}
}

func position() *iqv1.Position {
	return &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Partition: 3, Offset: 9000}}}
}

func readOf(store string) *iqv1.PartitionRead {
	return &iqv1.PartitionRead{Partition: 3, Served: served(store), InputPosition: position()}
}

// failure is the error that a key asks for; nil for none.
func failure(store, key string) error {
	name, ok := strings.CutPrefix(key, "error ")
	if !ok {
		return nil
	}
	r := iqerr.Refusals{Store: store, Partition: 3, Candidates: []*iqv1.Candidate{{Replica: served(store), Why: "12 offsets behind, more than 5", Reason: iqv1.Reason_REASON_STALE}}}
	errs := map[string]error{
		"STORE_UNKNOWN": &iqerr.StoreUnknownError{Store: store, Known: []string{"counts"}}, "INVALID": iqerr.Invalid("policy.max_staleness", "5s", "is not for a test"),
		"NOT_READY":  &iqerr.NotReadyError{Node: "r1", Waiting: "a report of any node", RetryAfter: 1200 * time.Millisecond},
		"NOT_HOSTED": &iqerr.NotHostedError{Node: "b", Store: store}, "NO_ACTIVE": &iqerr.NoActiveError{Refusals: r, RetryAfter: 250 * time.Millisecond},
		"NO_REPLICA": &iqerr.NoReplicaError{Refusals: r}, "STALE": &iqerr.StaleError{Refusals: r, MaxOffsetLag: new(int64(5))},
		"POSITION_NOT_REACHED": &iqerr.PositionError{Refusals: r, AtLeast: position()},
		"PARTITIONS_CHANGED":   &iqerr.PartitionsChangedError{Store: store, Topic: "in", Want: 4, Have: 6},
		"OVERLOADED":           &iqerr.OverloadedError{Node: "r1", InFlight: 9, Limit: 9, RetryAfter: time.Second}, "CLOSING": &iqerr.ClosingError{Node: "r1"},
		"CORRUPT": &iqerr.CorruptError{Node: "b", Store: store, Partition: 3}, "PAGE_LOST": &iqerr.PageLostError{Store: store, Partition: 3, Problem: "the changelog was made anew"},
		"SLOW_READER":     &iqerr.SlowReaderError{Node: "r1", Waited: 30 * time.Second},
		"UNAUTHENTICATED": &iqerr.UnauthenticatedError{Problem: "the token has expired"}, "PERMISSION_DENIED": &iqerr.DeniedError{Action: "read", Store: store},
		"UNSPECIFIED": status.Error(codes.Internal, "a fault"), "CANCELLED": context.Canceled, "DEADLINE_EXCEEDED": context.DeadlineExceeded,
		"UNAVAILABLE": status.Error(codes.Unavailable, "gone"), "OTHER": status.Error(codes.Unimplemented, "of another day"),
	}
	err, ok := errs[name]
	if !ok {
		panic(name)
	}
	return iqerr.Status(err)
}

func (f *fake) know(store string) error {
	if f.empty {
		return iqerr.Status(&iqerr.NotReadyError{Node: "r1", Waiting: "a report of any node"})
	}
	for _, s := range storeInfos() {
		if s.GetName() == store {
			return nil
		}
	}
	return iqerr.Status(&iqerr.StoreUnknownError{Store: store, Known: []string{"counts", "docs"}})
}

func (f *fake) Get(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	f.note(m)
	if err := f.know(m.GetStore()); err != nil {
		return nil, err
	}
	if err := failure(m.GetStore(), string(m.GetKey())); err != nil {
		return nil, err
	}
	v, found := values()[m.GetStore()][string(m.GetKey())]
	resp := &iqv1.GetResponse{
		Found: found, Value: v, Served: served(m.GetStore()), InputPosition: position(),
		Attempts: []*iqv1.Attempt{{Node: "a", Address: "10.0.0.1:7001", Code: "Unavailable", Message: "connection refused", Elapsed: durationpb.New(2 * time.Millisecond)}},
	}
	if string(m.GetKey()) == "dropped" {
		return &iqv1.GetResponse{}, nil
	}
	if found {
		resp.TimestampMs = 1700000040000
	}
	if m.AsOfMs != nil {
		resp.ValidUntilMs = new(m.GetAsOfMs() + 1)
	}
	if m.GetExplain() {
		resp.Decision = &iqv1.Decision{Store: m.GetStore(), Partition: 3, Candidates: []*iqv1.Candidate{{Replica: served(m.GetStore()), Eligible: true, Rank: 1, Why: "within the policy"}}}
	}
	return resp, nil
}

func (f *fake) MultiGet(_ context.Context, m *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	f.note(m)
	resp := &iqv1.MultiGetResponse{Partitions: []*iqv1.PartitionRead{readOf(m.GetStore())}}
	for _, k := range m.GetKeys() {
		if err := failure(m.GetStore(), string(k)); err != nil {
			resp.Results = append(resp.Results, &iqv1.KeyResult{Error: iqerr.ToKeyError(err)})
			continue
		}
		v, found := values()[m.GetStore()][string(k)]
		r := &iqv1.KeyResult{Found: found, Value: v, Read: new(int32(0))}
		if found {
			r.TimestampMs = 1700000040000
		}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

func (f *fake) Scan(m *iqv1.ScanRequest, stream grpc.ServerStreamingServer[iqv1.ScanResponse]) error {
	f.note(m)
	s := m.GetSelection()
	if err := f.know(s.GetStore()); err != nil {
		return err
	}
	if f.scan != nil {
		return f.scan(stream.Context(), m, stream.Send)
	}
	if err := failure(s.GetStore(), string(s.GetPrefix())); err != nil {
		return err
	}
	stored := values()[s.GetStore()]
	if k := s.GetKey(); k != nil {
		stored = map[string][]byte{string(k): stored[string(k)]}
	}
	resp := &iqv1.ScanResponse{Reads: []*iqv1.PartitionRead{readOf(s.GetStore())}}
	for _, k := range sortedKeys(stored) {
		r := &iqv1.Row{Key: []byte(k), Value: stored[k], TimestampMs: 1700000040000, Partition: 3}
		if s.GetTimes() != nil {
			r.StartMs, r.EndMs = new(int64(1700000040000)), new(int64(1700000100000))
		}
		if resp.Rows = append(resp.Rows, r); int64(len(resp.Rows)) == m.GetLimit() {
			resp.PageToken = []byte("more")
			break
		}
	}
	return stream.Send(resp)
}

func (f *fake) Count(_ context.Context, m *iqv1.CountRequest) (*iqv1.CountResponse, error) {
	f.note(m)
	s := m.GetSelection().GetStore()
	return &iqv1.CountResponse{Count: int64(len(values()[s])), Approximate: m.GetApproximate(), Reads: []*iqv1.PartitionRead{readOf(s)}}, f.know(s)
}

func (f *fake) Watch(m *iqv1.WatchRequest, stream grpc.ServerStreamingServer[iqv1.WatchResponse]) error {
	f.note(m)
	s := m.GetSelection()
	if err := f.know(s.GetStore()); err != nil {
		return err
	}
	if f.watch != nil {
		return f.watch(stream.Context(), m, stream.Send)
	}
	if err := failure(s.GetStore(), string(s.GetPrefix())); err != nil {
		return err
	}
	row := &iqv1.Row{Key: []byte("ATL"), Value: values()["counts"]["ATL"], TimestampMs: 1700000040000, Partition: 3}
	for _, resp := range []*iqv1.WatchResponse{
		{Reads: []*iqv1.PartitionRead{readOf(s.GetStore())}, Events: []*iqv1.WatchEvent{{Row: row}}},
		{Current: []int32{3}, Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: 988}}},
		{Events: []*iqv1.WatchEvent{{Row: row}, {Row: &iqv1.Row{Key: []byte("ATL"), Partition: 3}, Removed: true}}, Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: 990}}},
		{Positions: []*iqv1.PartitionPosition{{Partition: 3, Position: 995}}},
	} {
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	return iqerr.Status(&iqerr.ClosingError{Node: "r1"})
}

func (f *fake) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	if f.empty {
		return &iqv1.ListStoresResponse{}, nil
	}
	return &iqv1.ListStoresResponse{Stores: storeInfos()}, nil
}

func (f *fake) ListInstances(_ context.Context, m *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	f.note(m)
	return &iqv1.ListInstancesResponse{Instances: []*iqv1.Instance{
		{Node: "b", Address: "10.0.0.2:7001", Rack: "r1", Alive: true, Generation: 7, StandbyStores: []string{"counts"}, Replicas: []*iqv1.ReplicaStatus{served("counts")}, LastHeard: durationpb.New(52 * time.Millisecond)},
		{Node: "a", Address: "10.0.0.1:7001", Generation: 6},
	}}, nil
}

func (f *fake) QueryKey(_ context.Context, m *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	f.note(m)
	return &iqv1.QueryKeyResponse{Partitions: []*iqv1.KeyPartition{{Partition: 3, Standbys: []*iqv1.ReplicaStatus{served(m.GetStore())}}}}, nil
}

func (f *fake) ListLags(_ context.Context, m *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	f.note(m)
	active := served("counts")
	active.Node, active.Role = "z", iqv1.Role_ROLE_ACTIVE
	return &iqv1.ListLagsResponse{Replicas: []*iqv1.ReplicaStatus{served("counts"), active}}, nil
}

func (f *fake) Explain(_ context.Context, m *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	f.note(m)
	g := m.GetGet()
	resp := &iqv1.ExplainResponse{Decision: &iqv1.Decision{Store: g.GetStore(), Partition: 3, Candidates: []*iqv1.Candidate{
		{Replica: served(g.GetStore()), Why: "not the active", Reason: iqv1.Reason_REASON_NO_ACTIVE},
		{Replica: served(g.GetStore()), Eligible: true, Rank: 1, Why: "within the policy"},
	}}}
	if g.GetPolicy().GetMode() == iqv1.ReadPolicy_MODE_STRONG {
		resp.Decision.Candidates = slices.Delete(resp.Decision.Candidates, 1, 2)
		resp.Reason, resp.Error = iqv1.Reason_REASON_NO_ACTIVE, "no replica is active"
	}
	return resp, nil
}
