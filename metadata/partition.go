package metadata

import (
	"cmp"
	"math"
	"slices"

	"github.com/iqgate/iqgate/fault"
)

// storeView is one store in a View.
type storeView struct {
	info  StoreInfo
	known bool   // some node told of info; false while only its replicas were told of
	parts []part // by partition, as long as any replica told of asks for
}

// part is one partition of a store: who holds it and what only grows.
type part struct {
	end        int64      // the largest end that anybody has told of; LagUnknown before the first
	generation Generation // the newest that anybody was active under
	active     int32      // place in refs of the one active; -1 for none
	held       bool       // somebody has held it since the view began
	refs       []ref      // the live by freshness, the serving active first of all; then the dead
}

// ref is a replica in its node's slot, so that a change of the node alone leaves the partitions as they are.
type ref struct {
	slot int32
	*held
}

func emptyPart() part { return part{end: LagUnknown, generation: math.MinInt64, active: -1} }

// reach returns the parts with room for partition p.
func reach(parts []part, p int32) []part {
	for int(p) >= len(parts) {
		parts = append(parts, emptyPart())
	}
	return parts
}

// ownStore returns the store for writing: a copy made once per change. Only for a view under construction.
func (v *View) ownStore(name string) *storeView {
	s := &storeView{info: StoreInfo{Name: name}}
	if old := v.stores[name]; old != nil {
		*s = *old
		s.parts = slices.Clone(old.parts)
	}
	v.stores[name] = s
	return s
}

// refold brings the partitions up to date that the change from old to now touches: those whose replica was made
// anew, or all of them when the node came to life or died. Each is changed alone, so the work grows with what was
// told and not with the application.
func (v *View) refold(slot int32, old, now *Node) {
	all := old.Alive != now.Alive
	was, is := old.replicas, now.replicas
	refs := make([]ref, 0, 3*len(is)) // the new lists are cut from one piece; 3 replicas are usual
	var store *storeView
	var same bool   // whether now means the changelog that the view means
	var since int64 // and from which of its reports on
	for len(was) > 0 || len(is) > 0 {
		var a, b *held
		switch {
		case len(is) == 0 || (len(was) > 0 && was[0].Compare(is[0].Partition) < 0):
			a, was = was[0], was[1:]
		case len(was) == 0 || was[0].Partition != is[0].Partition:
			b, is = is[0], is[1:]
		default:
			a, b, was, is = was[0], is[0], was[1:], is[1:]
		}
		if a == b && !all {
			continue
		}
		p := a
		if p == nil {
			p = b
		}
		if store == nil || store.info.Name != p.Store {
			store = v.ownStore(p.Store)
			var id string
			id, since = now.changelog(p.Store)
			same = sameTopic(store.info.ChangelogID, id)
		}
		store.parts = reach(store.parts, p.Partition.Partition)
		q := &store.parts[p.Partition.Partition]
		if b != nil && b.State != StateClosed {
			q.held = true
			if same && b.sequence >= since {
				q.raise(&b.Replica)
			}
		}
		refs = v.rehold(q, slot, b, refs)
	}
}

// rehold replaces what the node in slot holds of the partition: b, or nothing. It cuts the new list from refs and
// returns the rest.
func (v *View) rehold(p *part, slot int32, b *held, refs []ref) []ref {
	start := len(refs)
	for _, r := range p.refs {
		if r.slot != slot {
			refs = append(refs, r)
		}
	}
	if b != nil && b.State != StateClosed {
		refs = append(refs, ref{slot: slot, held: b})
	}
	p.refs = refs[start:len(refs):len(refs)]
	v.arrange(p)
	return refs
}

// raise lifts what only grows. A position proves an end: nobody applies what is not in the log.
func (p *part) raise(r *Replica) {
	p.end = max(p.end, r.Lag.End, r.Lag.Position)
	if r.Role == RoleActive {
		p.generation = max(p.generation, r.Generation)
	}
}

