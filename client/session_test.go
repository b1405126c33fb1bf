package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func position(text string) *iqv1.Position {
	p := &iqv1.Position{}
	if err := prototext.Unmarshal([]byte(text), p); err != nil {
		panic(err)
	}
	return p
}

// replicas answers reads of stores s0, s1, … from replicas at random positions, as far as the request's at_least lets it. It
// notes each at_least. Its reads are of partition len(key).
type replicas struct {
	mu  sync.Mutex
	rng *rand.Rand
	got map[string][]*iqv1.Position // by store
}

func (r *replicas) at(store string, partition int32, policy *iqv1.ReadPolicy) *iqv1.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[store] = append(r.got[store], policy.GetAtLeast())
	offset := r.rng.Int64N(1000)
	for _, o := range policy.GetAtLeast().GetOffsets() {
		if o.GetTopic() == "in" && o.GetPartition() == partition {
			offset = max(offset, o.GetOffset())
		}
	}
	return &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Partition: partition, Offset: offset}}}
}

func (r *replicas) router() *router {
	return &router{
		get: func(_ context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			return &iqv1.GetResponse{InputPosition: r.at(req.GetStore(), int32(len(req.GetKey())), req.GetPolicy())}, nil
		},
		multiGet: func(_ context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
			res := &iqv1.MultiGetResponse{}
			for i, k := range req.GetKeys() {
				res.Results = append(res.Results, &iqv1.KeyResult{Read: new(int32(i))})
				res.Partitions = append(res.Partitions, &iqv1.PartitionRead{InputPosition: r.at(req.GetStore(), int32(len(k)), req.GetPolicy())})
			}
			return res, nil
		},
		count: func(_ context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
			read := &iqv1.PartitionRead{InputPosition: r.at(req.GetSelection().GetStore(), 1, req.GetPolicy())}
			return &iqv1.CountResponse{Reads: []*iqv1.PartitionRead{read}}, nil
		},
		scan: func(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
			read := &iqv1.PartitionRead{InputPosition: r.at(req.GetSelection().GetStore(), 2, req.GetPolicy())}
			if err := out.Send(&iqv1.ScanResponse{Rows: []*iqv1.Row{{}}, Reads: []*iqv1.PartitionRead{read}, PageToken: []byte{1}}); err != nil {
				return err
			}
			if len(req.GetPageToken()) > 0 {
				return out.Send(&iqv1.ScanResponse{Rows: []*iqv1.Row{{}}})
			}
			return iqerr.ErrClosing // the rest comes from another replica
		},
	}
}

// TestASessionNeverAsksForLessThanItHasSeen: reads of all kinds in a random order, and from several goroutines at once.
func TestASessionNeverAsksForLessThanItHasSeen(t *testing.T) {
	read := func(ctx context.Context, s *client.Session, rng *rand.Rand) error {
		store, key := fmt.Sprintf("s%d", rng.IntN(2)), make([]byte, rng.IntN(4))
		switch rng.IntN(5) {
		case 0:
			return second(s.MultiGet(ctx, store, [][]byte{key, nil}))
		case 1:
			return second(s.Count(ctx, store))
		case 2:
			return second(taken(s.Scan(ctx, store), -1))
		case 3:
			return s.Wrote("in", rng.Int32N(4), rng.Int64N(1000))
		default:
			return second(s.Get(ctx, store, key))
		}
	}
	for seed := range uint64(20) {
		rs := &replicas{rng: rand.New(rand.NewPCG(seed, 1)), got: map[string][]*iqv1.Position{}}
		fake := rs.router()
		c := newNetwork(t, map[string]*router{"r1": fake, "r2": fake}).client(t, "r1 r2")
		s, rng := c.NewSession(), rand.New(rand.NewPCG(seed, 2))
		fake.stores = []*iqv1.StoreInfo{{Name: "s0", SourceTopics: []string{"in"}}, {Name: "s1", SourceTopics: []string{"in"}}}
		for range 60 {
			if err := read(t.Context(), s, rng); err != nil {
				t.Fatal(err)
			}
		}
		for store, all := range rs.got {
			least := map[int32]int64{}
			for n, p := range all {
				now := map[int32]int64{}
				for _, o := range p.GetOffsets() {
					now[o.GetPartition()] = o.GetOffset()
				}
				for partition, offset := range least {
					if now[partition] < offset {
						t.Fatalf("seed %d, %s, read %d: at least %v after %v", seed, store, n, now, least)
					}
				}
				least = now
			}
			if len(least) == 0 {
				t.Errorf("seed %d: nothing was ever asked for of %s", seed, store)
			}
		}
	}
	t.Run("at once", func(t *testing.T) {
		rs := &replicas{rng: rand.New(rand.NewPCG(7, 7)), got: map[string][]*iqv1.Position{}}
		fake := rs.router()
		s := newNetwork(t, map[string]*router{"r1": fake}).client(t, "r1").NewSession()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var last int64
				for range 50 {
					res, err := s.Get(t.Context(), "s0", []byte("k"))
					if err != nil || res.InputPosition.GetOffsets()[0].GetOffset() < last {
						t.Errorf("went back from %d: %v, %v", last, res.InputPosition, err)
						return
					}
					last = res.InputPosition.GetOffsets()[0].GetOffset()
				}
			})
		}
		wg.Wait()
	})
}

