package serve

import (
	"time"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// newWatch checks a request and finds its partitions.
func (s *Server) newWatch(req *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) (*watch, error) {
	p, info, err := s.selected(req.GetPolicy(), req.GetSelection())
	if err != nil {
		return nil, err
	}
	q, err := query.ParseWatch(req, info)
	if err != nil {
		return nil, err
	}
	w := &watch{srv: s, query: q, policy: p, ongoing: p, send: send, out: make(chan *iqv1.WatchResponse), base: time.Now()}
	w.ongoing.atLeast, w.ongoing.wait = nil, 0
	if p.mode == iqv1.ReadPolicy_MODE_STRONG {
		w.ongoing.mode = iqv1.ReadPolicy_MODE_ACTIVE // it waits for no commit in flight: its changes come when they are applied
	}
	ids, err := s.watched(&q)
	for _, id := range ids {
		w.parts = append(w.parts, newWatchedPart(w, id))
	}
	return w, err
}

// watched are the partitions to follow: those that the request names, all of which must be here, or one of those of its
// key (each has all of the key's changes), or else those of the store that are here now.
func (s *Server) watched(q *query.Watch) ([]metadata.Partition, error) {
	if q.Key != nil || q.Partitions != nil {
		return s.partitionsFor(&q.Selection, func(p int32) bool {
			_, resumed := q.From[p]
			return resumed
		})
	}
	node := s.node()
	var all, here []metadata.Partition
	for _, p := range q.All() {
		id := metadata.Partition{Store: q.Store.Name, Partition: p}
		all = append(all, id)
		if node.Replica(id) != nil {
			here = append(here, id)
		}
	}
	if len(here) == 0 && len(all) > 0 {
		return nil, s.notHosted(node, all[0])
	}
	return here, nil
}

// storeInfo describes one store, which must be there.
func storeInfo(node Node, name string) metadata.StoreInfo {
	for _, info := range node.StoreInfos() {
		if info.Name == name {
			return info
		}
	}
	return metadata.StoreInfo{Name: name}
}
