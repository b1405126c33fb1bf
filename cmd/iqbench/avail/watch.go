package avail

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A watch counts takeovers by copies that were not running, while another was.
type watch struct {
	mu     sync.Mutex
	counts bool
	cold   int
	first  string
}

// measure says whether takeovers count.
func (w *watch) measure(counts bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = counts
}

func (w *watch) take(cold []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counts || len(cold) == 0 {
		return
	}
	if w.cold == 0 {
		w.first = cold[0]
	}
	w.cold += len(cold)
}

// watchRoles looks at who is what until ctx ends, by whichever router answers.
func (r *run) watchRoles(ctx context.Context) error {
	var all roles
	for n := 0; sleep(ctx, poll); n++ {
		if instances, err := r.instances(ctx, n%len(r.routers)); err == nil {
			r.watch.take(all.look(instances))
		}
	}
	return nil
}

// roles is who was what at the last look. The zero value has not looked yet.
type roles struct {
	before []*iqv1.Instance
	newest map[int32]int64 // by partition: the newest generation of an active
}

// replicaKey is a replica.
type replicaKey struct {
	node      string
	partition int32
}

// look names the replicas that have become active since the last look although they were not running then, while a standby
// or warm-up on another live node was. One that claims an old role when it is heard of again takes nothing over: its
// generation is not new.
func (r *roles) look(after []*iqv1.Instance) (cold []string) {
	ready := map[replicaKey]bool{} // ran, or was active already
	spare := map[int32][]string{}  // nodes that could have taken over
	known := map[string]bool{}
	for _, in := range r.before {
		known[in.GetNode()] = true
		for _, s := range in.GetReplicas() {
			active := s.GetRole() == iqv1.Role_ROLE_ACTIVE
			if !active && s.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
				continue
			}
			ready[replicaKey{in.GetNode(), s.GetPartition()}] = true
			if !active && in.GetAlive() && !in.GetSuspect() && !in.GetDraining() {
				spare[s.GetPartition()] = append(spare[s.GetPartition()], in.GetNode())
			}
		}
	}
	newest := maps.Clone(r.newest)
	if newest == nil {
		newest = map[int32]int64{}
	}
	for _, in := range after {
		for _, s := range in.GetReplicas() {
			p := s.GetPartition()
			if s.GetRole() != iqv1.Role_ROLE_ACTIVE || s.GetGeneration() <= r.newest[p] {
				continue
			}
			newest[p] = max(newest[p], s.GetGeneration())
			if ready[replicaKey{in.GetNode(), p}] || !known[in.GetNode()] {
				continue
			}
			if i := slices.IndexFunc(spare[p], func(other string) bool { return other != in.GetNode() }); i >= 0 {
				cold = append(cold, fmt.Sprintf("%s took partition %d over cold, and %s had one that ran", in.GetNode(), p, spare[p][i]))
			}
		}
	}
	r.before, r.newest = after, newest
	return cold
}
