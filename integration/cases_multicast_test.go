//go:build synctests

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/topology"
)

// casting is a cluster that runs castTable with one router; a log, when given, gets everybody's lines.
type casting struct {
	*fixture
	router *bubble.Router
	nodes  map[string]*bubble.Node
}

func newCasting(t *testing.T, log io.Writer, ids []string, edit ...func(*node.Config)) *casting {
	t.Helper()
	if log == nil {
		log = verboseLog(t)
	}
	c := bubble.New(t, bubble.Options{
		Topics: map[string]int32{"in": 1, "cast": 3}, Topology: func() *topology.Topology { return castTable("app", "in", "cast") }, Routers: []string{"r"}, Log: log,
	})
	f := &casting{fixture: &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}, nodes: map[string]*bubble.Node{}}
	f.adm = kadm.NewClient(f.cl)
	f.router = c.StartRouter("r", func(cfg *router.Config) { cfg.Partitioners = casters() })
	for _, id := range ids {
		f.nodes[id] = c.StartNode(id, append([]func(*node.Config){func(cfg *node.Config) {
			cfg.Partitioners, cfg.Standbys, cfg.ReleaseDelay = casters(), -1, 100*time.Millisecond
		}}, edit...)...)
	}
	return f
}

// ask reads a key of the table.
func ask(ctx context.Context, q iqv1.QueryServiceClient, key string, p *iqv1.ReadPolicy, edit ...func(*iqv1.GetRequest)) (*iqv1.GetResponse, error) {
	req := &iqv1.GetRequest{Store: "table", Key: []byte(key), Policy: p}
	for _, e := range edit {
		e(req)
	}
	resp, err := q.Get(ctx, req)
	if err != nil {
		return nil, iqerr.FromStatus(err)
	}
	return resp, nil
}

// in names the partition to read.
func in(partition int32) func(*iqv1.GetRequest) {
	return func(req *iqv1.GetRequest) { req.Partition = &partition }
}

// spread waits until each partition is on one node and no other, its active.
func (f *casting) spread() {
	f.t.Helper()
	f.Eventually(30*time.Second, "one copy of each partition", func() error {
		resp, err := f.router.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{Store: "table"})
		if err != nil {
			return err
		}
		on := map[string]int32{}
		for _, r := range resp.GetReplicas() {
			if r.GetRole() == iqv1.Role_ROLE_ACTIVE {
				on[r.GetNode()] = r.GetPartition()
			}
		}
		if len(on) != 3 || len(resp.GetReplicas()) != 3 {
			return errors.New(resp.String())
		}
		return nil
	})
}

// holds waits until the router gives value for the key from each of the partitions.
func (f *casting) holds(key, value string, partitions ...int32) {
	f.t.Helper()
	f.Eventually(30*time.Second, key+" is "+value, func() error {
		for _, p := range partitions {
			resp, err := ask(f.ctx, f.router.Query(), key, strong(), in(p))
			if err != nil {
				return err
			}
			if string(resp.GetValue()) != value || resp.GetServed().GetPartition() != p {
				return errors.New(resp.String())
			}
		}
		return nil
	})
}

// owner is the node that is the active of a partition, as the router has it.
func (f *casting) owner(partition int32) *bubble.Node {
	f.t.Helper()
	resp, err := f.router.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{Store: "table"})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range resp.GetReplicas() {
		if r.GetPartition() == partition && r.GetRole() == iqv1.Role_ROLE_ACTIVE {
			return f.nodes[r.GetNode()]
		}
	}
	f.t.Fatalf("nobody is active for partition %d: %v", partition, resp)
	return nil
}

// keyPartitions are a key's partitions as a metadata service has them.
func keyPartitions(ctx context.Context, m iqv1.MetadataServiceClient, key string) ([]int32, *iqv1.QueryKeyResponse, error) {
	resp, err := m.QueryKey(ctx, &iqv1.QueryKeyRequest{Store: "table", Key: []byte(key)})
	if err != nil {
		return nil, nil, iqerr.FromStatus(err)
	}
	var ps []int32
	for _, p := range resp.GetPartitions() {
		ps = append(ps, p.GetPartition())
	}
	return ps, resp, nil
}

