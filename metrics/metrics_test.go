package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md again")

// world is a node and a router that tests change.
type world struct {
	node   tally.Node
	router tally.Router
	view   *metadata.View
	now    time.Time
}

func newWorld() *world {
	return &world{
		node:   tally.Node{ID: "a", Application: "app", DiskFree: -1, DiskSize: -1, Requests: tally.NewRequests(), Reads: tally.NewReads(), Work: tally.NewWork()},
		router: tally.Router{Name: "r", FreshFor: -1, Routing: tally.NewRouting()},
		view:   metadata.NewView(metadata.Limits{}), now: time.Now(),
	}
}

// registry has the metrics of both, on one registry that checks what collectors say of themselves.
func (w *world) registry(tb testing.TB) *prometheus.Registry {
	tb.Helper()
	r := prometheus.NewPedanticRegistry()
	for _, c := range []prometheus.Collector{
		NewNode(func(time.Time) tally.Node { return w.node }),
		NewRouter(func(time.Time) tally.Router { return w.router }, func() *metadata.View { return w.view }),
		Build{Program: "iqnode", Version: "v1.2.3", Revision: "abc"},
	} {
		if err := r.Register(c); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// lines are the samples of a scrape: name, labels and value.
func (w *world) lines(tb testing.TB) map[string]bool {
	tb.Helper()
	families, err := w.registry(tb).Gather()
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			tb.Fatal(err)
		}
	}
	all := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			all[line] = true
		}
	}
	return all
}

// replica is one in a state.
func replica(partition int32, role metadata.Role, state metadata.State, lag metadata.LagInfo) metadata.Replica {
	return metadata.Replica{Partition: metadata.Partition{Store: "s", Partition: partition}, Role: role, State: state, Lag: lag, LeaseValid: role == metadata.RoleActive}
}

// report folds a report into the view.
func (w *world) report(tb testing.TB, node string, sequence int64, replicas ...metadata.Replica) {
	tb.Helper()
	v, err := w.view.Apply(metadata.Report{
		Node: metadata.NodeID(node), Application: "app", Address: node + ":1", Sequence: sequence, Full: true, Replicas: replicas,
		Stores: []metadata.StoreInfo{{Name: "s", Partitions: 2, ActualPartitions: 2}},
	}, w.now)
	if err != nil {
		tb.Fatal(err)
	}
	w.view = v
}

