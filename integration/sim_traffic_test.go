//go:build synctests

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/history"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds of the traffic.
const (
	simReaders     = 2
	simReadTimeout = 3 * time.Second // of a read, beyond its wait
	simGroups      = 4
	simNodeFetch   = 100 // milliseconds that a node's fetch waits; tells them from the observer's
	simLookEvery   = 200 * time.Millisecond
)

// write produces records until ctx ends: the sequence numbers of each key grow, and some records delete their key.
func (w *simWorld) write(ctx context.Context) {
	r := simRand(w.plan.seed, 1)
	for sequence := 1; ctx.Err() == nil; sequence++ {
		key, group := fmt.Sprintf("k%d", r.IntN(w.plan.keys)), fmt.Sprintf("g%d", r.IntN(simGroups))
		in := history.Input{Key: key, Value: strconv.Itoa(sequence), Deletes: r.IntN(12) == 0}
		value := group + "," + in.Value
		if in.Deletes {
			value = group + ",NA"
		}
		w.mu.Lock()
		at := time.Now().Add(w.mu.clock - between(r, 0, simLate))
		w.mu.Unlock()
		rec := &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value), Timestamp: at}
		if err := w.cl.ProduceSync(context.WithoutCancel(ctx), rec).FirstErr(); err != nil {
			w.failed(fmt.Errorf("write: %w", err))
			return
		}
		in.TopicPartition, in.Offset = history.TopicPartition{Topic: "in", Partition: rec.Partition}, rec.Offset
		w.mu.Lock()
		w.mu.h.Inputs = append(w.mu.h.Inputs, in)
		w.mu.latest[key] = in
		w.mu.records = append(w.mu.records, simRecord{in, group, at.UnixMilli()})
		w.mu.Unlock()
		if r.IntN(4) > 0 { // else a burst
			time.Sleep(time.Duration(r.ExpFloat64() * float64(w.plan.writeEvery)))
		}
	}
}

// observe notes what is committed to the changelogs, and when.
func (w *simWorld) observe(ctx context.Context) {
	offsets := make(map[string]map[int32]kgo.Offset)
	for _, store := range w.plan.stores() {
		offsets[simChangelog(store)] = make(map[int32]kgo.Offset)
		for p := range w.plan.partitions {
			offsets[simChangelog(store)][p] = kgo.NewOffset().At(0)
		}
	}
	// A fetch that waits at a broker which has lost the partition to another learns of nothing more.
	wait := 9 * time.Second
	if w.plan.brokers > 1 {
		wait = simLookEvery
	}
	// After a move of leaders without writes the client believes that data were lost. It begins anew then, and what it
	// brings again is left out.
	cl := w.Client(kgo.ConsumePartitions(offsets), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(wait),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	type producer struct {
		id int64
		history.Partition
	}
	next := make(map[history.Partition]int64)
	last := make(map[producer]time.Duration) // not before when its last transaction was committed
	for ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		now := w.now()
		w.mu.Lock()
		fs.EachRecord(func(rec *kgo.Record) {
			c := simCommit(strings.TrimSuffix(strings.TrimPrefix(rec.Topic, "app-"), "-changelog"), rec)
			c.By = now
			if rec.Offset < next[c.Partition] {
				return
			}
			next[c.Partition] = rec.Offset + 1
			by := producer{rec.ProducerID, c.Partition}
			c.NotBefore = committedNotBefore(w.mu.ends[rec.ProducerID], last[by], now, w.plan.brokers == 1)
			last[by] = c.NotBefore
			w.mu.h.Commits = append(w.mu.h.Commits, c)
		})
		w.mu.Unlock()
	}
}

// committedNotBefore is the earliest moment at which a transaction can have been committed that was seen at now, by the
// moments at which its producer's commits reached the broker. An observer that is prompt sees it at that very moment;
// for another one it was not before that of the producer's last transaction in the same partition.
func committedNotBefore(ends []time.Duration, last, now time.Duration, prompt bool) time.Duration {
	for _, end := range ends {
		if prompt && end == now || !prompt && end >= last {
			return end
		}
	}
	return last
}

