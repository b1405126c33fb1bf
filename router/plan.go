package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
)

// plan is whom a read asks, in order: the replicas of the key's one partition, or, for a multicast key, the best of each
// of its partitions, then the second best, and so on.
type plan struct {
	decisions []Decision
	targets   []target
}

// target is a replica to ask.
type target struct {
	*Candidate
	decision int // of which it is a candidate
}

// locate gives the partitions in which the key may be. None means that no record of such a key is ever kept.
func locate(v *metadata.View, known *partitioner.Registry, store string, key []byte, partition int32) ([]int32, error) {
	info, err := v.Store(store)
	if err != nil {
		return nil, lookupError(err)
	}
	if info.ActualPartitions != 0 && info.ActualPartitions != info.Partitions {
		return nil, &iqerr.PartitionsChangedError{
			Store: store, Topic: strings.Join(info.SourceTopics, ", "), Want: info.Partitions, Have: info.ActualPartitions,
		}
	}
	if partition != noPartition {
		if partition >= info.Partitions {
			return nil, iqerr.Invalid("partition", partition, fmt.Sprintf("store %q has %d partitions, from 0", store, info.Partitions))
		}
		return []int32{partition}, nil
	}
	p, err := known.Get(info.Partitioner)
	if err != nil {
		return nil, &iqerr.NotReadyError{Waiting: fmt.Sprintf("a router that is given the partitioner of store %q: %v", store, err)}
	}
	partitions, err := partitioner.Lookup(p, key, info.Partitions)
	if err != nil {
		return nil, iqerr.Invalid("key", key, err.Error())
	}
	return partitions, nil
}

// makePlan decides for each of the partitions. The error is the first partition's refusal when nobody of any may answer.
func makePlan(v *metadata.View, q Query, partitions []int32, now time.Time) (plan, error) {
	p := plan{decisions: make([]Decision, len(partitions))}
	var refused error
	eligible := 0
	for i, number := range partitions {
		q.Partition.Partition = number
		var err error
		if p.decisions[i], err = Decide(v, q, now); err != nil && refused == nil {
			refused = err
		}
		eligible += p.decisions[i].Eligible
	}
	if eligible == 0 {
		return p, refused
	}
	p.targets = make([]target, 0, eligible)
	for rank := 0; len(p.targets) < eligible; rank++ {
		for i := range p.decisions {
			if d := &p.decisions[i]; rank < d.Eligible {
				p.targets = append(p.targets, target{Candidate: &d.Candidates[rank], decision: i})
			}
		}
	}
	return p, nil
}
