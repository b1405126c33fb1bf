package avail

import (
	"context"
	"sync"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A watch counts takeovers by copies that had not caught up, while another had.
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
	var before []*iqv1.Instance
	for n := 0; sleep(ctx, poll); n++ {
		after, err := r.instances(ctx, n%len(r.routers))
		if err != nil {
			continue
		}
		r.watch.take(coldTakeovers(before, after))
		before = after
	}
	return nil
}

// replicaKey is a replica.
type replicaKey struct {
	node      string
	partition int32
}

// coldTakeovers names the replicas that have become active between two looks although they had not caught up, while a
// standby or warm-up on another live node had.
func coldTakeovers(before, after []*iqv1.Instance) (cold []string) {
	ready := map[replicaKey]bool{} // ran before, in whatever role
	spare := map[int32][]string{}  // nodes that could have taken over
	for _, in := range before {
		for _, s := range in.GetReplicas() {
			if s.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING && s.GetRole() != iqv1.Role_ROLE_ACTIVE {
				continue
			}
			ready[replicaKey{in.GetNode(), s.GetPartition()}] = true
			if s.GetRole() != iqv1.Role_ROLE_ACTIVE && in.GetAlive() && !in.GetSuspect() && !in.GetDraining() {
				spare[s.GetPartition()] = append(spare[s.GetPartition()], in.GetNode())
			}
		}
	}
	known := map[string]bool{}
	for _, in := range before {
		known[in.GetNode()] = true
	}
	for _, in := range after {
		for _, s := range in.GetReplicas() {
			if s.GetRole() != iqv1.Role_ROLE_ACTIVE || ready[replicaKey{in.GetNode(), s.GetPartition()}] || !known[in.GetNode()] {
				continue
			}
			for _, other := range spare[s.GetPartition()] {
				if other != in.GetNode() {
					cold = append(cold, in.GetNode()+" took partition "+itoa(s.GetPartition())+" over cold, and "+other+" had caught up")
					break
				}
			}
		}
	}
	return cold
}
