package metadata

import "cmp"

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

// setStore takes info over. A changelog with another topic id is another log: the ends start anew from those who read
// it.
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
		s.parts[i].end = LagUnknown
		for _, r := range s.parts[i].refs {
			if n := v.nodes[r.slot]; n.changelogID(info.Name) == info.ChangelogID {
				s.parts[i].raise(&r.Replica)
			}
		}
	}
}

// changelogID is the topic id that the node tells for a store's changelog; empty when it does not.
func (n *Node) changelogID(store string) string {
	for i := range n.stores {
		if n.stores[i].Name == store {
			return n.stores[i].ChangelogID
		}
	}
	return ""
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
		a.ChangelogID == b.ChangelogID && a.ActualPartitions == b.ActualPartitions
}
