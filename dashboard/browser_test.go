//go:build browser

package dashboard_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/iqgate/iqgate/dashboard"
	"github.com/iqgate/iqgate/dashboard/dashboardtest"
	"github.com/iqgate/iqgate/metadata"
)

// fleet is a cluster that is not there: it has the view that nodes' reports would make, and moves at each interval.
type fleet struct {
	nodes, stores, partitions int
	every                     time.Duration
	troubled                  bool // one node restores, one is silent
	view                      *metadata.View
	sequence                  int64
	asked                     atomic.Int64
}

func (f *fleet) report(node int) metadata.Report {
	id := fmt.Sprintf("node-%02d", node)
	r := metadata.Report{
		Node: metadata.NodeID(id), Application: "flights", Address: id + ".flights.svc:7070", Rack: "rack-" + string(rune('a'+node%3)), Incarnation: 1,
		Sequence: f.sequence, Full: true, Generation: 17, Draining: f.troubled && node == 4,
	}
	slot := 0
	for s := range f.stores {
		name := []string{"by-dest", "by-carrier", "by-tail", "by-origin"}[s%4]
		if s >= 4 {
			name += "-" + strconv.Itoa(s/4)
		}
		r.Stores = append(r.Stores, metadata.StoreInfo{
			Name: name, Kind: "keyvalue", KeySerde: "string", ValueSerde: "int64", Partitioner: "murmur2", Partitions: int32(f.partitions),
		})
		for p := range f.partitions {
			for role := range min(3, f.nodes) {
				if (slot+role*7)%f.nodes == node {
					r.Replicas = append(r.Replicas, f.replica(name, p, role, node, slot))
				}
			}
			slot++
		}
	}
	return r
}

func (f *fleet) replica(store string, p, role, node, slot int) metadata.Replica {
	end := int64(100_000 + slot*13 + int(f.sequence)*40)
	behind := int64((slot*31 + role*17 + int(f.sequence)*5) % 40)
	r := metadata.Replica{
		Partition: metadata.Partition{Store: store, Partition: int32(p)}, Role: metadata.RoleStandby, State: metadata.StateRunning, Generation: 17,
		Lag: metadata.LagInfo{Position: end - behind, End: end, Offsets: behind, Time: 120 * time.Millisecond},
	}
	if role == 0 {
		r.Role, r.LeaseValid, r.Lag = metadata.RoleActive, true, metadata.LagInfo{Position: end, End: end}
	}
	if !f.troubled {
		return r
	}
	switch {
	case node == 2 && role > 0:
		r.State, r.Lag.Position, r.Lag.Time = metadata.StateRestoring, int64(slot)*1000+f.sequence*(700+100*int64(slot%3)), time.Hour
		r.Lag.Offsets = end - r.Lag.Position
		if slot%5 == 0 {
			r.Role = metadata.RoleWarmup
		}
	case slot%9 == 3 && role > 0:
		r.Lag.Position, r.Lag.Offsets, r.Lag.Time = end-1830, 1830, 4*time.Second
	case slot%11 == 6 && role > 0:
		r.Lag.Position, r.Lag.Offsets, r.Lag.Time = end-73_500, 73_500, 95*time.Second
	case slot%13 == 5 && role > 0:
		r.State = metadata.StateSuspended
	}
	return r
}

// next is the view a moment later. In trouble, the last node but one is silent, and the last one gone.
func (f *fleet) next() *metadata.View {
	now := time.Now()
	if f.view == nil {
		f.view = metadata.NewView(metadata.Limits{})
	}
	f.sequence++
	for n := range f.nodes {
		at := now.Add(-time.Duration(30+n*7%60) * time.Millisecond)
		if f.troubled && n >= f.nodes-2 {
			if f.sequence > 1 {
				continue
			}
			at = now.Add(-time.Duration(n-f.nodes+3) * time.Second * 1)
		}
		if v, err := f.view.Apply(f.report(n), at); err == nil {
			f.view = v
		}
	}
	f.view = f.view.Expire(now)
	return f.view
}

