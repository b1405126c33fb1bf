package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/serve"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// Parameters of the node's query server. Clients may ping as often as every serverMinPing; ours do every 10s.
const (
	serverMinPing    = 5 * time.Second
	serverWindow     = 1 << 20
	serverMaxStreams = 100_000
)

// settleLimit bounds how long a starting node looks at its own stores before it joins the group.
const settleLimit = 2 * time.Second

// ErrReplaced says that another process has joined the group with this node's id. The older one ends with it.
var ErrReplaced = group.ErrReplaced

// A Node runs an application's tasks and serves their state. New makes it and starts nothing; Run owns every goroutine.
type Node struct {
	cfg         Config
	group       string // the consumer group
	application string // whose stores it has; in replica mode another than the group
	log         *slog.Logger
	address     string // advertised
	listener    net.Listener
	incarnation metadata.Incarnation
	holdOff     time.Duration // see worker.holdOff
	admin       *kgo.Client
	replicas    *replicaSet
	tasks       *taskTable
	news        *news
	roles       *news
	words       *words // of the routers
	drain       *drain
	evicted     atomic.Pointer[time.Time] // when this node evicted another last
	health      *health.Server
	serving     *serve.Server
	requests    *tally.Requests
	reads       *tally.Reads
	sampled     atomic.Pointer[time.Time] // when the ends of changelogs were asked for last with success

	up       atomic.Pointer[running] // nil until Kafka and the topics are there
	stopped  chan struct{}           // closed when the worker has ended
	sequence atomic.Int64
}

// running is what exists once Kafka and the topics are there.
type running struct {
	node     *Node
	tasks    *taskTable
	catalog  *kafka.Catalog
	replicas *replicaSet
	worker   *worker
	member   *group.Member
	hosts    atomic.Pointer[metadata.HostMap]
	changed  atomic.Pointer[map[string]countChange] // by store
	awaited  atomic.Pointer[[]metadata.TaskID]      // see assign.Given.Awaited
	staying  atomic.Int32                           // members beside this one that do not drain
	version  atomic.Int64                           // of what StoreInfos tells

	// The catalog's goroutine alone:
	changelogs map[string][16]byte // topic ids by store
	growError  string              // what growTasks complained of last
}

// countChange is a source topic whose partition count is not what a store was built with (S29).
type countChange struct {
	topic  string
	actual int32
}

// changes are the stores whose source topics have another partition count now.
func (up *running) changes() map[string]countChange {
	if p := up.changed.Load(); p != nil {
		return *p
	}
	return nil
}

// checkCounts compares the topics' partition counts with the stores' and says whether what is known of the stores is
// another than before.
func (up *running) checkCounts(log *slog.Logger) (differs bool) {
	changes := make(map[string]countChange)
	for name, spec := range up.tasks.stores {
		for _, topic := range up.tasks.sources(spec) {
			if have, ok := up.catalog.Partitions(topic); ok && have != up.tasks.counts[name] {
				changes[name] = countChange{topic: topic, actual: have}
			}
		}
	}
	old := up.changes()
	for name, c := range changes {
		if old[name] != c {
			log.Error("a source topic has another partition count than its store; reads of the store are refused",
				slog.String("store", name), slog.String("topic", c.topic), slog.Int("expected", int(up.tasks.counts[name])), slog.Int("actual", int(c.actual)))
		}
	}
	up.changed.Store(&changes)
	ids := make(map[string][16]byte, len(up.tasks.stores))
	for name, spec := range up.tasks.stores {
		if topic, ok := up.catalog.Topic(spec.Changelog); ok {
			ids[name] = topic.ID
		}
	}
	differs = !maps.Equal(old, changes) || !maps.Equal(up.changelogs, ids)
	up.changelogs = ids
	return differs
}

// growTasks adds the tasks of new partitions and asks for a rebalance that gives them out.
func (n *Node) growTasks(up *running) {
	added, err := up.tasks.grow(up.catalog.Partitions)
	switch {
	case err != nil && err.Error() != up.growError:
		n.log.Error("the topics do not fit the application any more", slog.Any("error", err))
	case added > 0:
		n.log.Warn("source topics have more partitions now", slog.Int("new_tasks", added))
		up.member.Rejoin()
	}
	up.growError = ""
	if err != nil {
		up.growError = err.Error()
	}
}

// New checks the configuration and listens, so that a port that is taken is an error at once. It starts nothing.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.work = tally.NewWork()
	n := &Node{
		cfg: cfg, group: cfg.groupID(), application: cfg.application(), log: cfg.Logger, listener: cfg.Listener, address: cfg.Advertised,
		news: newNews(), roles: newNews(), words: newWords(), drain: newDrain(), health: health.NewServer(), stopped: make(chan struct{}),
		requests: tally.NewRequests(), reads: tally.NewReads(),
	}
	if n.listener == nil {
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "tcp", cfg.Listen) //nolint:forbidigo // listening does not wait
		if err != nil {
			return nil, fmt.Errorf("node: Listen %q: %w", cfg.Listen, err)
		}
		n.listener = l
	}
	if n.address == "" {
		n.address = n.listener.Addr().String()
	}
	n.serving = n.newServing()
	return n, nil
}

