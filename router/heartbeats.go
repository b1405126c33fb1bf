package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// controlService takes the nodes' heartbeats.
type controlService struct {
	iqv1.UnimplementedControlServiceServer
	router *Router
}

// heartbeats is one node's stream.
//
//  1. receive folds each report into the view and rings.
//  2. Heartbeat answers each ring with the newest sequence, a wish for a full report, the suspects, and whether a node that
//     drains is relieved; and at once when the suspects or the relief change.
//  3. The stream ends when the node ends it, when a report is refused, or when the router stops. If the node did not
//     say that it leaves, it is suspect until its next report, on whatever stream.
type heartbeats struct {
	router      *Router
	stream      iqv1.ControlService_HeartbeatServer
	node        metadata.NodeID // set by receive before it rings or joins
	incarnation metadata.Incarnation
	sequence    atomic.Int64  // of the newest report folded
	ring        chan struct{} // holds one: reports came since the last answer
	ended       chan error    // holds one: why receive has ended
}

// Heartbeat is one stream for the life of a node's connection.
func (s *controlService) Heartbeat(stream iqv1.ControlService_HeartbeatServer) error {
	r := s.router
	h := &heartbeats{router: r, stream: stream, ring: make(chan struct{}, 1), ended: make(chan error, 1)}
	defer r.part(h)
	r.streams.open.Go(func() { h.ended <- h.receive() }) // ends with the stream, at the latest when this returns
	return iqerr.Status(h.answer())
}

// answer sends until the stream is over.
func (h *heartbeats) answer() error {
	select { // the first report says whose stream this is
	case <-h.ring:
	case err := <-h.ended:
		return ignoreEnd(err)
	case <-h.router.stopping:
		return &iqerr.ClosingError{Node: h.router.name()}
	}
	var sent []metadata.NodeID
	acked := int64(-1)
	toldRelieved := false
	for {
		edition := h.router.board.load()
		now := time.Now()
		suspects := h.router.suspects(edition.view, h.node, now)
		names := suspectNames(suspects)
		relieved := edition.view.Relieved(h.node)
		if sequence := h.sequence.Load(); sequence != acked || !slices.Equal(names, sent) || relieved != toldRelieved {
			acked, sent, toldRelieved = sequence, names, relieved
			err := h.stream.Send(&iqv1.HeartbeatResponse{
				Sequence: sequence, FullReport: edition.view.WantsFull(h.node), Suspects: suspects, Router: h.router.name(),
				Relieved: relieved,
			})
			if err != nil {
				return ignoreEnd(err)
			}
		}
		select {
		case <-h.ring:
		case <-edition.superseded:
		case err := <-h.ended:
			return ignoreEnd(err)
		case <-h.router.stopping:
			return &iqerr.ClosingError{Node: h.router.name()}
		}
	}
}

// receive folds reports until the stream ends or one is refused.
func (h *heartbeats) receive() error {
	for first := true; ; first = false {
		m, err := h.stream.Recv()
		if err != nil {
			return err
		}
		if first {
			h.node, h.incarnation = metadata.NodeID(m.GetNode()), metadata.Incarnation(m.GetIncarnation())
		}
		if err := h.fold(m); err != nil {
			return err
		}
		if first {
			h.router.join(h)
		}
		select {
		case h.ring <- struct{}{}:
		default:
		}
	}
}

// fold takes one report into the view. The error is one for the node.
func (h *heartbeats) fold(m *iqv1.HeartbeatRequest) error {
	r := h.router
	report, err := reportFromProto(m)
	if err == nil && (report.Node != h.node || report.Incarnation != h.incarnation) {
		err = iqerr.Invalid("node", m.GetNode(), fmt.Sprintf("this stream is that of node %q, incarnation %d", h.node, h.incarnation))
	}
	if err == nil {
		now := time.Now()
		r.change(func(v *metadata.View) *metadata.View {
			next, applyErr := v.Apply(report, now)
			err = refusal(applyErr)
			return next
		})
	}
	if err != nil {
		r.counts.ReportsRefused.Add(1)
		r.log.Warn("report refused", slog.String("node", m.GetNode()), slog.String("address", m.GetAddress()), slog.Any("error", err))
		return err
	}
	r.counts.Reports.Add(1)
	h.sequence.Store(report.Sequence)
	return nil
}

// refusal says in iqerr's words why the view did not take a report.
func refusal(err error) error {
	if e, ok := errors.AsType[*metadata.AddressTakenError](err); ok {
		return iqerr.Invalid("address", e.Address, e.Error())
	}
	if e, ok := errors.AsType[*metadata.OtherApplicationError](err); ok {
		return iqerr.Invalid("application", e.Application, e.Error())
	}
	return err
}

// join makes h the node's newest stream.
func (r *Router) join(h *heartbeats) {
	r.streams.Lock()
	defer r.streams.Unlock()
	r.streams.newest[h.node] = h
}

// part makes the node suspect when its newest stream is over. One that said that it leaves is no longer in the view, and
// a router that stops has no more to say.
func (r *Router) part(h *heartbeats) {
	r.streams.Lock()
	var lost []loss
	for id, newest := range r.streams.newest { // by stream and not by h.node, which receive may still be about to set
		if newest == h {
			delete(r.streams.newest, id)
			lost = append(lost, loss{node: id, incarnation: h.incarnation})
		}
	}
	r.streams.Unlock()
	select {
	case <-r.stopping:
		return
	default:
	}
	for _, l := range lost {
		r.note(l)
		r.board.renew() // its address may have refused already, and now that it is not connected the others must hear
	}
}

func (r *Router) connected(id metadata.NodeID) bool {
	r.streams.Lock()
	defer r.streams.Unlock()
	return r.streams.newest[id] != nil
}

// suspects are the nodes that this router has lost, for the others to hear: those that have been silent for too long, and
// those whose stream broke and whose address refuses connections. A refused connection alone is not enough: a node that
// still reports lives and has a wrong address, and a broken stream alone may be made again.
func (r *Router) suspects(v *metadata.View, teller metadata.NodeID, now time.Time) []*iqv1.Suspect {
	var list []*iqv1.Suspect
	for _, n := range v.Nodes() {
		silentFor := now.Sub(n.Received)
		if n.ID == teller || !n.Suspect {
			continue
		}
		silent := silentFor >= max(r.config.SuspectAfter, metadata.MissedReports*n.Interval)
		if !silent && (!n.Refused || r.connected(n.ID)) {
			continue
		}
		list = append(list, &iqv1.Suspect{
			Node: string(n.ID), Address: n.Address, Incarnation: int64(n.Incarnation), Refused: n.Refused,
			SilentFor: durationpb.New(silentFor),
		})
	}
	return list
}

// suspectNames is what makes one list of suspects another: who, and whether the process is known to be gone.
func suspectNames(list []*iqv1.Suspect) []metadata.NodeID {
	var names []metadata.NodeID
	for _, s := range list {
		names = append(names, metadata.NodeID(fmt.Sprintf("%s/%d/%t", s.GetNode(), s.GetIncarnation(), s.GetRefused())))
	}
	return names
}

// ignoreEnd makes the ordinary ends of a stream no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(iqerr.FromStatus(err), context.Canceled) {
		return nil
	}
	return err
}
