package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

// The group protocol as other tools see it: the type that consumers use, so that kafka-consumer-groups and the
// broker's own checks understand members and assignments, and a name of our own.
const (
	groupProtocolType = "consumer"
	groupProtocol     = "iqgate"
)

// ErrReplaced says that another process has joined the group with this node's id. The older one ends with it.
var ErrReplaced = errors.New("another process runs with the same node id")

// errLost says that the group does not know this member any more, or has gone on without it.
var errLost = errors.New("the group went on without this node")

// A Membership is what the group gave this node in one generation.
type Membership struct {
	Generation metadata.Generation
	Assignment assign.Map
	Given      assign.Given
	// Claimed are the tasks that this node told as owned when it joined.
	Claimed []metadata.TaskID
	// Before is the map of the generation before, as far as this node knows it.
	Before *assign.Map
	// Received is when the assignment came. What Assignment.Lost tells counts from here.
	Received time.Time
	// TookPlace says that the group had a member of this node's id when this process joined first, or that it may have had
	// one: another process, whose place this one has taken and which may not know yet.
	TookPlace bool
}

// A Config is what a member needs to know of its node. Every field is required but Rack, which may be empty. The functions
// are called by the goroutine of Run alone.
type Config struct {
	Group  string // the application's name
	Client *kgo.Client
	Log    *slog.Logger

	NodeID      string // the group.instance.id
	Incarnation metadata.Incarnation
	Address     string // where the node is reached; told to everybody
	Rack        string
	Capacity    int

	SessionTimeout   time.Duration // after how long without a heartbeat the group gives the node's tasks to others
	RebalanceTimeout time.Duration // how long the group waits for a member to rejoin
	Heartbeat        time.Duration // between two heartbeats
	// Lease is renewed by heartbeats that come back well and revoked with the membership.
	Lease *Lease

	// Topics are those that the application reads, sorted; other tools see them. They are not written.
	Topics []string
	// Plan says how the leader assigns, Tasks to what, and Inputs are a task's input partitions, none if it is not known.
	Plan   assign.Options
	Tasks  func() []assign.Task
	Inputs func(metadata.TaskID) []metadata.TopicPartition

	// Owned are the active tasks that the node has not given up.
	Owned func() []metadata.TaskID
	// Lags are the lags of the tasks that have local state.
	Lags func() map[metadata.TaskID]int64
	// Assigned takes what the group gave. It must not wait for a commit, since that may wait for the next generation.
	Assigned func(*Membership)
	// Lost ends all that the node owns, and returns when it has dropped everything.
	Lost func(ctx context.Context)
	// Announce wakes whoever waits for the membership that Current tells to change.
	Announce func()

	// Memory outlives the process.
	Memory Memory
	// Counts counts what the member meets; nil counts nothing.
	Counts *tally.Group
}

// A Memory keeps, beside the node's stores, what the group knows of it, for a next process of the node. It is called by
// one goroutine at a time.
type Memory interface {
	// Recall is what the process before told the group last and when it was last known to be a member; nil when there is
	// nothing to recall.
	Recall() (told []byte, alive time.Time)
	// Remember keeps what this process tells; nil makes it forget.
	Remember(told []byte)
	// Alive keeps that this process is a member at now.
	Alive(now time.Time)
}

// aliveEvery is the shortest time between two calls of Memory.Alive.
const aliveEvery = time.Second

// hurriedBeat is the time between two heartbeats while a rebalance is expected: each member learns of it by its next
// heartbeat alone.
const hurriedBeat = 25 * time.Millisecond

// handoverHurry is how long a rebalance is expected after one that withheld a task.
const handoverHurry = 2 * time.Second

// A Member keeps the node in the consumer group: JoinGroup, SyncGroup and Heartbeat by requests of its own, because the
// lease needs the answer to each heartbeat, the assignment every byte, and the commit the generation of its moment.
//
// Rebalances are cooperative (KIP-429): the node joins while it goes on processing and tells what it owns; a task that
// moves is withheld until its owner has handed it over and rejoined without it.
//
// Run owns joining; Beat owns heartbeats, during a join too. They meet in mu.
type Member struct {
	cfg Config

	beatNow chan struct{} // holds a token when a heartbeat is due before its time

	again chan struct{} // holds a token when the group, or this node, wants to rejoin
	gone  chan struct{} // holds a token when a heartbeat said that the membership is lost
	fatal chan error    // holds the reason to end

	mu struct {
		sync.Mutex
		id         string // given by the group; empty before the first join and after a loss
		generation int32
		joining    bool
		asked      bool // a JoinGroup was sent and is not answered: the group may have a member that this one does not know
		hurryUntil time.Time
		draining   bool
	}

	// Run's alone:
	last           *assign.Map // of the newest generation
	lastGeneration int32
	lastReceived   time.Time
	joined         bool                 // has joined before
	found          foundGroup           // right before this process joined first
	told           metadata.Incarnation // that the group knows this process by

	// Beat's alone:
	complained string // what the log was told last of a heartbeat
	aliveAt    time.Time
}

