package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// The input adds nodes, one a line: "source NAME topic=T", "processor NAME from=(A,B)", "sink NAME topic=T from=A by=P",
// "repartition NAME base=B from=A by=P partitions=N", "store NAME by=P key=S value=S kind=N config=(K:V) size=D retention=D
// use=(A,B)", and "windows NAME store=S kind=N size=D advance=D grace=D retention=D kept=D from=(A,B)". The
// commands:
//
//	build app=A [counts=(T:N,...)]    the topology, and its internal topics if counts are given; or all faults
func TestBuildSplitsAndChecksTheTopology(t *testing.T) {
	datadriven.Walk(t, "testdata/build", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b := topology.New()
			for line := range strings.Lines(d.Input) {
				addNode(t, b, strings.TrimSpace(line))
			}
			var app string
			d.MaybeScanArgs(t, "app", &app)
			topo, err := b.Build(app)
			if err != nil {
				return err.Error()
			}
			if !d.HasArg("counts") {
				return topo.Describe()
			}
			return internalTopics(t, topo, counts(t, d))
		})
	})
}

func counts(t *testing.T, d *datadriven.TestData) topology.Counts {
	t.Helper()
	known := map[string]int32{}
	for _, arg := range d.CmdArgs {
		if arg.Key != "counts" {
			continue
		}
		for _, v := range arg.Vals {
			topic, n, _ := strings.Cut(v, ":")
			count, err := strconv.ParseInt(n, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			known[topic] = int32(count)
		}
	}
	return func(topic string) (int32, bool) {
		n, ok := known[topic]
		return n, ok
	}
}

func internalTopics(t *testing.T, topo *topology.Topology, c topology.Counts) string {
	t.Helper()
	var b strings.Builder
	all, err := topo.InternalTopics(c)
	if err != nil {
		return err.Error()
	}
	for _, topic := range all {
		fmt.Fprintf(&b, "%s partitions=%d", topic.Name, topic.Partitions)
		for _, k := range slices.Sorted(maps.Keys(topic.Configs)) {
			fmt.Fprintf(&b, " %s=%s", k, topic.Configs[k])
		}
		if topic.Store != "" {
			fmt.Fprintf(&b, " (store %s)", topic.Store)
		}
		b.WriteByte('\n')
	}
	tasks, err := topo.Tasks(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "tasks %v\n", tasks)
	return b.String()
}

// addNode reads one line of the test's language.
func addNode(t *testing.T, b *topology.Builder, line string) {
	t.Helper()
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	vals := map[string][]string{}
	for i, a := range args {
		if i == 0 && len(a.Vals) == 0 {
			name = a.Key
		} else {
			vals[a.Key] = a.Vals
		}
	}
	one := func(key string) string {
		if len(vals[key]) == 0 {
			return ""
		}
		return vals[key][0]
	}
	var by partitioner.Partitioner
	if one("by") != "" {
		by = partitioner.Custom(one("by"), nil, func(string, []byte, []byte, int32) partitioner.Choice { return partitioner.Default() })
	}
	length := func(key string) time.Duration {
		if one(key) == "" {
			return 0
		}
		d, err := time.ParseDuration(one(key))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	number, _ := strconv.ParseInt(one("partitions")+one("kind"), 10, 8)
	pass := func() topology.Processor {
		return topology.ProcessorFunc(func(ctx topology.Context, r topology.Record) error {
			ctx.Forward(r)
			return nil
		})
	}
	switch cmd {
	case "source":
		b.Source(name, one("topic"))
	case "processor":
		if one("nil") != "" {
			pass = nil
		}
		b.Processor(name, pass, vals["from"]...)
	case "sink":
		b.Sink(name, one("topic"), by, vals["from"]...)
	case "repartition":
		b.Repartition(name, one("base"), topology.RepartitionOptions{Partitions: int32(number), Partitioner: by}, vals["from"]...)
	case "store":
		spec := topology.StoreSpec{
			Name: name, Kind: topology.StoreKind(number), KeySerde: one("key"), ValueSerde: one("value"), Partitioner: one("by"),
			WindowSize: length("size"), Retention: length("retention"),
		}
		for _, c := range vals["config"] {
			k, v, _ := strings.Cut(c, ":")
			if spec.ChangelogConfig == nil {
				spec.ChangelogConfig = map[string]string{}
			}
			spec.ChangelogConfig[k] = v
		}
		b.Store(spec, vals["use"]...)
	case "windows":
		w := topology.Windows{
			Kind: topology.WindowsKind(number), Size: length("size"), Advance: length("advance"), Grace: length("grace"),
			Retention: length("retention"),
		}
		a := topology.Counter()
		if one("nil") != "" {
			a = topology.Aggregator{}
		}
		b.WindowedAggregate(name, topology.StoreSpec{Name: one("store"), Retention: length("kept")}, w, a, vals["from"]...)
	default:
		t.Fatalf("unknown line %q", line)
	}
}

func TestBuilderCanBeBuiltAgainUnderAnotherName(t *testing.T) {
	b := topology.New()
	addNode(t, b, "source in topic=t")
	addNode(t, b, "processor p from=in")
	addNode(t, b, "store s use=p")
	for _, app := range []string{"a", "b"} {
		topo, err := b.Build(app)
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := topo.Store("s"); s.Changelog != app+"-s-changelog" {
			t.Errorf("changelog of %s is %q", app, s.Changelog)
		}
	}
}

func TestTaskIDRoundTripsInKafkaStreamsForm(t *testing.T) {
	id := topology.TaskID{Subtopology: 0, Partition: 3}
	if id.String() != "0_3" {
		t.Errorf("%v, want 0_3", id)
	}
	for _, id := range []topology.TaskID{{}, id, {Subtopology: 12, Partition: 2147483647}} {
		if back, err := topology.ParseTaskID(id.String()); err != nil || back != id {
			t.Errorf("%s is read as %v, %v", id, back, err)
		}
	}
	for _, s := range []string{"", "0", "0_", "_1", "0_1_2", "-1_0", "0_01", "+0_1", "0_2147483648", "a_b"} {
		if id, err := topology.ParseTaskID(s); err == nil || !strings.Contains(err.Error(), strconv.Quote(s)) {
			t.Errorf("%q is read as %v, %v", s, id, err)
		}
	}
}
