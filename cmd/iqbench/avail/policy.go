package avail

import (
	"slices"
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

// policies are the ways to read in a scenario; atOnce adds those that only the active may answer and that do not wait for
// one, so that they say what a caller without a wait meets.
func policies(scenario string, atOnce bool) []policy {
	bound, wait := 5*time.Second, 5*time.Second
	switch scenario {
	case scenarioRolling:
		wait = 2 * time.Second
	case scenarioBroker, scenarioMixed: // nobody can know, without Kafka, that he is not further behind than it has been away
		bound = time.Minute
	}
	tolerant := []policy{
		{name: "any", options: []client.ReadOption{client.Any()}, tolerant: true},
		{name: "max_staleness=" + brief(bound), options: []client.ReadOption{client.MaxStaleness(bound)}, bound: bound, tolerant: true},
	}
	current := []policy{
		{name: "active", options: []client.ReadOption{client.Active()}, current: true},
		{name: "strong", options: []client.ReadOption{client.Strong()}, current: true, strong: true},
	}
	var waiting []policy
	for _, p := range current {
		p.name, p.wait = p.name+" wait="+brief(wait), wait
		p.options = append(slices.Clone(p.options), client.Wait(wait))
		waiting = append(waiting, p)
	}
	if !atOnce {
		current = nil
	}
	return slices.Concat(tolerant, current, waiting)
}

// brief writes 1m and not 1m0s.
func brief(d time.Duration) string {
	if d%time.Minute == 0 {
		return d.Truncate(time.Minute).String()[:len(d.String())-len("0s")]
	}
	return d.String()
}