// New makes a member that has not joined yet. It starts nothing.
func New(cfg Config) *Member {
	m := &Member{
		cfg: cfg, beatNow: make(chan struct{}, 1), again: make(chan struct{}, 1), gone: make(chan struct{}, 1), fatal: make(chan error, 1),
	}
	m.mu.generation = -1
	return m
}

// Rejoin wants a rebalance soon: something changed that the leader should know.
func (m *Member) Rejoin() { kafka.Poke(m.again) }

// Hurry sends heartbeats faster for a while: a rebalance is expected, and each member learns of it by a heartbeat alone.
func (m *Member) Hurry(during time.Duration) {
	until := time.Now().Add(during)
	m.mu.Lock()
	if until.After(m.mu.hurryUntil) {
		m.mu.hurryUntil = until
	}
	m.mu.Unlock()
	kafka.Poke(m.beatNow)
}

// Drain tells the group from now on that this member hands over what it has, and wants a rebalance for that.
func (m *Member) Drain() {
	m.mu.Lock()
	m.mu.draining = true
	m.mu.Unlock()
	m.Rejoin()
}

// Current is the membership that a commit carries.
func (m *Member) Current() (id string, generation int32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.id, m.mu.generation, m.mu.id != "" && m.mu.generation >= 0
}

// Run joins and rejoins until ctx ends. It returns ErrReplaced when another process has taken the node id.
func (m *Member) Run(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		err := m.join(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the node ends
		}
		switch {
		case errors.Is(err, kerr.FencedInstanceID):
			return m.replaced(ctx)
		case errors.Is(err, kerr.RebalanceInProgress):
			continue
		case errors.Is(err, errLost):
			m.drop(ctx)
			continue
		case err != nil:
			failures++
			m.cfg.Log.Warn("cannot join the group", slog.String("group", m.cfg.Group), slog.Any("error", err))
			if !kafka.Sleep(ctx, kafka.Backoff(failures)) {
				return nil
			}
			continue
		}
		failures = 0
		select {
		case <-ctx.Done():
			return nil
		case <-m.again:
		case <-m.gone:
			m.drop(ctx)
		case err := <-m.fatal:
			if errors.Is(err, kerr.FencedInstanceID) {
				return m.replaced(ctx)
			}
			return err
		}
	}
	return nil
}

func (m *Member) replaced(ctx context.Context) error {
	m.drop(ctx)
	return fmt.Errorf("node id %s, group %s: %w", m.cfg.NodeID, m.cfg.Group, ErrReplaced)
}

// drop forgets the membership: the lease ends at once, and the worker drops what it has.
func (m *Member) drop(ctx context.Context) {
	m.mu.Lock()
	m.mu.id, m.mu.generation = "", -1
	m.cfg.Lease.revoke()
	m.mu.Unlock()
	m.cfg.Announce()
	m.cfg.Counts.Lost()
	m.cfg.Log.Warn("lost the membership of the group", slog.String("group", m.cfg.Group))
	m.cfg.Lost(ctx)
	select {
	case <-m.gone:
	default:
	}
}