// copies reads the topic "cast" to its end and counts the records of each key by partition.
func (f *casting) copies(isolation kgo.IsolationLevel) map[string][3]int {
	f.t.Helper()
	ends, err := f.adm.ListEndOffsets(f.ctx, "cast")
	if err != nil {
		f.t.Fatal(err)
	}
	cl := f.Client(kgo.ConsumeTopics("cast"), kgo.FetchIsolationLevel(isolation), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	defer cl.Close()
	at, got := map[int32]int64{}, map[string][3]int{}
	for {
		behind := false
		ends.Each(func(o kadm.ListedOffset) { behind = behind || at[o.Partition] < o.Offset })
		if !behind {
			return got
		}
		cl.PollFetches(f.ctx).EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				n := got[string(r.Key)]
				n[r.Partition]++
				got[string(r.Key)] = n
			}
		})
	}
}

// The text's code sends a multicast record to the first of its partitions only. Ours goes to all of them, in one
// transaction: when that is aborted after the records were written, none of them counts, and the next try writes all
// again. What the partitioner drops is counted once, however often it was tried.
func TestS28SinkSendsToAllPartitionsNotToTheFirstAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures atomic.Int32
		f := newCasting(t, nil, []string{"a"}, func(cfg *node.Config) {
			cfg.Step = func(step string) error {
				if step == "end" && failures.Add(1) == 1 {
					return errors.New("injected before EndTxn")
				}
				return nil
			}
		})
		defer f.close()
		keys := []string{"all-1", "pair-1", "drop-1", "other"}
		var recs []*kgo.Record
		for _, key := range keys {
			recs = append(recs, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("v")})
		}
		if err := f.cl.ProduceSync(f.ctx, recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f.holds("all-1", "v", 0, 1, 2)
		f.holds("pair-1", "v", 0, 2)

		other := [3]int{}
		other[partitioner.Murmur2().Partition([]byte("other"), 3)] = 1
		want := map[string][3]int{"all-1": {1, 1, 1}, "pair-1": {1, 0, 1}, "other": other}
		if got := f.copies(kgo.ReadCommitted()); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("committed copies: %v, want %v", got, want)
		}
		if got := f.copies(kgo.ReadUncommitted()); got["all-1"] != [3]int{2, 2, 2} || got["drop-1"] != [3]int{} {
			t.Errorf("copies of both transactions: %v; the first was to have been written and aborted", got)
		}
		dropped := &iqv1.Dropped{Sink: "caster-sink", Topic: "cast", Records: 1}
		for who, m := range map[string]iqv1.MetadataServiceClient{"node": f.nodes["a"].Metadata(), "router": f.router.Metadata()} {
			f.Eventually(5*time.Second, "the "+who+" tells of the dropped record", func() error {
				resp, err := m.ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
				if err != nil {
					return err
				}
				if got := resp.GetInstances()[0].GetDropped(); len(got) != 1 || got[0].String() != dropped.String() {
					return fmt.Errorf("%v, want %v", got, dropped)
				}
				if got := resp.GetInstances()[0].GetMisplaced(); len(got) != 0 {
					t.Fatalf("the copies of multicast keys are called misplaced: %v", got)
				}
				return nil
			})
		}
	})
}

