//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/metrics"
	"github.com/iqgate/iqgate/node"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// samples are what a scrape shows: values by name with labels, in the order in which Prometheus writes them.
type samples map[string]float64

// scraped scrapes a program.
func scraped(t *testing.T, c prometheus.Collector) samples {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := samples{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName() + labelsOf(m)
			switch {
			case m.GetCounter() != nil:
				all[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				all[name] = m.GetGauge().GetValue()
			default:
				all[f.GetName()+"_count"+labelsOf(m)] = float64(m.GetHistogram().GetSampleCount())
				all[f.GetName()+"_sum"+labelsOf(m)] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(pairs) == 0 {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func ofNode(t *testing.T, n *bubble.Node) samples {
	t.Helper()
	return scraped(t, metrics.NewNode(n.Tally))
}

func ofRouter(t *testing.T, r *bubble.Router) samples {
	t.Helper()
	return scraped(t, metrics.NewRouter(r.Tally, r.View))
}

// sum adds all samples of a name whose labels have all the texts.
func (s samples) sum(name string, texts ...string) (sum float64) {
next:
	for key, v := range s {
		if base, _, _ := strings.Cut(key, "{"); base != name {
			continue
		}
		for _, text := range texts {
			if !strings.Contains(key, text) {
				continue next
			}
		}
		sum += v
	}
	return sum
}

// lagsOf are the samples of lags as the metadata service tells them at the same moment. more are labels beside those of a
// replica, which come in the order of their names.
func lagsOf(prefix string, byNode bool, list []*iqv1.ReplicaStatus) samples {
	all := samples{}
	for _, r := range list {
		labels := fmt.Sprintf("partition=%q,role=%q,store=%q}", fmt.Sprint(r.GetPartition()), strings.ToLower(strings.TrimPrefix(r.GetRole().String(), "ROLE_")), r.GetStore())
		if byNode {
			labels = fmt.Sprintf("node=%q,", r.GetNode()) + labels
		}
		if r.OffsetLag != nil {
			all[prefix+"_lag_offsets{"+labels] = float64(r.GetOffsetLag())
		}
		if r.GetTimeLag() != nil {
			all[prefix+"_lag_seconds{"+labels] = r.GetTimeLag().AsDuration().Seconds()
		}
	}
	return all
}

// within says which of the samples wanted are not so.
func (s samples) within(have samples) error {
	var errs []error
	for key, want := range s {
		if got, ok := have[key]; !ok || got != want {
			errs = append(errs, fmt.Errorf("%s is %v (%t), want %v", key, got, ok, want))
		}
	}
	return errors.Join(errs...)
}

// TestMetricsAreWhatMetadataAndCallersSee: a router and two nodes, a few writes and reads. Lags, states and who is alive are in
// the metrics as the metadata services tell them at the same moment, and what was counted is what the test did.
func TestMetricsAreWhatMetadataAndCallersSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, keys = 4, 20
		var failures atomic.Int32
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": partitions}, Topology: countByKey, Routers: []string{"r"}, Log: verboseLog(t)})
		defer c.Close()
		r := c.StartRouter("r")
		if s := ofRouter(t, r); s["iqgate_router_ready"] != 0 {
			t.Error("a router that nobody has reported to says that it is ready")
		}
		fail := func(cfg *node.Config) {
			cfg.Step = func(step string) error {
				if step == "end" && failures.Add(1) == 1 {
					return errors.New("injected before EndTxn")
				}
				return nil
			}
		}
		a, b := c.StartNode("a", fail), c.StartNode("b", fail)
		nodes := []*bubble.Node{a, b}
		cl := c.Client()
		defer cl.Close()
		c.Eventually(time.Minute, "each node runs half of the tasks", func() error {
			for _, n := range nodes {
				if got := ofNode(t, n).sum("iqgate_node_replica_state", `role="active"`, `state="running"`); got != partitions/2 {
					return fmt.Errorf("%s runs %v", n.ID, got)
				}
			}
			return nil
		})
		for i := range keys {
			if err := bubble.Produce(t.Context(), cl, "in", fmt.Sprint("k", i), "x"); err != nil {
				t.Fatal(err)
			}
		}
		both := func(name string, texts ...string) float64 {
			return ofNode(t, a).sum(name, texts...) + ofNode(t, b).sum(name, texts...)
		}
		c.Eventually(time.Minute, "all is processed, and copied", func() error {
			s := ofRouter(t, r)
			if got := both("iqgate_node_records_in_total", `topic="in"`); got != keys {
				return fmt.Errorf("%v records processed", got)
			}
			if got := both("iqgate_node_store_applied_records_total", `from="changelog"`); got < keys {
				return fmt.Errorf("%v records copied", got)
			}
			if got := both("iqgate_node_replica_state", `role="standby"`, `state="running"`); got != partitions {
				return fmt.Errorf("%v standbys run", got)
			}
			if got := s.sum("iqgate_router_store_partitions_without_active"); got != 0 {
				return fmt.Errorf("the router misses %v actives", got)
			}
			if got := both("iqgate_node_replica_lag_offsets"); got != 0 {
				return fmt.Errorf("copies are %v offsets behind", got)
			}
			return nil
		})

		if got := both("iqgate_node_restore_remaining_offsets") + both("iqgate_node_restore_passed_offsets"); got != 0 {
			t.Errorf("what runs is shown as being restored: %v offsets", got)
		}

		// 1. Lags and states as the metadata services tell them at this moment of the bubble.
		c.Eventually(10*time.Second, "metrics are what metadata says", func() error {
			synctest.Wait()
			var errs []error
			for _, n := range nodes {
				have := ofNode(t, n)
				resp, err := n.Metadata().ListLags(t.Context(), &iqv1.ListLagsRequest{})
				if err != nil {
					return err
				}
				errs = append(errs, lagsOf("iqgate_node_replica", false, resp.GetReplicas()).within(have))
			}
			have := ofRouter(t, r)
			resp, err := r.Metadata().ListLags(t.Context(), &iqv1.ListLagsRequest{})
			if err != nil {
				return err
			}
			if n := len(resp.GetReplicas()); n != 2*partitions {
				return fmt.Errorf("%d replicas", n)
			}
			errs = append(errs, lagsOf("iqgate_router_replica", true, resp.GetReplicas()).within(have))
			instances, err := r.Metadata().ListInstances(t.Context(), &iqv1.ListInstancesRequest{})
			for _, in := range instances.GetInstances() {
				errs = append(errs, samples{
					fmt.Sprintf("iqgate_router_node_state{node=%q,state=%q}", in.GetNode(), "alive"): 1,
					fmt.Sprintf("iqgate_router_node_report_age_seconds{node=%q}", in.GetNode()):      in.GetLastHeard().AsDuration().Seconds(),
				}.within(have))
			}
			return errors.Join(append(errs, err)...)
		})

		// 2. Reads, by policy, role and outcome: a router's and the nodes' counts of them are the same.
		beforeR, beforeN := ofRouter(t, r), both("iqgate_node_reads_total")
		for i := range keys {
			for _, p := range []*iqv1.ReadPolicy{strong(), {Mode: iqv1.ReadPolicy_MODE_ACTIVE}, {Mode: iqv1.ReadPolicy_MODE_ANY}} {
				if _, err := getCount(t.Context(), r.Query(), fmt.Sprint("k", i), p); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := r.Query().Get(t.Context(), &iqv1.GetRequest{Store: "nobody's", Key: []byte("k")}); err == nil {
			t.Error("a store that there is not was read")
		}
		if _, err := r.Query().Count(t.Context(), &iqv1.CountRequest{Selection: &iqv1.Selection{Store: "counts"}}); err != nil {
			t.Error(err)
		}
		after := ofRouter(t, r)
		for _, w := range []struct {
			want  float64
			name  string
			texts []string
		}{
			{keys, "iqgate_router_reads_total", []string{`policy="strong",role="active"`, `outcome="ok"`}},
			{keys + partitions, "iqgate_router_reads_total", []string{`policy="active",role="active"`, `outcome="ok"`}},
			{keys, "iqgate_router_reads_total", []string{`policy="any"`, `outcome="ok"`}},
			{1, "iqgate_router_reads_total", []string{`outcome="store_unknown"`, `store="other"`}},
			{3 * keys, "iqgate_router_requests_total", []string{`call="get",outcome="ok"`}},
			{3*keys + 1, "iqgate_router_request_duration_seconds_count", []string{`call="get"`}},
			{1, "iqgate_router_requests_total", []string{`call="count",outcome="ok"`}},
			{3*keys + partitions, "iqgate_router_read_staleness_seconds_count", nil},
			{0, "iqgate_router_failovers_total", nil},
			{0, "iqgate_router_retries_total", nil},
		} {
			if got := after.sum(w.name, w.texts...) - beforeR.sum(w.name, w.texts...); got != w.want {
				t.Errorf("%s%v grew by %v, want %v", w.name, w.texts, got, w.want)
			}
		}
		if got := both("iqgate_node_reads_total") - beforeN; got != 3*keys+partitions {
			t.Errorf("the nodes count %v reads, want %d", got, 3*keys+partitions)
		}

		// 3. What the nodes did: the commit that failed was done again, and counts once.
		for _, w := range []struct {
			want float64
			name string
		}{{1, "iqgate_node_commit_failures_total"}, {1, "iqgate_node_transaction_aborts_total"}, {keys, "iqgate_node_records_in_total"}, {0, "iqgate_node_task_failures_total"}} {
			if got := both(w.name); got != w.want {
				t.Errorf("%s is %v, want %v", w.name, got, w.want)
			}
		}
		for _, n := range nodes {
			s := ofNode(t, n)
			for _, name := range []string{
				"iqgate_node_commits_total", "iqgate_node_rebalance_duration_seconds_count", "iqgate_node_task_promotion_duration_seconds_count", "iqgate_node_joined",
				`iqgate_node_kafka_connects_total{outcome="ok"}`, "iqgate_node_kafka_sent_bytes_total", "iqgate_node_kafka_received_bytes_total", "iqgate_node_disk_free_bytes",
				"iqgate_node_lease_remaining_seconds",
			} {
				if s[name] <= 0 {
					t.Errorf("%s: %s is %v", n.ID, name, s[name])
				}
			}
			if got := s["iqgate_node_lag_sample_age_seconds"]; got > 1 {
				t.Errorf("%s: ends were learned %v s ago", n.ID, got)
			}
		}

		// 4. A node that dies: the router says so, reads go elsewhere, and the other node takes its tasks.
		b.Kill()
		c.Eventually(10*time.Second, "the router counts failovers and the death", func() error {
			for i := range keys {
				if _, err := getCount(t.Context(), r.Query(), fmt.Sprint("k", i), &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY}); err != nil {
					return err
				}
			}
			if s := ofRouter(t, r); s[`iqgate_router_node_state{node="b",state="dead"}`] != 1 || s["iqgate_router_view_age_seconds"] > 1 {
				return fmt.Errorf("b is not dead, or a is not heard")
			}
			return nil
		})
		c.Eventually(30*time.Second, "a takes over", func() error {
			s := ofNode(t, a)
			if got := s.sum("iqgate_node_replica_state", `role="active",state="running"`); got != partitions || s["iqgate_node_active_tasks"] != partitions {
				return fmt.Errorf("%v actives run of %v tasks", got, s["iqgate_node_active_tasks"])
			}
			if got := ofRouter(t, r).sum("iqgate_router_store_partitions_without_active"); got != 0 {
				return fmt.Errorf("the router misses %v actives", got)
			}
			return nil
		})
	})
}

// A node that has lost Kafka says so: its lease and its knowledge of ends run out, and it counts the connections that fail.
func TestMetricsOfANodeWithoutKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Routers: []string{"r"}, Log: verboseLog(t)})
		defer c.Close()
		r := c.StartRouter("r")
		a := c.StartNode("a")
		c.Eventually(20*time.Second, "active, and ends are learned", func() error {
			if _, ok := ofNode(t, a)["iqgate_node_lag_sample_age_seconds"]; !ok {
				return errors.New("no end was learned")
			}
			_, err := getCount(t.Context(), r.Query(), "k", strong())
			return err
		})
		a.Kafka().Cut()
		time.Sleep(15 * time.Second)
		s, v := ofNode(t, a), ofRouter(t, r)
		if s["iqgate_node_lease_remaining_seconds"] != 0 || s["iqgate_node_lag_sample_age_seconds"] < 10 {
			t.Errorf("lease %v s, ends learned %v s ago", s["iqgate_node_lease_remaining_seconds"], s["iqgate_node_lag_sample_age_seconds"])
		}
		for _, name := range []string{"iqgate_node_lag_sample_failures_total", "iqgate_node_group_heartbeat_failures_total", `iqgate_node_kafka_connects_total{outcome="error"}`} {
			if s[name] == 0 {
				t.Errorf("%s is 0", name)
			}
		}
		if got := v.sum("iqgate_router_store_partitions_without_active"); got != 1 {
			t.Errorf("the router misses %v actives, want 1", got)
		}
		if _, err := getCount(t.Context(), r.Query(), "k", strong()); err == nil {
			t.Error("a strong read was answered")
		}
		if got := ofRouter(t, r).sum("iqgate_router_reads_total", `policy="strong"`, `outcome="no_active"`); got < 1 {
			t.Errorf("%v strong reads without an active", got)
		}
	})
}
