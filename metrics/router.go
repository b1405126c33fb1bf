package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

// The metrics of a router.
var (
	routerMetrics list

	routerInfo     = routerMetrics.gauge("iqgate_router_info", "", "1, with who the router is.", "router", "application")
	routerReady    = routerMetrics.gauge("iqgate_router_ready", "", "1 once a node has told of its stores, else 0.")
	routerFresh    = routerMetrics.gauge("iqgate_router_view_age_seconds", "seconds", "Time since the newest report of any node that is alive; absent while none is.")
	routerReports  = routerMetrics.counter("iqgate_router_reports_total", "reports", "Reports of nodes that the view took (ok), or did not (error).", "outcome")
	routerRequests = routerMetrics.counter("iqgate_router_requests_total", "requests", "Requests of callers, by how they ended: ok, or the reason of the refusal.", "call", "outcome")
	routerDuration = routerMetrics.histogram("iqgate_router_request_duration_seconds", "How long requests took, with what they waited; streams until their end.", "call")
	routerInFlight = routerMetrics.gauge("iqgate_router_requests_in_flight", "requests", "Gets, multi-gets and counts under way.")
	routerWaiting  = routerMetrics.gauge("iqgate_router_requests_waiting", "requests", "Reads held because their policy asked to wait.")
	routerScans    = routerMetrics.gauge("iqgate_router_scans_open", "scans", "Scans under way.")
	routerWatches  = routerMetrics.gauge("iqgate_router_watches_open", "watches", "Watches of state that are open.")
	routerWatchers = routerMetrics.gauge("iqgate_router_metadata_watches_open", "watches", "Watches of metadata that are open.")
	routerReads    = routerMetrics.counter("iqgate_router_reads_total", "reads", "Reads of store partitions: one for a get, one for each partition of other calls, and one for each key of a multi-get that failed. The role is that of the replica that answered.", "store", "policy", "role", "outcome")
	routerStale    = routerMetrics.counter("iqgate_router_stale_reads_total", "reads", "Reads that a replica answered that was behind its changelog's end, or did not know.", "store")
	routerStaleFor = routerMetrics.histogram("iqgate_router_read_staleness_seconds", "Upper bound on the staleness of answers: the time lag of the replica when it was read; for scans, counts and watches as the router knew it.", "store", "role")

	routerRetries   = routerMetrics.counter("iqgate_router_retries_total", "tries", "Further tries of reads at another replica, by whether the retry budget allowed them (ok) or not (denied).", "outcome")
	routerFailovers = routerMetrics.counter("iqgate_router_failovers_total", "reads", "Reads that another replica answered than the first that was asked.")
	routerHedges    = routerMetrics.counter("iqgate_router_hedges_total", "tries", "Second replicas asked early because the first was slow, by whether the hedge budget allowed it (ok) or not (denied).", "outcome")
	routerHedgesWon = routerMetrics.counter("iqgate_router_hedges_won_total", "reads", "Reads that the second replica answered first.")

	routerNode       = routerMetrics.gauge("iqgate_router_node_state", "", "1 for each node that the router knows, with its state: alive, draining, suspect or dead.", "node", "state")
	routerNodeAge    = routerMetrics.gauge("iqgate_router_node_report_age_seconds", "seconds", "Time since a node's newest report.", "node")
	routerLagOffsets = routerMetrics.gauge("iqgate_router_replica_lag_offsets", "changelog offsets", "How many changelog offsets a live replica is behind the largest end that any node has told of; absent while it is not known.", "store", "partition", "node", "role")
	routerLagSeconds = routerMetrics.gauge("iqgate_router_replica_lag_seconds", "seconds", "Upper bound on a live replica's staleness, with the age of its report; absent while it is not known.", "store", "partition", "node", "role")
	routerPartitions = routerMetrics.gauge("iqgate_router_store_partitions", "partitions", "Partitions of a store.", "store")
	routerNoActive   = routerMetrics.gauge("iqgate_router_store_partitions_without_active", "partitions", "Partitions of a store that no live node answers for as active; absent for stores that are only followed.", "store")
	routerNoReplica  = routerMetrics.gauge("iqgate_router_store_partitions_without_replica", "partitions", "Partitions of a store that no live node has.", "store")
)

