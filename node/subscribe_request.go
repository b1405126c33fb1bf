package node

import (
	"errors"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// newWatch checks a request and finds its partitions that are here: those that it names, or those of its key, or all of
// the store.
func (n *Node) newWatch(req *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) (*watch, error) {
	up := n.up.Load()
	if up == nil {
		return nil, n.notUp()
	}
	sel := req.GetSelection()
	name, err := query.StoreOf(sel)
	if err != nil {
		return nil, err
	}
	if sel.GetApplication() != "" && sel.GetApplication() != n.group {
		return nil, iqerr.Invalid("selection.application", sel.GetApplication(), "this node runs "+n.group)
	}
	if err := up.countIsRight(name); err != nil {
		return nil, err
	}
	p, err := policyOf(req.GetPolicy(), n.cfg.DefaultPolicy)
	if p.uncommitted {
		err = errors.Join(err, iqerr.Invalid("policy.isolation", req.GetPolicy().GetIsolation(), "a watch shows committed changes only"))
	}
	q, err2 := query.ParseWatch(req, up.storeInfo(name))
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	w := &watch{n: n, query: q, policy: p, ongoing: p, send: send, out: make(chan *iqv1.WatchResponse), base: time.Now()}
	w.ongoing.atLeast, w.ongoing.wait = nil, 0
	if p.mode == iqv1.ReadPolicy_MODE_STRONG {
		w.ongoing.mode = iqv1.ReadPolicy_MODE_ACTIVE // it waits for no commit in flight: its changes come when they are applied
	}
	ids, err := n.watched(up, &q)
	for _, id := range ids {
		w.parts = append(w.parts, newWatchedPart(w, id))
	}
	return w, err
}

// watched are the partitions to follow. Those that a request names must all be here, of the others it is those that are.
func (n *Node) watched(up *running, q *query.Watch) ([]metadata.Partition, error) {
	in := q.All()
	if q.Key != nil && q.Partitions == nil {
		var err error
		if in, err = n.partitionsOf(up, q.Store.Name, q.Key, ""); err != nil {
			return nil, err
		}
	}
	var all, here []metadata.Partition
	for _, i := range in {
		id := metadata.Partition{Store: q.Store.Name, Partition: i}
		all = append(all, id)
		if up.replicas.get(id) != nil {
			here = append(here, id)
		}
	}
	if q.Partitions != nil || len(here) == 0 {
		here = all
	}
	for _, id := range here {
		if up.replicas.get(id) == nil {
			return nil, n.notHosted(up, id)
		}
	}
	return here, nil
}

// storeInfo describes one store, which must be there.
func (up *running) storeInfo(name string) metadata.StoreInfo {
	for _, info := range up.storeInfos() {
		if info.Name == name {
			return info
		}
	}
	return metadata.StoreInfo{Name: name}
}

// keyRange is the range of a selection as the store knows it.
func keyRange(k query.Keys) store.KeyRange { return store.KeyRange(k) }
