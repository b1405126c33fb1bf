package router

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// MultiGet looks many keys up. See multiGet.
func (s *queryService) MultiGet(ctx context.Context, m *iqv1.MultiGetRequest) (resp *iqv1.MultiGetResponse, err error) {
	defer s.router.begin(tally.MultiGet)(&err)
	resp, err = s.router.multiGet(ctx, m)
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return resp, nil
}

// multiGet is a MultiGet under way.
//
//  1. Keys of one partition are one group; a key that may be in several partitions is a group of its own.
//  2. Each group has a plan, as a Get has, and asks the next replica of its plan in each round. The groups that ask the same
//     node in a round share one call.
//  3. A key that its node has answered is done. One that is not found goes on to its other partitions, if it has more. One
//     that failed goes on to the next replica, within the retry budget, which each call of a later round draws on.
//  4. With wait, what has failed and may pass is planned anew when the view has changed.
//  5. A key that nobody could answer carries its own error. The others are answered all the same.
type multiGet struct {
	router  *Router
	request *iqv1.MultiGetRequest
	info    metadata.StoreInfo
	policy  routing.Policy
	wait    time.Duration

	results []*iqv1.KeyResult
	errs    []error // why a key was not answered; nil for those that were
	reads   []*iqv1.PartitionRead
	bytes   int // of values, in results
}

// keyGroup is keys that ask the same replicas in the same order.
type keyGroup struct {
	keys     []int // places in the request, of those that have no answer
	plan     routing.Plan
	next     int            // the target to ask
	missed   map[int32]bool // partitions that say that the key is not there
	first    failure        // the first, when there are attempts
	attempts []*iqv1.Attempt
}

// nodeCall is what one node is asked in one round.
type nodeCall struct {
	peer   *peer
	target routing.Target // of one of the groups
	groups []*keyGroup
	left   int // the most replicas that a group has left
	keys   []int
	resp   *iqv1.MultiGetResponse
	err    *tryError
}

func (r *Router) multiGet(ctx context.Context, m *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
	leave, err := r.admit(&r.inFlight, r.config.MaxInFlight)
	if err != nil {
		return nil, err
	}
	defer leave()
	e := r.board.load()
	if m.GetStore() == "" {
		return nil, iqerr.Invalid("store", "", "must be a store's name")
	}
	info, err := routing.Store(e.view, m.GetStore())
	if err != nil {
		return nil, err
	}
	policy, wait, policyErr := policyFromProto(m.GetPolicy(), r.config.DefaultPolicy)
	_, err = query.ParseMultiGet(m, info)
	err = errors.Join(err, policyErr, checkApplication("application", m.GetApplication(), e.view.Application()))
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+r.config.RequestTimeout)
		defer cancel()
	}
	r.retries.earn()
	g := &multiGet{
		router: r, request: m, info: info, policy: policy, wait: wait,
		results: make([]*iqv1.KeyResult, len(m.GetKeys())), errs: make([]error, len(m.GetKeys())),
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	return g.response(), nil
}

// run asks until every key has its answer or its error. The error is that of the whole request: the caller's time is over.
func (g *multiGet) run(ctx context.Context) error {
	open := make([]int, len(g.results))
	for i := range open {
		open[i] = i
	}
	held := waiter{router: g.router, until: time.Now().Add(g.wait)}
	defer held.leave()
	patient := g.wait > 0
	for rounds := 0; ; rounds++ {
		e := g.router.board.load()
		if err := g.ask(ctx, g.group(e, open, patient)); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(i int) bool { return g.results[i] != nil })
		at := slices.IndexFunc(open, func(i int) bool { return mayPass(g.errs[i]) })
		if at < 0 || !patient {
			return nil
		}
		over, err := held.forNext(ctx, e, rounds, g.errs[open[at]])
		if err != nil {
			return err
		}
		patient = !over
	}
}

