package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds of an eviction.
const (
	evictTurn    = 300 * time.Millisecond // after which the next survivor does what the one before it has not done
	evictConfirm = 250 * time.Millisecond // how long a silent node has to say that it lives after all
	evictHurry   = 3 * time.Second        // how long survivors expect the rebalance that follows
	evictTimeout = 5 * time.Second        // for both requests to Kafka
	evictAgain   = time.Second            // between two tries, when the node answered or Kafka did not
	evictIdle    = time.Minute            // between two looks when nobody says anything new
	// evictHeard is how long every router must have heard a process that was removed and came back, until it is as any other.
	evictHeard = 2 * time.Second
)

// An eviction is remembered by process.
type eviction struct {
	node        metadata.NodeID
	incarnation metadata.Incarnation
}

// An attempt is how far an eviction is.
type attempt struct {
	agreedAt time.Time // since when every router has lost the process
	next     time.Time // not before this; zero while nothing was tried
	refused  bool      // as it was at the last try
	removed  bool      // it was removed from the group
	heardAt  time.Time // since when no router has lost it any more; zero while one has
}

// evictLost removes nodes from the group that all routers have lost, so that others get their tasks now and not after the
// session timeout. In order:
//
//  1. Every router whose stream is open says that it has lost the node (suspicion.go).
//  2. It is this survivor's turn: the first one's at once, the others' if the first has not done it.
//  3. The node's own address is asked: one that answers lives, and the routers are wrong or cut off.
//  4. The group drops the member, and its transactional id is fenced: its open transaction ends, so that what was
//     committed behind it can be read, and it can commit nothing any more.
//
// Whoever gets its tasks waits for the end of its lease, unless its address refuses connections (lost.go). A process that
// was removed and comes back, although no router hears it, stays: it would be removed again and again. Once every
// router has heard it for evictHeard, it is as any other.
func (n *Node) evictLost(ctx context.Context, up *running) error {
	tries := make(map[eviction]*attempt)
	for {
		changed := n.words.changed.wait()
		wait := n.evictDue(ctx, up, tries, time.Now())
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}

// evictDue tries what is due at now, and says when to look again.
func (n *Node) evictDue(ctx context.Context, up *running, tries map[eviction]*attempt, now time.Time) time.Duration {
	said := n.words.lost()
	var hosts []metadata.Host
	if hm := up.hosts.Load(); hm != nil {
		hosts = hm.Hosts
	}
	self := metadata.NodeID(n.cfg.NodeID)
	wait := evictIdle
	forgetHeard(tries, said, now)
	agreedNow := make(map[eviction]bool)
	for _, s := range agreed(self, hosts, said) {
		id := eviction{node: s.node, incarnation: s.incarnation}
		agreedNow[id] = true
		a := tries[id]
		if a == nil {
			a = &attempt{}
			tries[id] = a
		}
		if a.removed {
			continue
		}
		if a.agreedAt.IsZero() {
			a.agreedAt = now
			up.member.Hurry(evictHurry)
		}
		due := a.agreedAt.Add(time.Duration(turn(self, hosts, said)) * evictTurn)
		if a.next.After(due) && (a.refused || !s.refused) {
			due = a.next
		}
		if now.Before(due) {
			wait = min(wait, due.Sub(now))
			continue
		}
		a.removed = n.evict(ctx, up, s)
		a.next, a.refused = now.Add(evictAgain), s.refused
		if !a.removed {
			wait = min(wait, evictAgain)
		}
	}
	for id, a := range tries {
		if !agreedNow[id] {
			a.agreedAt = time.Time{}
		}
	}
	return wait
}

// forgetHeard forgets the attempts at processes that every router has heard for long enough, also when they are lost again
// now.
func forgetHeard(tries map[eviction]*attempt, said [][]suspicion, now time.Time) {
	for id, a := range tries {
		lost := told(said, id)
		switch {
		case !a.heardAt.IsZero() && now.Sub(a.heardAt) >= evictHeard:
			delete(tries, id)
		case lost:
			a.heardAt = time.Time{}
		case a.heardAt.IsZero():
			a.heardAt = now
		}
	}
}

// evict removes one lost node from the group and fences it, unless it says that it lives. It says whether the group has
// it no more.
func (n *Node) evict(ctx context.Context, up *running, s suspicion) (removed bool) {
	log := n.log.With(slog.String("lost", string(s.node)), slog.String("address", s.address), slog.Bool("refused", s.refused))
	if n.answers(ctx, s) {
		log.Warn("routers have lost a node that answers; it stays in the group")
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	began := time.Now()
	n.evicted.Store(&began)
	switch err := up.member.Evict(ctx, s.node); {
	case errors.Is(err, kerr.UnknownMemberID):
		return true // another survivor was first
	case err != nil:
		log.Warn("cannot remove a lost node from the group; trying again", slog.Any("error", err))
		return false
	}
	n.evicted.Store(new(time.Now()))
	left := time.Since(began)
	if n.cfg.Replica != nil {
		log.Warn("removed a lost node from the group", slog.Duration("removed_in", left))
		up.member.Hurry(evictHurry)
		return true // it had no transaction to fence
	}
	if err := kafka.Fence(ctx, n.admin, kafka.TransactionalID(n.group, s.node, 0), n.cfg.TransactionTimeout); err != nil {
		log.Warn("cannot fence a lost node; whoever takes its tasks does", slog.Any("error", err))
	}
	log.Warn("removed a lost node from the group", slog.Duration("removed_in", left), slog.Duration("fenced_in", time.Since(began)-left))
	up.member.Hurry(evictHurry)
	return true
}

// aliveService is the name under which a node's health service says that this very node lives.
func aliveService(node metadata.NodeID) string { return "iqgate.node/" + string(node) }

// answers says whether the node answers at its address. Another process there does not count.
func (n *Node) answers(ctx context.Context, s suspicion) bool {
	ctx, cancel := context.WithTimeout(ctx, evictConfirm)
	defer cancel()
	cc, err := grpc.NewClient("passthrough:///"+s.address, append(n.cfg.Security.DialOptions(), grpc.WithContextDialer(n.cfg.dial))...)
	if err != nil {
		return false
	}
	defer func() { _ = cc.Close() }()
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{Service: aliveService(s.node)})
	return err == nil
}

// awaitEvicted waits until the lease of whom this node has evicted must have run out. A node leaves the group only then:
// whoever finds the group without members takes it that nobody can believe to be active (losses in package group).
func (n *Node) awaitEvicted() {
	if at := n.evicted.Load(); at != nil {
		time.Sleep(min(time.Until(at.Add(n.cfg.Lease)), n.cfg.Lease)) //nolint:forbidigo // bounded by a lease
	}
}

// suspicionsOf reads what a router says.
func suspicionsOf(list []*iqv1.Suspect) []suspicion {
	all := make([]suspicion, 0, len(list))
	for _, s := range list {
		all = append(all, suspicion{
			node: metadata.NodeID(s.GetNode()), address: s.GetAddress(), incarnation: metadata.Incarnation(s.GetIncarnation()), refused: s.GetRefused(),
		})
	}
	return all
}