// Address is where the node's query service is reached.
func (n *Node) Address() string { return n.address }

// Run works until ctx ends or somebody drains the node, then stops in order: its tasks handed over (drain.go), no new
// reads, a last commit, out of the group, stores closed. It returns nil after that, and an error when the node cannot go
// on: its id is taken (ErrReplaced), a topic does not fit. A ctx that ends with the cause ErrStopNow leaves the handing
// over out.
func (n *Node) Run(ctx context.Context) error {
	state, err := openStateDir(n.cfg.StateDir)
	if err != nil {
		return errors.Join(err, n.listener.Close())
	}
	defer state.close()
	n.incarnation = state.incarnation
	if state.fresh {
		n.holdOff = n.cfg.Lease
	}

	srv := n.newServer()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(n.listener) }()
	defer func() {
		n.serving.EndLookups()
		stopServer(srv, n.cfg.ShutdownTimeout/shutdownShare)
		<-served //nolint:errcheck // nothing to say any more
	}()

	life, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives ctx by the drain
	defer end()
	g, gctx := errgroup.WithContext(life)
	g.Go(func() error {
		defer end()
		n.awaitDrain(ctx, gctx.Done())
		return nil
	})
	for _, address := range n.cfg.Routers {
		r := &reporter{n: n, address: address}
		g.Go(func() error { return r.run(gctx) })
	}
	g.Go(func() error { return n.runKafka(gctx) })
	g.Go(func() error { return n.cfg.Security.Run(gctx, n.log) })
	g.Go(func() error {
		select {
		case err := <-served:
			served <- err
			return fmt.Errorf("serve queries: %w", err)
		case <-gctx.Done():
			n.serving.Close()
			n.news.announce() // to the reads that wait
			n.health.Shutdown()
			return nil
		}
	})
	return g.Wait()
}

// stopServer lets running calls end, for a while.
func stopServer(srv *grpc.Server, wait time.Duration) {
	t := time.AfterFunc(wait, srv.Stop)
	defer t.Stop()
	srv.GracefulStop()
}

func (n *Node) newServer() *grpc.Server {
	srv := grpc.NewServer(append(n.cfg.Security.ServerOptions(),
		grpc.MaxRecvMsgSize(n.cfg.MaxMessageBytes),
		grpc.MaxSendMsgSize(n.cfg.MaxMessageBytes),
		grpc.ForceServerCodecV2(mux.Codec{}),
		grpc.NumStreamWorkers(mux.MaxIdle),
		grpc.InitialWindowSize(serverWindow),
		grpc.InitialConnWindowSize(serverWindow),
		grpc.MaxConcurrentStreams(serverMaxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: serverMinPing, PermitWithoutStream: true}),
	)...)
	n.serving.Register(srv)
	iqv1.RegisterControlServiceServer(srv, &controlServer{n: n})
	iqv1.RegisterSnapshotServiceServer(srv, newSnapshotServer(n))
	iqv1.RegisterVerifyServiceServer(srv, newVerifyServer(n))
	healthpb.RegisterHealthServer(srv, n.health)
	n.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	n.setServices(healthpb.HealthCheckResponse_NOT_SERVING)
	n.health.SetServingStatus(aliveService(metadata.NodeID(n.cfg.NodeID)), healthpb.HealthCheckResponse_SERVING)
	reflection.Register(srv)
	return srv
}

// setServices says by the health service whether the node answers queries: from its first assignment on, until it ends.
func (n *Node) setServices(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, service := range []string{iqv1.QueryService_ServiceDesc.ServiceName, iqv1.MetadataService_ServiceDesc.ServiceName} {
		n.health.SetServingStatus(service, status)
	}
}

