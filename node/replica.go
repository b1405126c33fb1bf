package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/serve"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// A standing is the role and state of a replica and the generation that gave it the role.
type standing struct {
	role       metadata.Role
	state      metadata.State
	generation metadata.Generation
}

// runsActive says that the state is what the active applied last.
func (s standing) runsActive() bool {
	return s.role == metadata.RoleActive && s.state == metadata.StateRunning
}

// throughout is the standing that a read may be judged by which began under before and ended under after. A replica that
// was promoted in between may have been read before it had caught up.
func throughout(before, after standing) standing {
	if after.runsActive() && !before.runsActive() {
		return before
	}
	return after
}

// A flight is a transaction whose EndTxn was sent and whose outcome is not applied yet. Kafka may have committed it, so
// a strong read waits until done is closed.
type flight struct {
	since time.Time
	done  chan struct{}
}

// A replica is one store partition on this node. Its life:
//
//  1. RESTORING: the tail applies the changelog. It ends when the position has passed the end that the first fetch told.
//  2. A standby is RUNNING from then on; the tail goes on for ever.
//  3. An active stays RESTORING until the worker has promoted its task (promote.go), and then takes the writer token.
//  4. When the task is revoked, lost or reset the token goes back and the tail continues where the task stopped.
//
// Invariants: I1, only committed changes are applied (the tail reads committed, the worker applies after EndTxn); I2, the
// store writes the position with the data; I3, whoever applies holds the token in writer.
type replica struct {
	id        metadata.Partition
	task      metadata.TaskID
	changelog metadata.TopicPartition
	schema    store.Schema
	dir       string
	set       *replicaSet

	writer chan struct{} // holds the token that allows to apply
	kv     atomic.Pointer[store.KV]
	now    atomic.Pointer[standing]
	// samples is replaced, never written.
	samples atomic.Pointer[[]sample]
	flight  atomic.Pointer[flight]
	// input is the active's own input position; nil for others.
	input atomic.Pointer[metadata.Position]

	next       atomic.Int64 // changelog offset to fetch next; unknown before the store is open
	restoreEnd atomic.Int64 // the end that restoring must pass, unknown before the first fetch
	caughtUp   atomic.Bool  // has passed restoreEnd
	restoring  atomic.Pointer[restoreBegin]
	changes    serve.Changes // for those who watch
	broken     atomic.Pointer[brokenStore]
	resting    atomic.Int64  // until when the tail leaves it alone, in nanoseconds of set.base
	reads      atomic.Uint32 // so many reads have begun, see readRoom
	foreign    atomic.Int64  // records of the changelog that were skipped, see skipForeign
	// foreignSaid is when the log told of them last; the token's holder alone.
	foreignSaid time.Time
	openAfter   time.Time    // not before a store that could not be opened is tried again; the token's holder alone
	copyAfter   atomic.Int64 // not before it is tried again to copy it from another node, in nanoseconds of set.base
	released    atomic.Int64 // when it lost its last assignment, in nanoseconds of set.base; 0 while assigned
}

// A restoreBegin is when and where a replica began to read its changelog up.
type restoreBegin struct {
	at       time.Time
	position int64
}

const unknownOffset = -1

func newReplica(set *replicaSet, id metadata.Partition, task metadata.TaskID, changelog metadata.TopicPartition, schema store.Schema, dir string) *replica {
	r := &replica{id: id, task: task, changelog: changelog, schema: schema, dir: dir, set: set, writer: make(chan struct{}, 1)}
	r.writer <- struct{}{}
	r.next.Store(unknownOffset)
	r.restoreEnd.Store(unknownOffset)
	r.now.Store(&standing{role: metadata.RoleStandby, state: metadata.StateRestoring})
	return r
}