// arrange chooses the active and orders the replicas.
func (v *View) arrange(p *part) {
	var active *held
	var activeNode *Node
	for _, r := range p.refs {
		n := v.nodes[r.slot]
		if !n.Alive || r.Role != RoleActive || r.Generation != p.generation && !fault.GenerationIgnored {
			continue // a newer generation than the newest is one of a former life, see setStore
		}
		if active == nil || betterClaim(r.held, n, active, activeNode) {
			active, activeNode = r.held, n
		}
	}
	class := func(r ref) int {
		switch {
		case !v.nodes[r.slot].Alive:
			return 2
		case r.held == active && r.State == StateRunning && r.LeaseValid:
			return 0
		default:
			return 1
		}
	}
	slices.SortFunc(p.refs, func(a, b ref) int {
		if c := class(a) - class(b); c != 0 {
			return c
		}
		if c := cmp.Compare(b.Lag.Position, a.Lag.Position); c != 0 {
			return c // one changelog: who has applied more is fresher
		}
		return cmp.Compare(v.nodes[a.slot].ID, v.nodes[b.slot].ID)
	})
	p.active = -1
	for i, r := range p.refs {
		if active != nil && r.held == active {
			p.active = int32(i)
		}
	}
}

// betterClaim breaks a tie between two nodes that claim to be active under one generation, which a group never makes
// but a broken node may: who serves as active, then the lower node id.
func betterClaim(a *held, an *Node, b *held, bn *Node) bool {
	serves := func(h *held) bool { return h.State == StateRunning && h.LeaseValid }
	if serves(a) != serves(b) {
		return serves(a)
	}
	return an.ID < bn.ID
}

// raise returns the view with the ends and generations of a report that is otherwise ignored: they are true whoever
// told of them and however long ago (S14).
func (v *View) raise(r Report) *View {
	higher := func(rep *Replica) bool {
		s := v.stores[rep.Store]
		if s == nil || int(rep.Partition.Partition) >= len(s.parts) {
			return true
		}
		p := s.parts[rep.Partition.Partition]
		q := p
		q.raise(rep)
		return q.end != p.end || q.generation != p.generation
	}
	for i := range r.Replicas {
		if higher(&r.Replicas[i]) {
			next := v.clone()
			next.raiseTo(r)
			return next
		}
	}
	return v
}

// raiseTo lifts ends and generations to what a report tells. Only for a view under construction.
func (v *View) raiseTo(r Report) {
	n := v.node(r.Node)
	var store *storeView
	for _, rep := range r.sortedReplicas() {
		if rep.State == StateClosed {
			continue
		}
		if s := v.stores[rep.Store]; s != nil {
			if !sameTopic(s.info.ChangelogID, r.changelog(n, rep.Store)) {
				continue
			}
			if int(rep.Partition.Partition) < len(s.parts) {
				p := s.parts[rep.Partition.Partition]
				q := p
				if q.raise(&rep); q.end == p.end && q.generation == p.generation && q.held {
					continue
				}
			}
		}
		if store == nil || store.info.Name != rep.Store {
			store = v.ownStore(rep.Store)
		}
		store.parts = reach(store.parts, rep.Partition.Partition)
		p := &store.parts[rep.Partition.Partition]
		generation := p.generation
		p.raise(&rep)
		p.held = true
		if p.generation != generation {
			p.refs = slices.Clone(p.refs) // sorted in place by arrange
			v.arrange(p)
		}
	}
}

// changelog is the topic id of the store's changelog as the report means it: as it says itself or, when it does not, as
// its node says, unless that was told later and of another log.
func (r *Report) changelog(n *Node, store string) string {
	for i := range r.Stores {
		if r.Stores[i].Name == store {
			return r.Stores[i].ChangelogID
		}
	}
	if n == nil {
		return ""
	}
	id, since := n.changelog(store)
	if r.Incarnation == n.Incarnation && r.Sequence < since {
		return unknownChangelog
	}
	return id
}

// unknownChangelog is a topic id that no changelog has.
const unknownChangelog = "?"

// forgetGenerations lets generations begin anew once nobody is left who could be displaced: a group that was deleted
// with all its members gone starts again from a low one, and the router must not be deaf to it for ever.
func (v *View) forgetGenerations() {
	for name := range v.stores {
		s := v.ownStore(name)
		for i := range s.parts {
			s.parts[i].generation = math.MinInt64
		}
	}
}
