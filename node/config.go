package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/tally"
	"github.com/iqgate/iqgate/topology"
)

// Config is everything a node needs to know. The zero value of a field means its default.
type Config struct {
	// NodeID names the node: letters, digits, '.', '_' and '-', at most 64. It must be the node's alone and stay the same
	// over restarts: the transactional id and the group instance id are made of it. Required.
	NodeID string
	// Topology is the application to run. Its name is the consumer group's. Required, unless Replica is given.
	Topology *topology.Topology
	// Replica, in place of a Topology, makes the node run nothing and follow the changelogs of a Kafka Streams application, or
	// compacted topics. It writes neither to the application's topics nor to its group. Standbys then says nothing:
	// Replica.Replicas is the number of copies.
	Replica *follow.Config
	// Brokers are Kafka's bootstrap addresses, host:port. Required.
	Brokers []string
	// StateDir is where the stores live, the node's alone. Required.
	StateDir string
	// Listen is the address to serve queries at. Default 127.0.0.1:0. Ignored when Listener is given.
	Listen string
	// Listener serves queries instead of a socket of the node's own; tests give one.
	Listener net.Listener
	// Advertised is the address at which routers and callers reach the node, host:port. Default: the listener's, which
	// must then name a host that others can dial. An address that refuses connections is taken to mean that the process is
	// gone: it must reach this node or nobody, from every other node and router.
	Advertised string
	// Rack is where the node stands. Standbys go to other racks first.
	Rack string
	// Version is what the program was built from, which routers show. Default: none.
	Version string
	// Capacity is the node's share of tasks relative to others. Default 1, at most 1000.
	Capacity int
	// Routers are the routers' addresses, host:port. Names are resolved again at each connection. None is allowed: callers
	// then ask nodes.
	Routers []string
	// Standbys is the number of copies of each store partition besides the active. Default 1; -1 means none.
	Standbys int
	// AcceptableLag is the changelog offsets that a replica may be behind and still count as caught up when actives are
	// assigned (Kafka Streams' acceptable.recovery.lag). Default 10,000.
	AcceptableLag int64
	// MaxWarmups bounds the warm-up replicas of the whole application (Kafka Streams' max.warmup.replicas). Default 2.
	MaxWarmups int
	// ReplicationFactor of the internal topics that the node creates. Default -1, the broker's default.
	ReplicationFactor int16

	// CommitInterval is the longest time between two commits while there is input. Default 100ms.
	CommitInterval time.Duration
	// MaxPollRecords bounds the records processed between two looks at assignment and commit. Default 2,000.
	MaxPollRecords int
	// MaxUncommittedBytes commits early when the uncommitted writes have reached it. Default 16 MiB.
	MaxUncommittedBytes int64
	// TransactionTimeout is after how long Kafka aborts a transaction of a node that went silent. Default 10s.
	TransactionTimeout time.Duration
	// SessionTimeout is after how long without a heartbeat the group gives the node's tasks to others. Default 10s; must be
	// within the broker's group.min.session.timeout.ms (6s by default) and group.max.session.timeout.ms.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for a member to rejoin. Default 6s; less than SessionTimeout.
	RebalanceTimeout time.Duration
	// GroupHeartbeat is the time between two group heartbeats. Default 250ms; at most a quarter of Lease.
	GroupHeartbeat time.Duration
	// Lease is how long after a good group heartbeat the node may answer as active. Default 2s; at most half of
	// RebalanceTimeout and of SessionTimeout, so that nobody else can have become active meanwhile.
	Lease time.Duration

	// LagSampleInterval is the time between two looks at the changelogs' ends. Default 100ms.
	LagSampleInterval time.Duration
	// LagSampleMaxAge is how old an end may be to judge an offset lag by. Default 5s.
	LagSampleMaxAge time.Duration
	// ReportInterval is the time between two reports to each router. Default 100ms.
	ReportInterval time.Duration
	// ReleaseDelay is how long a replica that is not assigned any more goes on following and serving. Default 10s.
	ReleaseDelay time.Duration
	// CleanupDelay is how long the directory of a store that is not assigned any more is kept after that (Kafka Streams'
	// state.cleanup.delay.ms). Default 10m.
	CleanupDelay time.Duration
	// BootstrapDistance is how many changelog offsets a replica must be behind, or would have to be spared, for it to begin
	// with a copy of another node's store in place of the changelog. Default 25,000; -1 means never.
	BootstrapDistance int64
	// MaxCopies bounds the copies of stores that are sent to other nodes at a time. Default 4; more are OVERLOADED. -1 sends
	// none.
	MaxCopies int
	// TopicCheckInterval is the time between two looks at the partition counts of the topics. Default 1s.
	TopicCheckInterval time.Duration
	// TaskRetry is how long a task that failed on a record rests before it is tried again. Default 30s.
	TaskRetry time.Duration
	// DrainTimeout bounds the time in which a node that is told to end hands its tasks over. Default 5s; -1 hands nothing
	// over.
	DrainTimeout time.Duration
	// ShutdownTimeout bounds the orderly end: last commit, leaving the group, ending queries. Default 10s.
	ShutdownTimeout time.Duration

	// DefaultPolicy is the mode of a request without a policy. Default MODE_ACTIVE.
	DefaultPolicy iqv1.ReadPolicy_Mode
	// MaxInFlight bounds the reads that are under way at a time, each in some kilobytes; half as many may wait for a commit.
	// Default 10,000; more are OVERLOADED, and a router asks another replica.
	MaxInFlight int
	// MaxWaiting bounds the requests held at a time because they asked to wait. Default 1,000; more are OVERLOADED.
	MaxWaiting int
	// MaxScans bounds the scans and counts that run at a time, each of which holds snapshots. Default 256; more are
	// OVERLOADED.
	MaxScans int
	// MaxWatches bounds the watches that are open at a time. Default 1,000; more are OVERLOADED.
	MaxWatches int
	// ScanIdle is how long the reader of a scan or watch may take nothing before it is ended with SLOW_READER and its
	// snapshots are released. Default 30s.
	ScanIdle time.Duration
	// MaxMessageBytes bounds a gRPC message, at least mux.MinMessageBytes. Default 64 MiB.
	MaxMessageBytes int
	// SyncWrites makes the stores survive a power loss without being rebuilt, at the price of an fsync per commit.
	SyncWrites bool

	// Partitioners knows the partitioners that stores and sinks name. Default: the built-in ones.
	Partitioners *partitioner.Registry
	// Security is TLS, and who may do what, on the links of callers, routers and other nodes. Default: plaintext, and everybody
	// may do everything.
	Security *auth.Security
	// Kafka is TLS and SASL on the links to Kafka. Default: plaintext without authentication.
	Kafka *kafka.Security
	// KafkaOptions are added to each Kafka client: a dialer, a log.
	KafkaOptions []kgo.Opt
	// Dial connects to routers and other nodes instead of TCP; tests give one.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Step, when given, is called before each step of what must survive a crash at any point, by name (steps.go), by several
	// goroutines. An error ends what is being done as a crash at that point would. Tests inject faults with it.
	Step func(step string) error
	// FreeBytes says how much space is free for a store's directory, instead of the file system. Tests fill a disk with it.
	FreeBytes func(dir string) (int64, error)
	// Logger takes the node's log. Default slog.Default().
	Logger *slog.Logger

	work *tally.Work // what the node counts; New makes it
}

