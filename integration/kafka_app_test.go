//go:build kafka

package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	// pollEvery is the pause of every loop that waits for something to become true.
	pollEvery = 20 * time.Millisecond
	// askTimeout bounds one question to a process that may be dead, paused or cut off.
	askTimeout = 2 * time.Second
	// logTailLines of each process are shown when a test fails.
	logTailLines = 60
)

// quickGroup has the group notice a dead node within 3 s; the lease follows from it.
var quickGroup = []string{"--session-timeout", "3s", "--rebalance-timeout", "2s", "--lease", "1s"}

// Topologies; APP stands for the application's name.
const (
	// tableYAML keeps the last value of each key of APP-in in the store "table".
	tableYAML = `
application: APP
sources:
  - {topic: APP-in, format: raw, value_serde: string}
tables:
  - {store: table, source: APP-in}
`
	// countYAML counts the records of each key of APP-in in the store "counts", and tells every change.
	countYAML = `
application: APP
sources:
  - {topic: APP-in, format: raw, value_serde: string}
aggregates:
  - {store: counts, source: APP-in, count: true, output: APP-out}
`
	// sumsYAML counts and adds rows by their group, through repartition topics, and tells every change.
	sumsYAML = `
application: APP
sources:
  - {topic: APP-in, format: csv, columns: [group, n]}
aggregates:
  - {store: counts, source: APP-in, group_by: group, count: true, output: APP-out}
  - {store: sums, source: APP-in, group_by: group, sum: n}
`
)

// app is one application on the shared broker: its topics, its nodes and routers, all with names of their own.
type app struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // the test's
	name    string
	dir     string
	file    string // of the topology, or of what is followed
	follows bool   // file is for --replica
	kafka   *kgo.Client
	admin   *kadm.Client
	flags   []string // of every node
	nodes   map[string]*server
	routers []*server // the nodes that start later report to them
}

// newApp makes an application with the given topics, named without the application's name. Flags are every node's.
func newApp(t *testing.T, yaml string, topics map[string]int32, flags ...string) *app {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kafkaTestTimeout)
	t.Cleanup(cancel)
	startBroker(ctx, t)
	a := &app{
		t: t, ctx: ctx, name: "app-" + uuid.NewString()[:8], dir: t.TempDir(), nodes: make(map[string]*server),
		flags: append(quickGroup, flags...),
	}
	a.file = filepath.Join(a.dir, "topology.yaml")
	if err := os.WriteFile(a.file, []byte(strings.ReplaceAll(yaml, "APP", a.name)), 0o600); err != nil {
		t.Fatal(err)
	}
	a.kafka = a.client(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	a.admin = kadm.NewClient(a.kafka)
	for name, partitions := range topics {
		a.createTopic(name, partitions, nil)
	}
	return a
}

// topic is the full name of a topic of the application.
func (a *app) topic(name string) string { return a.name + "-" + name }

func (a *app) createTopic(name string, partitions int32, configs map[string]string) {
	a.t.Helper()
	all := make(map[string]*string, len(configs))
	for k, v := range configs {
		all[k] = &v
	}
	if _, err := a.admin.CreateTopic(a.ctx, partitions, 1, all, a.topic(name)); err != nil {
		a.t.Fatal(err)
	}
}

// client is a Kafka client of the test's own.
func (a *app) client(opts ...kgo.Opt) *kgo.Client {
	a.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(shared.broker.Addr()), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(cl.Close)
	return cl
}

// write produces key=value pairs to a topic, in order, and waits until all are there; "null" is a tombstone.
func (a *app) write(cl *kgo.Client, topic string, kvs ...string) {
	a.t.Helper()
	var recs []*kgo.Record
	for kv := range slices.Chunk(kvs, 2) {
		rec := &kgo.Record{Topic: a.topic(topic), Key: []byte(kv[0]), Value: []byte(kv[1])}
		if kv[1] == "null" {
			rec.Value = nil
		}
		recs = append(recs, rec)
	}
	if err := cl.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
}

// eventually calls f until it returns nil, and fails the test after limit.
func (a *app) eventually(limit time.Duration, what string, f func() error) {
	a.t.Helper()
	began := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			a.t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			a.t.Fatalf("%s: %v: %v", what, a.ctx.Err(), err)
		}
	}
}

// pause lets time pass: what the test is about needs it.
func (a *app) pause(d time.Duration) {
	a.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
		a.t.Fatal(a.ctx.Err())
	}
}

// server is one node or router of an application. It keeps its address, and a node its state directory, over restarts.
type server struct {
	*process.Process
	*client.Client // asks this server

	app     *app
	program string
	id      string
	address string
}

