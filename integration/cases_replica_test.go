//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// javaTopics are the changelogs of the Java application whose records testdata holds, with the configuration that Kafka
// Streams gives them: two minutes of windows and sessions, five of versions.
var javaTopics = map[string]map[string]string{
	"counts": {"cleanup.policy": "compact"},
	"win":    {"cleanup.policy": "compact,delete", "retention.ms": "86520000"},
	"sess":   {"cleanup.policy": "compact,delete", "retention.ms": "86520000"},
	"ver":    {"cleanup.policy": "compact", "min.compaction.lag.ms": "86700000"},
	"tab":    {"cleanup.policy": "compact"},
}

// newFollowed has the application's topics and nobody of iqgate yet. The application is "app", its input "in".
func newFollowed(t *testing.T, routers ...string) *fixture {
	t.Helper()
	const partitions = 3
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": partitions}, Topology: kinds, Routers: routers, Log: verboseLog(t)})
	f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	f.adm = kadm.NewClient(f.cl)
	for name, configs := range javaTopics {
		all := make(map[string]*string, len(configs))
		for k, v := range configs {
			all[k] = &v
		}
		if _, err := f.adm.CreateTopic(f.ctx, partitions, 1, all, "app-"+name+"-changelog"); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// following makes a node one in replica mode. What the topics tell is not configured.
func following(replicas int, edit ...func(*follow.Config)) func(*nodeConfig) {
	return func(cfg *nodeConfig) {
		c := &follow.Config{Application: "app", Replicas: replicas, Stores: []follow.Store{
			{Name: "counts", KeySerde: "string", ValueSerde: "int64", Inputs: []string{"in"}},
			{Name: "win", Kind: "window", WindowSize: time.Minute},
			{Name: "sess", Kind: "session"},
			{Name: "ver"},
			{Name: "tab"},
		}}
		for _, e := range edit {
			e(c)
		}
		cfg.Topology, cfg.Replica = nil, c
	}
}

// javaState is what the stores show once everything that Java wrote is applied (S21 to S24).
var javaState = []struct{ what, store, want string }{
	{"counts", "counts", "alice=4 bob=1"},
	{"windows", "win", "alice[0,60000]=3 alice[60000,120000]=1 bob[0,60000]=1"},
	{"sessions", "sess", "alice[0,60000]=4 bob[20000,20000]=1"},
	{"table", "tab", "=emptykey ev= k0=v0 k1=v1 k10=v10 k11=v11 k2=v2 k4=v4 k5=late-but-last k6=v6 k7=v7 k8=v8 k9=v9"},
	{"latest versions", "ver", "q[-90000]=1"},
}

func (f *fixture) expectJava(n *bubble.Node) {
	f.t.Helper()
	for _, s := range javaState {
		f.expectScan(n, s.what, scanOf(s.store), s.want)
	}
	for asOf, want := range map[int64]string{
		-1: "miss", 0: "10", 49999: "10", 50000: "11", 99999: "11", 100000: "12", 199999: "12", 200000: "miss",
	} {
		f.expectAsOf(n, "p", asOf, want)
	}
}

// logEnds are the ends of all topics but the broker's own.
func (f *fixture) logEnds() map[string]int64 {
	f.t.Helper()
	listed, err := f.adm.ListEndOffsets(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	ends := make(map[string]int64)
	listed.Each(func(o kadm.ListedOffset) {
		if !strings.HasPrefix(o.Topic, "__") {
			ends[fmt.Sprintf("%s-%d", o.Topic, o.Partition)] = o.Offset
		}
	})
	return ends
}

// Two nodes in replica mode hold a copy each of what a Java application has written; node and router show it under every
// policy that tolerates staleness, refuse the others and say why, and nobody has written anything or joined the
// application's group.
func TestReplicaModeServesAJavaApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "r1")
		defer f.close()
		f.writeJava("counts", "win", "sess", "ver", "tab")
		before := f.logEnds()
		rt := f.StartRouter("r1")
		a, b := f.StartNode("a", following(2)), f.StartNode("b", following(2))
		for _, n := range []*bubble.Node{a, b} {
			f.waitAll(n, iqv1.Role_ROLE_STANDBY, 15)
			f.expectJava(n)
		}
		f.Eventually(20*time.Second, "the router knows all copies", func() error {
			resp, err := rt.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
			if err == nil && len(resp.GetReplicas()) != 30 {
				err = fmt.Errorf("%d copies", len(resp.GetReplicas()))
			}
			return err
		})
		for _, s := range javaState {
			for name, p := range map[string]*iqv1.ReadPolicy{"any": anyReplica(), "lag 0": maxLag(0), "staleness": maxStaleness(time.Second)} {
				req := scanOf(s.store)
				req.Policy = p
				rows, _, err := scanAll(f.ctx, rt.Query(), req)
				if got := rowTexts(rows); err != nil || got != s.want {
					t.Errorf("%s under %s: %s, %v", s.what, name, got, err)
				}
			}
		}
		for _, q := range []iqv1.QueryServiceClient{rt.Query(), a.Query()} {
			for _, mode := range []iqv1.ReadPolicy_Mode{iqv1.ReadPolicy_MODE_STRONG, iqv1.ReadPolicy_MODE_ACTIVE} {
				_, err := q.Get(f.ctx, &iqv1.GetRequest{Store: "counts", Key: []byte("alice"), Policy: &iqv1.ReadPolicy{Mode: mode}})
				e, ok := errors.AsType[*iqerr.NoActiveError](iqerr.FromStatus(err))
				if !ok || !e.Followed || e.RetryAfter != 0 || !strings.Contains(e.Error(), "replica mode") {
					t.Errorf("%s gave %v", mode, err)
				}
			}
		}
		stores, err := rt.Metadata().ListStores(f.ctx, &iqv1.ListStoresRequest{})
		if err != nil || len(stores.GetStores()) != 5 {
			t.Fatalf("%v, %v", stores, err)
		}
		for _, s := range stores.GetStores() {
			if !s.GetFollowed() || s.GetName() == "win" && s.GetRetention().AsDuration() != 2*time.Minute || s.GetName() == "ver" && s.GetKind() != "versioned" {
				t.Errorf("a store is told as %v", s)
			}
		}
		if after := f.logEnds(); !maps.Equal(before, after) {
			t.Errorf("something was written: %v, before it was %v", after, before)
		}
		groups, err := f.adm.ListGroups(f.ctx)
		if err != nil || !slices.Equal(groups.Groups(), []string{"app-iqgate"}) {
			t.Errorf("the groups are %v, %v", groups.Groups(), err)
		}
	})
}

