package node

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/wire"
)

// Bounds of a verification, so that it may run while the node serves.
const (
	verifyBytesPerSecond = 32 << 20 // default, and the most
	verifyMemory         = 64 << 20 // for what the changelog makes one expect; more is read in several passes
	maxVerifyPasses      = 256
	verifySamples        = 10 // differences told one by one
	verifyProgress       = time.Second
)

// verifyServer is the iq.v1 verify service of a node.
type verifyServer struct {
	iqv1.UnimplementedVerifyServiceServer
	n    *Node
	busy chan struct{} // of capacity one: held by the verification that runs
	pins pinnedStates
	sums chan struct{} // held by each DigestState that runs
}

func newVerifyServer(n *Node) *verifyServer {
	return &verifyServer{n: n, busy: make(chan struct{}, 1), pins: newPinnedStates(), sums: make(chan struct{}, maxDigests)}
}

// VerifyReplica implements VerifyService.
func (s *verifyServer) VerifyReplica(req *iqv1.VerifyReplicaRequest, stream grpc.ServerStreamingServer[iqv1.VerifyReplicaResponse]) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		return iqerr.Status(&iqerr.OverloadedError{Node: s.n.cfg.NodeID, InFlight: 1, Limit: 1, RetryAfter: verifyProgress})
	}
	v, err := s.n.newVerification(req, stream.Send)
	if err == nil {
		err = v.run(stream.Context())
	}
	if err != nil {
		return iqerr.Status(err)
	}
	return nil
}

// A verification compares one replica with its changelog.
type verification struct {
	n    *Node
	r    *replica
	kv   *store.KV
	send func(*iqv1.VerifyReplicaResponse) error

	rate     int64
	records  int64
	tables   int64
	told     time.Time
	result   *iqv1.VerifyResult
	seed     maphash.Seed
	sn       *store.Snapshot
	log      logPart
	lastPart int64 // the end up to which the keys that have changed since are looked for
}

// hosted gives a replica whose store is open.
func (n *Node) hosted(name string, partition int32) (*replica, *store.KV, error) {
	up := n.up.Load()
	if n.serving.Closing() {
		return nil, nil, &iqerr.ClosingError{Node: n.cfg.NodeID}
	}
	if up == nil {
		return nil, nil, &iqerr.NotReadyError{Node: n.cfg.NodeID, Waiting: "Kafka", RetryAfter: time.Second}
	}
	if _, ok := up.tasks.stores[name]; !ok {
		return nil, nil, up.tasks.unknownStore(name)
	}
	id := metadata.Partition{Store: name, Partition: partition}
	r := up.replicas.get(id)
	if r == nil {
		return nil, nil, n.serving.NotHosted(id)
	}
	kv := r.kv.Load()
	if kv == nil || r.broken.Load() != nil {
		return nil, nil, &iqerr.NotReadyError{Node: n.cfg.NodeID, Waiting: "store " + id.String(), RetryAfter: time.Second}
	}
	return r, kv, nil
}

func (n *Node) newVerification(req *iqv1.VerifyReplicaRequest, send func(*iqv1.VerifyReplicaResponse) error) (*verification, error) {
	if rate := req.GetMaxBytesPerSecond(); rate < 0 || rate > verifyBytesPerSecond {
		return nil, iqerr.Invalid("max_bytes_per_second", rate, fmt.Sprintf("must be from 0 to %d", verifyBytesPerSecond))
	}
	r, kv, err := n.hosted(req.GetStore(), req.GetPartition())
	if err != nil {
		return nil, err
	}
	v := &verification{n: n, r: r, kv: kv, send: send, rate: req.GetMaxBytesPerSecond(), seed: maphash.MakeSeed()}
	if v.rate == 0 {
		v.rate = verifyBytesPerSecond
	}
	return v, nil
}

