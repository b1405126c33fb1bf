package metadata

import (
	"maps"
	"slices"
	"time"
)

// Changes are what one View tells otherwise than an older one. Applied to a table that is as the older view has it, they
// make it as the newer has it: see Diff.
type Changes struct {
	// Told are the nodes that are new or changed in more than figures: their own facts, or the role, state, generation
	// or lease of what they host. In order.
	Told []NodeID
	// Figures are the nodes that changed in figures alone: positions, ends, lags, loads, counts, and the time of their
	// newest report. In order.
	Figures []NodeID
	// Gone are the nodes that left, were forgotten, or, where one store is told of, host it no more. In order.
	Gone []NodeID
	// Stores says that what is known of a store changed, or that one came or went.
	Stores bool
}

// Urgent says whether anything changed but figures.
func (c *Changes) Urgent() bool { return len(c.Told) > 0 || len(c.Gone) > 0 || c.Stores }

// Empty says whether nothing changed.
func (c *Changes) Empty() bool { return !c.Urgent() && len(c.Figures) == 0 }

// Diff says what newer tells otherwise than older, of one store and the nodes that host it, or of all when store is
// empty. A table of instances by node from which Gone are removed and into which the instances of Told and Figures are
// put (Changed gives them), is Instances again, or InstancesForStore; and Stores says when the stores must be read anew.
//
// The work grows with what changed: views share what did not.
func Diff(older, newer *View, store string) Changes {
	d := differ{older: older, newer: newer, how: make([]change, len(newer.nodes))}
	for name, s := range newer.stores {
		if store == "" || name == store {
			d.stores(older.stores[name], s)
		}
	}
	for name, s := range older.stores {
		if newer.stores[name] == nil && (store == "" || name == store) {
			d.stores(s, nil)
		}
	}
	var c Changes
	hadNode, hasNode := hostsOf(older, store), hostsOf(newer, store)
	for _, n := range newer.Nodes() {
		if !hasNode(n.ID) {
			continue
		}
		how := d.how[newer.slots[n.ID]]
		if old := older.Node(n.ID); old == nil || !hadNode(n.ID) {
			how = changedFacts
		} else if old != n {
			how = max(how, compareNodes(old, n))
		}
		switch how {
		case changedFacts:
			c.Told = append(c.Told, n.ID)
		case changedFigures:
			c.Figures = append(c.Figures, n.ID)
		case unchanged:
		}
	}
	for _, n := range older.Nodes() {
		if hadNode(n.ID) && (newer.Node(n.ID) == nil || !hasNode(n.ID)) {
			c.Gone = append(c.Gone, n.ID)
		}
	}
	c.Stores = storesDiffer(older, newer, store)
	return c
}

// Changed are the instances of Told and Figures as they are in v, the newer of the two views of Diff, for the store
// that Diff was asked for.
func (v *View) Changed(c Changes, store string, now time.Time) []Instance {
	changed := make(map[NodeID]bool, len(c.Told)+len(c.Figures))
	for _, id := range c.Told {
		changed[id] = true
	}
	for _, id := range c.Figures {
		changed[id] = true
	}
	want := func(h Hosted) bool { return changed[h.Node.ID] && (store == "" || h.Store == store) }
	return v.instances(now, want, func(id NodeID, _ bool) bool { return changed[id] })
}

// change is how much of a node changed.
type change int8

const (
	unchanged change = iota
	changedFigures
	changedFacts
)

// differ collects what the partitions say of the nodes that hold them.
type differ struct {
	older, newer *View
	how          []change // by slot of the newer view
}

func (d *differ) mark(slot int32, how change) { d.how[slot] = max(d.how[slot], how) }

// stores compares one store's partitions. Either may be nil.
func (d *differ) stores(older, newer *storeView) {
	if older == newer {
		return
	}
	var was, is []part
	sameTopics := true
	if older != nil {
		was = older.parts
	}
	if newer != nil {
		is = newer.parts
	}
	if older != nil && newer != nil {
		sameTopics = slices.Equal(older.info.SourceTopics, newer.info.SourceTopics)
	}
	for i := range max(len(was), len(is)) {
		a, b := emptyPart(), emptyPart()
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		d.parts(&a, &b, sameTopics)
	}
}