// happenings are what moves each metric, and what a scrape shows then that it did not show before.
var happenings = []struct {
	what string
	do   func(testing.TB, *world)
	want []string
}{
	{"nothing at all", func(testing.TB, *world) {}, nil},
	{"a node on a rack", func(_ testing.TB, w *world) { w.node.Address, w.node.Rack = "10.0.0.1:7070", "r1" }, []string{
		`iqgate_node_info{address="10.0.0.1:7070",application="app",node="a",rack="r1"} 1`,
	}},
	{"it joins and gets tasks", func(_ testing.TB, w *world) {
		w.node.Up, w.node.Joined, w.node.Generation, w.node.LeaseLeft, w.node.Tasks = true, true, 7, 1500*time.Millisecond, 3
	}, []string{
		"iqgate_node_up 1", "iqgate_node_joined 1", "iqgate_node_group_generation 7", "iqgate_node_lease_remaining_seconds 1.5", "iqgate_node_active_tasks 3",
	}},
	{"it drains", func(_ testing.TB, w *world) { w.node.Draining = true }, []string{"iqgate_node_draining 1"}},
	{"rebalances, losses, heartbeats", func(_ testing.TB, w *world) {
		w.node.Work.Group.Joined(300 * time.Millisecond)
		w.node.Work.Group.Lost()
		w.node.Work.Group.Missed()
	}, []string{
		"iqgate_node_rebalance_duration_seconds_count 1", "iqgate_node_rebalance_duration_seconds_sum 0.3",
		`iqgate_node_rebalance_duration_seconds_bucket{le="0.5"} 1`, "iqgate_node_membership_losses_total 1", "iqgate_node_group_heartbeat_failures_total 1",
	}},
	{"tasks run and fail", func(_ testing.TB, w *world) {
		w.node.Work.PromotionTook.Observe(2 * time.Second)
		w.node.Work.TaskFailures.Add(1)
	}, []string{"iqgate_node_task_promotion_duration_seconds_sum 2", "iqgate_node_task_failures_total 1"}},
	{"requests at the node", func(_ testing.TB, w *world) {
		w.node.Requests.End(tally.Get, 3*time.Millisecond, nil)
		w.node.Requests.End(tally.Scan, time.Second, iqerr.ErrOverloaded)
		w.node.InFlight, w.node.Waiting, w.node.Scans, w.node.Watches = 5, 4, 3, 2
	}, []string{
		`iqgate_node_requests_total{call="get",outcome="ok"} 1`, `iqgate_node_requests_total{call="scan",outcome="overloaded"} 1`,
		`iqgate_node_request_duration_seconds_bucket{call="get",le="0.0025"} 0`, `iqgate_node_request_duration_seconds_bucket{call="get",le="0.005"} 1`,
		`iqgate_node_request_duration_seconds_sum{call="scan"} 1`, "iqgate_node_requests_in_flight 5", "iqgate_node_requests_waiting 4",
		"iqgate_node_scans_open 3", "iqgate_node_watches_open 2",
	}},
	{"reads at the node", func(_ testing.TB, w *world) {
		w.node.Reads.Know("s")
		w.node.Reads.Of("s").Served(tally.Bounded, metadata.RoleStandby, 80*time.Millisecond, 12)
		w.node.Reads.Of("t").Refused(tally.Active, iqerr.ErrStoreUnknown)
	}, []string{
		`iqgate_node_reads_total{outcome="ok",policy="bounded",role="standby",store="s"} 1`,
		`iqgate_node_reads_total{outcome="store_unknown",policy="active",role="none",store="other"} 1`,
		`iqgate_node_stale_reads_total{store="s"} 1`, `iqgate_node_read_staleness_seconds_sum{role="standby",store="s"} 0.08`,
		`iqgate_node_read_staleness_seconds_bucket{role="standby",store="s",le="0.1"} 1`,
	}},
	{"a standby follows", func(_ testing.TB, w *world) {
		w.node.Replicas = []tally.Replica{{
			Replica:  replica(1, metadata.RoleStandby, metadata.StateRunning, metadata.LagInfo{Position: 9, End: 12, Offsets: 3, Time: 250 * time.Millisecond}),
			Assigned: true, Restore: tally.Restore{Done: true}, Open: true, Tables: 2, TableBytes: 4096, ValueBytes: 512,
		}}
	}, []string{
		`iqgate_node_replica_lag_offsets{partition="1",role="standby",store="s"} 3`, `iqgate_node_replica_lag_seconds{partition="1",role="standby",store="s"} 0.25`,
		`iqgate_node_replica_state{partition="1",role="standby",state="running",store="s"} 1`, `iqgate_node_store_tables{partition="1",store="s"} 2`,
		`iqgate_node_store_table_bytes{partition="1",store="s"} 4096`, `iqgate_node_store_value_bytes{partition="1",store="s"} 512`,
	}},
	{"a replica that restores, and knows no time lag", func(_ testing.TB, w *world) {
		w.node.Replicas = []tally.Replica{{
			Replica: replica(0, metadata.RoleActive, metadata.StateRestoring, metadata.LagInfo{Position: 40, End: 100, Offsets: 60, Time: metadata.LagUnknown}),
			Restore: tally.Restore{Began: w.now, From: 10, At: 40, End: 100},
		}}
	}, []string{
		`iqgate_node_replica_lag_offsets{partition="0",role="active",store="s"} 60`,
		`iqgate_node_replica_state{partition="0",role="active",state="restoring",store="s"} 1`,
		`iqgate_node_restore_remaining_offsets{partition="0",store="s"} 60`, `iqgate_node_restore_passed_offsets{partition="0",store="s"} 30`,
	}},
	{"stores change", func(_ testing.TB, w *world) {
		w.node.Work.Applied.Add(7, "s", tally.FromTask)
		w.node.Work.Applied.Add(5, "s", tally.FromChangelog)
		w.node.Work.Rebuilds.Add(1, "s")
		w.node.Work.Copies.Add(2)
		w.node.Work.CopyFailures.Add(3)
		w.node.Work.CopiedBytes.Add(1000)
	}, []string{
		`iqgate_node_store_applied_records_total{from="task",store="s"} 7`, `iqgate_node_store_applied_records_total{from="changelog",store="s"} 5`,
		`iqgate_node_store_rebuilds_total{store="s"} 1`, `iqgate_node_store_copies_total{outcome="ok"} 2`, `iqgate_node_store_copies_total{outcome="error"} 3`,
		"iqgate_node_store_copied_bytes_total 1000",
	}},
	{"the disk fills up", func(_ testing.TB, w *world) { w.node.DiskFree, w.node.DiskSize = 1, 10 }, []string{"iqgate_node_disk_free_bytes 1", "iqgate_node_disk_size_bytes 10"}},
	{"ends are learned, or not", func(_ testing.TB, w *world) {
		w.node.Sampled = time.Now().Add(time.Hour) // in the future, so that its age is 0
		w.node.Work.SampleFailures.Add(2)
	}, []string{"iqgate_node_lag_sample_age_seconds 0", "iqgate_node_lag_sample_failures_total 2"}},
	{"transactions", func(_ testing.TB, w *world) {
		w.node.Work.Commits.Add(4)
		w.node.Work.CommitFailures.Add(3)
		w.node.Work.Aborts.Add(2)
		w.node.Work.CommitTook.Observe(20 * time.Millisecond)
	}, []string{
		"iqgate_node_commits_total 4", "iqgate_node_commit_failures_total 3", "iqgate_node_transaction_aborts_total 2",
		`iqgate_node_commit_duration_seconds_bucket{le="0.025"} 1`,
	}},
	{"records", func(_ testing.TB, w *world) {
		w.node.Work.RecordsIn.Add(9, "in")
		w.node.Work.RecordsOut.Add(8, "out")
		w.node.Work.Skipped.Add(7, "late")
		w.node.Dropped = []metadata.Dropped{{Sink: "all", Topic: "out", Records: 6}}
		w.node.Misplaced = []metadata.Misplaced{
			{Store: "s", TopicPartition: metadata.TopicPartition{Topic: "in", Partition: 0}, Records: 2},
			{Store: "s", TopicPartition: metadata.TopicPartition{Topic: "in", Partition: 1}, Records: 3},
		}
	}, []string{
		`iqgate_node_records_in_total{topic="in"} 9`, `iqgate_node_records_out_total{topic="out"} 8`, `iqgate_node_records_skipped_total{reason="late"} 7`,
		`iqgate_node_records_dropped_total{sink="all",topic="out"} 6`, `iqgate_node_records_misplaced_total{store="s",topic="in"} 5`,
	}},
	{"the connections to Kafka", func(_ testing.TB, w *world) {
		k := &w.node.Work.Kafka
		k.Connects.Add(1)
		k.ConnectFailures.Add(2)
		k.RequestFailures.Add(3)
		k.Sent.Add(4)
		k.Received.Add(5)
		k.Throttled.Add(int64(1500 * time.Millisecond))
	}, []string{
		`iqgate_node_kafka_connects_total{outcome="ok"} 1`, `iqgate_node_kafka_connects_total{outcome="error"} 2`, "iqgate_node_kafka_request_failures_total 3",
		"iqgate_node_kafka_sent_bytes_total 4", "iqgate_node_kafka_received_bytes_total 5", "iqgate_node_kafka_throttled_seconds_total 1.5",
	}},
	{"requests at the router", func(_ testing.TB, w *world) {
		w.router.Requests.End(tally.MultiGet, 3*time.Millisecond, iqerr.ErrStale)
		w.router.InFlight, w.router.Waiting, w.router.Scans, w.router.Watches, w.router.MetadataWatches = 5, 4, 3, 2, 1
	}, []string{
		`iqgate_router_requests_total{call="multi_get",outcome="stale"} 1`, `iqgate_router_request_duration_seconds_count{call="multi_get"} 1`,
		"iqgate_router_requests_in_flight 5", "iqgate_router_requests_waiting 4", "iqgate_router_scans_open 3", "iqgate_router_watches_open 2",
		"iqgate_router_metadata_watches_open 1",
	}},
	{"reads at the router", func(_ testing.TB, w *world) {
		w.router.Reads.Know("s")
		w.router.Reads.Of("s").Served(tally.Any, metadata.RoleWarmup, time.Second, metadata.LagUnknown)
	}, []string{
		`iqgate_router_reads_total{outcome="ok",policy="any",role="warmup",store="s"} 1`, `iqgate_router_stale_reads_total{store="s"} 1`,
		`iqgate_router_read_staleness_seconds_sum{role="warmup",store="s"} 1`,
	}},
	{"further tries", func(_ testing.TB, w *world) {
		w.router.Retries, w.router.RetriesDenied, w.router.Hedges, w.router.HedgesDenied = 1, 2, 3, 4
		w.router.Failovers.Add(5)
		w.router.HedgesWon.Add(6)
	}, []string{
		`iqgate_router_retries_total{outcome="ok"} 1`, `iqgate_router_retries_total{outcome="denied"} 2`, `iqgate_router_hedges_total{outcome="ok"} 3`,
		`iqgate_router_hedges_total{outcome="denied"} 4`, "iqgate_router_failovers_total 5", "iqgate_router_hedges_won_total 6",
	}},
	{"nodes report", func(_ testing.TB, w *world) {
		w.router.Ready, w.router.FreshFor, w.router.Name = true, 100*time.Millisecond, "r1"
		w.router.Reports.Add(3)
		w.router.ReportsRefused.Add(1)
	}, []string{
		"iqgate_router_ready 1", "iqgate_router_view_age_seconds 0.1", `iqgate_router_reports_total{outcome="ok"} 3`, `iqgate_router_reports_total{outcome="error"} 1`,
		`iqgate_router_info{application="",router="r1"} 1`,
	}},
	{"an active and a standby that is behind", func(tb testing.TB, w *world) {
		tb.Helper()
		w.now = time.Now().Add(time.Hour) // reports from the future have no age
		w.report(tb, "a", 1, replica(0, metadata.RoleActive, metadata.StateRunning, metadata.LagInfo{Position: 100, End: 100}))
		w.report(tb, "b", 1, replica(0, metadata.RoleStandby, metadata.StateRunning, metadata.LagInfo{Position: 90, End: 95, Offsets: 5, Time: 500 * time.Millisecond}))
	}, []string{
		`iqgate_router_node_state{node="a",state="alive"} 1`, `iqgate_router_node_report_age_seconds{node="b"} 0`,
		`iqgate_router_replica_lag_offsets{node="a",partition="0",role="active",store="s"} 0`,
		`iqgate_router_replica_lag_offsets{node="b",partition="0",role="standby",store="s"} 10`, // by the end that the active told of
		`iqgate_router_replica_lag_seconds{node="b",partition="0",role="standby",store="s"} 0.5`,
		`iqgate_router_store_partitions{store="s"} 2`, `iqgate_router_store_partitions_without_active{store="s"} 1`, `iqgate_router_store_partitions_without_replica{store="s"} 1`,
	}},
}

