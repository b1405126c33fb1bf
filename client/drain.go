package client

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Drain makes a node hand its tasks over, serve until others have taken over, leave and end, as SIGTERM does, and returns when
// it has let go of everything. Targets may be routers, which forward it, or the node itself. progress, which may be nil, is
// told how it goes, the last time with Done set.
//
// A drain that has begun goes on whatever becomes of the call. A target that cannot be reached, or breaks off, is followed by
// the next one; a node that no router knows is NotFound, one that is not alive Unavailable.
func (c *Client) Drain(ctx context.Context, node string, progress func(*iqv1.DrainResponse)) error {
	if node == "" {
		return iqerr.Invalid("node", node, "is required")
	}
	for tries := c.newTries(); ; {
		started := time.Now()
		err := followDrain(ctx, tries, node, progress)
		if err == nil {
			return nil
		}
		if err = iqerr.FromStatus(err); errors.Is(err, iqerr.ErrInvalid) && tries.failures+1 < len(c.targets) {
			_ = tries.note(err, time.Since(started)) // another node, which drains nobody but itself
			continue
		}
		if err := tries.fail(ctx, err, time.Since(started)); err != nil {
			return err
		}
	}
}

func followDrain(ctx context.Context, tries *tries, node string, progress func(*iqv1.DrainResponse)) error {
	ctx, l := tries.listen(ctx, 0)
	defer l.close()
	stream, err := tries.target().control.Drain(ctx, &iqv1.DrainRequest{Node: node})
	if err != nil {
		return silent(ctx, err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errUnfinished
		case err != nil:
			return silent(ctx, err)
		}
		l.heard()
		tries.progressed()
		if progress != nil {
			progress(m)
		}
		if m.GetDone() {
			return nil
		}
		l.listen()
	}
}
