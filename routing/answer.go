package routing

import (
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Complete does what CompleteStatus does for an answer.
func Complete(v *metadata.View, resp *iqv1.GetResponse) { CompleteStatus(v, resp.GetServed()) }

// CompleteStatus raises the lag that a node gave with its answer to what the view knows of the changelog's end: another may have
// told of a larger one than the node has seen (S14). A serving active is left as it is, because nobody else can have
// written since.
func CompleteStatus(v *metadata.View, s *iqv1.ReplicaStatus) {
	if s == nil || s.OffsetLag == nil || (s.GetRole() == iqv1.Role_ROLE_ACTIVE && s.GetLeaseValid()) {
		return
	}
	p, err := v.Partition(metadata.Partition{Store: s.GetStore(), Partition: s.GetPartition()})
	if err == nil && p.End() > s.GetEndPosition() {
		lag := max(0, p.End()-s.GetPosition())
		s.EndPosition, s.OffsetLag = p.End(), &lag
	}
}