// join goes through JoinGroup and SyncGroup once and hands the result to the worker.
func (m *Member) join(ctx context.Context) error {
	began := time.Now()
	select { // whatever asked for a rebalance before is answered by this one
	case <-m.again:
	default:
	}
	m.mu.Lock()
	m.mu.joining = true
	id := m.mu.id
	generation := m.mu.generation
	draining := m.mu.draining
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.mu.joining = false
		m.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.RebalanceTimeout+m.cfg.SessionTimeout+kafka.RequestTimeout)
	defer cancel()
	var claimed []metadata.TaskID
	if id != "" {
		claimed = m.cfg.Owned()
	}
	if !m.joined && id == "" {
		m.found = m.look(ctx)
	}
	self := assign.Member{
		Node: metadata.NodeID(m.cfg.NodeID), Incarnation: m.cfg.Incarnation, Address: m.cfg.Address, Rack: m.cfg.Rack, Capacity: m.cfg.Capacity,
		Draining: draining, Lease: m.cfg.Lease.length, Lags: m.cfg.Lags(),
	}
	if id != "" {
		self.Owned, self.OwnedGeneration = claimed, metadata.Generation(generation)
	}
	if m.joined {
		self.Incarnation = m.told
	} else if old := m.before(self); old != nil {
		self, claimed = *old, old.Owned // whatever of it this process is not given, it has to give up
	}
	user := assign.EncodeMember(self)
	m.asks(true)
	resp, err := m.requestJoin(ctx, id, user)
	if _, refused := errors.AsType[*kerr.Error](err); err == nil || refused {
		m.asks(false)
	}
	if err != nil {
		return m.classify(err, "join")
	}
	m.joined, m.told = true, self.Incarnation
	m.cfg.Memory.Remember(user)
	if missedGeneration(generation, resp.Generation) {
		m.drop(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("join group %s: drop what was owned in generation %d: %w", m.cfg.Group, generation, ctx.Err())
		}
	}
	before := m.last
	var plan []kmsg.SyncGroupRequestGroupAssignment
	if resp.LeaderID == resp.MemberID && !resp.SkipAssignment {
		if plan, err = m.lead(resp.Members, resp.Generation); err != nil {
			return fmt.Errorf("plan the assignment: %w", err)
		}
	}
	m.found.empty = false // from this generation on somebody may have tasks
	m.mu.Lock()
	m.mu.id, m.mu.generation = resp.MemberID, resp.Generation
	m.mu.Unlock()
	m.cfg.Announce() // a commit may wait for the generation
	data, err := m.requestSync(ctx, resp, plan)
	if err != nil {
		return m.classify(err, "sync")
	}
	var ca kmsg.ConsumerMemberAssignment
	if err := ca.ReadFrom(data); err != nil {
		return fmt.Errorf("read the assignment: %w", err)
	}
	am, err := assign.DecodeAssignment(ca.UserData)
	if err != nil {
		return fmt.Errorf("read the assignment: %w", err)
	}
	given, known := am.Given(metadata.NodeID(m.cfg.NodeID), m.told)
	received := time.Now()
	m.last, m.lastGeneration, m.lastReceived = &am, resp.Generation, received
	m.cfg.Log.Info("assignment", slog.Int("generation", int(resp.Generation)), slog.Int("active", len(given.Active)),
		slog.Int("standby", len(given.Standby)), slog.Int("warmup", len(given.Warmup)), slog.Int("withheld", len(am.Withheld)), slog.Int("hosts", len(am.Hosts)))
	m.cfg.Counts.Joined(time.Since(began))
	if len(am.Withheld) > 0 {
		m.Hurry(handoverHurry)
	}
	kafka.Poke(m.beatNow)
	m.cfg.Assigned(&Membership{
		Generation: metadata.Generation(resp.Generation), Assignment: am, Given: given, Claimed: claimed, Before: before, Received: received,
		TookPlace: m.found.namesake,
	})
	if !known {
		// The group took this process back as the static member that it knew, without a rebalance, although it tells other
		// things; as a member that it knows it causes one.
		m.Rejoin()
	}
	return nil
}

// before is what an earlier process of this node told the group last, if it stood where self stands and the group may
// have it as a member still: told again byte for byte, it makes the group take the static member back without a
// rebalance (S37).
func (m *Member) before(self assign.Member) *assign.Member {
	data, alive := m.cfg.Memory.Recall()
	if age := time.Since(alive); data == nil || age < 0 || age >= m.cfg.SessionTimeout {
		return nil
	}
	old, err := assign.DecodeMember(data)
	same := old.Node == self.Node && old.Address == self.Address && old.Rack == self.Rack && old.Capacity == self.Capacity && old.Draining == self.Draining && old.Lease == self.Lease
	if err != nil || !same {
		return nil
	}
	return &old
}

// A foundGroup is what a process saw of the group before it joined.
type foundGroup struct {
	empty    bool // it had no members, so nobody can have tasks
	namesake bool // it had a member of this node's id
}

// look looks at the group. What cannot be known is the worse.
func (m *Member) look(ctx context.Context) foundGroup {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	unknown := foundGroup{namesake: true}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{m.cfg.Group}
	resp, err := req.RequestWith(ctx, m.cfg.Client)
	if err != nil || len(resp.Groups) != 1 {
		return unknown
	}
	g := resp.Groups[0]
	switch err := kerr.ErrorForCode(g.ErrorCode); {
	case errors.Is(err, kerr.GroupIDNotFound):
		return foundGroup{empty: true}
	case err != nil:
		return unknown
	}
	return foundGroup{
		empty: g.State == "Empty" || g.State == "Dead",
		namesake: slices.ContainsFunc(g.Members, func(o kmsg.DescribeGroupsResponseGroupMember) bool {
			return o.InstanceID == nil || *o.InstanceID == m.cfg.NodeID
		}),
	}
}

