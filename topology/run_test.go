package topology_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// Whole topologies, run without Kafka. Commands:
//
//	topology [partitions=(T:N,...)]     the input is the YAML; starts a driver
//	put topic=T                         the input has records, one a line: "key | value | timestamp"; ~ is null, key and
//	                                    value may be quoted as Go strings
//	output topic=T                      what was written since the last time
//	store name=S                        all entries, windows, sessions or versions, as text by the store's formats
//	changelog name=S                    what the store wrote since the start, partition by partition
//	asof name=S key=K at=(T,...)        a key of a versioned store at each time
//	skipped                             counts by reason
func TestReadyMadeTopologies(t *testing.T) {
	datadriven.Walk(t, "testdata/run", func(t *testing.T, path string) {
		t.Helper()
		var driver *topologytest.Driver
		var topo *topology.Topology
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var topic, name string
			d.MaybeScanArgs(t, "topic", &topic)
			d.MaybeScanArgs(t, "name", &name)
			switch d.Cmd {
			case "topology":
				topo, driver = start(t, d)
				return "tasks " + fmt.Sprint(driver.Tasks()) + "\n"
			case "put":
				for line := range strings.Lines(d.Input) {
					if err := driver.Put(record(t, topic, line)); err != nil {
						return err.Error()
					}
				}
				return ""
			case "output":
				return records(driver.Output(topic))
			case "store":
				return contents(t, topo, driver, name)
			case "changelog":
				return changelog(t, topo, driver, name)
			case "asof":
				return asOf(t, topo, driver, name, d)
			case "skipped":
				var b strings.Builder
				skipped := driver.Skipped()
				for _, reason := range slices.Sorted(maps.Keys(skipped)) {
					fmt.Fprintf(&b, "%s %d\n", reason, skipped[reason])
				}
				return b.String()
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

func start(t *testing.T, d *datadriven.TestData) (*topology.Topology, *topologytest.Driver) {
	t.Helper()
	c, err := topology.LoadYAML([]byte(d.Input))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	partitions := map[string]int32{}
	for _, arg := range d.CmdArgs {
		for _, v := range arg.Vals {
			topic, n, _ := strings.Cut(v, ":")
			count, err := strconv.ParseInt(n, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			partitions[topic] = int32(count)
		}
	}
	driver, err := topologytest.New(topo, partitions)
	if err != nil {
		t.Fatal(err)
	}
	return topo, driver
}

func record(t *testing.T, topic, line string) topology.Record {
	t.Helper()
	cells := strings.Split(strings.TrimRight(line, "\n"), " | ")
	if len(cells) != 3 {
		t.Fatalf("record %q: want key | value | timestamp", line)
	}
	ts, err := strconv.ParseInt(cells[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return topology.Record{Topic: topic, Key: data(t, cells[0]), Value: data(t, cells[1]), Timestamp: ts}
}

func data(t *testing.T, s string) []byte {
	t.Helper()
	if s == "~" {
		return nil
	}
	if strings.HasPrefix(s, "`") || strings.HasPrefix(s, `"`) {
		text, err := strconv.Unquote(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return []byte(text)
	}
	return []byte(s)
}

// printable is a key as it is, or in hexadecimal if it is no text.
func printable(key []byte) string {
	for _, c := range string(key) {
		if !strconv.IsPrint(c) || c == utf8.RuneError {
			return fmt.Sprintf("0x%x", key)
		}
	}
	return string(key)
}

func records(all []topology.Record) string {
	var b strings.Builder
	for _, r := range all {
		value := "~"
		if r.Value != nil {
			value = strconv.Quote(string(r.Value))
		}
		fmt.Fprintf(&b, "%d: %s | %s | %d\n", r.Partition, printable(r.Key), value, r.Timestamp)
	}
	return b.String()
}

func entries(t *testing.T, topo *topology.Topology, d *topologytest.Driver, name string) string {
	t.Helper()
	spec, ok := topo.Store(name)
	if !ok {
		t.Fatalf("no store %q", name)
	}
	keys, err := topology.SerdeByName(spec.KeySerde)
	if err != nil {
		t.Fatal(err)
	}
	values, err := topology.SerdeByName(spec.ValueSerde)
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.All(name)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range all {
		key, err := keys.Format(e.Key)
		if err != nil {
			t.Fatal(err)
		}
		value, err := values.Format(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		got, found, err := d.Get(name, e.Key, nil)
		if err != nil || !found || string(got) != string(e.Value) {
			t.Errorf("store %s: a lookup of %q gives %q, %v, %v; a scan gives %q", name, e.Key, got, found, err, e.Value)
		}
		fmt.Fprintf(&b, "%s = %s at %d\n", key, value, e.Timestamp)
	}
	return b.String()
}
