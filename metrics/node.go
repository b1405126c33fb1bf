package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

// The metrics of a node.
var (
	nodeMetrics list

	nodeInfo        = nodeMetrics.gauge("iqgate_node_info", "", "1, with who the node is.", "node", "application", "address", "rack")
	nodeUp          = nodeMetrics.gauge("iqgate_node_up", "", "1 once the node has found Kafka and its topics, else 0.")
	nodeJoined      = nodeMetrics.gauge("iqgate_node_joined", "", "1 while the node is a member of the group with an assignment, else 0.")
	nodeDraining    = nodeMetrics.gauge("iqgate_node_draining", "", "1 while the node hands its tasks over before it leaves, else 0.")
	nodeGeneration  = nodeMetrics.gauge("iqgate_node_group_generation", "", "Generation of the newest assignment.")
	nodeLease       = nodeMetrics.gauge("iqgate_node_lease_remaining_seconds", "seconds", "How long the node may still answer as active without another group heartbeat; 0 when it may not.")
	nodeTasks       = nodeMetrics.gauge("iqgate_node_active_tasks", "tasks", "Active tasks that the node has, with those that are being restored.")
	nodeRebalance   = nodeMetrics.histogram("iqgate_node_rebalance_duration_seconds", "How long the group took from the node's JoinGroup to its assignment. The count is that of rebalances.")
	nodeLosses      = nodeMetrics.counter("iqgate_node_membership_losses_total", "losses", "How often the group went on without the node.")
	nodeMissedBeats = nodeMetrics.counter("iqgate_node_group_heartbeat_failures_total", "heartbeats", "Group heartbeats that did not come back well, but for those that tell of a rebalance.")
	nodePromotion   = nodeMetrics.histogram("iqgate_node_task_promotion_duration_seconds", "How long active tasks took from the begin of their restore until they ran.")
	nodeTaskFailure = nodeMetrics.counter("iqgate_node_task_failures_total", "failures", "How often a task stopped at a record that it could not process.")

	nodeRequests   = nodeMetrics.counter("iqgate_node_requests_total", "requests", "Requests of callers and routers, by how they ended: ok, or the reason of the refusal.", "call", "outcome")
	nodeRequestDur = nodeMetrics.histogram("iqgate_node_request_duration_seconds", "How long requests took, with what they waited; streams until their end.", "call")
	nodeInFlight   = nodeMetrics.gauge("iqgate_node_requests_in_flight", "requests", "Reads under way, without watches.")
	nodeWaiting    = nodeMetrics.gauge("iqgate_node_requests_waiting", "requests", "Reads held because their policy asked to wait.")
	nodeScans      = nodeMetrics.gauge("iqgate_node_scans_open", "scans", "Scans and counts under way.")
	nodeWatches    = nodeMetrics.gauge("iqgate_node_watches_open", "watches", "Watches of state that are open.")
	nodeReads      = nodeMetrics.counter("iqgate_node_reads_total", "reads", "Reads of store partitions: one for a get, one for each partition of other calls. The role is that of the replica that answered.", "store", "policy", "role", "outcome")
	nodeStale      = nodeMetrics.counter("iqgate_node_stale_reads_total", "reads", "Reads that a replica answered that was behind its changelog's end, or did not know.", "store")
	nodeStaleness  = nodeMetrics.histogram("iqgate_node_read_staleness_seconds", "Upper bound on the staleness of answers: the time lag of the replica when it was read.", "store", "role")

	nodeLagOffsets  = nodeMetrics.gauge("iqgate_node_replica_lag_offsets", "changelog offsets", "How many changelog offsets a replica is behind; absent while it is not known.", "store", "partition", "role")
	nodeLagSeconds  = nodeMetrics.gauge("iqgate_node_replica_lag_seconds", "seconds", "Upper bound on a replica's staleness; absent while it is not known.", "store", "partition", "role")
	nodeState       = nodeMetrics.gauge("iqgate_node_replica_state", "", "1 for each replica, with its role and state.", "store", "partition", "role", "state")
	nodeRemaining   = nodeMetrics.gauge("iqgate_node_restore_remaining_offsets", "changelog offsets", "How many changelog offsets a replica has still to read before it has caught up; absent once it has, or while it is not known.", "store", "partition")
	nodeRestored    = nodeMetrics.gauge("iqgate_node_restore_passed_offsets", "changelog offsets", "How many changelog offsets a replica has passed since it began to catch up; absent once it has.", "store", "partition")
	nodeApplied     = nodeMetrics.counter("iqgate_node_store_applied_records_total", "records", "Changelog records applied to stores: of this node's own tasks (task), or read from the changelog (changelog), as by standbys and restores.", "store", "from")
	nodeRebuilds    = nodeMetrics.counter("iqgate_node_store_rebuilds_total", "rebuilds", "How often a store was dropped and rebuilt because it was damaged or did not fit its changelog.", "store")
	nodeCopies      = nodeMetrics.counter("iqgate_node_store_copies_total", "copies", "Stores copied from another node in place of their changelog.", "outcome")
	nodeCopied      = nodeMetrics.counter("iqgate_node_store_copied_bytes_total", "bytes", "Size of the copies of stores from other nodes.")
	nodeTables      = nodeMetrics.gauge("iqgate_node_store_tables", "tables", "Sorted tables of a store.", "store", "partition")
	nodeTableBytes  = nodeMetrics.gauge("iqgate_node_store_table_bytes", "bytes", "Size of a store's sorted tables.", "store", "partition")
	nodeValueBytes  = nodeMetrics.gauge("iqgate_node_store_value_bytes", "bytes", "Size of a store's files of values above about 1 MiB, but for the newest file.", "store", "partition")
	nodeDiskFree    = nodeMetrics.gauge("iqgate_node_disk_free_bytes", "bytes", "Space that is left on the file system of the state directory.")
	nodeDiskSize    = nodeMetrics.gauge("iqgate_node_disk_size_bytes", "bytes", "Size of the file system of the state directory.")
	nodeSampleAge   = nodeMetrics.gauge("iqgate_node_lag_sample_age_seconds", "seconds", "Time since the ends of changelogs were last asked for with success; absent before the first time.")
	nodeSampleFails = nodeMetrics.counter("iqgate_node_lag_sample_failures_total", "failures", "How often the ends of changelogs could not be learned.")

	nodeCommits    = nodeMetrics.counter("iqgate_node_commits_total", "transactions", "Transactions that were committed and applied, with commits of input offsets alone.")
	nodeCommitErrs = nodeMetrics.counter("iqgate_node_commit_failures_total", "transactions", "Commits that failed or whose outcome was not known.")
	nodeAborts     = nodeMetrics.counter("iqgate_node_transaction_aborts_total", "transactions", "How often the tasks began again from what is committed, after whatever failure.")
	nodeCommitDur  = nodeMetrics.histogram("iqgate_node_commit_duration_seconds", "How long commits took, with applying them to the stores.")
	nodeIn         = nodeMetrics.counter("iqgate_node_records_in_total", "records", "Input records processed in committed transactions.", "topic")
	nodeOut        = nodeMetrics.counter("iqgate_node_records_out_total", "records", "Records sent to sinks in committed transactions.", "topic")
	nodeSkipped    = nodeMetrics.counter("iqgate_node_records_skipped_total", "records", "Records that tasks could not use.", "reason")
	nodeDropped    = nodeMetrics.counter("iqgate_node_records_dropped_total", "records", "Records that a sink's partitioner sent to no partition.", "sink", "topic")
	nodeMisplaced  = nodeMetrics.counter("iqgate_node_records_misplaced_total", "records", "Records that lie in another partition than the store's partitioner puts their key; lookups do not find them.", "store", "topic")

	nodeConnects    = nodeMetrics.counter("iqgate_node_kafka_connects_total", "connections", "Connections to brokers, by whether they could be made.", "outcome")
	nodeKafkaErrors = nodeMetrics.counter("iqgate_node_kafka_request_failures_total", "requests", "Requests to brokers that got no answer.")
	nodeKafkaSent   = nodeMetrics.counter("iqgate_node_kafka_sent_bytes_total", "bytes", "Bytes sent to brokers.")
	nodeKafkaRead   = nodeMetrics.counter("iqgate_node_kafka_received_bytes_total", "bytes", "Bytes received from brokers.")
	nodeThrottled   = nodeMetrics.counter("iqgate_node_kafka_throttled_seconds_total", "seconds", "How long brokers have asked the node to wait.")
)

