package topology_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// The input is a YAML file; the output its faults, or the topology that it makes.
func TestYAMLFaultsAreReportedTogetherWithTheirLines(t *testing.T) {
	datadriven.Walk(t, "testdata/yaml", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c, err := topology.LoadYAML([]byte(d.Input))
			var topo *topology.Topology
			if err == nil {
				topo, err = c.Build(nil)
			}
			if err != nil {
				return err.Error()
			}
			return topo.Describe()
		})
	})
}

func TestConfigMadeInGoIsCheckedLikeYAML(t *testing.T) {
	c := &topology.Config{
		Sources:    []topology.SourceConfig{{Topic: "a", Format: topology.FormatCSV}},
		Aggregates: []topology.AggregateConfig{{Store: "s", Source: "b", Op: topology.OpSum}},
	}
	err := c.Validate(nil)
	if err == nil {
		t.Fatal("no error")
	}
	want := strings.Join([]string{
		"application: is required",
		"sources[0].columns: is required for format csv, since records have no header line",
		`aggregates[0].source: "b" is not one of the sources`,
		"aggregates[0].sum: is required",
		`sources[0].topic: no table and no aggregate uses "a"`,
	}, "\n")
	if err.Error() != want {
		t.Errorf("faults are\n%v\nwant\n%s", err, want)
	}
}

