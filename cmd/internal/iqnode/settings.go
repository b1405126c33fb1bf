package iqnode

import (
	"errors"
	"math"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/admin"
	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/cmd/internal/memory"
	"github.com/iqgate/iqgate/cmd/internal/secure"
	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/node"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// settings are the program's settings after loading.
type settings struct {
	node  node.Config
	links secure.Files
	kafka secure.Kafka
	admin admin.Settings
	log   config.Log
	crash crashPlan
}

const about = `iqnode runs an application's tasks with exactly-once, keeps copies of its stores, and answers reads of them.

usage: iqnode --node-id NAME --topology FILE --brokers HOST:PORT,... --state-dir DIR [flags]
       iqnode --node-id NAME --replica FILE --brokers HOST:PORT,... --state-dir DIR [flags]
`

const after = `
exit codes: 0 stopped as asked, 1 an error, 2 bad configuration, 3 another process runs with the same node id
signals: SIGTERM and SIGINT stop in order, a second one at once
memory: ` + memory.Help + `
`

// load takes the settings from the arguments and the environment, see config.Program.Load.
func load(args, env []string) (*settings, *config.Loaded, error) {
	s := &settings{}
	p := s.program()
	crash, crashErr := parseCrashPlan(crashAt(env))
	s.crash = crash
	p.Check = func() error { return errors.Join(crashErr, s.links.Check(), s.kafka.Check(), s.node.Validate()) }
	loaded, err := p.Load(args, env)
	return s, loaded, err
}

// program declares every setting.
func (s *settings) program() *config.Program {
	return &config.Program{Name: "iqnode", About: about, After: after, Others: []string{crashVariable}, Groups: []config.Group{
		{Title: "The node", Settings: s.nodeSettings()},
		{Title: "The group and its tasks", Settings: s.groupSettings()},
		{Title: "Processing", Settings: s.workSettings()},
		{Title: "Copies, lag and reports", Settings: s.replicaSettings()},
		{Title: "Reads", Settings: s.readSettings()},
		{Title: "TLS, and who may do what", Settings: s.links.Settings()},
		{Title: "TLS and SASL to Kafka", Settings: s.kafka.Settings()},
		{Title: "The admin port", Settings: s.admin.DeclareNode()},
		{Title: "Log", Settings: s.log.Settings(" (with the Kafka client's log)")},
	}}
}

func (s *settings) nodeSettings() []config.Setting {
	c := &s.node
	return []config.Setting{
		config.Text("node-id", "NodeID", "NAME", "", &c.NodeID, "the node's name; must be its alone and stay the same over restarts").
			Must("1 to 64 letters, digits, '.', '_' or '-'").Require(),
		config.FileOf("topology", "Topology", s.setTopology, "the application to run, as YAML").Must("given, unless replica is"),
		config.FileOf("replica", "Replica", s.setReplica, "in place of topology: what to follow of a Kafka Streams application, as YAML"),
		config.List("brokers", "Brokers", "HOST:PORT", &c.Brokers, "Kafka's bootstrap addresses").Require(),
		config.Text("state-dir", "StateDir", "DIR", "", &c.StateDir, "where the stores live; must be the node's alone").Require(),
		config.Text("listen", "Listen", "HOST:PORT", "127.0.0.1:0", &c.Listen, "where to serve queries; port 0 takes a free one"),
		config.Text("advertised", "Advertised", "HOST:PORT", "", &c.Advertised, "where routers and callers reach the node, if not where it listens").
			Must("an address that others can dial"),
		config.List("routers", "Routers", "HOST:PORT", &c.Routers, "routers to report to"),
		config.Text("rack", "Rack", "NAME", "", &c.Rack, "where the node stands; standbys go to other racks first"),
		config.Number("capacity", "Capacity", &c.Capacity, "1", 1, 1000, "the node's share of tasks, relative to others"),
		config.Duration("drain-timeout", "DrainTimeout", &c.DrainTimeout, "5s", 0, 0, "bound of handing the tasks over before a stop; -1s hands nothing over").
			Or("-1s", func() { c.DrainTimeout = -1 }),
		config.Duration("shutdown-timeout", "ShutdownTimeout", &c.ShutdownTimeout, "10s", 0, 0, "bound of an orderly stop"),
	}
}

func (s *settings) groupSettings() []config.Setting {
	c := &s.node
	return []config.Setting{
		config.Number("standbys", "Standbys", &c.Standbys, "1", 1, math.MaxInt16, "copies of each store partition besides the active").
			Or("0", func() { c.Standbys = -1 }), // in node.Config 0 is the default and -1 is none
		config.Number("acceptable-lag", "AcceptableLag", &c.AcceptableLag, "10000", 1, 0, "offsets that a replica may be behind to become active"),
		config.Number("max-warmups", "MaxWarmups", &c.MaxWarmups, "2", 1, 0, "warm-up replicas of the whole application"),
		config.Number("replication-factor", "ReplicationFactor", &c.ReplicationFactor, "-1", 1, math.MaxInt16, "of the internal topics; -1 is the broker's default").
			Or("-1", func() { c.ReplicationFactor = -1 }),
		config.Duration("session-timeout", "SessionTimeout", &c.SessionTimeout, "10s", 0, 0, "after which the group gives a silent node's tasks away").
			Must("within the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"),
		config.Duration("rebalance-timeout", "RebalanceTimeout", &c.RebalanceTimeout, "6s", 0, 0, "how long the group waits for a member to rejoin").
			Must("less than session-timeout"),
		config.Duration("group-heartbeat", "GroupHeartbeat", &c.GroupHeartbeat, "250ms", 0, 0, "time between two group heartbeats").
			Must("at most a quarter of lease"),
		config.Duration("lease", "Lease", &c.Lease, "2s", 0, 0, "how long after a good heartbeat the node may answer as active").
			Must("at most half of rebalance-timeout and of session-timeout"),
		config.Duration("topic-check-interval", "TopicCheckInterval", &c.TopicCheckInterval, "1s", 0, 0, "time between two looks at partition counts"),
	}
}

func (s *settings) workSettings() []config.Setting {
	c := &s.node
	return []config.Setting{
		config.Duration("commit-interval", "CommitInterval", &c.CommitInterval, "100ms", 0, 0, "longest time between two commits"),
		config.Number("max-poll-records", "MaxPollRecords", &c.MaxPollRecords, "2000", 1, 1_000_000, "records processed between two looks at the group"),
		config.Size("max-uncommitted-bytes", "MaxUncommittedBytes", &c.MaxUncommittedBytes, "16MiB", 1, "commit early when this much is uncommitted"),
		config.Duration("transaction-timeout", "TransactionTimeout", &c.TransactionTimeout, "10s", 0, 0, "after which Kafka aborts a silent node's transaction").
			Must("at most the broker's transaction.max.timeout.ms"),
		config.Duration("task-retry", "TaskRetry", &c.TaskRetry, "30s", 0, 0, "how long a task that failed on a record rests"),
		config.Switch("sync-writes", "SyncWrites", &c.SyncWrites, "make stores survive a power loss, with an fsync per commit"),
	}
}

func (s *settings) replicaSettings() []config.Setting {
	c := &s.node
	return []config.Setting{
		config.Duration("lag-sample-interval", "LagSampleInterval", &c.LagSampleInterval, "100ms", 0, 0, "time between two looks at the changelogs' ends"),
		config.Duration("lag-sample-max-age", "LagSampleMaxAge", &c.LagSampleMaxAge, "5s", 0, 0, "how old an end may be to judge an offset lag by"),
		config.Duration("report-interval", "ReportInterval", &c.ReportInterval, "100ms", 10*time.Millisecond, 0, "time between two reports to each router"),
		config.Duration("release-delay", "ReleaseDelay", &c.ReleaseDelay, "10s", 0, 0, "how long a replica no longer assigned goes on serving"),
		config.Duration("cleanup-delay", "CleanupDelay", &c.CleanupDelay, "10m", 0, 0, "how long the files of a store no longer assigned are kept after that"),
		config.Number("bootstrap-distance", "BootstrapDistance", &c.BootstrapDistance, "25000", 1, 0,
			"offsets that a replica must be behind to begin with a copy of another node's store; -1 never copies").
			Or("-1", func() { c.BootstrapDistance = -1 }),
		config.Number("max-copies", "MaxCopies", &c.MaxCopies, "4", 1, 0, "copies of stores sent to other nodes at a time; -1 sends none").
			Or("-1", func() { c.MaxCopies = -1 }),
	}
}

func (s *settings) readSettings() []config.Setting {
	c := &s.node
	return []config.Setting{
		config.Choice("default-policy", "DefaultPolicy", "MODE", "active", []string{"strong", "active", "any"}, s.setDefaultPolicy, "for reads that name none: strong, active or any"),
		config.Number("max-in-flight", "MaxInFlight", &c.MaxInFlight, "10000", 1, 0, "reads under way at a time; more are refused as OVERLOADED"),
		config.Number("max-waiting", "MaxWaiting", &c.MaxWaiting, "1000", 1, 0, "reads held at a time because they asked to wait"),
		config.Number("max-scans", "MaxScans", &c.MaxScans, "256", 1, 0, "scans and counts that run at a time"),
		config.Number("max-watches", "MaxWatches", &c.MaxWatches, "1000", 1, 0, "watches that are open at a time"),
		config.Duration("scan-idle", "ScanIdle", &c.ScanIdle, "30s", 0, 0, "how long the reader of a scan or watch may take nothing"),
		config.Size("max-message-bytes", "MaxMessageBytes", &c.MaxMessageBytes, "64MiB", mux.MinMessageBytes, "bound of one gRPC message"),
	}
}

func (s *settings) setTopology(data []byte) error {
	c, err := topology.LoadYAML(data)
	if err == nil {
		s.node.Topology, err = c.Build(nil)
	}
	return err
}

func (s *settings) setReplica(data []byte) (err error) {
	s.node.Replica, err = follow.LoadYAML(data)
	return err
}

func (s *settings) setDefaultPolicy(word string) error {
	s.node.DefaultPolicy = map[string]iqv1.ReadPolicy_Mode{
		"strong": iqv1.ReadPolicy_MODE_STRONG, "active": iqv1.ReadPolicy_MODE_ACTIVE, "any": iqv1.ReadPolicy_MODE_ANY,
	}[word]
	return nil
}