// The outcomes of what works or does not.
const (
	worked = "ok"
	failed = "error"
)

// nodeCollector makes a node's metrics at each scrape.
type nodeCollector struct {
	tally func(now time.Time) tally.Node
}

// NewNode makes the collector of a node's metrics.
func NewNode(tally func(now time.Time) tally.Node) prometheus.Collector {
	return nodeCollector{tally}
}

// Describe implements prometheus.Collector.
func (c nodeCollector) Describe(out chan<- *prometheus.Desc) { nodeMetrics.describe(out) }

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(out chan<- prometheus.Metric) {
	s := scrape{out: out, now: time.Now()}
	t := c.tally(s.now)
	s.nodeItself(&t)
	s.nodeAnswers(&t)
	s.nodeStores(&t)
	s.nodeWork(&t)
}

// nodeItself is the node and its place in the group.
func (s scrape) nodeItself(t *tally.Node) {
	s.put(nodeInfo, 1, t.ID, t.Application, t.Address, t.Rack)
	s.flag(nodeUp, t.Up)
	s.flag(nodeJoined, t.Joined)
	s.flag(nodeDraining, t.Draining)
	s.count(nodeGeneration, int64(t.Generation))
	s.seconds(nodeLease, t.LeaseLeft)
	s.count(nodeTasks, int64(t.Tasks))
	s.distribution(nodeRebalance, t.Work.Group.JoinTook.Load())
	s.count(nodeLosses, t.Work.Group.Losses.Load())
	s.count(nodeMissedBeats, t.Work.Group.HeartbeatFailures.Load())
	s.distribution(nodePromotion, t.Work.PromotionTook.Load())
	s.count(nodeTaskFailure, t.Work.TaskFailures.Load())
}