// run reads the files and then compares, in as many passes as memory wants.
func (v *verification) run(ctx context.Context) error {
	read, err := v.kv.Scrub(ctx, v.rate)
	v.tables = read
	if err != nil {
		return v.failed(err)
	}
	if v.sn, err = v.kv.Snapshot(); err != nil {
		return v.failed(err)
	}
	defer v.sn.Release()
	// After the snapshot: every record below its position is below these.
	tps := []metadata.TopicPartition{v.r.changelog}
	starts, err := kafka.ListOffsets(ctx, v.n.admin, tps, kafka.AtStart)
	if err != nil {
		return err
	}
	ends, err := kafka.ListOffsets(ctx, v.n.admin, tps, kafka.AtEnd)
	if err != nil {
		return err
	}
	position := max(v.sn.Position(), 0)
	v.log = logPart{tp: v.r.changelog, topicID: v.kv.ID().TopicID, from: starts[v.r.changelog], to: position}
	v.lastPart = max(position, ends[v.r.changelog])
	report := v.r.Report(time.Now())
	v.result = &iqv1.VerifyResult{Status: wire.Status(v.n.cfg.NodeID, v.n.address, report), Position: position, Start: v.log.from}
	passes := 1
	for pass := 0; pass < passes; pass++ {
		v.result.Passes++
		err := v.pass(ctx, pass, passes)
		if errors.Is(err, errTooMuch) && passes < maxVerifyPasses {
			// Begin anew with smaller parts; nothing was told of this one. Parts that were done are told again.
			passes, pass = passes*4, -1
			v.result.Entries, v.result.Differences, v.result.ChangedSince, v.result.First = 0, 0, 0, nil
			continue
		}
		if err != nil {
			return v.failed(err)
		}
	}
	return v.send(&iqv1.VerifyReplicaResponse{Records: v.records, TableBytes: v.tables, Result: v.result})
}

// errTooMuch says that a pass does not fit into memory.
var errTooMuch = errors.New("a part of the changelog's keys does not fit into memory")

// failed lets a damaged store be rebuilt.
func (v *verification) failed(err error) error {
	switch {
	case errors.Is(err, store.ErrCorrupt):
		v.r.Damaged(err)
		return &iqerr.CorruptError{Node: v.n.cfg.NodeID, Store: v.r.id.Store, Partition: v.r.id.Partition, Problem: err.Error()}
	case errors.Is(err, store.ErrClosed):
		return &iqerr.ClosingError{Node: v.n.cfg.NodeID, Store: v.r.id.String()}
	}
	return err
}

// pass compares one of several equal parts of the keys.
func (v *verification) pass(ctx context.Context, pass, passes int) error {
	schema := v.kv.ID().Schema
	keep := func(group []byte) bool { return int(maphash.Bytes(v.seed, group)%uint64(passes)) == pass }
	want, since, sinceBytes := store.NewExpectation(schema, keep), make(map[string]bool), 0
	at := &logPace{perSecond: v.rate, begun: time.Now()}
	log := v.log
	log.to = v.lastPart
	err := v.n.readLog(ctx, log, at, func(b kafka.Batch) error {
		for _, rec := range b.Records {
			c, err := changeOf(schema, rec)
			if err != nil {
				continue // none of the store's kind; the replica skips it too
			}
			if rec.Offset < v.log.to {
				want.Change(&c)
			} else if group := schema.KeyGroup(c.Key); keep(group) && !since[string(group)] {
				since[string(group)] = true
				sinceBytes += len(group) + sinceCost
			}
		}
		v.records += int64(len(b.Records))
		if want.Bytes()+int64(sinceBytes) > verifyMemory {
			return errTooMuch
		}
		return v.progress()
	})
	if err != nil {
		return err
	}
	return want.Compare(v.sn, v.sn.StreamTime(), func(key []byte, d store.Difference) error {
		if d != store.DifferenceOnlyChangelog {
			v.result.Entries++
		}
		switch {
		case d == store.DifferenceNone:
		case since[string(schema.KeyGroup(key))]:
			v.result.ChangedSince++
		default:
			v.differs(schema, key, d)
		}
		return ctx.Err()
	})
}

// sinceCost is about what a key in a set costs beside its bytes.
const sinceCost = 64

func (v *verification) differs(schema store.Schema, internal []byte, d store.Difference) {
	v.result.Differences++
	if len(v.result.GetFirst()) >= verifySamples {
		return
	}
	m := &iqv1.VerifyDifference{Key: internal, Kind: map[store.Difference]iqv1.VerifyDifference_Kind{
		store.DifferenceOnlyStore:     iqv1.VerifyDifference_KIND_ONLY_REPLICA,
		store.DifferenceOnlyChangelog: iqv1.VerifyDifference_KIND_ONLY_CHANGELOG,
		store.DifferenceValue:         iqv1.VerifyDifference_KIND_VALUE,
	}[d]}
	if key, span, err := schema.Decode(internal); err == nil && schema.Kind != store.KindKeyValue {
		m.Key, m.StartMs = key, &span.Start
		if schema.Kind != store.KindVersioned {
			m.EndMs = &span.End
		}
	}
	v.result.First = append(v.result.First, m)
}

// progress tells how far it is, now and then.
func (v *verification) progress() error {
	if time.Since(v.told) < verifyProgress {
		return nil
	}
	v.told = time.Now()
	return v.send(&iqv1.VerifyReplicaResponse{Records: v.records, TableBytes: v.tables})
}