// read asks the routers until ctx ends.
func (w *simWorld) read(ctx context.Context, reader uint64) {
	r := simRand(w.plan.seed, 10+reader)
	seen := make(map[string]map[history.TopicPartition]int64) // by store and key: the input position of the last read
	for ctx.Err() == nil {
		var key history.Read
		key.Store = pick(r, w.plan.plain())
		key.Key = w.plan.keyOf(key.Store, r.IntN(100))
		key.Router, key.Direct = w.whom(r)
		var wait time.Duration
		key.Policy = w.policy(r, key, seen[key.Store+key.Key])
		if r.IntN(3) == 0 {
			wait = between(r, 10*time.Millisecond, 1500*time.Millisecond)
		}
		prefer := iqv1.ReadPolicy_Prefer(r.Int32N(3))
		if got := w.readOnce(ctx, key, wait, prefer); got.Failed == "" && got.Input != nil {
			seen[key.Store+key.Key] = got.Input
		}
		time.Sleep(between(r, 0, 60*time.Millisecond))
	}
}

// whom chooses who is asked: mostly a router.
func (w *simWorld) whom(r *rand.Rand) (name string, direct bool) {
	if r.IntN(6) == 0 { // a caller on the node's own machine, say: it reaches a node that is cut off from all others
		return pick(r, simNodes), true
	}
	return pick(r, simRouters), false
}

// policy chooses what a read asks for.
func (w *simWorld) policy(r *rand.Rand, read history.Read, seen map[history.TopicPartition]int64) history.Policy {
	p := history.Policy{MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
	switch r.IntN(8) {
	case 0, 1:
		p.Mode = history.Strong
	case 2:
		p.Mode = history.Active
	case 3, 4:
		p.Mode = history.Any
	case 5, 6:
		p.Mode, p.MaxStaleness = history.Bounded, pick(r, []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second})
	default:
		p.Mode, p.MaxOffsetLag = history.Bounded, r.Int64N(8)
	}
	switch r.IntN(8) {
	case 0:
		p.AtLeast = seen
	case 1:
		w.mu.Lock()
		if in, ok := w.mu.latest[read.Key]; ok && read.Store == simLatest {
			p.AtLeast = map[history.TopicPartition]int64{in.TopicPartition: in.Offset + 1}
		}
		w.mu.Unlock()
	}
	return p
}

// readOnce reads and notes the reply.
func (w *simWorld) readOnce(ctx context.Context, read history.Read, wait time.Duration, prefer iqv1.ReadPolicy_Prefer) history.Read {
	query, before := w.server(read.Router, read.Direct)
	if query == nil {
		return history.Read{Failed: "down"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+simReadTimeout)
	defer cancel()
	req := &iqv1.GetRequest{Store: read.Store, Key: []byte(read.Key), Policy: policyProto(read.Policy, wait)}
	req.Policy.Prefer = prefer
	read.Invoked = w.now()
	resp, err := query.Get(ctx, req)
	read.Returned = w.now()
	if err != nil {
		read.Failed = err.Error()
		read.Partition.Partition = w.partitionOf(read.Key)
	} else {
		read.Found, read.Value = resp.GetFound(), simValue(read.Store, resp.GetValue())
		simServed(&read, resp.GetServed(), resp.GetInputPosition())
	}
	w.note(before, read)
	return read
}

// simServed notes which replica answered.
func simServed(read *history.Read, s *iqv1.ReplicaStatus, input *iqv1.Position) {
	read.Partition.Partition, read.Served, read.Input = s.GetPartition(), simReplica(s), nil
	if input == nil {
		return
	}
	read.Input = make(map[history.TopicPartition]int64)
	for _, o := range input.GetOffsets() {
		read.Input[history.TopicPartition{Topic: o.GetTopic(), Partition: o.GetPartition()}] = o.GetOffset()
	}
}

// note keeps what came of reads. A node's life is told where it was the same before and after.
func (w *simWorld) note(before map[string]int, reads ...history.Read) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := w.lives()
	for _, read := range reads {
		if life := before[read.Served.Node]; life == after[read.Served.Node] {
			read.Served.Life = life
		}
		w.mu.h.Reads = append(w.mu.h.Reads, read)
	}
}