// nodeAnswers is what callers get.
func (s scrape) nodeAnswers(t *tally.Node) {
	s.requests(nodeRequests, nodeRequestDur, t.Requests)
	s.count(nodeInFlight, t.InFlight)
	s.count(nodeWaiting, t.Waiting)
	s.count(nodeScans, t.Scans)
	s.count(nodeWatches, t.Watches)
	s.reads(nodeReads, nodeStale, nodeStaleness, t.Reads)
}

// reads sends the reads of all stores.
func (s scrape) reads(total, stale, staleness *Metric, r *tally.Reads) {
	for _, st := range r.Stores() {
		st.Each(func(p tally.Policy, role metadata.Role, outcome tally.Outcome, n int64) {
			s.count(total, n, st.Store, p.String(), tally.RoleName(role), outcome.String())
		})
		if st.Store != tally.Other {
			s.count(stale, st.Stale(), st.Store)
		}
		st.Staleness(func(role metadata.Role, d tally.Distribution) {
			s.distribution(staleness, d, st.Store, tally.RoleName(role))
		})
	}
}

// nodeStores is what the node holds.
func (s scrape) nodeStores(t *tally.Node) {
	for i := range t.Replicas {
		r := &t.Replicas[i]
		partition := strconv.Itoa(int(r.Partition.Partition))
		s.lag(nodeLagOffsets, nodeLagSeconds, r.Lag, r.Store, partition, r.Role.String())
		s.put(nodeState, 1, r.Store, partition, r.Role.String(), r.State.String())
		if !r.Restore.Done {
			if left := r.Restore.Remaining(); left >= 0 {
				s.count(nodeRemaining, left, r.Store, partition)
			}
			s.count(nodeRestored, r.Restore.Applied(), r.Store, partition)
		}
		if r.Open {
			s.count(nodeTables, r.Tables, r.Store, partition)
			s.count(nodeTableBytes, r.TableBytes, r.Store, partition)
			s.count(nodeValueBytes, r.ValueBytes, r.Store, partition)
		}
	}
	w := t.Work
	s.byName(nodeApplied, &w.Applied)
	s.byName(nodeRebuilds, &w.Rebuilds)
	s.count(nodeCopies, w.Copies.Load(), worked)
	s.count(nodeCopies, w.CopyFailures.Load(), failed)
	s.count(nodeCopied, w.CopiedBytes.Load())
	if t.DiskSize >= 0 && t.DiskFree >= 0 {
		s.count(nodeDiskFree, t.DiskFree)
		s.count(nodeDiskSize, t.DiskSize)
	}
	if !t.Sampled.IsZero() {
		s.seconds(nodeSampleAge, max(0, s.now.Sub(t.Sampled)))
	}
	s.count(nodeSampleFails, w.SampleFailures.Load())
}

// lag sends how far a replica is behind, as far as it is known.
func (s scrape) lag(offsets, seconds *Metric, lag metadata.LagInfo, labels ...string) {
	if lag.Offsets != metadata.LagUnknown {
		s.count(offsets, lag.Offsets, labels...)
	}
	if lag.Time != metadata.LagUnknown {
		s.seconds(seconds, lag.Time, labels...)
	}
}

// nodeWork is what the node's tasks do, and what goes over its connections to Kafka.
func (s scrape) nodeWork(t *tally.Node) {
	w := t.Work
	s.count(nodeCommits, w.Commits.Load())
	s.count(nodeCommitErrs, w.CommitFailures.Load())
	s.count(nodeAborts, w.Aborts.Load())
	s.distribution(nodeCommitDur, w.CommitTook.Load())
	s.byName(nodeIn, &w.RecordsIn)
	s.byName(nodeOut, &w.RecordsOut)
	s.byName(nodeSkipped, &w.Skipped)
	for _, d := range t.Dropped {
		s.count(nodeDropped, d.Records, d.Sink, d.Topic)
	}
	misplaced := make(map[[2]string]int64)
	for _, m := range t.Misplaced {
		misplaced[[2]string{m.Store, m.Topic}] += m.Records
	}
	for in, n := range misplaced {
		s.count(nodeMisplaced, n, in[0], in[1])
	}
	s.count(nodeConnects, w.Kafka.Connects.Load(), worked)
	s.count(nodeConnects, w.Kafka.ConnectFailures.Load(), failed)
	s.count(nodeKafkaErrors, w.Kafka.RequestFailures.Load())
	s.count(nodeKafkaSent, w.Kafka.Sent.Load())
	s.count(nodeKafkaRead, w.Kafka.Received.Load())
	s.seconds(nodeThrottled, time.Duration(w.Kafka.Throttled.Load()))
}