// group plans for the keys that are open. Keys that cannot be planned for get their error or, when their partitioner drops
// them, their answer.
func (g *multiGet) group(e *edition, open []int, patient bool) []*keyGroup {
	var groups []*keyGroup
	of := map[int32]*keyGroup{}
	now := time.Now()
	refused := map[int32]error{}
	for _, i := range open {
		partitions, err := routing.Locate(e.view, g.router.config.Partitioners, g.info.Name, g.request.GetKeys()[i], routing.NoPartition)
		switch {
		case err != nil:
			g.errs[i] = err
			continue
		case len(partitions) == 0:
			g.results[i] = &iqv1.KeyResult{}
			continue
		}
		single := len(partitions) == 1
		if single && of[partitions[0]] != nil {
			of[partitions[0]].keys = append(of[partitions[0]].keys, i)
			continue
		}
		if single && refused[partitions[0]] != nil {
			g.errs[i] = refused[partitions[0]]
			continue
		}
		q := g.router.queryOf(g.info.Name, partitions[0], g.policy)
		q.Patient = patient
		plan, err := routing.MakePlan(e.view, q, partitions, now)
		if err != nil {
			g.errs[i] = err
			if single {
				refused[partitions[0]] = err
			}
			continue
		}
		group := &keyGroup{plan: plan, keys: []int{i}}
		groups = append(groups, group)
		if single {
			of[partitions[0]] = group
		}
	}
	return groups
}

// ask goes round after round until no group has an open key and a replica to ask.
func (g *multiGet) ask(ctx context.Context, groups []*keyGroup) error {
	for round := 0; len(groups) > 0; round++ {
		calls := g.calls(groups, round > 0)
		tasks := errgroup.Group{}
		tasks.SetLimit(maxFanOut)
		for _, c := range calls {
			tasks.Go(func() error {
				start := time.Now()
				if err := g.call(ctx, c); err != nil {
					c.err = &tryError{err: err, elapsed: time.Since(start)}
				}
				return nil
			})
		}
		_ = tasks.Wait()
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, c := range calls {
			g.take(c)
		}
		groups = slices.DeleteFunc(groups, func(group *keyGroup) bool { return len(group.keys) == 0 })
	}
	return nil
}

// calls says whom each group asks next. A group that has nobody left is done: its keys fail, or are nowhere.
func (g *multiGet) calls(groups []*keyGroup, again bool) []*nodeCall {
	byNode := map[metadata.NodeID]*nodeCall{}
	var calls []*nodeCall
	for _, group := range groups {
		for group.next < len(group.plan.Targets) && group.missed[group.plan.Targets[group.next].Partition.Partition] {
			group.next++
		}
		if group.next == len(group.plan.Targets) {
			g.fail(group)
			continue
		}
		t := group.plan.Targets[group.next]
		group.next++
		c := byNode[t.Node.ID]
		if c == nil {
			if again && len(group.attempts) > 0 && !g.router.retries.spend() {
				g.fail(group)
				continue
			}
			c = &nodeCall{target: t, peer: g.router.peers.get(t.Node)}
			byNode[t.Node.ID] = c
			calls = append(calls, c)
		}
		c.groups = append(c.groups, group)
		c.keys = append(c.keys, group.keys...)
		c.left = max(c.left, len(group.plan.Targets)-group.next)
	}
	return calls
}

func (g *multiGet) call(ctx context.Context, c *nodeCall) error {
	if c.peer == nil {
		return goneAt(c.target)
	}
	m := &iqv1.MultiGetRequest{
		Store: g.info.Name, Policy: g.policy.ToProto(g.request.GetPolicy()), Application: g.request.GetApplication(), AsOfMs: g.request.AsOfMs,
	}
	for _, i := range c.keys {
		m.Keys = append(m.Keys, g.request.GetKeys()[i])
	}
	left := c.left
	if g.wait > 0 {
		left++
	}
	var err error
	c.resp, err = unary(ctx, g.router, c.target, c.peer, left, func(ctx context.Context) (*iqv1.MultiGetResponse, error) {
		return c.peer.query.MultiGet(ctx, m)
	})
	if err == nil && len(c.resp.GetResults()) != len(c.keys) {
		err = errBadNode
	}
	return err
}

// take gives each key of a call what its node said.
func (g *multiGet) take(c *nodeCall) {
	if c.err != nil {
		for _, group := range c.groups {
			group.failed(c.target, c.err, g)
		}
		return
	}
	places := make([]int32, len(c.resp.GetPartitions())) // of the call's reads, in the reply
	for i, read := range c.resp.GetPartitions() {
		routing.CompleteStatus(g.router.View(), read.GetServed())
		places[i] = int32(len(g.reads))
		g.reads = append(g.reads, read)
		g.served(read.GetServed())
	}
	at := 0
	for _, group := range c.groups {
		asked := group.keys
		group.keys = nil
		for _, i := range asked {
			res := c.resp.GetResults()[at]
			at++
			if res.Read != nil && int(res.GetRead()) >= len(places) {
				res.Read = nil
			}
			partition := int32(routing.NoPartition)
			if res.Read != nil {
				partition = g.reads[places[res.GetRead()]].GetPartition()
				res.Read = &places[res.GetRead()]
			}
			g.answer(group, i, res, partition, c.target)
		}
	}
}