// runKafka is everything that needs Kafka, from waiting for it to leaving the group.
func (n *Node) runKafka(ctx context.Context) error {
	admin, err := kgo.NewClient(n.cfg.kafkaOptions()...)
	if err != nil {
		return fmt.Errorf("make the Kafka client: %w", err)
	}
	defer admin.Close()
	n.admin = admin
	tasks, cat, err := n.prepare(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	limits, known := n.learnLimits(ctx)
	if !known {
		return nil
	}
	inputClient, err := kgo.NewClient(n.cfg.kafkaOptions()...)
	if err != nil {
		return fmt.Errorf("make the Kafka client: %w", err)
	}
	defer inputClient.Close()
	changelogClient, err := kgo.NewClient(n.cfg.kafkaOptions()...)
	if err != nil {
		return fmt.Errorf("make the Kafka client: %w", err)
	}
	defer changelogClient.Close()

	up, run := n.assemble(tasks, cat, limits, inputClient, changelogClient)
	n.tasks, n.replicas = tasks, up.replicas
	n.reads.Know(slices.Collect(maps.Keys(tasks.stores))...)
	n.up.Store(up)
	n.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	n.log.Info("joining the group", slog.String("group", n.group), slog.String("address", n.address), slog.Int("tasks", len(tasks.planned())))
	err = run(ctx)
	close(n.stopped)

	// The node's context has ended; what is left has bounds of its own, so that a Kafka that hangs cannot hold it up.
	n.awaitEvicted()
	leaving, cancelLeave := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout/shutdownShare)
	defer cancelLeave()
	if leaveErr := up.member.Leave(leaving); leaveErr != nil {
		n.log.Warn("could not leave the group; it notices after the session timeout", slog.Any("error", leaveErr))
	}
	closing, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout/shutdownShare)
	defer cancelClose()
	return errors.Join(err, up.replicas.closeAll(closing))
}

// prepare waits for the topics that the node works with.
func (n *Node) prepare(ctx context.Context) (*taskTable, *kafka.Catalog, error) {
	if n.cfg.Replica != nil {
		return prepareFollowed(ctx, n.cfg, n.admin, n.log)
	}
	cat := kafka.NewCatalog(n.admin, n.log, topicsOf(n.cfg.Topology))
	tasks, err := prepareTopics(ctx, n.cfg, n.admin, cat, n.log)
	return tasks, cat, err
}

// learnLimits asks for the limits of the topics that the node writes, until it knows them or ctx ends.
func (n *Node) learnLimits(ctx context.Context) (limits kafka.BatchLimits, known bool) {
	for tries := 1; ; tries++ {
		limits, err := kafka.LearnBatchLimits(ctx, n.admin, n.cfg.writes())
		if err == nil {
			return limits, true
		}
		if ctx.Err() == nil {
			n.log.Warn("cannot learn the topics' limits; trying again", slog.Any("error", err))
		}
		if !kafka.Sleep(ctx, kafka.Backoff(tries)) {
			return nil, false
		}
	}
}

// shutdownShare is the part of ShutdownTimeout that each step of the orderly end may take: the last commit, leaving the
// group, closing the stores.
const shutdownShare = 3

// assemble makes the parts that work with Kafka and returns what runs them.
func (n *Node) assemble(tasks *taskTable, cat *kafka.Catalog, limits kafka.BatchLimits, inputClient, changelogClient *kgo.Client) (*running, func(context.Context) error) {
	base := time.Now()
	held := group.NewLease(n.cfg.Lease, base)
	set := &replicaSet{
		application: n.application, cl: n.admin, catalog: cat, lease: held, log: n.log, news: n.news, roles: n.roles,
		storeOptions: store.Options{SyncWrites: n.cfg.SyncWrites, Logger: n.log, FreeBytes: n.cfg.FreeBytes}, onStep: n.cfg.Step,
		dir: n.cfg.StateDir, releaseDelay: n.cfg.ReleaseDelay, cleanupDelay: n.cfg.CleanupDelay, base: base, tasks: tasks, work: n.cfg.work, wake: make(chan struct{}, 1),
	}
	set.mu.all = make(map[metadata.Partition]*replica)
	set.publish()
	set.copies = newBootstrapper(set, n.cfg, n.hostMap)
	inputs := &inputSet{}
	inputFetch := kafka.NewFetcher(inputClient, cat, n.log, inputs.cursors)
	tail := kafka.NewFetcher(changelogClient, cat, n.log, set.cursors)
	set.fetch = tail.Wake
	w := &worker{
		cfg: n.cfg, group: n.group, cl: n.admin, catalog: cat, replicas: set, tasks: tasks, news: n.news, log: n.log,
		inputs: inputs, fetch: inputFetch.Wake, signal: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		promoted: make(chan *promotion), peeks: make(chan *peek), limits: limits,
		active: make(map[metadata.TaskID]*activeTask), carries: make(map[metadata.TaskID]*carry), commitTimeout: n.cfg.TransactionTimeout, holdOff: n.holdOff,
	}
	w.mail.abort = func() {}
	w.owned.Store(&[]metadata.TaskID{})
	up := &running{node: n, tasks: tasks, catalog: cat, replicas: set, worker: w}
	m := n.newMember(up, held)
	w.member, up.member = m, m
	up.checkCounts(n.log)
	cat.Refreshed = func() {
		n.growTasks(up)
		if up.checkCounts(n.log) {
			up.version.Add(1)
			n.roles.announce()
		}
	}
	set.clearIncoming()
	set.adoptLocal(time.Now())
	return up, func(ctx context.Context) error {
		// The worker ends last: until it has made its last commit, heartbeats and fetches go on.
		rest, stopRest := context.WithCancel(context.WithoutCancel(ctx))
		defer stopRest()
		g, gctx := errgroup.WithContext(ctx)
		h, hctx := errgroup.WithContext(rest)
		h.Go(func() error { return cat.Run(hctx, n.cfg.TopicCheckInterval) })
		h.Go(func() error { return inputFetch.Run(hctx) })
		h.Go(func() error { return tail.Run(hctx) })
		h.Go(func() error { return set.run(hctx) })
		h.Go(func() error { return set.copies.run(hctx) })
		h.Go(func() error { return set.reclaim(hctx) })
		h.Go(func() error { return set.scrub(hctx) })
		h.Go(func() error { return n.sampleEnds(hctx) })
		h.Go(func() error { return m.Beat(hctx) })
		h.Go(func() error { return n.watchAwaited(hctx, up) })
		h.Go(func() error { return n.evictLost(hctx, up) })
		h.Go(func() error { return w.purge(hctx) })
		g.Go(func() error {
			set.settle(gctx, settleLimit)
			return m.Run(gctx)
		})
		g.Go(func() error { return w.run(gctx) })
		err := g.Wait()
		stopRest()
		return errors.Join(err, h.Wait())
	}
}

