package iqnode

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/secure"
	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/node"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// settings are the program's settings after loading.
type settings struct {
	node      node.Config
	links     secure.Files
	kafka     secure.Kafka
	logLevel  slog.Level
	logFormat string
	crash     crashPlan

	version, printConfig bool
	strangers            []string // variables IQNODE_* that are no setting
	given                []given  // of every setting, where its value came from
}

// A setting is one thing that can be set, by the same name as flag and in the file, and as IQNODE_NAME in the
// environment.
type setting struct {
	name  string
	field string // of node.Config; empty for the program's own
	value string // what kind of value, for the help; empty for a switch
	def   string // as text; empty for none
	list  bool   // the file may have a list
	// secret settings come from the environment alone, and are never printed.
	secret bool
	help   string
	set    func(s *settings, text string) error
}

// env is the setting's environment variable.
func (o *setting) env() string {
	return envPrefix + strings.ReplaceAll(strings.ToUpper(o.name), "-", "_")
}

// take sets the setting to a value that somebody gave.
func (o *setting) take(s *settings, text string) error {
	if text == "" {
		return errors.New("is empty; leave it out for the default")
	}
	return o.set(s, text)
}

const envPrefix = "IQNODE_"

// allSettings lists every setting, in the order of the help.
func allSettings() []setting {
	return []setting{
		text("node-id", "NodeID", "NAME", "", "the node's name; must be its alone and stay the same over restarts", func(c *node.Config) *string { return &c.NodeID }),
		{name: "topology", field: "Topology", value: "FILE", help: "the application to run, as YAML", set: setTopology},
		{name: "replica", field: "Replica", value: "FILE", help: "in place of --topology: what to follow of a Kafka Streams application, as YAML", set: setReplica},
		list("brokers", "Brokers", "Kafka's bootstrap addresses", func(c *node.Config) *[]string { return &c.Brokers }),
		text("state-dir", "StateDir", "DIR", "", "where the stores live; must be the node's alone", func(c *node.Config) *string { return &c.StateDir }),
		text("listen", "Listen", "HOST:PORT", "127.0.0.1:0", "where to serve queries", func(c *node.Config) *string { return &c.Listen }),
		text("advertised", "Advertised", "HOST:PORT", "", "where routers and callers reach the node, if not where it listens", func(c *node.Config) *string { return &c.Advertised }),
		list("routers", "Routers", "routers to report to", func(c *node.Config) *[]string { return &c.Routers }),
		text("rack", "Rack", "NAME", "", "where the node stands; standbys go to other racks first", func(c *node.Config) *string { return &c.Rack }),
		number("capacity", "Capacity", "1", 1, "the node's share of tasks, relative to others", func(c *node.Config) *int { return &c.Capacity }),
		{name: "standbys", field: "Standbys", value: "N", def: "1", help: "copies of each store partition besides the active", set: setStandbys},
		number("acceptable-lag", "AcceptableLag", "10000", 1, "offsets that a replica may be behind to become active", func(c *node.Config) *int64 { return &c.AcceptableLag }),
		number("max-warmups", "MaxWarmups", "2", 1, "warm-up replicas of the whole application", func(c *node.Config) *int { return &c.MaxWarmups }),
		number("replication-factor", "ReplicationFactor", "-1", -1, "of the internal topics; -1 is the broker's default", func(c *node.Config) *int16 { return &c.ReplicationFactor }),

		duration("commit-interval", "CommitInterval", "100ms", "longest time between two commits", func(c *node.Config) *time.Duration { return &c.CommitInterval }),
		number("max-poll-records", "MaxPollRecords", "2000", 1, "records processed between two looks at the group", func(c *node.Config) *int { return &c.MaxPollRecords }),
		number("max-uncommitted-bytes", "MaxUncommittedBytes", "16777216", 1, "commit early when this much is uncommitted", func(c *node.Config) *int64 { return &c.MaxUncommittedBytes }),
		duration("transaction-timeout", "TransactionTimeout", "10s", "after which Kafka aborts a silent node's transaction", func(c *node.Config) *time.Duration { return &c.TransactionTimeout }),
		duration("session-timeout", "SessionTimeout", "10s", "after which the group gives a silent node's tasks away", func(c *node.Config) *time.Duration { return &c.SessionTimeout }),
		duration("rebalance-timeout", "RebalanceTimeout", "6s", "how long the group waits for a member to rejoin", func(c *node.Config) *time.Duration { return &c.RebalanceTimeout }),
		duration("group-heartbeat", "GroupHeartbeat", "250ms", "time between two group heartbeats", func(c *node.Config) *time.Duration { return &c.GroupHeartbeat }),
		duration("lease", "Lease", "2s", "how long after a good heartbeat the node may answer as active", func(c *node.Config) *time.Duration { return &c.Lease }),

		duration("lag-sample-interval", "LagSampleInterval", "100ms", "time between two looks at the changelogs' ends", func(c *node.Config) *time.Duration { return &c.LagSampleInterval }),
		duration("lag-sample-max-age", "LagSampleMaxAge", "5s", "how old an end may be to judge an offset lag by", func(c *node.Config) *time.Duration { return &c.LagSampleMaxAge }),
		duration("report-interval", "ReportInterval", "100ms", "time between two reports to each router", func(c *node.Config) *time.Duration { return &c.ReportInterval }),
		duration("release-delay", "ReleaseDelay", "10s", "how long a replica no longer assigned goes on serving", func(c *node.Config) *time.Duration { return &c.ReleaseDelay }),
		duration("topic-check-interval", "TopicCheckInterval", "1s", "time between two looks at partition counts", func(c *node.Config) *time.Duration { return &c.TopicCheckInterval }),
		duration("task-retry", "TaskRetry", "30s", "how long a task that failed on a record rests", func(c *node.Config) *time.Duration { return &c.TaskRetry }),
		duration("drain-timeout", "DrainTimeout", "5s", "bound of handing the tasks over before a stop; -1s hands nothing over", func(c *node.Config) *time.Duration { return &c.DrainTimeout }),
		duration("shutdown-timeout", "ShutdownTimeout", "10s", "bound of an orderly stop", func(c *node.Config) *time.Duration { return &c.ShutdownTimeout }),

		{name: "default-policy", field: "DefaultPolicy", value: "MODE", def: "active", help: "for reads that name none: strong, active or any", set: setDefaultPolicy},
		number("max-in-flight", "MaxInFlight", "10000", 1, "reads under way at a time; more are refused as OVERLOADED", func(c *node.Config) *int { return &c.MaxInFlight }),
		number("max-waiting", "MaxWaiting", "1000", 1, "reads held at a time because they asked to wait", func(c *node.Config) *int { return &c.MaxWaiting }),
		number("max-scans", "MaxScans", "256", 1, "scans and counts that run at a time", func(c *node.Config) *int { return &c.MaxScans }),
		number("max-watches", "MaxWatches", "1000", 1, "watches that are open at a time", func(c *node.Config) *int { return &c.MaxWatches }),
		duration("scan-idle", "ScanIdle", "30s", "how long the reader of a scan or watch may take nothing", func(c *node.Config) *time.Duration { return &c.ScanIdle }),
		number("max-copies", "MaxCopies", "4", -1, "copies of stores sent to other nodes at a time; -1 sends none", func(c *node.Config) *int { return &c.MaxCopies }),
		number("max-message-bytes", "MaxMessageBytes", "67108864", 1, "bound of one gRPC message, at least 256 KiB", func(c *node.Config) *int { return &c.MaxMessageBytes }),
		flagOf("sync-writes", "SyncWrites", "make stores survive a power loss, with an fsync per commit", func(s *settings) *bool { return &s.node.SyncWrites }),

		file("tls-cert", secure.CertHelp, func(s *settings) *string { return &s.links.Cert }),
		file("tls-key", secure.KeyHelp, func(s *settings) *string { return &s.links.Key }),
		file("tls-ca", secure.CAHelp, func(s *settings) *string { return &s.links.CA }),
		own("tls-server-name", "NAME", secure.ServerNameHelp, func(s *settings) *string { return &s.links.ServerName }),
		flagOf("tls-require-client", "", secure.RequireClientHelp, func(s *settings) *bool { return &s.links.RequireClient }),
		file("token-file", secure.TokenHelp, func(s *settings) *string { return &s.links.Token }),
		file("auth-rules", secure.RulesHelp, func(s *settings) *string { return &s.links.Rules }),
		file("auth-keys", secure.KeysHelp, func(s *settings) *string { return &s.links.Keys }),

		flagOf("kafka-tls", "", "connect to Kafka by TLS", func(s *settings) *bool { return &s.kafka.TLS }),
		file("kafka-tls-ca", "authorities that sign the brokers' certificates, PEM, if not the system's; means kafka-tls", func(s *settings) *string { return &s.kafka.CA }),
		file("kafka-tls-cert", "client certificate to show to brokers, PEM; means kafka-tls", func(s *settings) *string { return &s.kafka.Cert }),
		file("kafka-tls-key", "private key of that certificate, PEM", func(s *settings) *string { return &s.kafka.Key }),
		own("kafka-tls-server-name", "NAME", "name that the brokers' certificates must have, if not their host's", func(s *settings) *string { return &s.kafka.ServerName }),
		{name: "kafka-sasl", value: "MECHANISM", help: "how to authenticate to Kafka: plain, scram-sha-256, scram-sha-512 or oauthbearer", set: setMechanism},
		own("kafka-user", "NAME", "user for plain and scram", func(s *settings) *string { return &s.kafka.User }),
		file("kafka-password-file", "the user's password; read again at each authentication", func(s *settings) *string { return &s.kafka.PasswordFile }),
		{name: "kafka-password", secret: true, help: "the user's password", set: setPassword},
		file("kafka-token-file", "token for oauthbearer; read again at each authentication", func(s *settings) *string { return &s.kafka.TokenFile }),

		{name: "log-level", value: "LEVEL", def: "info", help: "debug (with the Kafka client's log), info, warn or error", set: setLogLevel},
		{name: "log-format", value: "FORMAT", def: "text", help: "text or json", set: setLogFormat},
	}
}

