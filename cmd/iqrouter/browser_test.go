//go:build browser && unix

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/dashboard/dashboardtest"
	"github.com/iqgate/iqgate/integration/process"
	"github.com/iqgate/iqgate/iqerr"
)

// stagePatience bounds the waits for the cluster.
const stagePatience = time.Minute

// stage is a small cluster of real processes: a router, nodes, and a Kafka within the test.
type stage struct {
	*testing.T
	dir, grpc, http string
	routerPath      string
	router          *process.Process
	nodes           map[string]*process.Process
	client          *client.Client
}

const (
	stageNodes      = 3
	stagePartitions = 8
)

func newStage(t *testing.T) *stage {
	t.Helper()
	dashboardtest.Find(t) // before anything is built
	s := &stage{T: t, dir: t.TempDir(), nodes: map[string]*process.Process{}}
	var err error
	if s.routerPath, err = process.Build(t.Context(), s.dir, "iqrouter"); err != nil {
		t.Fatal(err)
	}
	node, err := process.Build(t.Context(), s.dir, "iqnode")
	if err != nil {
		t.Fatal(err)
	}
	brokers := s.kafka()
	topology := filepath.Join(s.dir, "topology.yaml")
	const text = "application: words\nsources: [{topic: words, format: raw}]\naggregates: [{store: counts, source: words, count: true}]\n"
	if err := os.WriteFile(topology, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.grpc, s.http = s.address(), s.address()
	s.startRouter()
	for i := range stageNodes {
		id := "node-" + string(rune('a'+i))
		p, err := process.Start(process.Spec{Path: node, Log: filepath.Join(s.dir, id+".log"), Args: []string{
			"--node-id", id, "--topology", topology, "--brokers", brokers, "--routers", s.grpc, "--state-dir", filepath.Join(s.dir, id),
			"--rack", "rack-" + strconv.Itoa(i+1), "--standbys", "1", "--session-timeout", "6s", "--rebalance-timeout", "5s",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		s.nodes[id] = p
	}
	if s.client, err = client.New([]string{s.grpc}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	s.await("each partition has an active and a standby that run", func() bool {
		held := s.held()
		return len(held) == 2*stagePartitions && !slices.ContainsFunc(held, func(h string) bool { return !strings.HasSuffix(h, "running") })
	})
	return s
}

// kafka is a broker with words in its topic.
func (s *stage) kafka() string {
	s.Helper()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(k.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(cl.Close)
	if _, err := kadm.NewClient(cl).CreateTopic(s.Context(), stagePartitions, 1, nil, "words"); err != nil {
		s.Fatal(err)
	}
	var records []*kgo.Record
	for i := range 2000 {
		records = append(records, &kgo.Record{Topic: "words", Key: fmt.Appendf(nil, "word-%d", i%100), Value: []byte("x")})
	}
	if err := cl.ProduceSync(s.Context(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
	return strings.Join(k.ListenAddrs(), ",")
}

func (s *stage) address() string {
	s.Helper()
	a, err := process.Address()
	if err != nil {
		s.Fatal(err)
	}
	return a
}

func (s *stage) startRouter() {
	s.Helper()
	p, err := process.Start(process.Spec{Path: s.routerPath, Args: []string{"--listen", s.grpc, "--http", s.http, "--name", "router-1"}, Log: filepath.Join(s.dir, "router.log")})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(p.Kill)
	s.router = p
	s.await("the router listens", func() bool {
		c, err := net.DialTimeout("tcp", s.http, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (s *stage) await(what string, is func() bool) {
	s.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(stagePatience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			s.Fatalf("it never came to be: %s", what)
		}
	}
}

// held is what the router tells of the replicas on nodes that live: partition, node, role and state.
func (s *stage) held() []string {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	instances, err := s.client.Instances(ctx, "")
	if err != nil {
		return nil
	}
	var list []string
	for _, in := range instances {
		for _, r := range in.GetReplicas() {
			if in.GetAlive() {
				list = append(list, fmt.Sprintf("%d %s %s %s", r.GetPartition(), in.GetNode(), iqerr.RoleName(r.GetRole()), iqerr.StateName(r.GetState())))
			}
		}
	}
	slices.Sort(list)
	return list
}

// activeOf is the node that is active for a partition.
func (s *stage) activeOf(partition int32) string {
	for _, h := range s.held() {
		if strings.HasPrefix(h, fmt.Sprintf("%d ", partition)) && strings.Contains(h, " active ") {
			return strings.Fields(h)[1]
		}
	}
	return ""
}

// cells is what the page shows of the same, from what its cells say to those who hear it.
const cells = `[...document.querySelectorAll(".cell")].filter((e) => e.dataset.grade !== "dead" && e.dataset.node).map((e) => {
	const words = e.getAttribute("aria-label").split(": ")[1].split(", ");
	return [e.closest(".part").dataset.number, e.dataset.node, words[0].replace("-", ""), words[1]].join(" ");
}).sort()`

// sameAsView waits until the page shows what the router tells.
func (s *stage) sameAsView(p *dashboardtest.Page) {
	s.Helper()
	var shown, held []string
	for range 100 {
		held, shown = s.held(), dashboardtest.Eval[[]string](p, cells)
		if slices.Equal(held, shown) {
			return
		}
		p.Until(`new Promise((done) => setTimeout(() => done(true), 100))`)
	}
	s.Errorf("the page shows\n%s\nand the router tells\n%s", strings.Join(shown, "\n"), strings.Join(held, "\n"))
}

// read reads all the time, so that there is something to see.
func (s *stage) read() {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			options := []client.ReadOption{client.Any()}
			if i%3 == 0 {
				options = []client.ReadOption{client.Active()}
			}
			_, _ = s.client.Get(ctx, "counts", fmt.Appendf(nil, "word-%d", i%100), options...)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	s.Cleanup(func() { cancel(); <-ended })
}

// TestDashboardInABrowser opens the page over a real cluster: it shows what the router tells, answers by keys alone, and
// sees a node pause, die, and the router go and come.
func TestDashboardInABrowser(t *testing.T) {
	s := newStage(t)
	s.read()
	p := dashboardtest.Open(t, "http://"+s.http+"/", 1440, 1000)
	p.Until(`document.querySelectorAll(".cell").length === 16 && document.querySelectorAll("tr[data-state=alive]").length === 3`)
	s.sameAsView(p)
	p.Until(`document.querySelector("#rates .number")?.textContent !== "0/s" && document.querySelectorAll(".decision").length > 0`)
	for _, scheme := range []string{"light", "dark"} {
		p.Prefer(scheme)
		p.Screenshot("cluster-"+scheme, true)
		if got, want := dashboardtest.Eval[string](p, `getComputedStyle(document.body).colorScheme + getComputedStyle(document.documentElement).backgroundColor`), map[string]string{"light": "rgb(246, 246, 244)", "dark": "rgb(18, 19, 20)"}[scheme]; !strings.HasSuffix(got, want) {
			t.Errorf("%s: the ground is %s, not %s", scheme, got, want)
		}
	}
	p.Prefer("light")
	s.themesByKeys(p)
	s.lookUpByKeys(p)
	s.narrow(p)
	p.CheckQuiet()

	// When all nodes hang they are suspect, then dead, and a read is refused with a reason for each replica. They go on, and all is
	// well again.
	for _, node := range s.nodes {
		if err := node.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	p.Until(`document.querySelectorAll("tr[data-state=suspect]").length > 0`)
	p.Until(`document.querySelectorAll("tr[data-state=dead]").length === 3 && document.querySelectorAll(".part[data-status=nobody]").length === 8`)
	s.type_(p, "lookup-key", "word-1")
	p.TabTo(`e.id === "lookup-mode"`)
	p.Key("strong")
	p.TabTo(`e.type === "submit"`)
	p.ExpectTrouble(true) // a refusal is a status of HTTP, and the browser logs it
	p.Key(kb.Enter)
	p.Until(`document.querySelector(".verdict.bad") !== null && document.querySelectorAll(".candidate").length === 2`)
	if got := dashboardtest.Eval[string](p, `document.getElementById("lookup-answer").innerText`); !strings.Contains(got, "NO_REPLICA") || strings.Count(got, "its node is dead: silent for") != 2 {
		t.Errorf("the refusal says\n%s", got)
	}
	p.Screenshot("refused", true)
	p.ExpectTrouble(false)
	for _, node := range s.nodes {
		if err := node.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	p.Until(`document.querySelectorAll("tr[data-state=alive]").length === 3`)
	s.await("every partition has two replicas that run", func() bool { return s.settled(stageNodes) })
	s.sameAsView(p)

	// A node that dies is dead, and what it held moves, in the open page.
	dead := s.activeOf(0)
	s.nodes[dead].Kill()
	p.Until(`document.querySelector("tr[data-node=` + dead + `]").dataset.state !== "alive"`)
	p.Screenshot("killed", true)
	p.Until(`document.querySelector("tr[data-node=` + dead + `]").dataset.state === "dead" && document.getElementById("announce").textContent.includes("` + dead + `")`)
	p.Until(`document.querySelector(".part[data-number='0'] .cell.serves")?.dataset.node !== "` + dead + `" && document.querySelectorAll(".part[data-status=served]").length === 8`)
	s.await("the other two have all", func() bool { return s.settled(stageNodes - 1) })
	s.sameAsView(p)
	p.Screenshot("moved", true)
	p.CheckQuiet()

	// Without its router the page says how old it is, and goes on when there is one again.
	p.ExpectTrouble(true)
	s.router.Kill()
	p.Until(`document.getElementById("connection").textContent === "Connection lost" && /is \d+s old/.test(document.getElementById("banner").textContent)`)
	p.Screenshot("lost", false)
	s.startRouter()
	p.Until(`document.getElementById("connection").textContent === "Live" && document.getElementById("banner").hidden && document.querySelectorAll("tr[data-state=alive]").length === 2`)
	s.sameAsView(p)
	p.CheckQuiet()
}

func (s *stage) settled(nodes int) bool {
	held := s.held()
	on := map[string]bool{}
	for _, h := range held {
		on[strings.Fields(h)[1]] = true
	}
	return len(held) == 2*stagePartitions && len(on) == nodes && !slices.ContainsFunc(held, func(h string) bool { return !strings.HasSuffix(h, "running") })
}

// themesByKeys turns the theme by its button: auto, light, dark, auto.
func (s *stage) themesByKeys(p *dashboardtest.Page) {
	s.Helper()
	p.TabTo(`e.id === "theme"`)
	for _, want := range []string{"light rgb(246, 246, 244)", "dark rgb(18, 19, 20)", "auto rgb(246, 246, 244)"} {
		p.Key(kb.Enter)
		if got := dashboardtest.Eval[string](p, `document.documentElement.dataset.theme + " " + getComputedStyle(document.documentElement).backgroundColor`); got != want {
			s.Errorf("the theme is %s, not %s", got, want)
		}
	}
}

func (s *stage) type_(p *dashboardtest.Page, id, text string) { //nolint:revive // type is a word of Go
	s.Helper()
	p.TabTo(`e.id === "` + id + `"`)
	p.Key("a", chromedp.KeyModifiers(kb.ModifierCtrl))
	p.Key(text)
}

// lookUpByKeys looks keys up with the keyboard alone.
func (s *stage) lookUpByKeys(p *dashboardtest.Page) {
	s.Helper()
	s.type_(p, "lookup-key", "word-1")
	p.Key(kb.Enter)
	p.Until(`document.querySelector(".verdict.good") !== null && document.querySelector(".value").textContent === "20"`)
	if got := dashboardtest.Eval[string](p, `document.activeElement.id`); got != "lookup-answer" {
		s.Errorf("the focus is on %q, not on the answer", got)
	}
	r, err := s.client.Get(s.Context(), "counts", []byte("word-1"))
	if err != nil {
		s.Fatal(err)
	}
	if got := dashboardtest.Eval[string](p, `document.querySelector("#lookup-answer .by strong").textContent`); got != r.Node {
		s.Errorf("%s answered, and the page says %s", r.Node, got)
	}
	if got := dashboardtest.Eval[[]string](p, `[...document.querySelectorAll(".candidate .tag")].map((e) => e.textContent)`); !slices.Equal(got, []string{"answered", "refused"}) {
		s.Errorf("the replicas were %v", got)
	}
	p.Screenshot("answered", true)
	s.type_(p, "lookup-key", "no such word")
	p.Key(kb.Enter)
	p.Until(`document.querySelector(".verdict")?.textContent.startsWith("Not found") ?? false`)
}

// narrow looks at the page as a phone has it.
func (s *stage) narrow(p *dashboardtest.Page) {
	s.Helper()
	for _, width := range []int64{360, 1920} {
		p.Resize(width, 800)
		if got := dashboardtest.Eval[int64](p, `document.documentElement.scrollWidth`); got > width {
			s.Errorf("at %dpx the page is %dpx wide", width, got)
		}
		p.Screenshot(fmt.Sprintf("cluster-%d", width), true)
	}
	p.Resize(1440, 1000)
}
