package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

// What alerts and boards may name besides our own metrics, and the labels that a scrape adds.
var (
	foreign = map[string][]string{
		"up":                            nil,
		"process_resident_memory_bytes": nil,
		"process_cpu_seconds_total":     nil,
		"go_goroutines":                 nil,
	}
	added = []string{"instance", "job"}
)

// words of PromQL that are no metric.
var promQL = strings.Fields(`sum max min avg count by without on ignoring group_left group_right and or unless rate increase deriv changes
	predict_linear histogram_quantile vector absent`)

// labelValues are the values that labels can have which have but a few.
func labelValues() map[string][]string {
	r := map[string][]string{"from": {tally.FromTask, tally.FromChangelog}, "role": {"none"}, "job": {"iqnode", "iqrouter"}}
	for _, role := range []metadata.Role{metadata.RoleActive, metadata.RoleStandby, metadata.RoleWarmup} {
		r["role"] = append(r["role"], role.String())
	}
	for c := tally.Get; c <= tally.Watch; c++ {
		r["call"] = append(r["call"], c.String())
	}
	for o := tally.OK; o <= tally.Failed; o++ {
		r["outcome"] = append(r["outcome"], o.String())
	}
	r["outcome"] = append(r["outcome"], denied)
	for p := tally.Strong; p <= tally.Any; p++ {
		r["policy"] = append(r["policy"], p.String())
	}
	for _, s := range []metadata.State{metadata.StateRestoring, metadata.StateRunning, metadata.StateSuspended, metadata.StateClosed} {
		r["state"] = append(r["state"], s.String())
	}
	r["state"] = append(r["state"], "alive", "draining", "suspect", "dead")
	return r
}

var (
	token    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\$?[A-Za-z_:][A-Za-z0-9_:]*|[0-9][0-9.a-z]*|=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],]`)
	variable = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

// checkExpression says what is wrong with an expression: what Prometheus has not, of metrics, labels and their values.
func checkExpression(expr string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	tokens := token.FindAllString(expr, -1)
	if plain := strings.Join(strings.Fields(expr), ""); len(strings.Join(strings.Fields(strings.Join(tokens, "")), "")) != len(plain) {
		bad("it has signs that PromQL has not")
	}
	known := map[string][]string{} // labels by metric
	for _, m := range All() {
		known[m.Name] = m.Labels
		if m.Kind == Histogram {
			known[m.Name+"_bucket"] = append(slices.Clone(m.Labels), "le")
			known[m.Name+"_sum"], known[m.Name+"_count"] = m.Labels, m.Labels
			delete(known, m.Name)
		}
	}
	maps.Copy(known, foreign)
	values := labelValues()
	var open []string
	var labels []string // of all metrics in it
	grouped := false
	var groupBy []string
	metric := ""
	closing := map[string]string{")": "(", "}": "{", "]": "["}
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t == "(" || t == "{" || t == "[":
			open = append(open, t)
			grouped = t == "(" && i > 0 && slices.Contains([]string{"by", "without", "on", "ignoring"}, tokens[i-1])
		case closing[t] != "":
			if len(open) == 0 || open[len(open)-1] != closing[t] {
				bad("%s closes nothing", t)
				return problems
			}
			open, grouped = open[:len(open)-1], false
		case len(open) > 0 && open[len(open)-1] == "{": // a matcher
			if t == "," {
				continue
			}
			if i+2 >= len(tokens) {
				bad("it ends within a matcher")
				return problems
			}
			if !slices.Contains(slices.Concat(known[metric], added), t) {
				bad("%s has no label %s", metric, t)
			}
			text := strings.Trim(tokens[i+2], `"`)
			if of, few := values[t]; few && !strings.HasPrefix(text, "$") {
				for v := range strings.SplitSeq(text, "|") {
					if !slices.Contains(of, v) {
						bad("label %s of %s is never %q", t, metric, v)
					}
				}
			}
			i += 2
		case len(open) > 0 && open[len(open)-1] == "[":
		case grouped:
			if t != "," {
				groupBy = append(groupBy, t)
			}
		case slices.Contains(promQL, t):
		case regexp.MustCompile(`^[a-z_:]`).MatchString(t):
			if _, ok := known[t]; !ok {
				bad("there is no metric %s", t)
			}
			metric = t
			labels = slices.Concat(labels, known[t], added)
		}
	}
	if len(open) > 0 {
		bad("%s is not closed", open[len(open)-1])
	}
	if metric == "" {
		bad("it names no metric")
	}
	for _, l := range groupBy {
		if !slices.Contains(labels, l) {
			bad("it groups by %s, which none of its metrics has", l)
		}
	}
	return problems
}