// stand changes the standing by f and tells whoever waits.
func (r *replica) stand(f func(standing) standing) {
	for {
		old := r.now.Load()
		next := f(*old)
		if next == *old {
			return
		}
		if r.now.CompareAndSwap(old, &next) {
			r.set.log.Info("replica", slog.String("store", r.id.Store), slog.Int("partition", int(r.id.Partition)),
				slog.String("role", next.role.String()), slog.String("state", next.state.String()),
				slog.Int64("generation", int64(next.generation)), slog.Int64("position", r.position()))
			r.set.news.announce()
			r.set.roles.announce()
			return
		}
	}
}

// take waits for the writer token.
func (r *replica) take(ctx context.Context) error {
	if r.tryTake() { // also when ctx has ended
		return nil
	}
	select {
	case <-r.writer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryTake takes the writer token if nobody has it.
func (r *replica) tryTake() bool {
	select {
	case <-r.writer:
		return true
	default:
		return false
	}
}

// give puts the writer token back.
func (r *replica) give() { r.writer <- struct{}{} }

// position is the next changelog offset to apply.
func (r *replica) position() int64 {
	kv := r.kv.Load()
	if kv == nil {
		return unknownOffset
	}
	return kv.Position()
}

// At implements kafka.Cursor: the tail fetches from here while no task writes the replica.
func (r *replica) At() (metadata.TopicPartition, int64, bool) {
	next := r.next.Load()
	ok := next >= 0 && len(r.writer) > 0 && r.broken.Load() == nil && int64(time.Since(r.set.base)) >= r.resting.Load()
	return r.changelog, next, ok
}

// Deliver implements kafka.Cursor: it applies a batch of committed changelog records.
func (r *replica) Deliver(_ context.Context, b kafka.Batch) {
	if !r.tryTake() {
		return // a task has the replica now
	}
	defer r.give()
	kv := r.kv.Load()
	if kv == nil || b.From != r.next.Load() || r.broken.Load() != nil {
		return // asked for in an earlier life
	}
	if id := kv.ID().TopicID; b.TopicID != id && b.TopicID != [16]byte{} && id != [16]byte{} {
		r.breakDown(&brokenStore{reason: "the changelog topic was made anew"}) // its log may have outgrown the position already
		return
	}
	if b.Err != nil {
		if errors.Is(b.Err, kerr.OffsetOutOfRange) {
			r.breakDown(&brokenStore{reason: fmt.Sprintf("position %d is outside the changelog, which starts at %d and ends at %d", b.From, b.Start, b.End)})
			return
		}
		r.set.log.Error("cannot read the changelog", slog.String("changelog", r.changelog.String()), slog.Int64("offset", b.From), slog.Any("error", b.Err))
		r.rest() // the next fetch would bring the same at once
		return
	}
	if b.Next > b.From {
		if !r.caughtUp.Load() && r.set.step(stepRestore) != nil {
			r.rest()
			return
		}
		changes, foreign, first := changesOf(r.schema, b, kv.Checkpoint().StreamTime)
		next := b.Next
		if fault.MarkerNotCounted {
			next = kv.Position()
			if n := len(b.Records); n > 0 {
				next = b.Records[n-1].Offset + 1
			}
		}
		if err := kv.Apply(changes, store.Checkpoint{Position: next}); err != nil {
			r.applyFailed(err)
			return
		}
		r.set.work.Applied.Add(int64(len(changes)), r.id.Store, tally.FromChangelog)
		r.changes.Tailed(kv, b)
		r.skipForeign(foreign, first)
		r.next.Store(b.Next)
	}
	if b.End >= 0 {
		r.restoreEnd.CompareAndSwap(unknownOffset, b.End)
	}
	if end := r.restoreEnd.Load(); end >= 0 && b.Next >= end && r.caughtUp.CompareAndSwap(false, true) {
		r.stand(func(s standing) standing {
			if s.role != metadata.RoleActive {
				s.state = metadata.StateRunning
			}
			return s
		})
	}
	if b.Next > b.From {
		r.set.news.announce()
	}
}

const (
	// restPause of the tail is before the next try: when the disk is full, when what Kafka sent cannot be read (a damaged
	// batch, an unknown compression), and while a replica waits for its turn to be copied; after that it reads the
	// changelog, and its turn finds it less far behind.
	restPause    = time.Second
	fullLogEvery = 10 * time.Second
)

// rest makes the tail leave the replica alone for a while.
func (r *replica) rest() { r.resting.Store(int64(time.Since(r.set.base) + restPause)) }

// applyFailed rests while the disk is full: nothing was written, what is there stays right, and its lag grows. Any other
// failure leaves a store that nobody can trust.
func (r *replica) applyFailed(err error) {
	if errors.Is(err, store.ErrNoSpace) {
		if now, said := int64(time.Since(r.set.base)), r.set.fullSaid.Load(); said == 0 || now-said > int64(fullLogEvery) {
			r.set.fullSaid.Store(max(now, 1))
			r.set.log.Error("the disk is full; stores stay as they are until there is room", slog.String("store", r.id.String()), slog.Any("error", err))
		}
		r.rest()
		return
	}
	r.breakDown(&brokenStore{reason: "apply: " + err.Error(), damaged: true})
}

// breakDown marks the store to be dropped and rebuilt from the changelog; the replica set does it. Readers keep what
// they have until then, but nobody knows its lag. A task that runs on it lets go of it.
func (r *replica) breakDown(b *brokenStore) {
	r.broken.Store(b)
	r.caughtUp.Store(false)
	r.stand(func(s standing) standing {
		s.state = metadata.StateSuspended
		return s
	})
	kafka.Poke(r.set.wake)
}

// open opens the store and settles where the tail begins. A store that belongs to another partition or topic, is damaged,
// or whose position lies outside the changelog is dropped and begun anew (S08): the client would jump silently, and
// keys deleted in between would stay for ever. The caller holds the token.
func (r *replica) open(ctx context.Context) error {
	topic, ok := r.set.catalog.Topic(r.changelog.Topic)
	if !ok {
		return fmt.Errorf("changelog topic %s does not exist", r.changelog.Topic)
	}
	tps := []metadata.TopicPartition{r.changelog}
	starts, err := kafka.ListOffsets(ctx, r.set.cl, tps, kafka.AtStart)
	if err != nil {
		return err
	}
	sent := time.Now()
	ends, err := kafka.ListOffsets(ctx, r.set.cl, tps, kafka.AtEnd)
	if err != nil {
		return err
	}
	start, end := starts[r.changelog], ends[r.changelog]
	if err := r.set.step(stepOpen); err != nil {
		return fmt.Errorf("open store %s: %w", r.id, err)
	}
	r.addSample(sample{At: sent, End: end}) // so that its lag is known from the first read on
	id := store.ID{
		Application: r.set.application, Store: r.id.Store, Partition: r.id.Partition,
		Changelog: r.changelog.Topic, TopicID: topic.ID, Schema: r.schema,
	}
	why := r.broken.Load()
	var kv *store.KV
	if why == nil {
		if kv, err = store.Open(r.dir, id, r.set.storeOptions); err != nil {
			if why = unfit(err); why == nil {
				return fmt.Errorf("open store %s: %w", r.id, err)
			}
		} else {
			why = outside(kv.Position(), start, end)
		}
	}
	if why != nil {
		r.set.work.Rebuilds.Add(1, r.id.Store)
		r.set.log.Warn("rebuilt", slog.String("store", r.id.Store), slog.Int("partition", int(r.id.Partition)),
			slog.String("reason", why.reason), slog.Int64("start", start), slog.Int64("end", end))
		for _, old := range []*store.KV{kv, r.kv.Swap(nil)} {
			if old == nil {
				continue
			}
			if err := old.Close(); err != nil {
				return fmt.Errorf("close store %s to rebuild it: %w", r.id, err)
			}
		}
		if err := r.clear(why); err != nil {
			return fmt.Errorf("drop store %s to rebuild it: %w", r.id, err)
		}
		if kv, err = store.Open(r.dir, id, r.set.storeOptions); err != nil {
			return fmt.Errorf("open store %s anew: %w", r.id, err)
		}
	}
	if kv.Position() < start {
		if err := kv.Apply(nil, store.Checkpoint{Position: start}); err != nil {
			return errors.Join(fmt.Errorf("begin store %s at %d: %w", r.id, start, err), kv.Close())
		}
	}
	r.kv.Store(kv)
	r.restoring.Store(&restoreBegin{at: time.Now(), position: kv.Position()})
	r.next.Store(kv.Position())
	r.restoreEnd.Store(unknownOffset)
	r.caughtUp.Store(false)
	r.broken.Store(nil)
	r.stand(func(s standing) standing {
		s.state = metadata.StateRestoring
		return s
	})
	r.set.copies.consider(r)
	return nil
}

// close closes the store; the caller holds the token and never gives it back.
func (r *replica) close() error {
	r.stand(func(s standing) standing {
		s.state = metadata.StateClosed
		return s
	})
	r.next.Store(unknownOffset)
	if kv := r.kv.Swap(nil); kv != nil {
		return kv.Close()
	}
	return nil
}

// addSample keeps what a request for the changelog's end told.
func (r *replica) addSample(s sample) {
	for {
		var old []sample
		p := r.samples.Load()
		if p != nil {
			old = *p
		}
		next := addSample(old, s)
		if r.samples.CompareAndSwap(p, &next) {
			return
		}
	}
}

// lag is how far the replica is behind at now, having applied everything below position. A RUNNING active under a
// valid lease is not behind, but for a commit that is in flight, or was when the position was read (flying, or nil); past
// its lease it is as fresh as the lease's end.
func (r *replica) lag(s standing, position int64, flying *flight, now time.Time) metadata.LagInfo {
	var samples []sample
	if p := r.samples.Load(); p != nil {
		samples = *p
	}
	lag := MeasureLag(samples, position, now)
	if r.broken.Load() != nil {
		// Its position says nothing: the store is damaged, or of a changelog that was made anew or truncated, whose end
		// may well lie below it.
		lag.Offsets, lag.Time, lag.SampleAge = metadata.LagUnknown, metadata.LagUnknown, 0
		return lag
	}
	if !s.runsActive() {
		return lag
	}
	fresh := now
	if !r.set.lease.Valid(now) {
		if fresh = r.set.lease.End(); fresh.IsZero() {
			return lag
		}
	} else {
		lag.Offsets, lag.End = 0, max(lag.End, position)
		lag.SampleAge = 0
	}
	for _, f := range []*flight{flying, r.flight.Load()} {
		if f != nil && f.since.Before(fresh) {
			fresh = f.since
		}
	}
	if own := now.Sub(fresh); lag.Time == metadata.LagUnknown || own < lag.Time {
		lag.Time = max(0, own)
	}
	return lag
}

// inputPosition is the input position of the state at the changelog position given.
func (r *replica) inputPosition(s standing, position int64) metadata.Position {
	if s.runsActive() {
		if p := r.input.Load(); p != nil {
			return *p
		}
	}
	if p := r.samples.Load(); p != nil {
		return inputAt(*p, position)
	}
	return nil
}

// Report is the replica as heartbeats and metadata show it.
func (r *replica) Report(now time.Time) metadata.Replica {
	s, flying := *r.now.Load(), r.flight.Load()
	position := r.position()
	return metadata.Replica{
		Partition: r.id, Role: s.role, State: s.state, Generation: s.generation,
		Lag:        r.lag(s, position, flying, now),
		LeaseValid: s.role == metadata.RoleActive && r.set.lease.Valid(now),
		Input:      r.inputPosition(s, position),
	}
}
