package routing

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Plan is whom a read asks, in order: the replicas of the key's one partition, or, for a multicast key, the best of each
// of its partitions, then the second best, and so on.
type Plan struct {
	// Decisions are one for each of the key's partitions.
	Decisions []Decision
	// Targets are those who may answer, in the order of asking.
	Targets []Target
}

// Target is a replica to ask.
type Target struct {
	*Candidate
	// Decision is the place in Plan.Decisions of the decision whose candidate this is.
	Decision int
}

// NoPartition says that the caller leaves the partition to the key.
const NoPartition = math.MinInt32

// Store finds a store whose partitions can be relied on. The error is an *iqerr.StoreUnknownError, *iqerr.NotReadyError or
// *iqerr.PartitionsChangedError.
func Store(v *metadata.View, store string) (metadata.StoreInfo, error) {
	info, err := v.Store(store)
	if err != nil {
		return info, LookupError(err)
	}
	if info.ActualPartitions != 0 && info.ActualPartitions != info.Partitions {
		return info, &iqerr.PartitionsChangedError{
			Store: store, Topic: strings.Join(info.SourceTopics, ", "), Want: info.Partitions, Have: info.ActualPartitions,
		}
	}
	return info, nil
}

// Locate gives the partitions in which the key may be. None means that no record of such a key is ever kept.
func Locate(v *metadata.View, known *partitioner.Registry, store string, key []byte, partition int32) ([]int32, error) {
	info, err := Store(v, store)
	if err != nil {
		return nil, err
	}
	if partition != NoPartition {
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

// MakePlan decides for each of the partitions. The error is the first partition's refusal when nobody of any may answer.
func MakePlan(v *metadata.View, q Query, partitions []int32, now time.Time) (Plan, error) {
	p := Plan{Decisions: make([]Decision, len(partitions))}
	var refused error
	eligible := 0
	for i, number := range partitions {
		q.Partition.Partition = number
		var err error
		if p.Decisions[i], err = Decide(v, q, now); err != nil && refused == nil {
			refused = err
		}
		eligible += p.Decisions[i].Eligible
	}
	if eligible == 0 {
		return p, refused
	}
	p.Targets = make([]Target, 0, eligible)
	for rank := 0; len(p.Targets) < eligible; rank++ {
		for i := range p.Decisions {
			if d := &p.Decisions[i]; rank < d.Eligible {
				p.Targets = append(p.Targets, Target{Candidate: &d.Candidates[rank], Decision: i})
			}
		}
	}
	return p, nil
}

// ToProto is all decisions as one; each candidate names its partition.
func (p *Plan) ToProto() *iqv1.Decision {
	if len(p.Decisions) == 0 {
		return &iqv1.Decision{}
	}
	first := p.Decisions[0].ToProto()
	for i := range p.Decisions[1:] {
		first.Candidates = append(first.Candidates, p.Decisions[1+i].ToProto().GetCandidates()...)
	}
	return first
}