// missedGeneration says whether the group had a generation between two of this node. A static member that does not
// rejoin in time stays in the group with what it told last, and what it was given since may be another's by now: nothing
// of it may be committed under the new generation, and no lease counts for it.
func missedGeneration(before, now int32) bool { return before >= 0 && now > before+1 }

// classify says what an error of the group protocol means for the membership.
func (m *Member) classify(err error, during string) error {
	switch {
	case lostMembership(err):
		return errLost
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.FencedInstanceID):
		return err
	default:
		return fmt.Errorf("%s group %s: %w", during, m.cfg.Group, err)
	}
}

func (m *Member) requestJoin(ctx context.Context, id string, user []byte) (*kmsg.JoinGroupResponse, error) {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 0
	meta.Topics = m.cfg.Topics
	meta.UserData = user

	req := kmsg.NewPtrJoinGroupRequest()
	req.Group = m.cfg.Group
	req.SessionTimeoutMillis = int32(m.cfg.SessionTimeout / time.Millisecond)
	req.RebalanceTimeoutMillis = int32(m.cfg.RebalanceTimeout / time.Millisecond)
	req.MemberID = id
	req.InstanceID = &m.cfg.NodeID
	req.ProtocolType = groupProtocolType
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = groupProtocol, meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	resp, err := req.RequestWith(ctx, m.cfg.Client)
	if err != nil {
		return nil, err
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

// lead plans the assignment of all members.
func (m *Member) lead(members []kmsg.JoinGroupResponseMember, generation int32) ([]kmsg.SyncGroupRequestGroupAssignment, error) {
	var all []assign.Member
	for _, jm := range members {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(jm.ProtocolMetadata); err != nil {
			return nil, fmt.Errorf("metadata of member %s: %w", jm.MemberID, err)
		}
		am, err := assign.DecodeMember(meta.UserData)
		if err != nil {
			return nil, fmt.Errorf("user data of member %s: %w", jm.MemberID, err)
		}
		am.ID = jm.MemberID
		if am.OwnedGeneration >= metadata.Generation(generation) {
			am.Owned, am.OwnedGeneration = nil, 0 // of another group: one of that name that is no more
		}
		all = append(all, am)
	}
	plan, err := assign.Plan(all, m.cfg.Tasks(), m.last, m.cfg.Plan)
	if err != nil {
		return nil, err
	}
	plan.Map.Lost = m.losses(plan.Map.Hosts, generation)
	user := assign.EncodeAssignment(plan.Map)
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, am := range all {
		ca := kmsg.NewConsumerMemberAssignment()
		parts := make(map[string][]int32)
		for _, id := range plan.Members[am.ID].Active {
			for _, tp := range m.cfg.Inputs(id) {
				parts[tp.Topic] = append(parts[tp.Topic], tp.Partition)
			}
		}
		for topic, ps := range parts {
			ct := kmsg.NewConsumerMemberAssignmentTopic()
			ct.Topic, ct.Partitions = topic, ps
			ca.Topics = append(ca.Topics, ct)
		}
		slices.SortFunc(ca.Topics, func(a, b kmsg.ConsumerMemberAssignmentTopic) int { return strings.Compare(a.Topic, b.Topic) })
		ca.UserData = user
		ga := kmsg.NewSyncGroupRequestGroupAssignment()
		ga.MemberID, ga.MemberAssignment = am.ID, ca.AppendTo(nil)
		out = append(out, ga)
	}
	return out, nil
}

// losses are the processes that the group has lost and that may not know yet, as far as this leader knows.
func (m *Member) losses(hosts []assign.MapHost, generation int32) []assign.Lost {
	switch {
	case m.last != nil && generation == m.lastGeneration+1:
		return assign.Losses(m.last, time.Since(m.lastReceived), hosts, m.cfg.Lease.length)
	case m.last == nil && m.found.empty:
		return nil // whoever had tasks left long ago
	default:
		longest := m.cfg.Lease.length
		for _, h := range hosts {
			longest = max(longest, h.Lease)
		}
		lost := assign.UnknownLoss(m.cfg.Tasks(), longest)
		if m.last != nil { // whoever gets their tasks knows whom to fence
			lost = append(lost, assign.Losses(m.last, time.Since(m.lastReceived), hosts, longest)...)
		}
		return lost
	}
}

func (m *Member) requestSync(ctx context.Context, join *kmsg.JoinGroupResponse, plan []kmsg.SyncGroupRequestGroupAssignment) ([]byte, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = m.cfg.Group, join.Generation, join.MemberID
	req.InstanceID = &m.cfg.NodeID
	req.ProtocolType = new(groupProtocolType)
	req.Protocol = new(groupProtocol)
	req.GroupAssignment = plan
	resp, err := req.RequestWith(ctx, m.cfg.Client)
	if err != nil {
		return nil, err
	}
	return resp.MemberAssignment, kerr.ErrorForCode(resp.ErrorCode)
}

// Beat sends a heartbeat each interval until ctx ends, faster in a hurry. Every answer renews the lease, or says what is
// wrong.
func (m *Member) Beat(ctx context.Context) error {
	t := time.NewTimer(m.cfg.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-m.beatNow: // a new membership has no lease before its first heartbeat
		}
		m.beatOnce(ctx)
		t.Reset(m.beatPause(time.Now()))
	}
}

// beatPause is the time until the next heartbeat.
func (m *Member) beatPause(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.mu.hurryUntil) {
		return min(hurriedBeat, m.cfg.Heartbeat)
	}
	return m.cfg.Heartbeat
}

