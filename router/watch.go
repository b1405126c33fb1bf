package router

import (
	"context"
	"log/slog"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/iqgate/iqgate/metadata"
)

// watchesPerPatience is how many times within SuspectAfter the router looks for silent nodes: a node is suspect at most
// an eighth of that time late.
const watchesPerPatience = 8

// maxLosses bounds the broken connections that wait to be looked at. One that finds no room is not lost on us: the node's
// silence tells as well.
const maxLosses = 256

// loss is a connection or stream that broke.
type loss struct {
	node        metadata.NodeID
	incarnation metadata.Incarnation
	refused     bool // its address refuses connections: the process is gone
}

// lose takes note of a broken connection. It does not block.
func (r *Router) lose(p *peer, refused bool) {
	r.note(loss{node: p.node, incarnation: p.incarnation, refused: refused})
}

func (r *Router) note(l loss) {
	select {
	case r.losses <- l:
	default:
	}
}

// watch looks at broken connections as they come and for silent nodes as time passes, until ctx ends.
func (r *Router) watch(ctx context.Context) error {
	tick := time.NewTicker(r.config.SuspectAfter / watchesPerPatience)
	defer tick.Stop()
	pause := pauseDetector{patience: r.config.SuspectAfter, last: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-r.losses:
			r.change(func(v *metadata.View) *metadata.View { return v.Suspect(l.node, l.incarnation, l.refused) }) //nolint:contextcheck // a connection outlives who opens it
		case <-tick.C:
			now := time.Now()
			if pause.forgives(now) {
				continue
			}
			r.change(func(v *metadata.View) *metadata.View { return v.Expire(now) }) //nolint:contextcheck // a connection outlives who opens it
		}
	}
}

// pauseDetector tells a silent node from a router that was stopped itself: after a pause of this process every node looks
// silent, and telling the nodes so would throw all of them out of the group.
type pauseDetector struct {
	patience time.Duration
	last     time.Time
	until    time.Time
}

// forgives says whether silence at now is this process's own fault, which it is until the nodes have had time to report.
func (p *pauseDetector) forgives(now time.Time) bool {
	if now.Sub(p.last) > p.patience/2 {
		p.until = now.Add(p.patience)
	}
	p.last = now
	return now.Before(p.until)
}

// change publishes the next view and does what follows from it: connections, health, and the log. It returns the view.
func (r *Router) change(next func(*metadata.View) *metadata.View) *metadata.View {
	before, after := r.board.update(next)
	if before == after {
		return after
	}
	if err := r.peers.follow(r.board.view()); err != nil {
		r.log.Error("cannot make a connection", slog.Any("error", err))
	}
	if after.Ready() && !before.Ready() {
		r.log.Info("ready: a node has reported")
		r.setHealth(healthpb.HealthCheckResponse_SERVING)
	}
	r.logChanges(before, after)
	return after
}

// logChanges says who came, went, and became suspect.
func (r *Router) logChanges(before, after *metadata.View) {
	for _, n := range after.Nodes() {
		old := before.Node(n.ID)
		if old == n {
			continue
		}
		node := slog.Group("node", slog.String("id", string(n.ID)), slog.String("address", n.Address), slog.Int64("incarnation", int64(n.Incarnation)))
		switch {
		case old == nil || old.Incarnation != n.Incarnation:
			r.log.Info("node reports", node, slog.String("application", n.Application))
		case old.Alive && !n.Alive:
			r.log.Warn("node is dead", node)
		case !old.Suspect && n.Suspect || !old.Refused && n.Refused:
			r.log.Warn("node is suspect", node, slog.Bool("refused", n.Refused))
		case old.Suspect && !n.Suspect:
			r.log.Info("node is back", node)
		}
	}
	for _, n := range before.Nodes() {
		if after.Node(n.ID) == nil {
			r.log.Info("node is gone", slog.String("node", string(n.ID)))
		}
	}
}