// A key that is in several partitions is said to be there, is served from any of them, and from the one that the request
// names; one that is dropped is a key miss.
func TestS28MulticastKeyIsReadFromAnyOfItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCasting(t, nil, []string{"a", "b", "c"})
		defer f.close()
		f.write(f.cl, "in", "pair-1", "v", "drop-1", "v", "all-1", "w")
		f.holds("pair-1", "v", 0, 2)
		f.holds("all-1", "w", 0, 1, 2)
		f.spread()
		q, m := f.router.Query(), f.router.Metadata()

		for key, want := range map[string][]int32{"pair-1": {0, 2}, "all-1": {0, 1, 2}, "drop-1": nil} {
			asked := map[string]iqv1.MetadataServiceClient{"router": m}
			for id, n := range f.nodes {
				asked[id] = n.Metadata()
			}
			for who, service := range asked {
				got, resp, err := keyPartitions(f.ctx, service, key)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %s is in %v (%v), want %v", who, key, got, err, want)
				}
				for _, p := range resp.GetPartitions() {
					if p.GetActive().GetNode() != f.owner(p.GetPartition()).ID {
						t.Errorf("%s: the active of %d is %v", who, p.GetPartition(), p.GetActive())
					}
				}
			}
		}

		resp, err := ask(f.ctx, q, "pair-1", nil, func(req *iqv1.GetRequest) { req.Explain = true })
		if err != nil || string(resp.GetValue()) != "v" {
			t.Fatalf("%v, %v", resp, err)
		}
		var considered []int32
		for _, c := range resp.GetDecision().GetCandidates() {
			considered = append(considered, c.GetReplica().GetPartition())
		}
		slices.Sort(considered)
		if served := resp.GetServed(); !slices.Equal(considered, []int32{0, 2}) || f.owner(served.GetPartition()).ID != served.GetNode() || served.GetPartition() == 1 {
			t.Errorf("considered partitions %v, served by %v", considered, served)
		}
		// The same at a node: what is here, and who has it where nothing is.
		for partition := range int32(3) {
			resp, err := ask(f.ctx, f.owner(partition).Query(), "pair-1", nil)
			switch {
			case partition == 1:
				var e *iqerr.NotHostedError
				if !errors.As(err, &e) || !slices.Equal(e.Named, []string{f.owner(0).ID}) {
					t.Errorf("the node of partition 1: %v, %v", resp, err)
				}
			case err != nil || string(resp.GetValue()) != "v" || resp.GetServed().GetPartition() != partition:
				t.Errorf("the node of partition %d: %v, %v", partition, resp, err)
			}
		}

		for partition := int32(-1); partition <= 3; partition++ {
			resp, err := ask(f.ctx, q, "pair-1", nil, in(partition))
			switch partition {
			case -1, 3:
				if !errors.Is(err, iqerr.ErrInvalid) {
					t.Errorf("partition %d: %v, %v", partition, resp, err)
				}
			case 1: // not the key's; what is there is what is told
				if err != nil || resp.GetFound() || resp.GetServed().GetPartition() != 1 {
					t.Errorf("partition 1: %v, %v", resp, err)
				}
			default:
				if err != nil || string(resp.GetValue()) != "v" || resp.GetServed().GetPartition() != partition {
					t.Errorf("partition %d: %v, %v", partition, resp, err)
				}
			}
		}
		services := []iqv1.QueryServiceClient{q}
		for _, n := range f.nodes {
			services = append(services, n.Query())
		}
		for i, s := range services {
			if resp, err := ask(f.ctx, s, "drop-1", strong()); err != nil || resp.GetFound() {
				t.Errorf("drop-1 at %d: %v, %v", i, resp, err)
			}
		}
	})
}

// With the node of one of its partitions down, a key in two is served from the other without a pause; a request that
// names the lost one is refused until somebody has taken it over, never answered from the other.
func TestS28MulticastKeyOutlivesTheNodeOfOnePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCasting(t, nil, []string{"a", "b", "c"})
		defer f.close()
		f.write(f.cl, "in", "pair-1", "v")
		f.holds("pair-1", "v", 0, 2)
		f.spread()
		lost := f.owner(0)
		var rejoin atomic.Bool // until then nobody takes the partition over
		f.Kafka.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			f.Kafka.KeepControl()
			if rejoin.Load() {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse) //nolint:forcetypeassert // of this request
			resp.Version, resp.ErrorCode = req.GetVersion(), kerr.CoordinatorNotAvailable.Code
			return resp, nil, true
		})
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			lost.Kill() // returns when the process has ended, which takes a while without a network
		}()
		synctest.Wait()
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			resp, err := ask(f.ctx, f.router.Query(), "pair-1", nil)
			if err != nil || string(resp.GetValue()) != "v" || resp.GetServed().GetPartition() != 2 {
				t.Fatalf("partition 2 should have answered: %v, %v", resp, err)
			}
			resp, err = ask(f.ctx, f.router.Query(), "pair-1", nil, in(0))
			if !errors.Is(err, iqerr.ErrNoActive) && !errors.Is(err, iqerr.ErrNoReplica) {
				t.Fatalf("a request for partition 0 gave %v, %v", resp, err)
			}
		}
		rejoin.Store(true)
		f.Eventually(30*time.Second, "partition 0 is taken over", func() error {
			resp, err := ask(f.ctx, f.router.Query(), "pair-1", nil)
			if err != nil || string(resp.GetValue()) != "v" {
				t.Fatalf("a read failed: %v, %v", resp, err)
			}
			resp, err = ask(f.ctx, f.router.Query(), "pair-1", nil, in(0))
			if err == nil && (resp.GetServed().GetPartition() != 0 || string(resp.GetValue()) != "v") {
				t.Fatalf("a request for partition 0 was answered by %v", resp)
			}
			return err
		})
		<-killed
	})
}