func text(name, field, value, def, help string, at func(*node.Config) *string) setting {
	return setting{name: name, field: field, value: value, def: def, help: help, set: func(s *settings, text string) error {
		*at(&s.node) = text
		return nil
	}}
}

// own is a text that is the program's own setting.
func own(name, value, help string, at func(*settings) *string) setting {
	return setting{name: name, value: value, help: help, set: func(s *settings, text string) error {
		*at(s) = text
		return nil
	}}
}

// file names a file that is read when the program begins.
func file(name, help string, at func(*settings) *string) setting { return own(name, "FILE", help, at) }

func setMechanism(s *settings, text string) error {
	if !slices.Contains(kafka.Mechanisms, strings.ToUpper(text)) {
		return errors.New("must be plain, scram-sha-256, scram-sha-512 or oauthbearer")
	}
	s.kafka.Mechanism = text
	return nil
}

func setPassword(s *settings, text string) error {
	s.kafka.Password = secure.Secret(text)
	return nil
}

func list(name, field, help string, at func(*node.Config) *[]string) setting {
	return setting{name: name, field: field, value: "HOST:PORT,...", list: true, help: help, set: func(s *settings, text string) error {
		var items []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				return errors.New("must be addresses with commas between them")
			}
			items = append(items, item)
		}
		*at(&s.node) = items
		return nil
	}}
}

