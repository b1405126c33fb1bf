package avail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Where Kafka is from.
const (
	kafkaEmbedded = "embedded"
	kafkaReal     = "real"
)

// How the broker goes away.
const (
	awayStop = "stop"
	awayKill = "kill"
)

// Bounds of the options.
const (
	maxRounds     = 1000
	maxRecords    = 100_000
	maxReads      = 20_000
	maxNodes      = 9
	maxPartitions = 256
	minAway       = time.Second
	maxAway       = 10 * time.Minute
	maxFor        = 24 * time.Hour
)

// Options of a run. There are no defaults but those of the command's flags.
type Options struct {
	// Kafka is embedded or real.
	Kafka string
	// Scenario is the name of one, or all.
	Scenario string
	// Rounds is how many times the scenario is played.
	Rounds int
	// For is how long rounds begin, in place of Rounds. 0: Rounds counts.
	For time.Duration
	// Seed chooses the victims, and of scenario mixed the faults.
	Seed uint64
	// Records is the input's rate, and Reads that of all policies together, both a second.
	Records, Reads int
	// AtOnce adds reads under active and strong that do not wait for an active.
	AtOnce bool
	// Nodes is the number of nodes, Partitions that of the input and of the store, Standbys that of each partition.
	Nodes, Partitions, Standbys int
	// Hedge has routers hedge reads that tolerate staleness, as iqrouter's --hedge does.
	Hedge bool
	// NoClientRetry has each read ask one router alone, where no router is a victim.
	NoClientRetry bool
	// Away is how long a victim is away. 0 is the scenario's default.
	Away time.Duration
	// BrokerAway is how the broker goes away: stop (SIGSTOP) or kill (SIGKILL).
	BrokerAway string
	// Bin is the folder of iqnode and iqrouter. Empty: beside this executable, else built by the go command.
	Bin string
	// Keep keeps logs and stores.
	Keep bool
	// JSON prints the result as one object in the last line.
	JSON bool
}

// An OptionError is options that make no sense: every fault, by flag.
type OptionError struct{ err error }

func (e *OptionError) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", "; ") }

// Unwrap gives the faults.
func (e *OptionError) Unwrap() error { return e.err }

// check reports everything that is wrong with the options.
func (o Options) check() error {
	var errs []error
	within := func(flag string, value, least, most int) {
		if value < least || value > most {
			errs = append(errs, fmt.Errorf("--%s %d: must be from %d to %d", flag, value, least, most))
		}
	}
	within("rounds", o.Rounds, 1, maxRounds)
	within("records", o.Records, 1, maxRecords)
	within("reads", o.Reads, 1, maxReads)
	within("nodes", o.Nodes, 2, maxNodes)
	within("partitions", o.Partitions, 1, maxPartitions)
	within("standbys", o.Standbys, 0, max(0, o.Nodes-1))
	if o.Kafka != kafkaEmbedded && o.Kafka != kafkaReal {
		errs = append(errs, fmt.Errorf("--kafka %q: must be embedded or real", o.Kafka))
	}
	if (o.Scenario == scenarioVanish || o.Scenario == scenarioAll) && os.Geteuid() != 0 {
		errs = append(errs, fmt.Errorf("--scenario %s: vanish gives each node a network namespace, which needs root", o.Scenario))
	}
	if o.Scenario != scenarioAll && !slices.Contains(scenarioNames(), o.Scenario) {
		errs = append(errs, fmt.Errorf("--scenario %q: must be %s or all", o.Scenario, strings.Join(scenarioNames(), ", ")))
	}
	if o.Away != 0 && (o.Away < minAway || o.Away > maxAway) {
		errs = append(errs, fmt.Errorf("--away %s: must be from %s to %s", o.Away, minAway, maxAway))
	}
	if o.For < 0 || o.For > maxFor {
		errs = append(errs, fmt.Errorf("--for %s: must be from 0s to %s", o.For, maxFor))
	}
	switch {
	case o.BrokerAway != awayStop && o.BrokerAway != awayKill:
		errs = append(errs, fmt.Errorf("--broker-away %q: must be stop or kill", o.BrokerAway))
	case o.BrokerAway == awayKill && o.Kafka == kafkaEmbedded:
		errs = append(errs, errors.New("--broker-away kill: the embedded Kafka keeps everything in memory; take --kafka real or --broker-away stop"))
	}
	if len(errs) > 0 {
		return &OptionError{errors.Join(errs...)}
	}
	return nil
}