// The checks below would notice: each of these is wrong in one way.
func TestWrongExpressionsAreNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, want string }{
		{`sum(rate(iqgate_node_commits_total[5m]))`, ""},
		{`iqgate_node_commits > 1`, "there is no metric iqgate_node_commits"},
		{`rate(iqgate_node_request_duration_seconds[5m])`, "there is no metric iqgate_node_request_duration_seconds"},
		{`iqgate_node_requests_total{store="s"}`, "iqgate_node_requests_total has no label store"},
		{`iqgate_node_requests_total{outcome="okay"}`, `label outcome of iqgate_node_requests_total is never "okay"`},
		{`iqgate_node_requests_total{outcome=~"stale|stail"}`, `label outcome of iqgate_node_requests_total is never "stail"`},
		{`sum by (nodes) (iqgate_router_node_state)`, "it groups by nodes, which none of its metrics has"},
		{`sum(rate(iqgate_node_commits_total[5m])`, "( is not closed"},
		{`iqgate_node_joined == 0 # why`, "it has signs that PromQL has not"},
		{`vector(1)`, "it names no metric"},
	} {
		if got := strings.Join(checkExpression(c.expr), "; "); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.expr, got, c.want)
		}
	}
}

func TestAlertsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var all strings.Builder
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all.WriteString(r.Expr + "\n")
			if r.Alert == "" || seen[r.Alert] {
				t.Errorf("group %s: alert %q has no name of its own", g.Name, r.Alert)
			}
			seen[r.Alert] = true
			for _, p := range checkExpression(r.Expr) {
				t.Errorf("%s: %s: %s", r.Alert, p, r.Expr)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: needs a summary and a description", r.Alert)
			}
			for _, text := range r.Annotations {
				for _, m := range variable.FindAllStringSubmatch(text, -1) {
					if problem := keeps(r.Expr, m[1]); problem != "" {
						t.Errorf("%s: %s", r.Alert, problem)
					}
				}
			}
		}
	}
	// What operators want to hear of has an alert.
	for _, name := range []string{
		"up", "iqgate_router_node_state", "iqgate_router_store_partitions_without_active", "iqgate_node_replica_lag_offsets", "iqgate_router_stale_reads_total",
		"iqgate_node_restore_remaining_offsets", "iqgate_node_lease_remaining_seconds", "iqgate_node_commit_failures_total", "iqgate_node_kafka_connects_total",
		"iqgate_node_disk_free_bytes", "iqgate_build_info", "iqgate_router_view_age_seconds",
	} {
		if !strings.Contains(all.String(), name) {
			t.Errorf("no alert looks at %s", name)
		}
	}
}

// keeps says what is wrong with a text that names a label of an alert: an aggregation leaves the labels that it groups by alone.
func keeps(expr, label string) string {
	if m := regexp.MustCompile(`\b(?:sum|max|min|avg|count) by \(([^)]*)\)`).FindStringSubmatch(expr); m != nil {
		if slices.Contains(strings.Split(strings.ReplaceAll(m[1], " ", ""), ","), label) {
			return ""
		}
		return "its text names " + label + ", which the aggregation drops"
	}
	for _, m := range All() {
		if strings.Contains(expr, m.Name) && slices.Contains(slices.Concat(m.Labels, added), label) {
			return ""
		}
	}
	if strings.HasPrefix(expr, "up{") && slices.Contains(added, label) {
		return ""
	}
	return "its text names " + label + ", which its metrics have not"
}

func TestTheBoardNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/grafana/iqgate.json")
	if err != nil {
		t.Fatal(err)
	}
	type target struct{ Expr, LegendFormat string }
	var board struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []target
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); v.Definition != "" && (m == nil || len(checkExpression(m[1]+`{`+m[2]+`="$x"}`)) > 0) {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
		}
	}
	ids := map[int]bool{}
	shown := map[string]bool{}
	taken := map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id is another's, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q, or past the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q has %d queries", p.Title, len(p.Targets))
		}
		for _, q := range p.Targets {
			for _, problem := range checkExpression(q.Expr) {
				t.Errorf("panel %q: %s: %s", p.Title, problem, q.Expr)
			}
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("panel %q: there is no variable %s", p.Title, m[1])
				}
			}
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if problem := keeps(q.Expr, m[1]); problem != "" && !strings.Contains(q.Expr, "process_") && !strings.Contains(q.Expr, "go_") {
					t.Errorf("panel %q: %s", p.Title, problem)
				}
			}
			for _, m := range All() {
				if strings.Contains(q.Expr, m.Name) {
					shown[m.Name] = true
				}
			}
		}
	}
	if len(shown) < len(All())/2 {
		t.Errorf("the board shows %d of %d metrics", len(shown), len(All()))
	}
}
