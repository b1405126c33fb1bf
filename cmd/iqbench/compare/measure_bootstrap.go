package compare

import (
	"context"
	"fmt"
	"os"
	"time"
)

// peerBootstrap is a node without state that joins one that has processed everything: it begins with a copy of what that one
// has. It is measured as a restore is: from its first store opened until everything that the changelog holds is applied.
type peerBootstrap struct{}

func (peerBootstrap) gives() []string { return []string{fBootstrap} }

func (peerBootstrap) take(ctx context.Context, r *run) error {
	first, err := subject(r, "bootstrap", func() (bootstrapSource, error) { return r.newBootstrapSource(ctx) })
	if err != nil {
		return err
	}
	m, err := r.node(first.app, "node-2", events, 1)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.stateOf(first.app, "node-2")); err != nil { // of the round before
		return err
	}
	begin := time.Now()
	if err := r.start(m); err != nil {
		return err
	}
	defer m.kill()
	rate, err := r.restoreRate(ctx, m, first.app, begin)
	if err != nil {
		return err
	}
	r.sayRecords(m.name+": copied", rate)
	r.give(fBootstrap, rate)
	m.stop()
	return r.awaitServing(ctx, first.node, r.sample)
}

// A bootstrapSource is a node that has everything.
type bootstrapSource struct {
	app  string
	node *member
}

func (r *run) newBootstrapSource(ctx context.Context) (bootstrapSource, error) {
	app := r.app("bootstrap")
	r.say("starting a node to copy from")
	m, err := r.node(app, "node-1", events, 1)
	if err != nil {
		return bootstrapSource{}, err
	}
	if err := r.start(m); err != nil {
		return bootstrapSource{}, err
	}
	if _, err := r.awaitProcessed(ctx, m, app); err != nil {
		return bootstrapSource{}, fmt.Errorf("the node to copy from: %w", err)
	}
	return bootstrapSource{app, m}, r.awaitServing(ctx, m, r.sample)
}