// parts compares the replicas of one partition, node by node.
func (d *differ) parts(a, b *part, sameTopics bool) {
	if sameTopics && a.end == b.end && a.active == b.active && sameRefs(a.refs, b.refs) {
		return // what may be different is the nodes themselves, and they are compared apart
	}
	both := 0
	for i := range b.refs {
		slot := b.refs[i].slot
		j := d.find(a, i, d.newer.nodes[slot].ID)
		if j < 0 || !sameTopics {
			d.mark(slot, changedFacts)
		}
		if j < 0 {
			continue
		}
		both++
		alive := d.newer.nodes[slot].Alive
		if a.refs[j].held != b.refs[i].held || (j == int(a.active)) != (i == int(b.active)) || alive != d.older.nodes[a.refs[j].slot].Alive {
			was, is := PartitionView{v: d.older, p: a}.At(j), PartitionView{v: d.newer, p: b}.At(i)
			d.mark(slot, compareHosted(&was, &is))
		}
		if a.end != b.end && alive {
			d.mark(slot, changedFigures)
		}
	}
	if both == len(a.refs) {
		return
	}
	for _, r := range a.refs {
		id := d.older.nodes[r.slot].ID
		slot, known := d.newer.slots[id]
		if known && !slices.ContainsFunc(b.refs, func(o ref) bool { return o.slot == slot }) {
			d.mark(slot, changedFacts)
		}
	}
}

// find is the place of a node's replica in a partition of the older view, which is mostly i, its place in the newer. It
// goes by id: a slot that was freed is another's.
func (d *differ) find(p *part, i int, id NodeID) int {
	if i < len(p.refs) && d.older.nodes[p.refs[i].slot].ID == id {
		return i
	}
	return slices.IndexFunc(p.refs, func(r ref) bool { return d.older.nodes[r.slot].ID == id })
}

// sameRefs says whether the lists are one: a partition that no change touched has the list that it had.
func sameRefs(a, b []ref) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// compareHosted compares a node's replica as both views show it.
func compareHosted(a, b *Hosted) change {
	switch {
	case !a.Node.Alive || !b.Node.Alive: // who died or came to life is told anyway; of the dead only what they held as
		if (a.Role == RoleActive) != (b.Role == RoleActive) {
			return changedFacts
		}
		return unchanged
	case a.Role != b.Role || a.Active != b.Active || a.State != b.State || a.Generation != b.Generation || a.LeaseValid != b.LeaseValid:
		return changedFacts
	case a.Lag != b.Lag || !a.Received.Equal(b.Received) || !maps.Equal(a.Input, b.Input):
		return changedFigures
	}
	return unchanged
}

// compareNodes compares what is told of a node apart from what it holds.
func compareNodes(a, b *Node) change {
	switch {
	case a.Address != b.Address || a.Rack != b.Rack || a.Application != b.Application || a.Incarnation != b.Incarnation ||
		a.Generation != b.Generation || a.Interval != b.Interval || a.Draining != b.Draining || a.Version != b.Version ||
		a.Alive != b.Alive || a.Suspect != b.Suspect || a.Refused != b.Refused:
		return changedFacts
	case a.Sequence != b.Sequence || a.InFlight != b.InFlight || !a.Received.Equal(b.Received) ||
		!slices.EqualFunc(a.Misplaced, b.Misplaced, Misplaced.equal) || !slices.Equal(a.Dropped, b.Dropped):
		return changedFigures
	}
	return unchanged
}

// hostsOf says who hosts a store; everybody when store is empty.
func hostsOf(v *View, store string) func(NodeID) bool {
	if store == "" {
		return func(NodeID) bool { return true }
	}
	hosts := map[NodeID]bool{}
	if s := v.stores[store]; s != nil {
		for i := range s.parts {
			for _, r := range s.parts[i].refs {
				hosts[v.nodes[r.slot].ID] = true
			}
		}
	}
	return func(id NodeID) bool { return hosts[id] }
}

// storesDiffer says whether the views know otherwise of a store, or of any when store is empty.
func storesDiffer(older, newer *View, store string) bool {
	differ := func(name string) bool {
		a, b := older.stores[name], newer.stores[name]
		if a == b {
			return false
		}
		wasKnown, isKnown := a != nil && a.known, b != nil && b.known
		return wasKnown != isKnown || (isKnown && !sameInfo(a.info, b.info))
	}
	if store != "" {
		return differ(store)
	}
	for name := range older.stores {
		if newer.stores[name] == nil && differ(name) {
			return true
		}
	}
	for name := range newer.stores {
		if differ(name) {
			return true
		}
	}
	return false
}