// A copy that was stopped at any point of what Java has written goes on from there and ends where all others do.
func TestReplicaModeGoesOnFromAnyCheckpoint(t *testing.T) {
	stores := []string{"counts", "win", "sess", "ver", "tab"}
	var total int
	for _, s := range stores {
		total += len(javaSteps(t, s))
	}
	for cut := range total + 1 {
		t.Run(fmt.Sprintf("cut=%d", cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollowed(t)
				defer f.close()
				w := f.txn("java")
				defer w.Close()
				n, position := 0, make(map[string]int64)
				for _, name := range stores {
					for _, s := range javaSteps(t, name) {
						if n == cut {
							a := f.StartNode("a", following(1))
							f.waitAll(a, iqv1.Role_ROLE_STANDBY, 15)
							a.Stop()
						}
						f.writeStep(w, s)
						position[fmt.Sprintf("%s/%d", name, s.partition)] = s.next
						n++
					}
				}
				a := f.StartNode("a", following(1))
				f.waitAll(a, iqv1.Role_ROLE_STANDBY, 15)
				f.expectJava(a)
				resp, err := a.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range resp.GetReplicas() {
					if want := position[fmt.Sprintf("%s/%d", r.GetStore(), r.GetPartition())]; r.GetPosition() != want || r.GetOffsetLag() != 0 {
						t.Errorf("%v: want position %d, behind its marker, and lag 0", r, want)
					}
				}
			})
		})
	}
}

