package serve

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds of the streams of metadata.
const (
	// maxWatchers is how many may be open at once; more are refused as OVERLOADED.
	maxWatchers        = 256
	defaultLagInterval = 100 * time.Millisecond
	minLagInterval     = 10 * time.Millisecond
	// watchTick is how often a stream looks for what nobody announces, such as a lease that has run out.
	watchTick = 100 * time.Millisecond
)

// A follower is one stream of metadata: what ListInstances and ListStores of this node tell, and then each change.
//
//  1. The first message is a snapshot.
//  2. A change of more than figures, of roles, states, hosts or stores, is told at once, with all else that has changed.
//  3. Figures alone are told when lagInterval has passed since the message before.
//
// There is no queue: what a slow reader has not heard is the difference between what it was told last and what is now.
type follower struct {
	s           *metadataServer
	store       string // empty for all
	lagInterval time.Duration

	version int64
	told    map[string]*iqv1.Instance // by node; nil before the first message
	stores  []*iqv1.StoreInfo         // told
	hosts   *metadata.HostMap         // that told is made of
	quiet   time.Time                 // until when figures alone are not told
}

// WatchMetadata implements MetadataService. The stream ends when the caller ends it, or with CLOSING when the node stops.
func (s *metadataServer) WatchMetadata(req *iqv1.WatchMetadataRequest, stream iqv1.MetadataService_WatchMetadataServer) error {
	f := &follower{s: s, store: req.GetStore(), lagInterval: defaultLagInterval}
	if d := req.GetLagInterval(); d != nil {
		f.lagInterval = d.AsDuration()
		if err := d.CheckValid(); err != nil || f.lagInterval < minLagInterval {
			return iqerr.Status(iqerr.Invalid("lag_interval", f.lagInterval, "must be at least "+minLagInterval.String()))
		}
	}
	defer s.watchers.Add(-1)
	if n := s.watchers.Add(1); n > maxWatchers {
		return iqerr.Status(&iqerr.OverloadedError{Node: s.cfg.NodeID, InFlight: n - 1, Limit: maxWatchers, RetryAfter: noActiveRetry})
	}
	tick := time.NewTicker(min(f.lagInterval, watchTick))
	defer tick.Stop()
	for {
		changed := s.cfg.Roles()
		if s.closing.Load() {
			return iqerr.Status(&iqerr.ClosingError{Node: s.cfg.NodeID})
		}
		m, err := f.next(time.Now())
		if err != nil {
			return iqerr.Status(err)
		}
		if m != nil {
			if err := stream.Send(m); err != nil {
				return err
			}
			f.quiet = time.Now().Add(f.lagInterval) // not before a slow reader has taken it
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// next is the next message, nil when there is nothing to tell at now.
func (f *follower) next(now time.Time) (*iqv1.WatchMetadataResponse, error) {
	node, hm, err := f.s.hosted(f.store)
	if err != nil {
		return nil, err
	}
	instances := f.instances(node, hm)
	stores := storeProtos(node, f.store)
	m := &iqv1.WatchMetadataResponse{Version: f.version + 1, Snapshot: f.told == nil}
	var urgent bool
	m.Instances, m.Gone, urgent = compareInstances(f.told, instances)
	if !slices.EqualFunc(stores, f.stores, func(a, b *iqv1.StoreInfo) bool { return proto.Equal(a, b) }) {
		m.Stores, urgent = stores, true
	}
	if !urgent && !m.GetSnapshot() && (len(m.GetInstances()) == 0 || now.Before(f.quiet)) {
		return nil, nil //nolint:nilnil // nothing to tell is no failure
	}
	f.told = make(map[string]*iqv1.Instance, len(instances))
	for _, in := range instances {
		f.told[in.GetNode()] = in
	}
	f.version, f.stores, f.hosts = m.GetVersion(), stores, hm
	return m, nil
}

// instances are the hosts as ListInstances tells them. Under the host map that was told, only this node itself can have
// changed.
func (f *follower) instances(node Node, hm *metadata.HostMap) []*iqv1.Instance {
	var list []*iqv1.Instance
	for _, h := range hm.Hosts {
		in := f.told[string(h.Node)]
		if hm != f.hosts || string(h.Node) == f.s.cfg.NodeID {
			in = f.s.instance(node, hm, h, &iqv1.ListInstancesRequest{Store: f.store})
		}
		if in != nil {
			list = append(list, in)
		}
	}
	return list
}

// compareInstances says which instances of now are new or changed against told, whole, in their order, and who is gone,
// sorted; and whether more than figures has changed.
func compareInstances(told map[string]*iqv1.Instance, now []*iqv1.Instance) (changed []*iqv1.Instance, gone []string, urgent bool) {
	there := make(map[string]bool, len(now))
	for _, in := range now {
		there[in.GetNode()] = true
		old := told[in.GetNode()]
		if old == in || old != nil && proto.Equal(old, in) {
			continue
		}
		changed = append(changed, in)
		urgent = urgent || old == nil || !proto.Equal(factsOf(old), factsOf(in))
	}
	for node := range told {
		if !there[node] {
			gone = append(gone, node)
		}
	}
	slices.Sort(gone)
	return changed, gone, urgent || len(gone) > 0
}

// factsOf is what is left of an instance without figures: positions, ends, lags, loads, counts and times.
func factsOf(in *iqv1.Instance) *iqv1.Instance {
	facts := proto.CloneOf(in)
	facts.Sequence, facts.InFlight, facts.LastHeard, facts.Inputs, facts.Misplaced, facts.Dropped = 0, 0, nil, nil, nil, nil
	for _, r := range facts.GetReplicas() {
		r.Position, r.EndPosition, r.OffsetLag, r.TimeLag, r.SampleAge = 0, 0, nil, nil, nil
	}
	return facts
}
