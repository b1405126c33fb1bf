package metadata

import (
	"cmp"
	"math"
	"slices"
)

// refreshStores brings what is known of the stores up to date after the change of a node from old to now. Each store is
// as the node of the newest generation tells it, a live one before a dead one, the lower node id on a tie; the count
// of its source's partitions is the largest told of, because it only grows and who has not looked yet tells the old one
// (S29).
func (v *View) refreshStores(old, now *Node) {
	if old.Alive == now.Alive && old.Generation == now.Generation && sameStores(old.stores, now.stores) {
		return
	}
	type told struct {
		info *StoreInfo
		node *Node
	}
	best := make(map[string]told, len(v.stores))
	for _, n := range v.nodes {
		if n == nil {
			continue
		}
		for i := range n.stores {
			info := &n.stores[i].StoreInfo
			if b, ok := best[info.Name]; !ok || tellsBetter(n, b.node) {
				best[info.Name] = told{info, n}
			}
		}
	}
	for name, s := range v.stores {
		if _, ok := best[name]; !ok && s.known {
			v.ownStore(name).known = false
		}
	}
	for name, b := range best {
		info := *b.info
		for _, n := range v.nodes {
			if n == nil || n.Alive != b.node.Alive {
				continue
			}
			for i := range n.stores {
				if o := &n.stores[i].StoreInfo; o.Name == name && o.ChangelogID == info.ChangelogID {
					info.ActualPartitions = max(info.ActualPartitions, o.ActualPartitions)
				}
			}
		}
		v.setStore(info)
	}
}

func tellsBetter(a, b *Node) bool {
	if a.Alive != b.Alive {
		return a.Alive
	}
	if c := cmp.Compare(a.Generation, b.Generation); c != 0 {
		return c > 0
	}
	return a.ID < b.ID
}

// setStore takes info over. A changelog with another topic id is another log: its ends and the generations of those who
// write it start anew from what is told of it. A group that was deleted with its topics starts again from a low
// generation while its nodes live on, and must not be refused for what it was in its former life; who still tells of the
// old log has no claim on the new one.
//
// A group that was deleted alone, whose changelogs live on, is not told apart from a zombie by anything that nodes tell:
// its claims are refused until its generation has passed the old one or no node is alive (forgetGenerations).
func (v *View) setStore(info StoreInfo) {
	old := v.stores[info.Name]
	if old != nil && old.known && sameInfo(old.info, info) {
		return
	}
	s := v.ownStore(info.Name)
	recreated := old != nil && !sameTopic(old.info.ChangelogID, info.ChangelogID)
	s.info, s.known = info, true
	if !recreated {
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		p.end, p.generation = LagUnknown, math.MinInt64
		for _, r := range p.refs {
			if id, since := v.nodes[r.slot].changelog(info.Name); id == info.ChangelogID && r.sequence >= since {
				p.raise(&r.Replica)
			}
		}
		p.refs = slices.Clone(p.refs) // sorted in place by arrange
		v.arrange(p)
	}
}

// changelog is the topic id that the node tells for a store's changelog, empty when it does not, and the sequence of the
// first report that told it.
func (n *Node) changelog(store string) (id string, since int64) {
	for i := range n.stores {
		if n.stores[i].Name == store {
			return n.stores[i].ChangelogID, n.stores[i].since
		}
	}
	return "", 0
}

// sameTopic says whether two topic ids may be of one topic: an unknown one may be any.
func sameTopic(a, b string) bool { return a == "" || b == "" || a == b }

// sameStores says whether the lists are one: a merge that changes nothing returns the list that it was given.
func sameStores(a, b []heldStore) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func sameInfo(a, b StoreInfo) bool {
	if len(a.SourceTopics) != len(b.SourceTopics) {
		return false
	}
	for i, topic := range a.SourceTopics {
		if topic != b.SourceTopics[i] {
			return false
		}
	}
	return a.Name == b.Name && a.Partitions == b.Partitions && a.Kind == b.Kind && a.KeySerde == b.KeySerde &&
		a.ValueSerde == b.ValueSerde && a.Partitioner == b.Partitioner && a.Changelog == b.Changelog &&
		a.ChangelogID == b.ChangelogID && a.ActualPartitions == b.ActualPartitions &&
		a.WindowSize == b.WindowSize && a.Retention == b.Retention && a.Followed == b.Followed
}