// When the copies of a key are behind by different lags, the one within the bound answers, whichever it is.
func TestS28MulticastKeyIsReadFromThePartitionWithinTheBound(t *testing.T) {
	for stale, fresh := range map[int32]int32{0: 2, 2: 0} {
		t.Run(fmt.Sprintf("stale=%d", stale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newCasting(t, nil, []string{"a", "b", "c"}, func(cfg *node.Config) { cfg.SessionTimeout = 45 * time.Second })
				defer f.close()
				f.write(f.cl, "in", "pair-1", "v")
				f.holds("pair-1", "v", 0, 2)
				f.spread()
				old := f.owner(stale)
				old.Kafka().Freeze() // it reports to the router and serves, and hears nothing of Kafka
				defer old.Kafka().Thaw()
				time.Sleep(8 * time.Second)
				for what, p := range map[string]*iqv1.ReadPolicy{"max_staleness": maxStaleness(2 * time.Second), "max_offset_lag": maxLag(0), "active": nil} {
					resp, err := ask(f.ctx, f.router.Query(), "pair-1", p, func(req *iqv1.GetRequest) { req.Explain = true })
					if err != nil || string(resp.GetValue()) != "v" || resp.GetServed().GetPartition() != fresh {
						t.Errorf("%s: %v, %v", what, resp, err)
					}
					for _, c := range resp.GetDecision().GetCandidates() {
						if want := c.GetReplica().GetPartition() == fresh; c.GetEligible() != want {
							t.Errorf("%s: %v", what, c)
						}
					}
					if resp, err := ask(f.ctx, f.router.Query(), "pair-1", p, in(stale)); err == nil {
						t.Errorf("%s: partition %d, which is out of bounds, answered: %v", what, stale, resp)
					}
				}
				resp, err := ask(f.ctx, f.router.Query(), "pair-1", maxStaleness(time.Minute), in(stale))
				if err != nil || resp.GetServed().GetPartition() != stale || resp.GetServed().GetTimeLag().AsDuration() < 5*time.Second {
					t.Errorf("a bound of a minute: %v, %v", resp, err)
				}
			})
		})
	}
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines are those with every one of the texts.
func (b *syncBuffer) lines(texts ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for line := range strings.Lines(b.buf.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

func (b *syncBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A partitioner that names a partition that does not exist stops the task with an error that says who and which; of that
// record nothing is produced, not even to the partitions that do exist, and of its transaction nothing shows.
func TestS28PartitionOutOfRangeFailsBeforeAnythingIsProduced(t *testing.T) {
	for _, test := range []struct{ key, partition string }{{"beyond-1", "partition 3"}, {"below-1", "partition -1"}} {
		t.Run(test.key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &syncBuffer{}
				f := newCasting(t, log, []string{"a"}, func(cfg *node.Config) { cfg.TaskRetry = time.Second })
				defer f.close()
				f.write(f.cl, "in", "all-1", "before")
				f.holds("all-1", "before", 0, 1, 2)
				err := f.cl.ProduceSync(f.ctx,
					&kgo.Record{Topic: "in", Key: []byte("all-1"), Value: []byte("with it")},
					&kgo.Record{Topic: "in", Key: []byte("all-2"), Value: []byte("with it")},
					&kgo.Record{Topic: "in", Key: []byte("drop-1"), Value: []byte("with it")},
					&kgo.Record{Topic: "in", Key: []byte(test.key), Value: []byte("v")},
				).FirstErr()
				if err != nil {
					t.Fatal(err)
				}
				f.Eventually(20*time.Second, "the task stops again and again", func() error {
					if n := log.lines("task stopped", "caster-sink", `partitioner \"caster\"`, test.partition+" is not one of the 3"); n < 3 {
						return fmt.Errorf("%d lines in\n%s", n, log.text())
					}
					return nil
				})
				if got := f.copies(kgo.ReadUncommitted()); got[test.key] != [3]int{} {
					t.Errorf("%s was produced: %v", test.key, got)
				}
				if got := f.copies(kgo.ReadCommitted()); len(got) != 1 || got["all-1"] != [3]int{1, 1, 1} {
					t.Errorf("the aborted transaction shows: %v", got)
				}
				f.holds("all-1", "before", 0, 1, 2)
				if resp, err := ask(f.ctx, f.router.Query(), "all-2", strong()); err != nil || resp.GetFound() {
					t.Errorf("all-2: %v, %v", resp, err)
				}
				if got := f.committed(); got != 1 {
					t.Errorf("committed offset %d, want 1", got)
				}
				resp, err := f.nodes["a"].Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
				if err != nil || len(resp.GetInstances()[0].GetDropped()) != 0 {
					t.Errorf("a dropped record of an aborted transaction is counted: %v, %v", resp, err)
				}
				for who, m := range map[string]iqv1.MetadataServiceClient{"node": f.nodes["a"].Metadata(), "router": f.router.Metadata()} {
					if _, _, err := keyPartitions(f.ctx, m, test.key); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), "caster") {
						t.Errorf("%s: where %s is: %v", who, test.key, err)
					}
				}
			})
		})
	}
}
