package topology_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

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
