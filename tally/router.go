package tally

import (
	"sync/atomic"
	"time"
)

// Routing counts what a router does. NewRouting makes one.
type Routing struct {
	Requests *Requests
	Reads    *Reads
	// Failovers are reads that another replica answered than the first that was asked.
	Failovers atomic.Int64
	// HedgesWon are reads that the second replica answered that was asked early.
	HedgesWon atomic.Int64
	// Reports are the nodes' reports that the view took, ReportsRefused those that it did not.
	Reports, ReportsRefused atomic.Int64
}

// NewRouting makes counters that are 0.
func NewRouting() *Routing { return &Routing{Requests: NewRequests(), Reads: NewReads()} }

// Router is what a router is at one moment, with its counters. What it knows of nodes is its view's.
type Router struct {
	Name string
	// Ready says that a node has reported, FreshFor that of those alive one reported so long ago; -1 while none is alive.
	Ready    bool
	FreshFor time.Duration
	// Stopping says that it takes no more reads.
	Stopping bool
	// InFlight are the reads under way, Waiting those of them that asked to wait; the others are streams that are open.
	InFlight, Waiting, Scans, Watches, MetadataWatches int64
	// Retries and Hedges are further tries that the budgets allowed, RetriesDenied and HedgesDenied those that they did not.
	Retries, RetriesDenied, Hedges, HedgesDenied int64

	*Routing
}