// The merge of sessions is seen whole (S23), windows go by the stream time of their changelog alone (S25), and time lag
// knows no event time (S26).
func TestReplicaModeKeepsStreamTimeAndTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		defer f.close()
		b := f.StartNode("b", following(1))
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 15)
		w := f.txn("java")
		defer w.Close()
		before := ""
		want := []string{
			"alice[0,0]=1", "alice[0,10000]=2", "alice[0,10000]=2 bob[20000,20000]=1",
			"alice[0,10000]=2 alice[60000,60000]=1 bob[20000,20000]=1", "alice[0,60000]=4 bob[20000,20000]=1",
		}
		for i, s := range javaSteps(t, "sess") {
			f.begin(w)
			for _, rec := range s.records {
				if err := w.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(300 * time.Millisecond) // the tail has looked
				f.expectScan(b, "inside the transaction", scanOf("sess", 0), before)
			}
			f.end(w, kgo.TryCommit)
			f.waitPosition(b, "sess", 0, s.next)
			before = want[i]
			f.expectScan(b, "after the transaction", scanOf("sess", 0), before)
		}

		f.writeJava("win")
		f.waitPosition(b, "win", 0, 10)
		alice := func() *iqv1.ScanRequest {
			return &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "win", Keys: &iqv1.Selection_Key{Key: []byte("alice")}, Partitions: []int32{0}}}
		}
		position := int64(10)
		for _, c := range []struct {
			start int64
			want  string
		}{
			{60000, "alice[0,60000]=3 alice[60000,120000]=1"},
			{119999, "alice[0,60000]=3 alice[60000,120000]=1"},
			{120000, "alice[60000,120000]=1"},
			{0, "alice[60000,120000]=1"}, // an older record does not move it back
			{180000, ""},
		} {
			key, value, ms, err := carolsWindow(t0 + c.start)
			if err != nil {
				t.Fatal(err)
			}
			rec := &kgo.Record{Topic: "app-win-changelog", Key: key, Value: value, Timestamp: time.UnixMilli(ms)}
			if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
			position++
			f.waitPosition(b, "win", 0, position)
			f.expectScan(b, fmt.Sprintf("stream time T+%d", c.start), alice(), c.want)
		}

		time.Sleep(time.Minute)
		resp, err := b.Query().Get(f.ctx, &iqv1.GetRequest{Store: "sess", Key: []byte("alice"), WindowStartMs: new(int64(t0)), SessionEndMs: new(int64(t0 + 60000)), Policy: maxLag(0)})
		if err != nil || resp.GetServed().GetTimeLag() == nil || resp.GetServed().GetTimeLag().AsDuration() > 300*time.Millisecond {
			t.Errorf("idle for a minute: %v, %v", resp, err)
		}
	})
}

// carolsWindow is the changelog record of a window of carol's.
func carolsWindow(start int64) (key, value []byte, ms int64, err error) {
	schema := store.Schema{Kind: store.KindWindow, WindowSize: time.Minute, Retention: 2 * time.Minute}
	return schema.ToChangelog(store.Change{Key: store.WindowKey([]byte("carol"), start), Value: make([]byte, 8), Timestamp: start})
}

