package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// ErrStopNow is the cause with which Run's context ends a node that is not to hand its tasks over first. It still commits,
// leaves the group and closes its stores.
var ErrStopNow = errors.New("stop without draining")

// drainLook bounds the time between two looks at how a drain goes, beside those that news cause.
const drainLook = 250 * time.Millisecond

// A drain is the node's way out. In order:
//
//  1. Routers and the group hear of it: the leader gives each task to a copy that has caught up.
//  2. Each task is handed over at a commit. Until the new active runs, the copy here goes on following and answers what
//     its staleness allows.
//  3. The node goes when it has no task any more and every router has told that all it holds is served elsewhere, or when
//     Config.DrainTimeout has passed.
//
// A node that is alone, whose others drain too, or whose group cannot be reached, has nobody to hand over to and does not
// wait.
type drain struct {
	once  sync.Once
	asked chan struct{} // closed when somebody has asked for it
	over  chan struct{} // closed when it is over
}

func newDrain() *drain { return &drain{asked: make(chan struct{}), over: make(chan struct{})} }

func (d *drain) ask() { d.once.Do(func() { close(d.asked) }) }

func (d *drain) begun() bool {
	select {
	case <-d.asked:
		return true
	default:
		return false
	}
}

// awaitDrain waits until the node is to end: ctx has ended, or a drain was asked for, and then the drain is over.
func (n *Node) awaitDrain(ctx context.Context, failed <-chan struct{}) {
	defer close(n.drain.over)
	select {
	case <-failed:
		return
	case <-ctx.Done():
	case <-n.drain.asked:
	}
	if errors.Is(context.Cause(ctx), ErrStopNow) || n.cfg.DrainTimeout <= 0 {
		return
	}
	n.drain.ask()
	n.log.Info("draining", slog.Duration("at_most", n.cfg.DrainTimeout))
	began := time.Now()
	n.roles.announce()
	if up := n.up.Load(); up != nil {
		up.member.Drain()
	}
	limit := time.NewTimer(n.cfg.DrainTimeout)
	defer limit.Stop()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	ended := ctx.Done()
	for {
		changed, heard := n.roles.wait(), n.words.changed.wait()
		tasks, relieved, done := n.drained()
		if done {
			n.log.Info("drained", slog.Duration("took", time.Since(began)))
			return
		}
		select {
		case <-changed:
		case <-heard:
		case <-look.C:
		case <-failed:
			return
		case <-ended:
			ended = nil
			if errors.Is(context.Cause(ctx), ErrStopNow) {
				return
			}
		case <-limit.C:
			n.log.Warn("not everything could be handed over in time", slog.Int("tasks", tasks), slog.Bool("relieved", relieved))
			return
		}
	}
}

// drained says how many tasks the node still has, whether the routers have told that all it holds is served elsewhere, and
// whether there is nothing left to wait for.
func (n *Node) drained() (tasks int, relieved, done bool) {
	up := n.up.Load()
	if up == nil {
		return 0, true, true
	}
	tasks = len(up.worker.claims())
	routers, agreed := n.words.relieved()
	others := up.staying.Load()
	switch {
	case others == 0 || !up.replicas.lease.Valid(time.Now()):
		return tasks, false, true
	case routers == 0:
		return tasks, false, tasks == 0
	default:
		return tasks, agreed, tasks == 0 && agreed
	}
}

// controlServer is the part of the control service that a node has: it can be told to drain.
type controlServer struct {
	iqv1.UnimplementedControlServiceServer
	n *Node
}

// Drain implements ControlService.
func (s *controlServer) Drain(req *iqv1.DrainRequest, out iqv1.ControlService_DrainServer) error {
	if id := req.GetNode(); id != "" && id != s.n.cfg.NodeID {
		return iqerr.Status(iqerr.Invalid("node", id, fmt.Sprintf("this is node %q", s.n.cfg.NodeID)))
	}
	s.n.drain.ask()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for {
		changed := s.n.roles.wait()
		tasks, relieved, _ := s.n.drained()
		resp := &iqv1.DrainResponse{ActiveTasks: int32(tasks), Relieved: relieved}
		select {
		case <-s.n.drain.over:
			resp.Done = true
			return out.Send(resp)
		default:
		}
		if err := out.Send(resp); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-look.C:
		case <-s.n.drain.over:
		case <-out.Context().Done():
			return out.Context().Err() // the drain goes on
		}
	}
}