func (m *Member) beatOnce(ctx context.Context) {
	id, generation, ok := m.Current()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Lease.length)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.cfg.Group, generation, id, &m.cfg.NodeID
	sent := time.Now()
	resp, err := req.RequestWith(ctx, m.cfg.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		m.cfg.Counts.Missed()
	}
	alive := false
	defer func() {
		if alive {
			m.cfg.Memory.Alive(sent)
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.id != id || m.mu.generation != generation {
		return // an answer to a membership that is over says nothing of this one
	}
	switch {
	case err == nil:
		m.cfg.Lease.Renew(sent)
		if sent.Sub(m.aliveAt) >= aliveEvery {
			m.aliveAt = sent
			alive = true
		}
	case errors.Is(err, kerr.RebalanceInProgress):
		m.cfg.Lease.renewDuring(sent, m.cfg.RebalanceTimeout)
		if !m.mu.joining {
			kafka.Poke(m.again)
		}
	case errors.Is(err, kerr.FencedInstanceID):
		m.cfg.Lease.revoke()
		select {
		case m.fatal <- err:
		default:
		}
	case lostMembership(err):
		// During a join the generation may have been counted up without this node knowing its own part yet.
		if !m.mu.joining {
			m.cfg.Lease.revoke()
			kafka.Poke(m.gone)
		}
	default:
		m.cfg.Log.Debug("group heartbeat failed", slog.Any("error", err))
	}
	if text := fmt.Sprint(err); err != nil && !kerr.IsRetriable(err) && text != m.complained {
		m.cfg.Log.Warn("the group refuses a heartbeat", slog.Any("error", err))
		m.complained = text
	} else if err == nil {
		m.complained = ""
	}
}

// lostMembership says whether an error of the group protocol means that the group goes on without this member.
func lostMembership(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.GroupIDNotFound)
}

// asks says whether a JoinGroup is on its way.
func (m *Member) asks(asked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.asked = asked
}

// Leave takes the node out of the group, so that others get its tasks at once; also when a JoinGroup was given up before
// the group told who this member is.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	id, asked := m.mu.id, m.mu.asked
	m.mu.id, m.mu.generation = "", -1
	m.cfg.Lease.revoke()
	m.mu.Unlock()
	if id == "" && !asked {
		return nil
	}
	if err := leaveGroup(ctx, m.cfg.Client, m.cfg.Group, id, m.cfg.NodeID); err != nil {
		return err
	}
	m.cfg.Memory.Remember(nil)
	return nil
}

// Evict takes a dead node out of the group, so that others get its tasks before its session ends.
// It fails with kerr.UnknownMemberID when the group does not know the node.
func (m *Member) Evict(ctx context.Context, node metadata.NodeID) error {
	return leaveGroup(ctx, m.cfg.Client, m.cfg.Group, "", string(node))
}

// leaveGroup removes a member from the group. With an empty id the static member of that instance id is removed, whatever
// its member id is; a survivor does that for a dead node.
func leaveGroup(ctx context.Context, cl *kgo.Client, group, id, instance string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, id
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = id, &instance
	req.Members = append(req.Members, lm)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) > 0 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("leave group %s: %w", group, err)
	}
	return nil
}
