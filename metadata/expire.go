package metadata

import (
	"maps"
	"time"
)

// Suspect returns the view in which a node is suspect until its next report: a connection to it was lost, or refused.
// It returns v when the node is not known, not alive, of another incarnation, or suspected as much already.
func (v *View) Suspect(id NodeID, incarnation Incarnation, refused bool) *View {
	n := v.node(id)
	if n == nil || !n.Alive || n.Incarnation != incarnation || (n.Suspect && (n.Refused || !refused)) {
		return v
	}
	m := *n
	m.Suspect, m.Refused = true, n.Refused || refused
	next := v.clone()
	next.put(&m)
	return next
}

// Expire returns the view at now: nodes that have been silent for too long are suspect, later dead, and the dead and
// departed are forgotten in the end. It returns v when nothing has changed.
func (v *View) Expire(now time.Time) *View {
	next := v
	for slot, n := range v.nodes {
		if n == nil {
			continue
		}
		silent := now.Sub(n.Received)
		switch {
		case !n.Alive && now.Sub(n.goneAt) >= v.limits.DeadKept:
			next = next.forget(int32(slot))
		case n.Alive && silent >= n.timeout:
			next = next.bury(n, now)
		case n.Alive && silent >= n.patience:
			next = next.Suspect(n.ID, n.Incarnation, false)
		}
	}
	return next
}

// bury returns the view in which the node is dead: listed, last in each partition, without any lag figure (S15).
func (v *View) bury(n *Node, now time.Time) *View {
	m := *n
	m.Alive, m.Suspect, m.goneAt = false, true, now
	next := v.clone()
	next.put(&m)
	return next
}

// forget returns the view without the node in slot, and without the stores that only it told of.
func (v *View) forget(slot int32) *View {
	next := v.clone()
	old := next.nodes[slot]
	next.nodes[slot] = &Node{left: true} // holds nothing: its replicas go
	next.refreshStores(old, next.nodes[slot])
	next.refold(slot, old, next.nodes[slot])
	next.nodes[slot] = nil
	next.slots = maps.Clone(next.slots)
	delete(next.slots, old.ID)
	for name, s := range next.stores {
		if !s.known && !s.holders() {
			delete(next.stores, name)
		}
	}
	return next
}

func (s *storeView) holders() bool {
	for i := range s.parts {
		if len(s.parts[i].refs) > 0 {
			return true
		}
	}
	return false
}
