package main

import (
	"strings"
	"testing"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestSuspendedReplicasAreNamedWhereTheNodeLives: those of a dead node are suspended as well, and its state says so. The
// line is bounded.
func TestSuspendedReplicasAreNamedWhereTheNodeLives(t *testing.T) {
	many := func(n int) []*iqv1.ReplicaStatus {
		var replicas []*iqv1.ReplicaStatus
		for p := range n {
			r := suspendedOnE()
			r.Partition = int32(n - 1 - p)
			replicas = append(replicas, r)
		}
		return replicas
	}
	dead := &iqv1.Instance{Node: "a", Replicas: many(2)}
	if got := suspendedText([]*iqv1.Instance{dead}); got != "" {
		t.Errorf("of a dead node: %q", got)
	}
	if n := summarise(dead).Suspended; n == nil || *n != 2 {
		t.Errorf("a dead node counts %v", n)
	}
	two := &iqv1.Instance{Node: "e", Alive: true, Replicas: append(many(2), standbyOnB())}
	if got := suspendedText([]*iqv1.Instance{dead, two}); got != "suspended: tails/0 (active) on e, tails/1 (active) on e" {
		t.Errorf("two: %q", got)
	}
	got := suspendedText([]*iqv1.Instance{{Node: "e", Alive: true, Replicas: many(maxSuspendedNamed + 3)}})
	if strings.Count(got, " on e") != maxSuspendedNamed || !strings.HasSuffix(got, ", and 3 more") {
		t.Errorf("many: %q", got)
	}
}