// at_least goes by what the application's group has committed: a copy covers it once it has applied all that was in the
// changelog when that was committed.
func TestReplicaModeHonoursAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "r1")
		defer f.close()
		rt := f.StartRouter("r1")
		f.writeJava("counts", "tab")
		a := f.StartNode("a", following(1, func(c *follow.Config) {
			c.Stores[4] = follow.Store{Name: "users", Topic: "app-tab-changelog"} // an application's topic under another name
			c.Stores = append(c.Stores, follow.Store{Name: "inputs", Topic: "in"})
		}))
		f.waitAll(a, iqv1.Role_ROLE_STANDBY, 18)
		ask := func(store string, offset int64) error {
			p := &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY, AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Offset: offset}}}}
			_, err := rt.Query().Get(f.ctx, &iqv1.GetRequest{Store: store, Key: []byte("alice"), Partition: new(int32(0)), Policy: p})
			return iqerr.FromStatus(err)
		}
		f.Eventually(10*time.Second, "the router knows the node", func() error { return ask("counts", 0) })
		if err := ask("counts", 7); !errors.Is(err, iqerr.ErrPositionNotReached) {
			t.Errorf("before anything was committed: %v", err)
		}
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: "in", Partition: 0, At: 7})
		if err := f.adm.CommitAllOffsets(f.ctx, "app", offsets); err != nil {
			t.Fatal(err)
		}
		f.Eventually(10*time.Second, "covered", func() error { return ask("counts", 7) })
		if err := ask("counts", 8); !errors.Is(err, iqerr.ErrPositionNotReached) {
			t.Errorf("beyond what was committed: %v", err)
		}
		// What is followed from the input itself covers what has been read of it.
		if err := ask("inputs", 1); !errors.Is(err, iqerr.ErrPositionNotReached) {
			t.Errorf("of an empty topic: %v", err)
		}
		if err := f.cl.ProduceSync(f.ctx, &kgo.Record{Topic: "in", Key: []byte("alice"), Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f.Eventually(10*time.Second, "covered by the topic itself", func() error { return ask("inputs", 1) })
	})
}

// A node that dies is replaced on another, one that is drained goes when another copy has caught up, and reads go on through
// both. Nobody's transactional id is touched.
func TestReplicaModeLosesAndDrainsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t, "r1")
		defer f.close()
		f.writeJava("counts", "win", "sess", "ver", "tab")
		before := f.logEnds()
		rt := f.StartRouter("r1")
		nodes := make(map[string]*bubble.Node)
		for _, id := range []string{"a", "b", "c"} {
			nodes[id] = f.StartNode(id, following(2))
		}
		copies := func(want int, live ...string) {
			t.Helper()
			f.Eventually(60*time.Second, fmt.Sprintf("%d running copies on %v", want, live), func() error {
				count := make(map[string]int)
				total := 0
				for _, id := range live {
					resp, err := nodes[id].Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
					if err != nil {
						return err
					}
					for _, r := range resp.GetReplicas() {
						if r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING || r.GetRole() == iqv1.Role_ROLE_ACTIVE {
							return errors.New(r.String())
						}
						count[fmt.Sprintf("%s/%d", r.GetStore(), r.GetPartition())]++
						total++
					}
				}
				if total != want || len(count) != 15 {
					return fmt.Errorf("%d copies of %d partitions", total, len(count))
				}
				return nil
			})
		}
		reads := func(what string) {
			t.Helper()
			for _, s := range javaState {
				req := scanOf(s.store)
				req.Policy = maxStaleness(5 * time.Second)
				rows, _, err := scanAll(f.ctx, rt.Query(), req)
				if got := rowTexts(rows); err != nil || got != s.want {
					t.Errorf("%s: %s: %s, %v", what, s.what, got, err)
				}
			}
		}
		copies(30, "a", "b", "c")
		f.Eventually(10*time.Second, "the router knows them", func() error {
			resp, err := rt.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
			if err == nil && len(resp.GetReplicas()) != 30 {
				err = fmt.Errorf("%d copies", len(resp.GetReplicas()))
			}
			return err
		})
		reads("all there")
		nodes["a"].Kill()
		reads("a is dead")
		copies(30, "b", "c")
		reads("a is replaced")
		nodes["a"] = f.StartNode("a", following(2))
		copies(30, "a", "b", "c")
		began := time.Now()
		nodes["b"].Stop()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a drain took %s, so nobody was told that its copies are elsewhere", took)
		}
		reads("b has gone")
		copies(30, "a", "c")
		if after := f.logEnds(); !maps.Equal(before, after) {
			t.Errorf("something was written: %v, before it was %v", after, before)
		}
	})
}