func duration(name, field, def, help string, at func(*node.Config) *time.Duration) setting {
	return setting{name: name, field: field, value: "DURATION", def: def, help: help, set: func(s *settings, text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return errors.New("must be a duration such as 100ms or 10s")
		case d <= 0:
			return errors.New("must be more than 0")
		}
		*at(&s.node) = d
		return nil
	}}
}

// number is a whole number of at least least.
func number[T int | int16 | int64](name, field, def string, least int64, help string, at func(*node.Config) *T) setting {
	return setting{name: name, field: field, value: "N", def: def, help: help, set: func(s *settings, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && int64(T(n)) != n:
			return errors.New("is out of range")
		case err != nil:
			return errors.New("must be a whole number")
		case n == 0 && least < 0:
			return errors.New("must not be 0")
		case n < least:
			return fmt.Errorf("must be at least %d", least)
		}
		*at(&s.node) = T(n)
		return nil
	}}
}

func flagOf(name, field, help string, at func(*settings) *bool) setting {
	return setting{name: name, field: field, def: "false", help: help, set: func(s *settings, text string) error {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		*at(s) = v
		return nil
	}}
}

func setTopology(s *settings, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return unwrapPath(err)
	}
	c, err := topology.LoadYAML(data)
	if err == nil {
		s.node.Topology, err = c.Build(nil)
	}
	return err
}

func setReplica(s *settings, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return unwrapPath(err)
	}
	s.node.Replica, err = follow.LoadYAML(data)
	return err
}

// unwrapPath drops what the message about the setting says already: the operation and the file's name.
func unwrapPath(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// setStandbys: in node.Config 0 is the default and -1 is none.
func setStandbys(s *settings, text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err != nil:
		return errors.New("must be a whole number")
	case n < 0:
		return errors.New("must not be negative")
	case n > math.MaxInt16:
		return errors.New("is out of range")
	case n == 0:
		n = -1
	}
	s.node.Standbys = int(n)
	return nil
}

func setDefaultPolicy(s *settings, text string) error {
	switch text {
	case "strong":
		s.node.DefaultPolicy = iqv1.ReadPolicy_MODE_STRONG
	case "active":
		s.node.DefaultPolicy = iqv1.ReadPolicy_MODE_ACTIVE
	case "any":
		s.node.DefaultPolicy = iqv1.ReadPolicy_MODE_ANY
	default:
		return errors.New("must be strong, active or any")
	}
	return nil
}

func setLogLevel(s *settings, text string) error {
	switch text {
	case "debug":
		s.logLevel = slog.LevelDebug
	case "info":
		s.logLevel = slog.LevelInfo
	case "warn":
		s.logLevel = slog.LevelWarn
	case "error":
		s.logLevel = slog.LevelError
	default:
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}

func setLogFormat(s *settings, text string) error {
	if text != "text" && text != "json" {
		return errors.New("must be text or json")
	}
	s.logFormat = text
	return nil
}

func (s *settings) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
