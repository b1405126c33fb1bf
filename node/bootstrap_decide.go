package node

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/iqgate/iqgate/metadata"
)

// Bounds of what a replica is copied for, and from whom.
const (
	// caughtUpFactor is how many times farther behind a replica must be that has been caught up before: it serves, and would
	// cease to for a moment.
	caughtUpFactor = 20
	// maxPeersAsked bounds the nodes that are asked what they have.
	maxPeersAsked = 4
	// maxSources bounds the nodes from which a copy is tried before the changelog is read after all.
	maxSources = 2
	// nearlyAsFar is the part of what the best copy saves that another must save to be preferred for other reasons.
	nearlyAsFar = 0.9
	// roomFactor is how much free disk a copy needs, in terms of its size: what it replaces is removed only when it is whole.
	roomFactor = 1.2
)

// A shortfall is how far a replica is behind its changelog.
type shortfall struct {
	position int64 // the next offset to apply; unknownOffset when the store is not open
	end      int64 // of the changelog; unknownOffset when not known
	caughtUp bool  // it has been caught up since it was opened
}

// farBehind says whether a replica is far enough behind for a copy of another node to be worth the asking, given the
// distance, in offsets, from which on it is; a negative one means never.
func farBehind(s shortfall, distance int64) bool {
	if distance < 0 || s.position < 0 || s.end < 0 {
		return false
	}
	if s.caughtUp {
		distance *= caughtUpFactor
	}
	return s.end-s.position >= max(distance, 1)
}

// An offer is what another node has of a store partition.
type offer struct {
	node     metadata.NodeID
	address  string
	sameRack bool
	active   bool  // it runs the partition's task
	position int64 // the next offset that it is to apply
	entries  int64 // at most about so many, overwritten versions included
	bytes    int64
}

// saves is how many offsets of the changelog need not be read after the copy was taken.
func (o offer) saves(s shortfall) int64 { return o.position - s.position }

// chooseSources orders the copies that are faster to have than the changelog, the best first, at most maxSources; when there
// are none it says why not. A copy costs as much as about one changelog record an entry, or less: records of several batches
// overwrite one another, entries do not, and entries come sorted. So it must save at least as many offsets as it has
// entries, and the distance from which on asking is worth it. Among those that save about as much a standby comes before the
// active, which has other work, and then the same rack.
//
// freeBytes is the free disk space here; negative means not known.
func chooseSources(s shortfall, offers []offer, distance, freeBytes int64) (chosen []offer, why string) {
	if !farBehind(s, distance) {
		return nil, fmt.Sprintf("position %d is not far behind end %d", s.position, s.end)
	}
	why = "no other node has a copy"
	for _, o := range offers {
		refusal := refuseOffer(s, o, distance, freeBytes)
		if refusal == "" {
			chosen = append(chosen, o)
			continue
		}
		why = fmt.Sprintf("%s: %s", o.node, refusal)
	}
	if len(chosen) == 0 {
		return nil, why
	}
	best := slices.MaxFunc(chosen, func(a, b offer) int { return cmp.Compare(a.saves(s), b.saves(s)) }).saves(s)
	near := func(o offer) bool { return float64(o.saves(s)) >= nearlyAsFar*float64(best) }
	slices.SortFunc(chosen, func(a, b offer) int {
		return cmp.Or(
			falseFirst(!near(a), !near(b)),
			falseFirst(a.active, b.active),
			falseFirst(!a.sameRack, !b.sameRack),
			cmp.Compare(b.position, a.position),
			cmp.Compare(a.node, b.node),
		)
	})
	return chosen[:min(len(chosen), maxSources)], ""
}

// refuseOffer says why a copy is of no use, or nothing. A position beyond the end is none: the end is of a moment ago.
func refuseOffer(s shortfall, o offer, distance, freeBytes int64) string {
	saves := o.saves(s)
	switch {
	case !farBehind(shortfall{position: s.position, end: o.position, caughtUp: s.caughtUp}, distance):
		return fmt.Sprintf("it saves %d offsets only", saves)
	case saves < o.entries:
		return fmt.Sprintf("its %d entries are more than the %d offsets that they save", o.entries, saves)
	case freeBytes >= 0 && float64(freeBytes) < roomFactor*float64(o.bytes):
		return fmt.Sprintf("its %d bytes do not fit into the %d that are free", o.bytes, freeBytes)
	}
	return ""
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// peersOf are the nodes beside self that an assignment names for a store partition, at most maxPeersAsked, standbys first.
func peersOf(hm *metadata.HostMap, id metadata.Partition, self metadata.NodeID) []metadata.Host {
	if hm == nil {
		return nil
	}
	var standbys, actives []metadata.Host
	for _, h := range hm.Hosts {
		switch {
		case h.Node == self:
		case slices.Contains(h.Standby, id):
			standbys = append(standbys, h)
		case slices.Contains(h.Active, id):
			actives = append(actives, h)
		}
	}
	if len(actives) > 0 { // whoever else is cut off, the active is not
		standbys = standbys[:min(len(standbys), maxPeersAsked-1)]
	}
	all := append(standbys, actives...)
	return all[:min(len(all), maxPeersAsked)]
}

// rackOf is the rack of a node in an assignment; empty when not known.
func rackOf(hm *metadata.HostMap, node metadata.NodeID) string {
	for _, h := range hm.Hosts {
		if h.Node == node {
			return h.Rack
		}
	}
	return ""
}
