package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// A loss is a process that the group has lost and that may answer as a task's active until then, because its lease may
// hold so long and nobody could tell it.
type loss struct {
	node    metadata.NodeID // empty when not known, as the address
	address string
	until   time.Time
}

// Bounds of looking whether a lost process is gone before its lease can have run out.
const (
	goneProbe = 100 * time.Millisecond // one try to connect
	goneEvery = 100 * time.Millisecond // between two tries
)

// lossesOf are the processes that may still answer for the task, by a new assignment. An earlier process of this very node
// is none: the lock of the state directory, where there was one, tells that it is gone.
func (w *worker) lossesOf(task metadata.TaskID, a *group.Membership) []loss {
	var all []loss
	for _, l := range a.Assignment.LostFrom(task) {
		if string(l.Node) == w.cfg.NodeID && w.holdOff == 0 {
			continue
		}
		all = append(all, loss{node: l.Node, address: l.Address, until: a.Received.Add(l.Left)})
	}
	return all
}

// awaitEnd waits until the lost process cannot believe any more to be active: its lease has run out, or its address refuses
// connections, so that the process is gone. One that is stopped or cut off does not refuse.
func (w *worker) awaitEnd(ctx context.Context, l loss) error {
	for {
		left := time.Until(l.until)
		if left <= 0 {
			return nil
		}
		if l.address != "" && w.gone(ctx, l.address) {
			w.log.Info("a lost process is gone", slog.String("lost", string(l.node)), slog.String("address", l.address), slog.Duration("before_lease_end", left))
			return nil
		}
		if !kafka.Sleep(ctx, min(goneEvery, left)) {
			return ctx.Err()
		}
	}
}

// gone says whether an address refuses connections. The tasks of one lost process look together.
func (w *worker) gone(ctx context.Context, address string) bool {
	refused, _, _ := w.probing.Do(address, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneProbe)
		defer cancel()
		return refuses(ctx, w.cfg, address), nil
	})
	return refused.(bool) //nolint:forcetypeassert // what the function above gives
}

// refuses says whether an address refuses connections.
func refuses(ctx context.Context, cfg Config, address string) bool {
	conn, err := cfg.dial(ctx, address)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}

// dial connects to a router or another node.
func (c Config) dial(ctx context.Context, address string) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
