package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	// MaxViewSilence is how long a router may tell nothing before a client in direct mode decides nothing more by what it
	// has told, reads through a router, and follows another. Routers tell of lags ten times as often.
	MaxViewSilence = time.Second

	lagInterval = 100 * time.Millisecond
	// followedWell is how long a stream must have lasted for its end to be no failure: then the next router is asked at
	// once, and else after a pause that doubles from firstBackoff to maxBackoff.
	followedWell = maxBackoff
)

// errSilent is why a stream was left: nothing came on it for MaxViewSilence.
var errSilent = errors.New("the router has told nothing for " + MaxViewSilence.String())

// edition is one published view.
type edition struct {
	view  *metadata.View
	heard time.Time // when its newest message came
}

// follower keeps a stream of metadata to one router at a time, and shows what it tells. One goroutine writes; readers load
// the newest edition without a lock.
type follower struct {
	targets []*target
	nodes   *nodes
	first   int
	current atomic.Pointer[edition] // nil before the first message
	ready   chan struct{}           // closed once a view knows a store

	mu struct {
		sync.Mutex
		cancel context.CancelFunc // set once begun
		closed bool
	}
	running sync.WaitGroup
}

func newFollower(targets []*target, ns *nodes, first int) *follower {
	return &follower{targets: targets, nodes: ns, first: first, ready: make(chan struct{})}
}

// begin starts following, once.
func (f *follower) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.cancel != nil || f.mu.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends with the client: close cancels it
	f.mu.cancel = cancel
	f.running.Go(func() { f.run(ctx) })
}

// close ends the stream and returns when nothing is left running.
func (f *follower) close() {
	f.mu.Lock()
	f.mu.closed = true
	if f.mu.cancel != nil {
		f.mu.cancel()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// run follows one router after another until ctx ends.
func (f *follower) run(ctx context.Context) {
	pause := time.Duration(0)
	for n := f.first; ctx.Err() == nil; n = (n + 1) % len(f.targets) {
		began := time.Now()
		_ = f.follow(ctx, f.targets[n]) // whatever it was, the next router may do better
		if time.Since(began) >= followedWell {
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstBackoff), maxBackoff)
		jitter := time.Duration(rand.Int64N(int64(firstBackoff))) //nolint:gosec // spreads clients over time, guards nothing
		timer := time.NewTimer(pause + jitter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// follow shows what one router tells until its stream breaks, falls silent or tells what cannot be.
func (f *follower) follow(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(MaxViewSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := t.metadata.WatchMetadata(ctx, &iqv1.WatchMetadataRequest{LagInterval: durationpb.New(lagInterval)})
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.name, err)
	}
	told := newTable()
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("follow %s: %w", t.name, errors.Join(context.Cause(ctx), err))
		}
		now := time.Now()
		silence.Reset(MaxViewSilence)
		if err := told.apply(m, now); err != nil {
			return fmt.Errorf("follow %s: %w", t.name, err)
		}
		f.publish(told.view, now)
	}
}

func (f *follower) publish(v *metadata.View, now time.Time) {
	f.current.Store(&edition{view: v, heard: now})
	_ = f.nodes.follow(v) // a connection that does not close in order is closed all the same
	if v.Ready() {
		select {
		case <-f.ready:
		default:
			close(f.ready)
		}
	}
}

// WaitForView begins to follow the metadata, as the first read does, and returns once a router has told of a store, so that
// reads go to the nodes from then on. Only for a client with WithDirect; the error is otherwise the end of ctx.
func (c *Client) WaitForView(ctx context.Context) error {
	if c.direct == nil {
		return iqerr.Invalid("direct", false, "the client was made without WithDirect")
	}
	c.direct.follower.begin() //nolint:contextcheck // what it starts outlives the call
	select {
	case <-c.direct.follower.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata: %w", context.Cause(ctx))
	}
}