func TestASessionAsksForWhatItHasWrittenOfTheStoresSourcesAlone(t *testing.T) {
	rs := &replicas{rng: rand.New(rand.NewPCG(1, 1)), got: map[string][]*iqv1.Position{}}
	fake := rs.router()
	fake.stores = []*iqv1.StoreInfo{{Name: "s0", SourceTopics: []string{"in"}}, {Name: "s1", SourceTopics: []string{"other"}}}
	var policy *iqv1.ReadPolicy
	answer := fake.get
	fake.get = func(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		policy = req.GetPolicy()
		_, _ = answer(ctx, req)
		return &iqv1.GetResponse{}, nil
	}
	c := newNetwork(t, map[string]*router{"r1": fake}).client(t, "r1", client.WithReadOptions(client.Any()))
	s := c.NewSession(client.Wait(time.Second))
	if err := errors.Join(s.Wrote("in", 3, 41), s.Wrote("in", 3, 40)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		store string
		opts  []client.ReadOption
		want  string
	}{
		{"s0", nil, `mode:MODE_ANY wait:{seconds:1} at_least:{offsets:{topic:"in" partition:3 offset:42}}`},
		{"s1", nil, `mode:MODE_ANY wait:{seconds:1}`},
		{
			"s0", o(client.Strong(), client.AtLeast(position(`offsets:{topic:"in" partition:1 offset:7} offsets:{topic:"in" partition:3 offset:50}`))),
			`mode:MODE_STRONG wait:{seconds:1} at_least:{offsets:{topic:"in" partition:1 offset:7} offsets:{topic:"in" partition:3 offset:50}}`,
		},
	} {
		if _, err := s.Get(t.Context(), x.store, []byte("k"), x.opts...); err != nil {
			t.Fatal(err)
		}
		want := &iqv1.ReadPolicy{}
		if err := prototext.Unmarshal([]byte(x.want), want); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(policy, want) {
			t.Errorf("%s: sent %v\nwant %v", x.store, policy, want)
		}
	}
	if n := fake.listed(); n != 1 {
		t.Errorf("the stores were asked for %d times", n)
	}
	if _, err := s.Get(t.Context(), "nosuch", nil); !errors.Is(err, iqerr.ErrStoreUnknown) {
		t.Errorf("got %v", err)
	}
	for _, err := range []error{s.Wrote("", 0, 0), s.Wrote("in", -1, 0), s.Wrote("in", 0, -1)} {
		if !errors.Is(err, iqerr.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAFailedReadTeachesASessionNothing and a later one is not held back by it.
func TestAFailedReadTeachesASessionNothing(t *testing.T) {
	r := &router{}
	r.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		if r.asked() == 1 {
			return nil, &iqerr.PositionError{}
		}
		return &iqv1.GetResponse{}, nil
	}
	s := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1").NewSession()
	if _, err := s.Get(t.Context(), "s0", nil); !errors.Is(err, iqerr.ErrPositionNotReached) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), "s0", nil); err != nil || r.last().GetPolicy() != nil {
		t.Errorf("got %v, sent %v", err, r.last().GetPolicy())
	}
}
