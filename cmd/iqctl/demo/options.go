package demo

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"
)

// Kill says what is killed.
const (
	killNone = "none"
	killNode = "node"
)

// Kafka says where Kafka is from, if it is no address.
const (
	kafkaEmbedded = "embedded"
	kafkaReal     = "real"
)

// Bounds of the options.
const (
	minDuration  = 3 * time.Second
	maxDuration  = time.Hour
	maxNodes     = 9
	feedShare    = 0.65 // of the duration, unless a rate is given
	killShare    = 1.0 / 3
	restartShare = 2.0 / 3
)

// Options of a run.
type Options struct {
	// Duration is how long flights are fed and stores are read. Default 30s.
	Duration time.Duration
	// Kill is what is killed at a third of the duration and started again at two thirds: node (default) or none.
	Kill string
	// Rate is the number of flights fed a second. Default 0: so many that feeding ends at 65% of the duration.
	Rate float64
	// Nodes is the number of nodes. Default 3.
	Nodes int
	// Standbys is the number of standbys of each store partition. Default 1.
	Standbys int
	// Kafka is embedded (default), real, or a bootstrap address.
	Kafka string
	// StateDir holds stores and logs; it must be empty or absent, and is kept. Default a temporary one, removed at the end.
	StateDir string
	// Keep leaves the cluster running until a signal comes.
	Keep bool
	// JSON prints one object as the last line.
	JSON bool
}

// An OptionError is options that make no sense: every fault, by flag.
type OptionError struct{ err error }

func (e *OptionError) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", "; ") }

// Unwrap gives the faults.
func (e *OptionError) Unwrap() error { return e.err }

// check reports everything that is wrong with the options for a feed of n records.
func (o Options) check(n int) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Duration < minDuration || o.Duration > maxDuration {
		bad("--duration %s: must be from %s to %s", o.Duration, minDuration, maxDuration)
	}
	if o.Kill != killNone && o.Kill != killNode {
		bad("--kill %q: must be none or node", o.Kill)
	}
	if o.Nodes < 1 || o.Nodes > maxNodes {
		bad("--nodes %d: must be from 1 to %d", o.Nodes, maxNodes)
	}
	if o.Standbys < 0 || o.Standbys >= maxNodes {
		bad("--standbys %d: must be from 0 to %d", o.Standbys, maxNodes-1)
	}
	switch {
	case math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0) || o.Rate < 0:
		bad("--rate %v: must be records a second, 0 for the default", o.Rate)
	case o.Rate > 0 && float64(n)/o.Rate > o.Duration.Seconds():
		bad("--rate %v: the %d records would take longer than --duration %s; at least %d are needed", o.Rate, n, o.Duration, int(math.Ceil(float64(n)/o.Duration.Seconds())))
	}
	if o.Kafka != kafkaEmbedded && o.Kafka != kafkaReal {
		for address := range strings.SplitSeq(o.Kafka, ",") {
			if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
				bad("--kafka %q: must be embedded, real, or Kafka's bootstrap address, host:port", o.Kafka)
				break
			}
		}
	}
	if len(errs) > 0 {
		return &OptionError{errors.Join(errs...)}
	}
	return nil
}

// rate is the records to feed a second.
func (o Options) rate(n int) float64 {
	if o.Rate > 0 {
		return o.Rate
	}
	return float64(n) / (feedShare * o.Duration.Seconds())
}

func (o Options) killAt() time.Duration { return share(o.Duration, killShare) }

func (o Options) restartAt() time.Duration { return share(o.Duration, restartShare) }

func share(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * part).Round(time.Millisecond)
}