func TestEachMetricMovesWhenItsThingHappens(t *testing.T) {
	t.Parallel()
	moved := map[string]bool{"iqgate_build_info": true}
	before := newWorld().lines(t)
	for _, h := range happenings {
		w := newWorld()
		h.do(t, w)
		after := w.lines(t)
		for _, line := range h.want {
			name, _, _ := strings.Cut(strings.ReplaceAll(line, " ", "{"), "{")
			moved[family(name)] = true
			switch {
			case before[line] && !strings.HasSuffix(line, " 0"):
				t.Errorf("%s: %s was there before", h.what, line)
			case !after[line]:
				t.Errorf("%s: no %s; it shows\n%s", h.what, line, difference(before, after))
			}
		}
		if h.want == nil && len(difference(before, after)) > 0 {
			t.Errorf("%s: a scrape shows otherwise\n%s", h.what, difference(before, after))
		}
	}
	for _, m := range All() {
		if !moved[m.Name] {
			t.Errorf("nothing in the table moves %s", m.Name)
		}
	}
}

// family is the name without what Prometheus adds to the parts of a histogram.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if short, ok := strings.CutSuffix(name, suffix); ok && slices.ContainsFunc(All(), func(m Metric) bool { return m.Name == short && m.Kind == Histogram }) {
			return short
		}
	}
	return name
}

