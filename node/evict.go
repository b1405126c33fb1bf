package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

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
	evictIdle    = time.Minute            // between two looks when nobody says anything new
)

// An eviction is remembered by process, so that one that comes back and is lost again is given the session timeout.
type eviction struct {
	node        metadata.NodeID
	incarnation metadata.Incarnation
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
// Whoever gets its tasks waits for the end of its lease, unless its address refuses connections (lost.go).
func (n *Node) evictLost(ctx context.Context, up *running) error {
	done := make(map[eviction]time.Time)
	seen := make(map[eviction]time.Time) // since when it is agreed on
	for {
		changed := n.words.changed.wait()
		said := n.words.lost()
		var hosts []metadata.Host
		if hm := up.hosts.Load(); hm != nil {
			hosts = hm.Hosts
		}
		self := metadata.NodeID(n.cfg.NodeID)
		lost := agreed(self, hosts, said)
		wait := evictIdle
		now := time.Now()
		still := make(map[eviction]time.Time)
		for _, s := range lost {
			id := eviction{node: s.node, incarnation: s.incarnation}
			since, known := seen[id]
			if !known {
				since = now
				up.member.Hurry(evictHurry)
			}
			still[id] = since
			if at, ok := done[id]; ok && now.Sub(at) < n.cfg.SessionTimeout {
				wait = min(wait, n.cfg.SessionTimeout-now.Sub(at))
				continue
			}
			if due := since.Add(time.Duration(turn(self, hosts, said)) * evictTurn); now.Before(due) {
				wait = min(wait, due.Sub(now))
				continue
			}
			done[id] = now
			n.evict(ctx, up, s)
		}
		seen = still
		for id, at := range done {
			if now.Sub(at) >= n.cfg.SessionTimeout {
				delete(done, id)
			}
		}
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

// evict removes one lost node from the group and fences it, unless it says that it lives.
func (n *Node) evict(ctx context.Context, up *running, s suspicion) {
	log := n.log.With(slog.String("lost", string(s.node)), slog.String("address", s.address), slog.Bool("refused", s.refused))
	if n.answers(ctx, s.address) {
		log.Warn("routers have lost a node that answers; it stays in the group")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	began := time.Now()
	switch err := up.member.Evict(ctx, s.node); {
	case errors.Is(err, kerr.UnknownMemberID):
		return // another survivor was first
	case err != nil:
		log.Warn("cannot remove a lost node from the group; its session timeout does", slog.Any("error", err))
		return
	}
	n.evicted.Store(new(time.Now()))
	removed := time.Since(began)
	if err := kafka.Fence(ctx, n.admin, kafka.TransactionalID(n.group, s.node, 0), n.cfg.TransactionTimeout); err != nil {
		log.Warn("cannot fence a lost node; whoever takes its tasks does", slog.Any("error", err))
	}
	log.Warn("removed a lost node from the group", slog.Duration("removed_in", removed), slog.Duration("fenced_in", time.Since(began)-removed))
	up.member.Hurry(evictHurry)
}

// answers says whether a node answers anything at its address.
func (n *Node) answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, evictConfirm)
	defer cancel()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.cfg.dial))
	if err != nil {
		return false
	}
	defer func() { _ = cc.Close() }()
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	switch status.Code(err) { //nolint:exhaustive // every other answer is one
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	default:
		return true
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

// awaitEvicted waits until the lease of whom this node has evicted must have run out. A node leaves the group only then:
// whoever finds the group without members takes it that nobody can believe to be active (group.Config).
func (n *Node) awaitEvicted(ctx context.Context) {
	if at := n.evicted.Load(); at != nil {
		kafka.Sleep(ctx, time.Until(at.Add(n.cfg.Lease)))
	}
}
