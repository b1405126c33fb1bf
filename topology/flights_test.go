package topology_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

const flightsFile = "../cmd/iqctl/flights-2013-01.csv.gz"

// readFlights returns the lines of the month without the header.
func readFlights(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(flightsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	scan := bufio.NewScanner(z)
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return lines[1:]
}

// loadYAML reads a topology of testdata.
func loadYAML(t *testing.T, file string) *topology.Topology {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := topology.LoadYAML(data)
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// A month of flights must count as a plain pass over the file does.
func TestFlightsOfAMonthCountAsInTheFile(t *testing.T) {
	d, err := topologytest.New(loadYAML(t, "testdata/flights.yaml"), map[string]int32{"flights": 6, "by-dest-changes": 2})
	if err != nil {
		t.Fatal(err)
	}
	lines := readFlights(t)
	if len(lines) != 27004 {
		t.Fatalf("%d records in the file, want 27004", len(lines))
	}
	byDest, byCarrier, byTail := map[string]int64{}, map[string]int64{}, map[string]string{}
	var noDelay, noTail int64
	for i, line := range lines {
		cells := strings.Split(line, ",")
		dest, carrier, tail := cells[10], cells[6], cells[8]
		byDest[dest]++
		if minutes, err := strconv.ParseInt(cells[4], 10, 64); err == nil {
			byCarrier[carrier] += minutes
		} else {
			noDelay++
		}
		if tail == "NA" || tail == "" {
			noTail++
		} else {
			byTail[tail] = line
		}
		r := topology.Record{Topic: "flights", Key: []byte(strconv.Itoa(i)), Value: []byte(line), Timestamp: int64(i)}
		if err := d.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if byDest["ATL"] != 1396 || byDest["ORD"] != 1269 || byDest["BOS"] != 1245 {
		t.Fatalf("the file has ATL %d, ORD %d, BOS %d", byDest["ATL"], byDest["ORD"], byDest["BOS"])
	}
	int64s := func(store string) map[string]int64 {
		all, err := d.All(store)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, e := range all {
			v, err := topology.Int64.Decode(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			got[string(e.Key)] += v
		}
		return got
	}
	sameNumbers(t, "by-dest", int64s("by-dest"), byDest)
	sameNumbers(t, "by-carrier", int64s("by-carrier"), byCarrier)
	if n := len(d.Output("by-dest-changes")); n != len(lines) {
		t.Errorf("%d changes of by-dest, want %d", n, len(lines))
	}
	if got := d.Skipped(); got[topology.SkipNullField] != noDelay || got[topology.SkipNullKey] != noTail || len(got) > 2 {
		t.Errorf("skipped %v, want null_field %d and null_key %d", got, noDelay, noTail)
	}
	rows, err := d.All("by-tail")
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(byTail) {
		t.Errorf("%d tails, want %d", len(rows), len(byTail))
	}
	for _, e := range rows {
		var row struct {
			Flight json.Number
			Dest   string
			Origin string
			Year   int
		}
		if err := json.Unmarshal(e.Value, &row); err != nil {
			t.Fatalf("%s: %v", e.Key, err)
		}
		cells := strings.Split(byTail[string(e.Key)], ",")
		if row.Flight.String() != cells[7] || row.Origin != cells[9] || row.Dest != cells[10] || row.Year != 2013 {
			t.Errorf("%s: latest is %s, want that of %v", e.Key, e.Value, cells)
		}
	}
}

func sameNumbers(t *testing.T, store string, got, want map[string]int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s has %d keys, want %d", store, len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %s = %d, want %d", store, k, got[k], v)
		}
	}
}
