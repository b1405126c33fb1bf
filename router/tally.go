package router

import (
	"time"

	"github.com/iqgate/iqgate/tally"
)

// Tally is the router as it is at now, with all that it counts. Any goroutine may call it at any time.
func (r *Router) Tally(now time.Time) tally.Router {
	v := r.View()
	t := tally.Router{
		Name: r.name(), Ready: v.Ready(), FreshFor: -1, InFlight: r.inFlight.Load(), Waiting: r.waiting.Load(), Scans: r.scans.Load(),
		Watches: r.watches.Load(), MetadataWatches: r.watchers.Load(), Retries: r.retries.spent.Load(), RetriesDenied: r.retries.denied.Load(),
		Hedges: r.hedges.spent.Load(), HedgesDenied: r.hedges.denied.Load(), Routing: r.counts,
	}
	select {
	case <-r.stopping:
		t.Stopping = true
	default:
	}
	for _, n := range v.Nodes() {
		if age := max(0, now.Sub(n.Received)); n.Alive && (t.FreshFor < 0 || age < t.FreshFor) {
			t.FreshFor = age
		}
	}
	return t
}

// begin notes when a request began. The function returned counts it, with how it ended.
func (r *Router) begin(call tally.Call) func(err *error) {
	began := time.Now()
	return func(err *error) { r.counts.Requests.End(call, time.Since(began), *err) }
}

// readsOf are the counters of a store's reads, those of tally.Other while no node has told of it.
func (r *Router) readsOf(store string) *tally.StoreReads {
	s := r.counts.Reads.Of(store)
	if s.Store != tally.Other {
		return s
	}
	if _, err := r.View().Store(store); err != nil {
		return s
	}
	r.counts.Reads.Know(store)
	return r.counts.Reads.Of(store)
}