// Limits of the configuration.
const (
	maxNodeIDLength    = 64
	maxCapacity        = 1000
	minReportInterval  = 10 * time.Millisecond
	maxPollRecordLimit = 1_000_000
	maxPort            = 65535
)

var nodeIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// withDefaults returns c with every zero field set to its default.
func (c Config) withDefaults() Config {
	c.Listen = or(c.Listen, "127.0.0.1:0")
	c.Capacity = or(c.Capacity, 1)
	c.Standbys = max(or(c.Standbys, 1), 0)
	c.AcceptableLag = or(c.AcceptableLag, 10_000)
	c.MaxWarmups = or(c.MaxWarmups, 2)
	c.ReplicationFactor = or(c.ReplicationFactor, -1)
	c.CommitInterval = or(c.CommitInterval, 100*time.Millisecond)
	c.MaxPollRecords = or(c.MaxPollRecords, 2_000)
	c.MaxUncommittedBytes = or(c.MaxUncommittedBytes, 16<<20)
	c.TransactionTimeout = or(c.TransactionTimeout, 10*time.Second)
	c.SessionTimeout = or(c.SessionTimeout, 10*time.Second)
	c.RebalanceTimeout = or(c.RebalanceTimeout, 6*time.Second)
	c.GroupHeartbeat = or(c.GroupHeartbeat, 250*time.Millisecond)
	c.Lease = or(c.Lease, 2*time.Second)
	c.LagSampleInterval = or(c.LagSampleInterval, 100*time.Millisecond)
	c.LagSampleMaxAge = or(c.LagSampleMaxAge, 5*time.Second)
	c.ReportInterval = or(c.ReportInterval, 100*time.Millisecond)
	c.ReleaseDelay = or(c.ReleaseDelay, 10*time.Second)
	c.CleanupDelay = or(c.CleanupDelay, 10*time.Minute)
	c.BootstrapDistance = max(or(c.BootstrapDistance, 25_000), -1)
	c.MaxCopies = max(or(c.MaxCopies, 4), 0)
	c.TopicCheckInterval = or(c.TopicCheckInterval, time.Second)
	c.TaskRetry = or(c.TaskRetry, 30*time.Second)
	c.DrainTimeout = max(or(c.DrainTimeout, 5*time.Second), 0)
	c.ShutdownTimeout = or(c.ShutdownTimeout, 10*time.Second)
	c.DefaultPolicy = or(c.DefaultPolicy, iqv1.ReadPolicy_MODE_ACTIVE)
	c.MaxInFlight = or(c.MaxInFlight, 10_000)
	c.MaxWaiting = or(c.MaxWaiting, 1_000)
	c.MaxScans = or(c.MaxScans, 256)
	c.MaxWatches = or(c.MaxWatches, 1_000)
	c.ScanIdle = or(c.ScanIdle, 30*time.Second)
	c.MaxMessageBytes = or(c.MaxMessageBytes, 64<<20)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With(slog.String("node", c.NodeID))
	return c
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// kafkaOptions are the options of each Kafka client of the node.
func (c Config) kafkaOptions() []kgo.Opt {
	return kafka.Options(c.Brokers, "iqnode-"+c.NodeID, slices.Concat(c.Kafka.Options(), c.KafkaOptions, []kgo.Opt{kafka.Counted(&c.work.Kafka)})...)
}

// Validate reports every bad field at once and names it.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("node: %s %q: %s", field, fmt.Sprint(value), why))
	}
	if !nodeIDPattern.MatchString(c.NodeID) || len(c.NodeID) > maxNodeIDLength {
		bad("NodeID", c.NodeID, "must be 1 to 64 letters, digits, '.', '_' or '-'")
	}
	if err := c.replicaFaults(); err != nil {
		errs = append(errs, err)
	}
	if len(c.Brokers) == 0 {
		bad("Brokers", "", "is required: Kafka's bootstrap addresses, host:port")
	}
	for _, b := range c.Brokers {
		if why := checkAddress(b, false); why != "" {
			bad("Brokers", b, why)
		}
	}
	if c.StateDir == "" {
		bad("StateDir", "", "is required")
	}
	for _, r := range c.Routers {
		if why := checkAddress(r, false); why != "" {
			bad("Routers", r, why)
		}
	}
	if c.Advertised != "" {
		if why := checkAddress(c.Advertised, true); why != "" {
			bad("Advertised", c.Advertised, why)
		}
	} else if c.Listener == nil {
		if why := checkAddress(c.Listen, true); why != "" && !strings.HasSuffix(c.Listen, ":0") {
			bad("Listen", c.Listen, why+"; set Advertised to an address that others can dial")
		}
	}
	if err := errors.Join(c.Security.Validate(), c.Kafka.Validate()); err != nil {
		errs = append(errs, fmt.Errorf("node: %w", err))
	}
	if c.MaxMessageBytes < mux.MinMessageBytes {
		bad("MaxMessageBytes", c.MaxMessageBytes, fmt.Sprintf("must be at least %d", mux.MinMessageBytes))
	}
	if c.Capacity < 1 || c.Capacity > maxCapacity {
		bad("Capacity", c.Capacity, "must be 1 to 1000")
	}
	positive := []struct {
		field string
		value time.Duration
	}{
		{"CommitInterval", c.CommitInterval},
		{"TransactionTimeout", c.TransactionTimeout},
		{"SessionTimeout", c.SessionTimeout},
		{"RebalanceTimeout", c.RebalanceTimeout},
		{"GroupHeartbeat", c.GroupHeartbeat},
		{"Lease", c.Lease},
		{"LagSampleInterval", c.LagSampleInterval},
		{"LagSampleMaxAge", c.LagSampleMaxAge},
		{"ReportInterval", c.ReportInterval},
		{"ReleaseDelay", c.ReleaseDelay},
		{"CleanupDelay", c.CleanupDelay},
		{"TopicCheckInterval", c.TopicCheckInterval},
		{"TaskRetry", c.TaskRetry},
		{"ShutdownTimeout", c.ShutdownTimeout},
		{"ScanIdle", c.ScanIdle},
	}
	for _, p := range positive {
		if p.value < 0 {
			bad(p.field, p.value, "must not be negative")
		}
	}
	if c.MaxPollRecords < 1 || c.MaxPollRecords > maxPollRecordLimit {
		bad("MaxPollRecords", c.MaxPollRecords, "must be 1 to 1,000,000")
	}
	if c.MaxInFlight < 1 {
		bad("MaxInFlight", c.MaxInFlight, "must be at least 1")
	}
	if c.MaxScans < 1 {
		bad("MaxScans", c.MaxScans, "must be at least 1")
	}
	if c.MaxWatches < 1 {
		bad("MaxWatches", c.MaxWatches, "must be at least 1")
	}
	if c.ReportInterval < minReportInterval {
		bad("ReportInterval", c.ReportInterval, "must be at least 10ms")
	}
	if c.RebalanceTimeout >= c.SessionTimeout {
		bad("RebalanceTimeout", c.RebalanceTimeout, "must be less than SessionTimeout "+c.SessionTimeout.String())
	}
	if 2*c.Lease > c.RebalanceTimeout || 2*c.Lease > c.SessionTimeout {
		bad("Lease", c.Lease, "must be at most half of RebalanceTimeout "+c.RebalanceTimeout.String()+" and of SessionTimeout "+c.SessionTimeout.String())
	}
	if 4*c.GroupHeartbeat > c.Lease {
		bad("GroupHeartbeat", c.GroupHeartbeat, "must be at most a quarter of Lease "+c.Lease.String())
	}
	if c.AcceptableLag < 0 {
		bad("AcceptableLag", c.AcceptableLag, "must not be negative")
	}
	return errors.Join(errs...)
}

// checkAddress says what is wrong with an address, or nothing. One that is advertised must be dialable by others: a
// host and port that are neither empty nor a wildcard, and a numeric host must be a whole IP address (S20).
func checkAddress(address string, advertised bool) string {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return "is not host:port"
	case host == "":
		return "has no host"
	case port == "" || advertised && port == "0":
		return "has no port"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > maxPort {
		return "has no port from 1 to 65535"
	}
	if ip := net.ParseIP(host); ip != nil {
		if advertised && ip.IsUnspecified() {
			return "names no host that others can dial"
		}
		return ""
	}
	if strings.Trim(host, "0123456789.") == "" {
		return "is not an IP address"
	}
	return ""
}
