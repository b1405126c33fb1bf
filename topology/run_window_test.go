package topology_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// formats returns functions that show keys and values of a store.
func formats(t *testing.T, topo *topology.Topology, name string) (spec topology.StoreSpec, key, value func([]byte) string) {
	t.Helper()
	spec, ok := topo.Store(name)
	if !ok {
		t.Fatalf("no store %q", name)
	}
	show := func(name string) func([]byte) string {
		serde, err := topology.SerdeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return func(data []byte) string {
			if data == nil {
				return "~"
			}
			text, err := serde.Format(data)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	return spec, show(spec.KeySerde), show(spec.ValueSerde)
}

// contents shows a store of any kind.
func contents(t *testing.T, topo *topology.Topology, d *topologytest.Driver, name string) string {
	t.Helper()
	spec, key, value := formats(t, topo, name)
	var b strings.Builder
	for p := range d.Partitions(spec.Changelog) {
		switch spec.Kind {
		case topology.KeyValue:
			return entries(t, topo, d, name)
		case topology.Window:
			for _, e := range d.WindowStore(name, p).All() {
				fmt.Fprintf(&b, "%s %d+%d = %s at %d\n", key(e.Key), e.Start, spec.WindowSize.Milliseconds(), value(e.Value), e.Timestamp)
			}
		case topology.Session:
			for _, e := range d.SessionStore(name, p).All() {
				fmt.Fprintf(&b, "%s %d..%d = %s\n", key(e.Key), e.Start, e.End, value(e.Value))
			}
		case topology.Versioned:
			for _, v := range d.VersionedStore(name, p).All() {
				fmt.Fprintf(&b, "%s from %d = %s\n", key(v.Key), v.Timestamp, value(v.Value))
			}
		}
	}
	return b.String()
}

func changelog(t *testing.T, topo *topology.Topology, d *topologytest.Driver, name string) string {
	t.Helper()
	spec, _, value := formats(t, topo, name)
	var b strings.Builder
	for p := range d.Partitions(spec.Changelog) {
		records, err := d.Changelog(name, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			fmt.Fprintf(&b, "%d: %s = %s at %d\n", p, printable(r.Key), value(r.Value), r.Timestamp)
		}
	}
	return b.String()
}

func asOf(t *testing.T, topo *topology.Topology, d *topologytest.Driver, name string, args *datadriven.TestData) string {
	t.Helper()
	var key string
	args.ScanArgs(t, "key", &key)
	_, _, value := formats(t, topo, name)
	store := d.VersionedStore(name, 0)
	var b strings.Builder
	show := func(what string, data []byte, ts int64, found bool, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if found {
			fmt.Fprintf(&b, "%s: %s from %d\n", what, value(data), ts)
		} else {
			fmt.Fprintf(&b, "%s: no such key\n", what)
		}
	}
	for _, a := range args.CmdArgs {
		if a.Key != "at" {
			continue
		}
		for _, v := range a.Vals {
			at, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			data, ts, found, err := store.GetAsOf([]byte(key), at)
			show(v, data, ts, found, err)
		}
	}
	data, ts, found, err := store.Get([]byte(key))
	show("latest", data, ts, found, err)
	return b.String()
}
