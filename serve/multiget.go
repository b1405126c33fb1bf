package serve

import (
	"context"
	"slices"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// A multiGet is one call of MultiGet: the keys are grouped by partition, and those of a partition are read in one snapshot.
// A key that lies in several partitions (KIP-837) is read in the first that answers. What is wrong with a partition is told
// with its keys.
type multiGet struct {
	srv     *Server
	query   query.MultiGet
	policy  policy
	until   time.Time // how long the policy waits
	resp    *iqv1.MultiGetResponse
	waiting []askedKey
	bytes   int // of values in resp
}

// askedKey is a key that has no answer yet.
type askedKey struct {
	index int                  // in the request
	in    []metadata.Partition // where it may be, those that are here first
}

// MultiGet implements QueryService.
func (s *queryServer) MultiGet(ctx context.Context, req *iqv1.MultiGetRequest) (resp *iqv1.MultiGetResponse, err error) {
	defer s.begin(tally.MultiGet)(&err)
	if err := s.enter(); err != nil {
		return nil, iqerr.Status(err)
	}
	defer s.exit()
	resp, err = s.multiGet(ctx, req)
	s.logFailure(ctx, "multi_get", req.GetStore(), err)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	return resp, nil
}

func (s *Server) multiGet(ctx context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	var wrong error
	if req.GetStore() == "" {
		wrong = iqerr.Invalid("store", "", "must be given")
	}
	p, info, err := s.several(req.GetPolicy(), req.GetStore(), req.GetApplication(), wrong)
	if err != nil {
		return nil, err
	}
	q, err := query.ParseMultiGet(req, info)
	if err != nil {
		return nil, err
	}
	m := &multiGet{
		srv: s, query: q, policy: p, until: time.Now().Add(p.wait),
		resp: &iqv1.MultiGetResponse{Results: make([]*iqv1.KeyResult, len(q.Keys))},
	}
	if err := m.locate(); err != nil {
		return nil, err
	}
	for len(m.waiting) > 0 {
		m.readOne(ctx)
	}
	return m.resp, ctx.Err()
}

// locate finds each key's partitions. A key that the partitioner keeps nowhere is not found.
func (m *multiGet) locate() error {
	node := m.srv.node()
	for i, key := range m.query.Keys {
		m.resp.Results[i] = &iqv1.KeyResult{}
		in, err := m.srv.partitionsOf(node, m.query.Store.Name, key, "")
		if err != nil {
			return err
		}
		k := askedKey{index: i}
		for _, p := range in {
			k.in = append(k.in, metadata.Partition{Store: m.query.Store.Name, Partition: p})
		}
		slices.SortStableFunc(k.in, func(a, b metadata.Partition) int { return m.away(node, a) - m.away(node, b) })
		if len(k.in) > 0 {
			m.waiting = append(m.waiting, k)
		}
	}
	return nil
}

// away is 1 for a partition that is not here.
func (m *multiGet) away(node Node, id metadata.Partition) int {
	if node.Replica(id) == nil {
		return 1
	}
	return 0
}

// readOne reads the partition of the first key that waits, for all keys that wait for it. When it cannot be read they wait
// for their next partition, or have failed.
func (m *multiGet) readOne(ctx context.Context) {
	id := m.waiting[0].in[0]
	var keys, others []askedKey
	for _, k := range m.waiting {
		if k.in[0] == id {
			keys = append(keys, k)
		} else {
			others = append(others, k)
		}
	}
	m.waiting = others
	p := m.policy
	p.wait = max(0, min(p.wait, time.Until(m.until)))
	pr, err := m.srv.pin(ctx, p, id)
	if err != nil {
		m.fail(keys, err)
		return
	}
	defer pr.release()
	read := int32(len(m.resp.GetPartitions()))
	m.resp.Partitions = append(m.resp.Partitions, pr.reading.proto())
	for _, k := range keys {
		if err := m.look(pr.sn, k.index, read); err != nil {
			m.fail([]askedKey{k}, pr.failed(err))
		}
	}
}

// fail takes note of what keys could not be read in their first partition for.
func (m *multiGet) fail(keys []askedKey, err error) {
	for _, k := range keys {
		if k.in = k.in[1:]; len(k.in) > 0 {
			m.waiting = append(m.waiting, k)
		}
		if r := m.resp.GetResults()[k.index]; r.GetError() == nil {
			r.Error = iqerr.ToKeyError(err) // the first one's
		}
	}
}

// look looks a key up in a snapshot. A value that finds no room is told as such.
func (m *multiGet) look(sn *store.Snapshot, index int, read int32) error {
	f, err := lookup{key: m.query.Keys[index], asOf: m.query.AsOf}.in(sn)
	if err != nil {
		return err
	}
	r := &iqv1.KeyResult{Read: &read, Found: f.ok}
	m.resp.Results[index] = r
	if !f.ok {
		return nil
	}
	size := len(f.value.Bytes)
	if m.bytes+size > query.MaxReplyBytes {
		m.resp.Results[index] = &iqv1.KeyResult{Error: query.ReplyFull(size)}
		return nil
	}
	m.bytes += size
	r.Value, r.TimestampMs, r.ValidUntilMs = f.value.Bytes, f.value.Timestamp, f.until
	return nil
}
