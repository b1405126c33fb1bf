package avail

import (
	"time"

	"github.com/iqgate/iqgate/client"
)

// A policy is one way to read.
type policy struct {
	name    string // as in the report
	options []client.ReadOption
	wait    time.Duration // that it asks for
	bound   time.Duration // on the time lag; 0 for none
	// tolerant says that the read takes what a standby has: its failure is a promise broken.
	tolerant bool
	// current says that only the active may answer; strong moreover that it must show everything committed before.
	current, strong bool
}

// policies are the ways to read in a scenario.
func policies(scenario string) []policy {
	bound, wait := 5*time.Second, 5*time.Second
	switch scenario {
	case scenarioRolling:
		wait = 2 * time.Second
	case scenarioBroker: // nobody can know, without Kafka, that he is not further behind than it has been away
		bound = time.Minute
	}
	return []policy{
		{name: "any", options: []client.ReadOption{client.Any()}, tolerant: true},
		{name: "max_staleness=" + brief(bound), options: []client.ReadOption{client.MaxStaleness(bound)}, bound: bound, tolerant: true},
		{name: "active", options: []client.ReadOption{client.Active()}, current: true},
		{name: "strong", options: []client.ReadOption{client.Strong()}, current: true, strong: true},
		{name: "strong wait=" + brief(wait), options: []client.ReadOption{client.Strong(), client.Wait(wait)}, wait: wait, current: true, strong: true},
	}
}

// brief writes 1m and not 1m0s.
func brief(d time.Duration) string {
	if d%time.Minute == 0 {
		return d.Truncate(time.Minute).String()[:len(d.String())-len("0s")]
	}
	return d.String()
}
