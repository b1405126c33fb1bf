package demo

import (
	"context"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/cluster"
)

const (
	watchEvery    = 100 * time.Millisecond
	progressEvery = 500 * time.Millisecond
)

// watch asks the router who holds what, again and again.
func (r *run) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if instances, err := r.instances(ctx); err == nil { // else the last view stays
			r.view.Store(cluster.Of(instances))
		}
	}
}

// follow asks Kafka how far the nodes have come.
func (r *run) follow(ctx context.Context) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		actx, cancel := context.WithTimeout(ctx, askTimeout)
		if n, err := r.processedSoFar(actx); err == nil {
			r.processed.Store(max(n, r.processed.Load()))
		}
		cancel()
	}
}