func TestYAMLPartitionersAreLookedUpInTheRegistryOfBuild(t *testing.T) {
	c, err := topology.LoadYAML([]byte(`
application: a
sources: [{topic: t, format: json, partitioner: mine}]
aggregates: [{store: s, source: t, count: true}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(nil); err == nil || !strings.Contains(err.Error(), `line 3: sources[0].partitioner: partitioner "mine" is not known`) {
		t.Errorf("without a registry: %v", err)
	}
	r, err := partitioner.NewRegistry(partitioner.Custom("mine", nil, func(string, []byte, []byte, int32) partitioner.Choice { return partitioner.Default() }))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(r)
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := topo.Store("s"); s.Partitioner != "mine" {
		t.Errorf("the store's partitioner is %q, want mine", s.Partitioner)
	}
}

// The example of windows in the package's documentation, as Go values.
func TestWindowsOfTheDocumentationAreReadAsWritten(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	for line := range strings.Lines(string(doc)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok && (file.Len() > 0 || strings.HasPrefix(text, "application:")) {
			file.WriteString(text)
		} else if file.Len() > 0 {
			break
		}
	}
	c, err := topology.LoadYAML([]byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(nil); err != nil {
		t.Fatal(err)
	}
	if c.Tables[0].History != 5*time.Minute {
		t.Errorf("the history is %s, want 5m", c.Tables[0].History)
	}
	want := []topology.Windows{
		topology.Tumbling(time.Minute).WithGrace(10 * time.Second).WithRetention(2 * time.Minute),
		topology.Hopping(time.Hour, 5*time.Minute),
		topology.Sliding(30 * time.Second).WithGrace(5 * time.Second),
		topology.Sessions(30 * time.Minute).WithGrace(time.Minute),
	}
	for i, a := range c.Aggregates {
		if a.Window != want[i] {
			t.Errorf("windows of %s are %+v, want %+v", a.Store, a.Window, want[i])
		}
	}
	if o := c.Aggregates[3].Output; o.Key != topology.KeyJSON {
		t.Errorf("the keys of visits are %s, want json", o.Key)
	}
}

// A configuration made in Go is held to the same rules as a file.
func TestWindowsMadeInGoAreCheckedLikeYAML(t *testing.T) {
	aggregate := func(store string, w topology.Windows) topology.AggregateConfig {
		return topology.AggregateConfig{Store: store, Source: "t", Op: topology.OpCount, Window: w}
	}
	c := &topology.Config{
		Application: "a",
		Sources:     []topology.SourceConfig{{Topic: "t"}},
		Tables: []topology.TableConfig{
			{Store: "t0", Source: "t", History: -time.Second},
			{Store: "t1", Source: "t", History: 1500 * time.Microsecond, Output: topology.OutputConfig{Topic: "o", Key: topology.KeyText}},
		},
		Aggregates: []topology.AggregateConfig{
			aggregate("a0", topology.Windows{Size: time.Second}),
			aggregate("a1", topology.Windows{Kind: 9, Size: time.Second}),
			aggregate("a2", topology.Hopping(time.Second, 0)),
			aggregate("a3", topology.Sliding(-time.Second).WithGrace(-1)),
			aggregate("a4", topology.Sessions(time.Second).WithGrace(time.Second).WithRetention(time.Second)),
			aggregate("a5", topology.Tumbling(1<<62)),
			{Store: "a6", Source: "t", Op: topology.OpCount, Output: topology.OutputConfig{Topic: "o", Key: 9}},
		},
	}
	err := c.Validate(nil)
	if err == nil {
		t.Fatal("no error")
	}
	want := strings.Join([]string{
		"tables[0].versioned.history: -1s is less than 1ms",
		"tables[1].versioned.history: 1.5ms is no whole number of milliseconds",
		"tables[1].output_key: is of no use without window",
		"aggregates[0].window: one of tumbling, hopping, sliding, session is required",
		"aggregates[1].window: windows(9) is not known",
		"aggregates[2].window.advance: 0s is less than 1ms",
		"aggregates[3].window.sliding: -1s is less than 1ms",
		"aggregates[3].window.grace: -1ns is less than 0s",
		"aggregates[4].window.retention: 1s is less than the gap and the grace, 2s",
		"aggregates[5].window.tumbling: 1281023h53m38.427387904s is more than 438000h0m0s",
		"aggregates[6].output_key: form(9) is not known",
	}, "\n")
	if err.Error() != want {
		t.Errorf("faults are\n%v\nwant\n%s", err, want)
	}
}

func TestYAMLFileHasABound(t *testing.T) {
	_, err := topology.LoadYAML(make([]byte, topology.MaxYAML+1))
	want := fmt.Sprintf("the file has %d bytes, at most %d are read", topology.MaxYAML+1, topology.MaxYAML)
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestYAMLListsHaveABound(t *testing.T) {
	file := "application: a\nsources: [{topic: t, format: csv, columns: [" + strings.Repeat("c, ", 1001) + "]}]\n"
	_, err := topology.LoadYAML([]byte(file))
	if err == nil || !strings.Contains(err.Error(), "line 2: sources[0].columns: has 1001 items, at most 1000 are allowed") {
		t.Errorf("%v", err)
	}
}

// Whatever the bytes: no panic, and either a configuration that builds or faults that say where.
func FuzzLoadYAML(f *testing.F) {
	flights, err := os.ReadFile("testdata/flights.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(flights)
	f.Add([]byte("application: a\nsources: [{topic: t, format: json}]\ntables: [{store: s, source: t}]\n"))
	f.Add([]byte("application: a\nsources: [{topic: t, format: raw}]\ntables: [{store: s, source: t, versioned: {history: 1h}}]\n" +
		"aggregates: [{store: w, source: t, count: true, window: {hopping: 5m, advance: 1m, grace: 1s}, output: o, output_key: text}]\n"))
	f.Add([]byte("a: &a [*a]\napplication: *a\n"))
	f.Add([]byte("sources: &x\n  - *x\n"))
	f.Add([]byte("--- {}\n--- {}\n"))
	f.Add([]byte("sources: [1, [], {}, {topic: []}, null]\ntables: x\naggregates: [{count: 1, sum: 2}]"))
	f.Add([]byte("application: !!binary aGVsbG8=\n? [a, b]\n: c\n<<: {on_error: stop}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := topology.LoadYAML(data)
		if err != nil {
			e, ok := errors.AsType[*topology.ConfigError](err)
			if !ok || len(e.Faults) == 0 || err.Error() == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if _, err := c.Build(nil); err != nil {
			if _, ok := errors.AsType[*topology.ConfigError](err); !ok {
				t.Fatalf("a configuration without faults does not build: %v", err)
			}
		}
	})
}
