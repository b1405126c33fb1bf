package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// maxNodesNamed bounds the nodes that an error's text names.
const maxNodesNamed = 20

// Drain forwards to the node and tells what the node tells until it has let go of everything.
func (s *controlService) Drain(m *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
	r := s.router
	p, err := r.drainable(metadata.NodeID(m.GetNode()), time.Now())
	if err != nil {
		return iqerr.Status(err)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-r.stopping:
			cancel(&iqerr.ClosingError{Node: r.name()})
		case <-ended:
		}
	}()
	err = r.forwardDrain(ctx, p, m, stream.Send)
	if cause := context.Cause(ctx); cause != nil && stream.Context().Err() == nil {
		err = cause // the router stops
	}
	return r.status(stream.Context(), err)
}

// drainable finds the connection to a node that can be asked.
func (r *Router) drainable(id metadata.NodeID, now time.Time) (*peer, error) {
	if id == "" {
		return nil, iqerr.Invalid("node", "", "must be the id of the node to drain")
	}
	v := r.View()
	n := v.Node(id)
	if n == nil {
		return nil, status.Errorf(codes.NotFound, "node %q is unknown; known are %s", id, nodeNames(v))
	}
	if p := r.peers.get(n); n.Alive && p != nil {
		return p, nil
	}
	return nil, status.Errorf(codes.Unavailable, "node %q is not alive: silent for %s", id, iqerr.Round(max(0, now.Sub(n.Received))))
}

func nodeNames(v *metadata.View) string {
	nodes := v.Nodes()
	if len(nodes) == 0 {
		return "none"
	}
	names := make([]string, 0, min(len(nodes), maxNodesNamed)+1)
	for i, n := range nodes {
		if i == maxNodesNamed {
			names = append(names, fmt.Sprintf("%d more", len(nodes)-i))
			break
		}
		names = append(names, string(n.ID))
	}
	return strings.Join(names, ", ")
}

// forwardDrain asks the node and passes on what it says. A node that says goodbye may be gone before its last word is
// here: the router closes the connection then, and says the word itself.
func (r *Router) forwardDrain(ctx context.Context, p *peer, m *iqv1.DrainRequest, send func(*iqv1.DrainResponse) error) error {
	stream, err := iqv1.NewControlServiceClient(p.conn).Drain(ctx, m)
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() == nil && r.left(p):
			return send(&iqv1.DrainResponse{Relieved: true, Done: true})
		case err != nil:
			return err
		}
		if err := send(resp); err != nil {
			return err
		}
	}
}

// left says whether the node's process has said goodbye, as far as this router was told.
func (r *Router) left(p *peer) bool {
	n := r.View().Node(p.node)
	return n == nil || n.Incarnation > p.incarnation
}