// denied is the outcome of what a budget did not allow.
const denied = "denied"

// routerCollector makes a router's metrics at each scrape.
type routerCollector struct {
	tally func(now time.Time) tally.Router
	view  func() *metadata.View
}

// NewRouter makes the collector of a router's metrics.
func NewRouter(tally func(now time.Time) tally.Router, view func() *metadata.View) prometheus.Collector {
	return routerCollector{tally, view}
}

// Describe implements prometheus.Collector.
func (c routerCollector) Describe(out chan<- *prometheus.Desc) { routerMetrics.describe(out) }

// Collect implements prometheus.Collector.
func (c routerCollector) Collect(out chan<- prometheus.Metric) {
	s := scrape{out: out, now: time.Now()}
	t, v := c.tally(s.now), c.view()
	s.put(routerInfo, 1, t.Name, v.Application())
	s.routerReads(&t)
	s.routerView(&t, v)
}

// routerReads is what callers get.
func (s scrape) routerReads(t *tally.Router) {
	s.requests(routerRequests, routerDuration, t.Requests)
	s.count(routerInFlight, t.InFlight)
	s.count(routerWaiting, t.Waiting)
	s.count(routerScans, t.Scans)
	s.count(routerWatches, t.Watches)
	s.count(routerWatchers, t.MetadataWatches)
	s.reads(routerReads, routerStale, routerStaleFor, t.Reads)
	s.count(routerRetries, t.Retries, worked)
	s.count(routerRetries, t.RetriesDenied, denied)
	s.count(routerFailovers, t.Failovers.Load())
	s.count(routerHedges, t.Hedges, worked)
	s.count(routerHedges, t.HedgesDenied, denied)
	s.count(routerHedgesWon, t.HedgesWon.Load())
}

// routerView is what the router knows of the nodes.
func (s scrape) routerView(t *tally.Router, v *metadata.View) {
	s.flag(routerReady, t.Ready)
	if t.FreshFor >= 0 {
		s.seconds(routerFresh, t.FreshFor)
	}
	s.count(routerReports, t.Reports.Load(), worked)
	s.count(routerReports, t.ReportsRefused.Load(), failed)
	for _, n := range v.Nodes() {
		s.put(routerNode, 1, string(n.ID), stateOf(n))
		s.seconds(routerNodeAge, max(0, s.now.Sub(n.Received)), string(n.ID))
	}
	for _, info := range v.Stores() {
		s.store(v, info)
	}
}

// store is one store as the view has it.
func (s scrape) store(v *metadata.View, info metadata.StoreInfo) {
	var noActive, noReplica int64
	for p := range info.Partitions {
		k, err := v.QueryKey(metadata.Partition{Store: info.Name, Partition: p}, s.now)
		if err != nil || k.Active == nil && len(k.Standbys) == 0 {
			noReplica++
			noActive++
			continue
		}
		replicas := k.Standbys
		if k.Active != nil {
			replicas = append(replicas, *k.Active)
		}
		if a := k.Active; a == nil || a.State != metadata.StateRunning || !a.LeaseValid {
			noActive++
		}
		for _, r := range replicas {
			s.lag(routerLagOffsets, routerLagSeconds, r.Lag, info.Name, strconv.Itoa(int(p)), string(r.Node.ID), r.Role.String())
		}
	}
	s.count(routerPartitions, int64(info.Partitions), info.Name)
	s.count(routerNoReplica, noReplica, info.Name)
	if !info.Followed {
		s.count(routerNoActive, noActive, info.Name)
	}
}

// stateOf is a node's state as a label has it.
func stateOf(n *metadata.Node) string {
	switch {
	case !n.Alive:
		return "dead"
	case n.Suspect:
		return "suspect"
	case n.Draining:
		return "draining"
	}
	return "alive"
}