// newMember makes the member of the group that tells the node what the group gives it.
func (n *Node) newMember(up *running, held *group.Lease) *group.Member {
	return group.New(group.Config{
		Group: n.group, Client: n.admin, Log: n.log,
		NodeID: n.cfg.NodeID, Incarnation: n.incarnation, Address: n.address, Rack: n.cfg.Rack, Capacity: n.cfg.Capacity,
		SessionTimeout: n.cfg.SessionTimeout, RebalanceTimeout: n.cfg.RebalanceTimeout, Heartbeat: n.cfg.GroupHeartbeat, Lease: held,
		Topics: n.cfg.reads(),
		Plan:   assign.Options{Standbys: n.cfg.standbys(), AcceptableLag: n.cfg.AcceptableLag, MaxWarmups: n.cfg.MaxWarmups},
		Tasks:  up.tasks.planned,
		Inputs: up.tasks.inputs,
		Owned:  up.worker.claims,
		Lags:   func() map[metadata.TaskID]int64 { return up.replicas.taskLags(time.Now()) },
		Assigned: func(a *group.Membership) {
			if n.cfg.Replica != nil {
				a = withoutActives(a)
			}
			hm := up.tasks.hostMap(a.Assignment, a.Generation)
			up.hosts.Store(&hm)
			up.awaited.Store(&a.Given.Awaited)
			up.staying.Store(othersStaying(a.Assignment, metadata.NodeID(n.cfg.NodeID)))
			up.worker.assigned(a)
			n.setServices(healthpb.HealthCheckResponse_SERVING)
			n.roles.announce()
			n.words.changed.announce() // what was said of somebody may be said of a member now
		},
		Lost:     up.worker.lost,
		Announce: n.news.announce,
		Counts:   &n.cfg.work.Group,
		Memory:   &memory{path: filepath.Join(n.cfg.StateDir, membershipFile), group: n.group, log: n.log},
	})
}

// othersStaying counts the members beside self that do not drain.
func othersStaying(m assign.Map, self metadata.NodeID) int32 {
	var others int32
	for _, h := range m.Hosts {
		if h.Node != self && !h.Draining {
			others++
		}
	}
	return others
}

func (n *Node) hostMap() *metadata.HostMap {
	if up := n.up.Load(); up != nil {
		return up.hosts.Load()
	}
	return nil
}

// storesVersion changes with what StoreInfos tells; 0 while there is nothing to tell.
func (n *Node) storesVersion() int64 {
	if up := n.up.Load(); up != nil {
		return 1 + up.version.Load()
	}
	return 0
}

func (n *Node) replicaList() []*replica {
	if up := n.up.Load(); up != nil {
		return up.replicas.list()
	}
	return nil
}

// watchAwaited asks for a rebalance when a replica that has a better use once it has caught up has done so. (Kafka
// Streams probes by the clock instead, every ten minutes.)
func (n *Node) watchAwaited(ctx context.Context, up *running) error {
	tick := time.NewTicker(n.cfg.LagSampleInterval)
	defer tick.Stop()
	var asked *[]metadata.TaskID
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		awaited := up.awaited.Load()
		if awaited == nil || len(*awaited) == 0 || awaited == asked {
			continue
		}
		lags := up.replicas.taskLags(time.Now())
		for _, id := range *awaited {
			if lag, ok := lags[id]; ok && lag != metadata.LagUnknown && lag <= n.cfg.AcceptableLag {
				asked = awaited // once for each assignment
				up.member.Rejoin()
				break
			}
		}
	}
}
