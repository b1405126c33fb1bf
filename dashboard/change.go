package dashboard

import (
	"slices"
)

// Change is what one Page tells otherwise than an older one. A reader that has the older one, puts what is named here in its
// place by id, drops Gone and the partitions that Stores does not know any more, and appends Recent, has the newer one.
type Change struct {
	Application *string `json:"application,omitempty"`
	// Nodes are those that are new or changed, Gone those that are no longer listed.
	Nodes []Node   `json:"nodes,omitempty"`
	Gone  []string `json:"gone,omitempty"`
	// Stores are all stores, when any has changed, come or gone. nil: none has.
	Stores *[]Store `json:"stores,omitempty"`
	// Partitions are those that are new or changed.
	Partitions []Partition `json:"partitions,omitempty"`
	// Restores are all restores, when any has changed. nil: none has.
	Restores *[]Restore `json:"restores,omitempty"`
	Summary  *Summary   `json:"summary,omitempty"`
	Reads    *Reads     `json:"reads,omitempty"`
	// Recent are the reads that are new.
	Recent []Read `json:"recent,omitempty"`
}

// Empty says whether nothing changed.
func (c *Change) Empty() bool {
	return c.Application == nil && len(c.Nodes) == 0 && len(c.Gone) == 0 && c.Stores == nil && len(c.Partitions) == 0 &&
		c.Restores == nil && c.Summary == nil && c.Reads == nil && len(c.Recent) == 0
}

// Diff says what newer tells otherwise than older.
func Diff(older, newer *Page) Change {
	var c Change
	if older == newer {
		return c
	}
	if older.Application != newer.Application {
		c.Application = &newer.Application
	}
	c.Nodes, c.Gone = diffNodes(older.Nodes, newer.Nodes)
	if !slices.Equal(older.Stores, newer.Stores) {
		c.Stores = &newer.Stores
	}
	c.Partitions = diffPartitions(older.Partitions, newer.Partitions)
	if !slices.Equal(older.Restores, newer.Restores) {
		c.Restores = &newer.Restores
	}
	if older.Summary != newer.Summary {
		c.Summary = &newer.Summary
	}
	if !older.Reads.equal(&newer.Reads) {
		c.Reads = &newer.Reads
	}
	var seen int64
	if n := len(older.Recent); n > 0 {
		seen = older.Recent[n-1].Sequence
	}
	if i := slices.IndexFunc(newer.Recent, func(r Read) bool { return r.Sequence > seen }); i >= 0 {
		c.Recent = newer.Recent[i:]
	}
	return c
}

// diffNodes walks both lists, which are by id.
func diffNodes(was, is []Node) (changed []Node, gone []string) {
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) == 0 || len(is) > 0 && is[0].ID < was[0].ID:
			changed, is = append(changed, is[0]), is[1:]
		case len(is) == 0 || was[0].ID < is[0].ID:
			gone, was = append(gone, was[0].ID), was[1:]
		default:
			if was[0] != is[0] {
				changed = append(changed, is[0])
			}
			was, is = was[1:], is[1:]
		}
	}
	return changed, gone
}

// diffPartitions walks both lists, which are by store and number. What is gone goes with its store's new count.
func diffPartitions(was, is []Partition) (changed []Partition) {
	before := func(a, b *Partition) bool {
		return a.Store < b.Store || a.Store == b.Store && a.Number < b.Number
	}
	for len(is) > 0 {
		switch {
		case len(was) > 0 && before(&was[0], &is[0]):
			was = was[1:]
			continue
		case len(was) == 0 || before(&is[0], &was[0]):
			changed = append(changed, is[0])
		default:
			if was[0].Status != is[0].Status || !slices.Equal(was[0].Replicas, is[0].Replicas) {
				changed = append(changed, is[0])
			}
			was = was[1:]
		}
		is = is[1:]
	}
	return changed
}
