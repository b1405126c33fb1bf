package serve

import (
	"errors"
	"slices"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// selected checks what a scan and a count have in common, and finds the store that is meant.
func (s *Server) selected(rp *iqv1.ReadPolicy, sel *iqv1.Selection) (policy, metadata.StoreInfo, error) {
	name, err := query.StoreOf(sel)
	return s.several(rp, name, sel.GetApplication(), err)
}

// several checks the policy of a request for more than one key, and finds its store. Whatever else is wrong with the request
// is in wrong, and told together with what is wrong with the policy.
func (s *Server) several(rp *iqv1.ReadPolicy, name, application string, wrong error) (policy, metadata.StoreInfo, error) {
	if s.closing.Load() {
		return policy{}, metadata.StoreInfo{}, &iqerr.ClosingError{Node: s.cfg.NodeID}
	}
	p, err := policyOf(rp, s.cfg.DefaultPolicy)
	if p.uncommitted {
		err = errors.Join(err, iqerr.Invalid("policy.isolation", rp.GetIsolation().String(), "is for a Get only: several keys are read at one committed position"))
	}
	if err = errors.Join(wrong, err); err != nil {
		return p, metadata.StoreInfo{}, err
	}
	node := s.node()
	if node == nil {
		return p, metadata.StoreInfo{}, s.notUp()
	}
	if err := s.checkStore(node, name, application); err != nil {
		return p, metadata.StoreInfo{}, err
	}
	return p, storeInfo(node, name), nil
}

// partitionsFor are the partitions that a selection is about, all of which must be here. Of the partitions of one key
// (KIP-837) it is one that is here; if the request goes on with one of them, as begun says, that one.
func (s *Server) partitionsFor(sel *query.Selection, begun func(partition int32) bool) ([]metadata.Partition, error) {
	node := s.node()
	in := sel.All()
	if sel.Key != nil && sel.Partitions == nil {
		all, err := s.partitionsOf(node, sel.Store.Name, sel.Key, "")
		if err != nil {
			return nil, err
		}
		here := func(p int32) bool {
			return node.Replica(metadata.Partition{Store: sel.Store.Name, Partition: p}) != nil
		}
		in = all[:min(len(all), 1)]
		for _, prefer := range []func(int32) bool{begun, here} {
			if i := slices.IndexFunc(all, prefer); i >= 0 {
				in = all[i : i+1]
				break
			}
		}
	}
	ids := make([]metadata.Partition, 0, len(in))
	for _, p := range in {
		id := metadata.Partition{Store: sel.Store.Name, Partition: p}
		if node.Replica(id) == nil {
			return nil, s.notHosted(node, id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