// server is who is asked, nil while it is down, and the nodes' lives at that moment.
func (w *simWorld) server(name string, direct bool) (iqv1.QueryServiceClient, map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var asked *grpc.ClientConn
	if direct {
		asked = w.mu.nodes[name].asked
	} else if r := w.mu.routers[name]; r != nil {
		asked = r.asked
	}
	if asked == nil {
		return nil, nil
	}
	return iqv1.NewQueryServiceClient(asked), w.lives()
}

// lives are the nodes' lives, 0 for one that is down. The caller holds the lock.
func (w *simWorld) lives() map[string]int {
	lives := make(map[string]int)
	for id, n := range w.mu.nodes {
		if n.node != nil {
			lives[id] = n.life
		}
	}
	return lives
}

func policyProto(p history.Policy, wait time.Duration) *iqv1.ReadPolicy {
	modes := map[history.Mode]iqv1.ReadPolicy_Mode{
		history.Strong: iqv1.ReadPolicy_MODE_STRONG, history.Active: iqv1.ReadPolicy_MODE_ACTIVE,
		history.Bounded: iqv1.ReadPolicy_MODE_BOUNDED, history.Any: iqv1.ReadPolicy_MODE_ANY,
	}
	rp := &iqv1.ReadPolicy{Mode: modes[p.Mode]}
	if p.MaxStaleness != history.Unknown {
		rp.MaxStaleness = durationpb.New(p.MaxStaleness)
	}
	if p.MaxOffsetLag != history.Unknown {
		rp.MaxOffsetLag = &p.MaxOffsetLag
	}
	if wait > 0 {
		rp.Wait = durationpb.New(wait)
	}
	if p.AtLeast != nil {
		rp.AtLeast = &iqv1.Position{}
		for tp, offset := range p.AtLeast {
			rp.AtLeast.Offsets = append(rp.AtLeast.Offsets, &iqv1.PartitionOffset{Topic: tp.Topic, Partition: tp.Partition, Offset: offset})
		}
	}
	return rp
}

func simReplica(s *iqv1.ReplicaStatus) history.Replica {
	r := history.Replica{
		Node: s.GetNode(), Active: s.GetRole() == iqv1.Role_ROLE_ACTIVE, Running: s.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING,
		LeaseValid: s.GetLeaseValid(), Generation: s.GetGeneration(), Position: s.GetPosition(), End: s.GetEndPosition(),
		OffsetLag: history.Unknown, TimeLag: history.Unknown, SampleAge: history.Unknown,
	}
	if s.OffsetLag != nil {
		r.OffsetLag, r.SampleAge = s.GetOffsetLag(), s.GetSampleAge().AsDuration()
	}
	if s.GetTimeLag() != nil {
		r.TimeLag = s.GetTimeLag().AsDuration()
	}
	return r
}

// look asks every node for its replicas again and again until ctx ends.
func (w *simWorld) look(ctx context.Context) {
	for ctx.Err() == nil {
		for _, id := range simNodes {
			w.lookAt(ctx, id)
		}
		time.Sleep(simLookEvery)
	}
}

// lookAt asks one node for its replicas, past its gate, and notes what it says.
func (w *simWorld) lookAt(ctx context.Context, id string) []history.Observation {
	w.mu.Lock()
	var node *simNode
	if n := w.mu.nodes[id]; n != nil && n.node != nil {
		node = &simNode{life: n.life, node: n.node}
	}
	w.mu.Unlock()
	look := history.Look{Node: id, At: w.now()}
	var all []history.Observation
	if node != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), simReadTimeout)
		resp, err := node.node.Metadata().ListLags(ctx, &iqv1.ListLagsRequest{})
		cancel()
		if err == nil {
			for _, s := range resp.GetReplicas() {
				o := history.Observation{Partition: history.Partition{Store: s.GetStore(), Partition: s.GetPartition()}, At: look.At, Replica: simReplica(s)}
				o.Replica.Node, o.Replica.Life = id, node.life
				if o.Replica.Position < 0 || s.GetState() == iqv1.ReplicaState_REPLICA_STATE_CLOSED {
					continue
				}
				look.Replicas = append(look.Replicas, o.Partition)
				all = append(all, o)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.h.Looks = append(w.mu.h.Looks, look)
	w.mu.h.Observations = append(w.mu.h.Observations, all...)
	return all
}