func (f *fleet) serve(tb testing.TB) string {
	tb.Helper()
	return f.serveTo(tb, nil)
}

// serveTo serves whom authorize lets see it.
func (f *fleet) serveTo(tb testing.TB, authorize func(r *http.Request, store string) error) string {
	tb.Helper()
	current := atomic.Pointer[metadata.View]{}
	current.Store(f.next())
	d, err := dashboard.New(dashboard.Config{
		View: current.Load, Logger: slog.New(slog.DiscardHandler), Reads: f, Authorize: authorize,
		Router: func() dashboard.Router {
			return dashboard.Router{Name: "router-1:7000", Version: "v1.4.0", DefaultPolicy: "active"}
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(d)
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(f.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				current.Store(f.next())
			case <-ended:
				return
			}
		}
	}()
	tb.Cleanup(func() {
		close(ended)
		d.Close()
		server.Close()
	})
	return server.URL
}

// Counts grow each time that they are asked for.
func (f *fleet) Counts() dashboard.Counts {
	n := f.asked.Add(1)
	return dashboard.Counts{Active: n * 2100, Copies: n * 380, Stale: n * 90, FailedOver: n * 3, Failed: n, Refused: map[string]int64{"NO_ACTIVE": n * 40, "STALE": n * 9}}
}

// Recent is one read of each kind.
func (*fleet) Recent() []dashboard.Read {
	now := time.Now().UnixMilli()
	return []dashboard.Read{
		{Sequence: 1, AtMs: now - 4000, Store: "by-dest", Partition: 3, Policy: "active", Node: "node-00", Role: "active", Found: true, TookMs: 0.41, Sampled: true},
		{Sequence: 2, AtMs: now - 3000, Store: "by-tail", Partition: 1, Policy: "any max_staleness=5s", Node: "node-01", Role: "standby", Found: true, Offsets: 12, LagMs: 180, TookMs: 1.2, Attempts: []dashboard.Attempt{
			{Node: "node-03", Message: "the connection broke", TookMs: 0.8},
		}},
		{Sequence: 3, AtMs: now - 2000, Store: "by-carrier", Partition: 5, Policy: "any max_staleness=1s", Reason: "STALE", Message: "by-carrier/5: no replica is within max_staleness 1s; the best is node-02, 4.0s behind", Offsets: -1, LagMs: -1, TookMs: 0.2},
		{Sequence: 4, AtMs: now - 1000, Store: "by-dest", Partition: 6, Policy: "strong", Reason: "NO_ACTIVE", Message: "by-dest/6: no active is running under a lease; try again in 200ms", Offsets: -1, LagMs: -1, TookMs: 0.2},
	}
}

// TestTroubleIsSeen: each kind of trouble is in the page's words, in both themes and at each width, readable and named.
func TestTroubleIsSeen(t *testing.T) {
	f := &fleet{nodes: 6, stores: 3, partitions: 8, every: 100 * time.Millisecond, troubled: true}
	p := dashboardtest.Open(t, f.serve(t), 1440, 1000)
	p.Until(`document.querySelectorAll(".cell").length === 72`)
	p.Until(`document.querySelector(".restore .eta")?.textContent.endsWith("to go") ?? false`)
	p.Until(`document.querySelector("tr[data-state=dead]") !== null`)
	for _, want := range []string{"draining", "to go", "no active", "refused", "NO_ACTIVE", "suspended", "node-03 failed"} {
		if !dashboardtest.Eval[bool](p, `document.body.innerText.toLowerCase().includes(`+strconv.Quote(want)+`.toLowerCase())`) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, name := range p.Unnamed() {
		t.Errorf("without a name: %s", name)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.Prefer(scheme)
		for _, text := range p.LowContrast() {
			t.Errorf("%s: hard to read: %s", scheme, text)
		}
		p.Screenshot("trouble-"+scheme, true)
		for _, width := range []int64{360, 768, 1920} {
			p.Resize(width, 900)
			if over := dashboardtest.Eval[int64](p, `document.documentElement.scrollWidth`); over > width {
				t.Errorf("%s: at %dpx it is %dpx wide", scheme, width, over)
			}
			p.Screenshot(fmt.Sprintf("trouble-%s-%d", scheme, width), true)
		}
		p.Resize(1440, 1000)
	}
	p.CheckQuiet()
}

// TestWhatIsLookedForIsSeenAlone: what needs attention, and what a node holds, by keys.
func TestWhatIsLookedForIsSeenAlone(t *testing.T) {
	f := &fleet{nodes: 12, stores: 3, partitions: 8, every: 100 * time.Millisecond, troubled: true}
	p := dashboardtest.Open(t, f.serve(t), 1440, 1000)
	p.Until(`document.querySelectorAll(".part").length === 24 && document.querySelector("tr[data-state=dead]") !== null`)
	p.TabTo(`e.id === "attention"`)
	p.Key(" ")
	p.Until(`(() => {
		const shown = [...document.querySelectorAll(".part")].map((e) => !e.hidden);
		const troubled = [...document.querySelectorAll(".part")].map((e) => e.dataset.status !== "served" || e.querySelector(".cell:not([data-grade=fresh]), .cell.suspect") !== null);
		return shown.includes(true) && shown.includes(false) && shown.every((is, i) => is === troubled[i]);
	})()`)
	p.Key(" ")
	p.Until(`document.querySelectorAll(".part:not([hidden])").length === 24`)
	p.Do(chromedp.Focus(chromedp.CSS("tr[data-node=node-03] .node-name")))
	p.Key(kb.Enter)
	p.Until(`[...document.querySelectorAll(".part")].every((e) => !e.hidden === (e.querySelector("[data-node=node-03]") !== null))`)
	if dim := dashboardtest.Eval[int](p, `document.querySelectorAll(".part:not([hidden]) .cell[data-node=node-03].dim, .part:not([hidden]) .cell:not([data-node=node-03]):not(.dim)").length`); dim > 0 {
		t.Errorf("%d cells are dim that should not be, or the other way round", dim)
	}
	p.Screenshot("one-node", true)
	p.CheckQuiet()
}

// TestATokenIsAskedForAndSeen by who checks requests; who may not see the page is told so in words.
func TestATokenIsAskedForAndSeen(t *testing.T) {
	f := &fleet{nodes: 3, stores: 1, partitions: 8, every: 100 * time.Millisecond}
	p := dashboardtest.Open(t, f.serveTo(t, func(r *http.Request, _ string) error {
		switch r.Header.Get("Authorization") {
		case "Bearer friend":
			return nil
		case "Bearer stranger":
			return &dashboard.RefusedError{Status: http.StatusForbidden, Refusal: dashboard.Refusal{Reason: "PERMISSION_DENIED", Message: "not allowed: metadata of all stores"}}
		}
		return &dashboard.RefusedError{Status: http.StatusUnauthorized, Refusal: dashboard.Refusal{Reason: "UNAUTHENTICATED", Message: "no credentials were given"}}
	}), 1440, 1000)
	p.ExpectTrouble(true) // the browser logs the statuses
	p.Until(`document.getElementById("signin").open && document.getElementById("signin-why").textContent === "no credentials were given"`)
	p.Forgive()
	p.Screenshot("signin", false)
	p.Key("stranger")
	p.Key(kb.Enter)
	p.Until(`document.getElementById("banner").textContent.includes("not allowed: metadata of all stores") && document.getElementById("connection").textContent === "Refused"`)
	p.Do(chromedp.Evaluate[chromedp.Void](`sessionStorage.setItem("iqgate-token", "friend")`))
	p.Until(`document.getElementById("connection").textContent === "Live" && document.querySelectorAll(".cell").length === 24`)
	p.CheckQuiet()
}

// TestAThousandPartitionsAreWalkedByKeys, filtered and seen in detail.
func TestAThousandPartitionsAreWalkedByKeys(t *testing.T) {
	f := &fleet{nodes: 50, stores: 10, partitions: 100, every: time.Second}
	p := dashboardtest.Open(t, f.serve(t), 1920, 1080)
	p.Until(`document.querySelectorAll(".cell").length === 3000`)
	p.Screenshot("large-light", false)
	p.Prefer("dark")
	p.Screenshot("large-dark", false)
	p.Prefer("light")
	p.TabTo(`e.classList.contains("cell")`)
	focus := func(want string) {
		t.Helper()
		got := dashboardtest.Eval[string](p, `(e => e.closest(".part").dataset.store + "/" + e.closest(".part").dataset.number + " " + [...e.parentElement.querySelectorAll(".cell")].indexOf(e))(document.activeElement)`)
		if got != want {
			t.Errorf("the focus is at %s, not at %s", got, want)
		}
	}
	first := dashboardtest.Eval[string](p, `document.querySelector(".part").dataset.store`)
	focus(first + "/0 0")
	columns := dashboardtest.Eval[int](p, `getComputedStyle(document.querySelector(".grid")).gridTemplateColumns.split(" ").length`)
	for _, step := range []struct{ key, want string }{
		{kb.ArrowRight, "/1 0"},
		{kb.ArrowDown, "/1 1"},
		{kb.ArrowDown, "/1 2"},
		{kb.ArrowDown, "/" + strconv.Itoa(columns+1) + " 0"},
		{kb.ArrowUp, "/1 2"},
		{kb.ArrowLeft, "/0 2"},
		{kb.ArrowLeft, "/0 2"},
		{kb.End, "/99 0"},
		{kb.Home, "/0 0"},
	} {
		p.Key(step.key)
		focus(first + step.want)
	}
	second := dashboardtest.Eval[string](p, `document.querySelectorAll(".store .part[data-number='0']")[1].dataset.store`)
	p.Key(kb.PageDown)
	focus(second + "/0 0")
	p.Key(kb.ArrowLeft)
	focus(first + "/99 0")
	p.Key(kb.Enter)
	p.Until(`document.querySelectorAll("#detail[open] .replica").length === 3`)
	p.Screenshot("detail", false)
	p.Key(kb.Escape)
	p.Until(`!document.getElementById("detail").open`)
	focus(first + "/99 0")

	p.Do(chromedp.Focus(chromedp.CSS("#filter")))
	p.Key("by-tail/7")
	p.Until(`document.querySelectorAll(".part:not([hidden])").length === 11`)
	p.Key(kb.Escape) // a search field empties itself
	p.Until(`document.querySelectorAll(".part:not([hidden])").length === 1000`)
	p.CheckQuiet()
}

// BenchmarkBrowser measures the work of the page's main thread until it has drawn its first snapshot, and for each second of
// changes of every replica.
func BenchmarkBrowser(b *testing.B) {
	for _, f := range []*fleet{
		{nodes: 3, stores: 3, partitions: 8, every: 100 * time.Millisecond}, {nodes: 50, stores: 10, partitions: 100, every: 250 * time.Millisecond},
	} {
		b.Run(fmt.Sprintf("nodes=%d/partitions=%d", f.nodes, f.stores*f.partitions), func(b *testing.B) {
			address := f.serve(b)
			var first, busy float64
			for b.Loop() {
				p := dashboardtest.Open(b, address, 1920, 1080)
				p.Until(`performance.getEntriesByName("first draw").length > 0`)
				before := p.TaskSeconds()
				first += before
				began := time.Now()
				p.Until(`performance.now() - performance.getEntriesByName("first draw")[0].startTime > 5000`)
				busy += (p.TaskSeconds() - before) / time.Since(began).Seconds()
			}
			b.ReportMetric(first/float64(b.N)*1000, "load-ms")
			b.ReportMetric(busy/float64(b.N)*1000, "busy-ms/s")
		})
	}
}
