package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
)

// Bounds of bootstrapping.
const (
	maxBootstraps = 4 // replicas that are copied at a time
	// bootstrapLook is the time between two looks for replicas that are far behind, beside those that news cause.
	bootstrapLook = 500 * time.Millisecond
	// bootstrapRetry is how long a replica is not tried again after a try, whatever came of it.
	bootstrapRetry = 30 * time.Second
	// incomingDir is where copies grow, below the state directory. What an earlier run left there is removed.
	incomingDir = "incoming"
)

// A bootstrapper has replicas that are far behind, or empty, begin with a copy of what another node has, where that is faster
// than the changelog. Its steps for a replica:
//
//  1. It takes the writer token: the tail rests, the store that is there goes on serving what it has.
//  2. It asks the nodes that the newest assignment names for the partition what they have, and chooses
//     (bootstrap_decide.go).
//  3. It copies the chosen node's store at one position into a directory of its own (bootstrap_copy.go). Until all of it is
//     there, sound and on disk, it is nothing.
//  4. It closes the old store, puts the copy in its place, and opens that as any store is opened: identity and topic id are
//     compared, and the position with what Kafka says of the changelog at that moment.
//  5. It gives the token back, and the tail goes on at the copy's position.
//
// Whatever goes wrong before step 4 leaves the replica as it was, and it reads the changelog. Only what the other node had
// applied at its position is copied, which is committed (I1), and the position is written last (I2).
type bootstrapper struct {
	set      *replicaSet
	self     metadata.NodeID
	distance int64 // Config.BootstrapDistance
	hosts    func() *metadata.HostMap
	dial     func(address string) (*grpc.ClientConn, error)
	log      *slog.Logger

	wake  chan struct{}
	slots chan struct{}
}

func newBootstrapper(set *replicaSet, cfg Config, hosts func() *metadata.HostMap) *bootstrapper {
	return &bootstrapper{
		set: set, self: metadata.NodeID(cfg.NodeID), distance: cfg.BootstrapDistance, hosts: hosts, dial: cfg.dialSource, log: cfg.Logger,
		wake: make(chan struct{}, 1), slots: make(chan struct{}, maxBootstraps),
	}
}

// run copies what is far behind until ctx ends, and returns when every copy has ended.
func (b *bootstrapper) run(ctx context.Context) error {
	if b.distance < 0 {
		return nil
	}
	var copies sync.WaitGroup
	defer copies.Wait()
	tick := time.NewTicker(bootstrapLook)
	defer tick.Stop()
	for {
		for _, r := range b.set.list() {
			if !b.wants(r, time.Now()) {
				continue
			}
			select {
			case b.slots <- struct{}{}:
			default:
				continue // it waits; see consider
			}
			if !r.tryTake() { // the tail applies a batch, or a task has it
				<-b.slots
				continue
			}
			copies.Go(func() {
				defer func() { <-b.slots; kafka.Poke(b.wake) }()
				b.try(ctx, r)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-b.wake:
		}
	}
}

// consider is told of a replica whose store was just opened, by the token's holder: when it is to be copied the tail leaves
// it alone for a moment.
func (b *bootstrapper) consider(r *replica) {
	if b != nil && b.wants(r, time.Now()) {
		r.rest()
		kafka.Poke(b.wake)
	}
}

// look has it look at all replicas again.
func (b *bootstrapper) look() {
	if b != nil {
		kafka.Poke(b.wake)
	}
}

// wants says whether a replica is assigned, far behind, not tried lately, and on another node too.
func (b *bootstrapper) wants(r *replica, now time.Time) bool {
	return r.released.Load() == 0 && r.broken.Load() == nil && int64(now.Sub(b.set.base)) >= r.copyAfter.Load() &&
		farBehind(r.shortfall(), b.distance) && len(peersOf(b.hosts(), r.id, b.self)) > 0
}

// shortfall is how far the replica is behind the newest end that is known.
func (r *replica) shortfall() shortfall {
	s := shortfall{position: r.position(), end: unknownOffset, caughtUp: r.caughtUp.Load()}
	if p := r.samples.Load(); p != nil && len(*p) > 0 {
		s.end = (*p)[len(*p)-1].End
	}
	return s
}

// try copies a replica once, or lets it read the changelog. It has the token and gives it back.
func (b *bootstrapper) try(ctx context.Context, r *replica) {
	began := time.Now()
	r.copyAfter.Store(int64(began.Sub(b.set.base) + bootstrapRetry))
	log := b.log.With(slog.String("store", r.id.Store), slog.Int("partition", int(r.id.Partition)))
	defer func() {
		r.resting.Store(0)
		r.give()
		b.set.fetch()
		kafka.Poke(b.set.wake) // when its store is not open now
		b.set.news.announce()
	}()
	kv := r.kv.Load()
	if kv == nil || kv.ID().TopicID == [16]byte{} {
		return
	}
	chosen, why := b.choose(ctx, r, kv.ID())
	if len(chosen) == 0 {
		log.Debug("the changelog is read from its start, or where the store is", slog.String("because", why))
		return
	}
	for _, o := range chosen {
		from := r.position()
		at, sum, err := b.copy(ctx, r, kv.ID(), o)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.set.work.CopyFailures.Add(1)
			log.Warn("cannot copy a store from another node", slog.String("from", string(o.node)), slog.Any("error", err))
			continue
		}
		if err := b.replace(ctx, r); err != nil {
			if ctx.Err() == nil {
				b.set.work.CopyFailures.Add(1)
				log.Warn("cannot put a copy into the place of a store", slog.String("from", string(o.node)), slog.Any("error", err))
			}
			return
		}
		b.set.work.Copies.Add(1)
		b.set.work.CopiedBytes.Add(sum.Bytes)
		log.Info("copied from another node", slog.String("from", string(o.node)), slog.Int64("was_at", from), slog.Int64("position", at),
			slog.Int64("entries", sum.Entries), slog.Int64("bytes", sum.Bytes), slog.Duration("took", time.Since(began)))
		return
	}
}

// replace puts the copy into the place of the replica's store and opens it. The replica's watchers and readers see that its
// store closes, as when it is rebuilt.
func (b *bootstrapper) replace(ctx context.Context, r *replica) (err error) {
	incoming := b.set.incomingDir(r.id)
	// A copy that was not put in place is old by the next try, and would be in its way.
	defer func() { err = errors.Join(err, store.Remove(incoming)) }()
	if why := r.broken.Load(); why != nil { // open would put the copy away with it
		return fmt.Errorf("store %s is rebuilt: %s", r.id, why.reason)
	}
	r.next.Store(unknownOffset)
	if kv := r.kv.Swap(nil); kv != nil {
		if err := kv.Close(); err != nil {
			return fmt.Errorf("close store %s: %w", r.id, err) // it is opened again when the last reader has gone
		}
	}
	if err := store.Adopt(incoming, r.dir); err != nil {
		return err
	}
	return r.open(ctx)
}

// incomingDir is where a copy of a store partition grows.
func (s *replicaSet) incomingDir(id metadata.Partition) string {
	return filepath.Join(s.dir, incomingDir, id.Store, strconv.Itoa(int(id.Partition)))
}

// clearIncoming removes the copies that an earlier run did not finish.
func (s *replicaSet) clearIncoming() {
	if err := os.RemoveAll(filepath.Join(s.dir, incomingDir)); err != nil {
		s.log.Warn("cannot remove unfinished copies of stores", slog.Any("error", err))
	}
}

var errReleased = errors.New("the store partition is not this node's any more")
