package query

import (
	"slices"

	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// PlaceState is how far a scan has come in a partition.
type PlaceState uint8

// The states.
const (
	PlaceBegin PlaceState = iota // no entry was sent
	PlaceAfter                   // an entry was sent, and there may be more
	PlaceDone                    // nothing is left
)

// Place is where a scan is in one partition.
type Place struct {
	Partition int32
	State     PlaceState
	// After is the cursor of the last entry that was sent, in state PlaceAfter.
	After []byte
}

// Place is where the scan begins in a partition: where its page token says, or at the beginning.
func (s *Scan) Place(partition int32) Place {
	for _, p := range s.places {
		if p.Partition == partition {
			return p
		}
	}
	return Place{Partition: partition}
}

// Token is the page token that goes on from the places given, which are in the order of partitions; one that is not named
// is begun anew. It is nil when nothing is left.
func (s *Scan) Token(places []Place) []byte {
	if !slices.ContainsFunc(places, func(p Place) bool { return p.State != PlaceDone }) {
		return nil
	}
	return s.bind.encode(places)
}

// ForPartition is the request that asks a node for one partition of m, of which s is the checked form, from a place on.
// The node is asked for at most limit entries; 0 is all.
func (s *Scan) ForPartition(m *iqv1.ScanRequest, policy *iqv1.ReadPolicy, from Place, limit int64) *iqv1.ScanRequest {
	sel := proto.CloneOf(m.GetSelection())
	sel.Partitions = []int32{from.Partition}
	part := &iqv1.ScanRequest{
		Selection: sel, Policy: policy, Reverse: m.GetReverse(), Limit: limit, KeysOnly: m.GetKeysOnly(),
		Order: iqv1.ScanRequest_ORDER_PARTITION, Fields: m.GetFields(),
	}
	if from.State == PlaceAfter {
		one := *s
		one.ByPartition, one.Partitions = true, sel.Partitions
		b := bindingOf(part, &one)
		part.PageToken = b.encode([]Place{from})
	}
	return part
}