// start starts a node.
func (a *app) start(id string) *server {
	a.t.Helper()
	n := a.serve("iqnode", id)
	a.nodes[id] = n
	return n
}

// startRouter starts a router.
func (a *app) startRouter(id string) *server {
	a.t.Helper()
	r := a.serve("iqrouter", id)
	a.routers = append(a.routers, r)
	return r
}

func (a *app) serve(program, id string) *server {
	a.t.Helper()
	address, err := process.Address()
	if err != nil {
		a.t.Fatal(err)
	}
	s := &server{app: a, program: program, id: id, address: address, Client: a.ask(address)}
	s.run()
	a.t.Cleanup(func() {
		s.Kill()
		s.showLog()
	})
	return s
}

// ask is a client of the given routers or nodes.
func (a *app) ask(targets ...string) *client.Client {
	a.t.Helper()
	cl, err := client.New(targets, client.WithTimeout(askTimeout))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// run starts the server's process, again after it has ended. env is added to its environment.
func (s *server) run(env ...string) {
	a := s.app
	a.t.Helper()
	p, err := process.Start(process.Spec{
		Path: program(a.ctx, a.t, s.program), Args: s.arguments(), Env: env, Log: filepath.Join(a.dir, s.id+".log"),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	s.Process = p
}

func (s *server) arguments() []string {
	a := s.app
	if s.program == "iqrouter" {
		return []string{"--name", s.id, "--listen", s.address}
	}
	what := "--topology"
	if a.follows {
		what = "--replica"
	}
	args := append([]string{
		"--node-id", s.id, "--brokers", shared.broker.Addr(), what, a.file, "--state-dir", filepath.Join(a.dir, s.id),
		"--listen", s.address,
	}, a.flags...)
	if routers := a.routerAddresses(); len(routers) > 0 {
		args = append(args, "--routers", strings.Join(routers, ","))
	}
	return args
}

func (a *app) routerAddresses() []string {
	var addresses []string
	for _, r := range a.routers {
		addresses = append(addresses, r.address)
	}
	return addresses
}

// stop ends the server in order.
func (s *server) stop() {
	s.app.t.Helper()
	if err := s.Stop(); err != nil {
		s.app.t.Fatalf("%s: %v", s.id, err)
	}
}

// showLog shows the end of the log of a server whose test has failed.
func (s *server) showLog() {
	if !s.app.t.Failed() {
		return
	}
	text, err := s.Log()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	s.app.t.Logf("the end of the log of %s (%v):\n%s", s.id, err, strings.Join(lines[max(0, len(lines)-logTailLines):], "\n"))
}

// dropped waits until the group has noticed that the node is silent and goes on without it.
func (s *server) dropped() {
	s.app.t.Helper()
	s.app.eventually(20*time.Second, "the group goes on without "+s.id, func() error {
		groups, err := s.app.admin.DescribeGroups(s.app.ctx, s.app.name)
		if err == nil {
			err = groups.Error()
		}
		if err != nil {
			return err
		}
		for _, m := range groups[s.app.name].Members {
			if m.InstanceID != nil && *m.InstanceID == s.id {
				return fmt.Errorf("it is a member of the group in state %s", groups[s.app.name].State)
			}
		}
		return nil
	})
}

// logs waits until the server has printed text.
func (s *server) logs(limit time.Duration, text string) {
	s.app.t.Helper()
	s.app.eventually(limit, s.id+" says "+text, func() error {
		log, err := s.Log()
		if err == nil && !strings.Contains(log, text) {
			err = errors.New("it does not")
		}
		return err
	})
}

// status is the node's replica of the application's only store partition.
func (s *server) status() (*iqv1.ReplicaStatus, error) {
	ctx, cancel := context.WithTimeout(s.app.ctx, askTimeout)
	defer cancel()
	replicas, err := s.Lags(ctx, "")
	if err != nil {
		return nil, err
	}
	if len(replicas) != 1 {
		return nil, fmt.Errorf("%d replicas", len(replicas))
	}
	return replicas[0], nil
}

// is waits until the node's only replica has the role and runs.
func (s *server) is(role iqv1.Role) {
	s.app.t.Helper()
	s.app.eventually(30*time.Second, s.id+" is "+role.String(), func() error {
		st, err := s.status()
		if err == nil && (st.GetRole() != role || st.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING) {
			err = errors.New(st.String())
		}
		return err
	})
}

// at waits until the node's only replica is at a position, and says that it is this far behind.
func (s *server) at(position, lag int64) *iqv1.ReplicaStatus {
	s.app.t.Helper()
	var st *iqv1.ReplicaStatus
	s.app.eventually(30*time.Second, fmt.Sprintf("%s is at position %d, lag %d", s.id, position, lag), func() (err error) {
		st, err = s.status()
		if err == nil && (st.GetPosition() != position || st.OffsetLag == nil || st.GetOffsetLag() != lag) {
			err = errors.New(st.String())
		}
		return err
	})
	return st
}

// pair starts a node that becomes the active of the only partition, and then one that becomes its standby.
func (a *app) pair() (active, standby *server) {
	a.t.Helper()
	active = a.start("a")
	active.is(iqv1.Role_ROLE_ACTIVE)
	standby = a.start("b")
	standby.is(iqv1.Role_ROLE_STANDBY)
	return active, standby
}

// read reads a key of the store "table"; absent is "absent".
func (a *app) read(from *client.Client, key string, opts ...client.ReadOption) (string, client.Result, error) {
	ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
	defer cancel()
	res, err := from.Get(ctx, "table", []byte(key), opts...)
	switch {
	case err != nil:
		return "", res, err
	case !res.Found:
		return "absent", res, nil
	}
	return string(res.Value), res, nil
}

// expect reads keys of the store "table"; pairs of key and value, "absent" for none.
func (s *server) expect(policy client.ReadOption, kvs ...string) {
	s.app.t.Helper()
	for kv := range slices.Chunk(kvs, 2) {
		got, _, err := s.app.read(s.Client, kv[0], policy, client.Wait(time.Second))
		if err != nil {
			s.app.t.Fatalf("%.40q at %s: %v", kv[0], s.id, err)
		}
		if got != kv[1] {
			s.app.t.Fatalf("%.40q at %s is %.40q, want %.40q", kv[0], s.id, got, kv[1])
		}
	}
}

// becomes waits until a read of a key of the store "table" gives value.
func (s *server) becomes(policy client.ReadOption, key, value string) {
	s.app.t.Helper()
	s.app.eventually(30*time.Second, fmt.Sprintf("%.40q at %s is %.40q", key, s.id, value), func() error {
		got, _, err := s.app.read(s.Client, key, policy)
		if err == nil && got != value {
			err = fmt.Errorf("it is %.40q", got)
		}
		return err
	})
}

// number reads a number of a store, 0 for a key that is absent.
func (a *app) number(from *client.Client, store, key string, opts ...client.ReadOption) (int64, error) {
	ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
	defer cancel()
	res, err := from.Get(ctx, store, []byte(key), opts...)
	switch {
	case err != nil:
		return 0, err
	case !res.Found:
		return 0, nil
	case len(res.Value) != 8:
		return 0, fmt.Errorf("%q is no int64", res.Value)
	}
	return int64(binary.BigEndian.Uint64(res.Value)), nil // Java's big-endian long
}

// sumsTo waits until strong reads give exactly these numbers of a store. One that is too large fails at once: it would
// never become right.
func (a *app) sumsTo(limit time.Duration, store string, want map[string]int64) {
	a.t.Helper()
	began := time.Now()
	for key, n := range want {
		a.eventually(limit-time.Since(began), fmt.Sprintf("%s of %s is %d", store, key, n), func() error {
			var errs []error
			for _, node := range a.nodes {
				if !node.Alive() {
					continue
				}
				got, err := a.number(node.Client, store, key, client.Strong())
				switch {
				case err == nil && got == n:
					return nil
				case err == nil && got > n:
					a.t.Fatalf("%s of %s is %d at %s, want %d: doubled", store, key, got, node.id, n)
				case err == nil:
					err = fmt.Errorf("it is %d at %s", got, node.id)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
	}
}

// readAll reads a topic to its end, as read_committed unless opts say otherwise.
func (a *app) readAll(topic string, opts ...kgo.Opt) []*kgo.Record {
	a.t.Helper()
	cl := a.client(append([]kgo.Opt{
		kgo.ConsumeTopics(a.topic(topic)), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100 * time.Millisecond),
	}, opts...)...)
	defer cl.Close()
	ends, err := a.admin.ListEndOffsets(a.ctx, a.topic(topic))
	if err != nil {
		a.t.Fatal(err)
	}
	open := make(map[int32]bool)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[o.Partition] = true
		}
	})
	var recs []*kgo.Record
	for len(open) > 0 {
		fetches := cl.PollFetches(a.ctx)
		if err := fetches.Err(); err != nil {
			a.t.Fatal(err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if !r.Attrs.IsControl() {
					recs = append(recs, r)
				}
				if o, ok := ends.Lookup(r.Topic, r.Partition); ok && r.Offset+1 >= o.Offset {
					delete(open, r.Partition)
				}
			}
		})
	}
	return recs
}
