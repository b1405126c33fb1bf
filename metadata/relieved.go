package metadata

// Relieved says whether nobody would miss a draining node: each partition that it holds is served by another node, as
// the RUNNING active under a lease, or as a RUNNING copy of a store that is only followed, that is heard in time and does not
// drain itself. A node that is not known, does not
// drain, or has not told yet of all that it holds is never relieved; one that drains and holds nothing is.
func (v *View) Relieved(id NodeID) bool {
	n := v.Node(id)
	if n == nil || !n.Draining || !n.hasFull {
		return false
	}
	for _, r := range n.replicas {
		if r.State == StateClosed {
			continue
		}
		s := v.stores[r.Store]
		if s == nil || !v.servedElsewhere(s, &s.parts[r.Partition.Partition], n) {
			return false
		}
	}
	return true
}

// servedElsewhere says whether a partition's active, or where there is none by design any copy that has caught up, is on a
// node other than n that stays.
func (v *View) servedElsewhere(s *storeView, p *part, n *Node) bool {
	pv := PartitionView{v: v, p: p}
	stays := func(h Hosted) bool { return h.Node != n && h.Node.Alive && !h.Node.Suspect && !h.Node.Draining }
	if s.info.Followed {
		for i := range p.refs {
			if h := pv.At(i); h.State == StateRunning && stays(h) {
				return true
			}
		}
		return false
	}
	if p.active < 0 {
		return false
	}
	h := pv.At(int(p.active))
	return h.Serves() && stays(h)
}