// difference are the lines of after that before has not.
func difference(before, after map[string]bool) string {
	var more []string
	for line := range after {
		if !before[line] {
			more = append(more, line)
		}
	}
	slices.Sort(more)
	return strings.Join(more, "\n")
}

// everything is a world in which all has happened.
func everything(tb testing.TB) *world {
	tb.Helper()
	w := newWorld()
	for _, h := range happenings {
		h.do(tb, w)
	}
	return w
}

// Names end with their units, counters with total, and each has a help text, as Prometheus' own linter has it.
func TestNamesFollowPrometheusRules(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(everything(t).registry(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, m := range All() {
		if !strings.HasPrefix(m.Name, "iqgate_") || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: begins otherwise than iqgate_, or its help is no sentence: %s", m.Name, m.Help)
		}
		if (m.Unit == "seconds" || m.Unit == "bytes") && !strings.Contains(m.Name, "_"+m.Unit) {
			t.Errorf("%s is in %s, and its name does not say so", m.Name, m.Unit)
		}
	}
}

// A label that is not UTF-8, as a broken node may report one, must not spoil the scrape.
func TestAForeignNameSpoilsNoScrape(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.node.Rack = "r\xff"
	w.node.Work.RecordsIn.Add(1, "\xfe")
	if lines := w.lines(t); !lines[`iqgate_node_records_in_total{topic="?"} 1`] {
		t.Errorf("no such line in\n%v", lines)
	}
}

func TestRegistryHasTheRuntimeAndTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r, err := NewRegistry(Build{Program: "iqnode", Version: "v1", Revision: "abc"}, NewNode(func(time.Time) tally.Node { return w.node }))
	if err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{"go_goroutines", "process_cpu_seconds_total", "iqgate_build_info", "iqgate_node_up"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
	if slices.Contains(names, "iqgate_router_ready") {
		t.Error("a node has metrics of a router")
	}
}

const (
	document = "../docs/metrics.md"
	begin    = "<!-- what follows is written by: go test ./metrics -rewrite -->\n"
)

// docs/metrics.md has each metric as it is here.
func TestTheDocumentListsEachMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, have, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no line %q", document, strings.TrimSpace(begin))
	}
	want := tables()
	if have == want {
		return
	}
	if !*rewrite {
		t.Fatalf("%s does not list the metrics as they are; run: go test ./metrics -rewrite", document)
	}
	if err := os.WriteFile(document, []byte(head+begin+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tables() string {
	var b strings.Builder
	for _, part := range []struct{ title, prefix string }{
		{"Both programs", "iqgate_build"}, {"Nodes", "iqgate_node"}, {"Routers", "iqgate_router"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n", part.title)
		for _, m := range All() {
			if !strings.HasPrefix(m.Name, part.prefix) {
				continue
			}
			var labels []string
			for _, l := range m.Labels {
				labels = append(labels, "`"+l+"`")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(labels, ", "), m.Unit, m.Help)
		}
	}
	return b.String()
}

// validName keeps Prometheus' older rules for names, which other tools hold to.
func TestNamesAndLabelsAreOfTheOldAlphabet(t *testing.T) {
	t.Parallel()
	for _, m := range All() {
		if !model.LegacyValidation.IsValidMetricName(m.Name) {
			t.Errorf("metric %q", m.Name)
		}
		for _, l := range m.Labels {
			if !model.LegacyValidation.IsValidLabelName(l) {
				t.Errorf("label %q of %s", l, m.Name)
			}
		}
	}
}