// served counts a partition that was read.
func (g *multiGet) served(by *iqv1.ReplicaStatus) {
	was := routing.ReplicaFromProto(by)
	g.router.readsOf(g.info.Name).Served(tally.Policy(g.policy.Mode), was.Role, was.Lag.Time, was.Lag.Offsets)
}

// answer takes what a node said of one key.
func (g *multiGet) answer(group *keyGroup, i int, res *iqv1.KeyResult, partition int32, from routing.Target) {
	if res.GetError() != nil && !query.IsReplyFull(res.GetError()) {
		err := iqerr.FromKeyError(res.GetError())
		group.note(from, &tryError{err: err})
		group.keys = append(group.keys, i)
		if !iqerr.Retriable(err) {
			group.next = len(group.plan.Targets)
			group.first = failure{from, err}
		}
		return
	}
	if !res.GetFound() && res.GetError() == nil && len(group.plan.Decisions) > 1 {
		if group.missed == nil {
			group.missed = map[int32]bool{}
		}
		if partition == routing.NoPartition {
			partition = from.Partition.Partition
		}
		group.missed[partition] = true
		if len(group.missed) < len(group.plan.Decisions) {
			group.keys = append(group.keys, i)
			return
		}
	}
	g.results[i], g.errs[i] = res, nil
}

// note keeps a failure for the caller to see.
func (k *keyGroup) note(t routing.Target, e *tryError) {
	if len(k.attempts) == 0 {
		k.first = failure{t, e.err}
	}
	k.attempts = append(k.attempts, attemptToProto(t.Node, e))
}

// failed is the failure of a call for all keys of a group.
func (k *keyGroup) failed(t routing.Target, e *tryError, g *multiGet) {
	k.note(t, e)
	if !iqerr.Retriable(e.err) {
		k.first, k.next = failure{t, e.err}, len(k.plan.Targets)
		g.fail(k)
	}
}

// fail gives the keys of a group that has nobody left to ask their error.
func (g *multiGet) fail(group *keyGroup) {
	if len(group.attempts) == 0 {
		g.failKeys(group, group.unread())
		return
	}
	err := group.first.err
	decision := &group.plan.Decisions[min(group.first.Decision, len(group.plan.Decisions)-1)]
	if unanswered(err) {
		err = decision.Unanswered(func(c *routing.Candidate) bool {
			return slices.ContainsFunc(group.attempts, func(a *iqv1.Attempt) bool { return a.GetNode() == string(c.Node.ID) })
		})
	}
	g.failKeys(group, withAttempts(err, decision.Query.Partition, group.attempts))
}

// unread is why a key that is not in those of its partitions that could be read cannot be said to be nowhere.
func (k *keyGroup) unread() error {
	for i := range k.plan.Decisions {
		if d := &k.plan.Decisions[i]; !k.missed[d.Query.Partition.Partition] && d.Eligible == 0 {
			return d.Refusal()
		}
	}
	return iqerr.ErrNoReplica
}

func (g *multiGet) failKeys(group *keyGroup, err error) {
	for _, i := range group.keys {
		g.errs[i] = err
	}
	group.keys = nil
}

// response puts the answers together, as many values as find room.
func (g *multiGet) response() *iqv1.MultiGetResponse {
	for i, err := range g.errs {
		if err != nil {
			g.router.readsOf(g.info.Name).Refused(tally.Policy(g.policy.Mode), err)
			g.results[i] = &iqv1.KeyResult{Error: iqerr.ToKeyError(err)}
			continue
		}
		res := g.results[i]
		if size := len(res.GetValue()); g.bytes > 0 && g.bytes+size > query.MaxReplyBytes {
			g.results[i] = &iqv1.KeyResult{Error: query.ReplyFull(size)}
		} else {
			g.bytes += size
		}
	}
	return &iqv1.MultiGetResponse{Results: g.results, Partitions: g.reads}
}
