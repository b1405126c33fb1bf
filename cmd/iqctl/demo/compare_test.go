package demo

import (
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/topology"
)

func readFlights(t *testing.T) *flights {
	t.Helper()
	gz, err := os.ReadFile("../flights-2013-01.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFlights(gz)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The figures were counted with awk.
func TestPlainPassGivesTheKnownFigures(t *testing.T) {
	f := readFlights(t)
	if len(f.lines) != 27004 || sum(f.stores[byDest]) != 27004 {
		t.Errorf("%d lines and a sum of counts of %d, want 27004", len(f.lines), sum(f.stores[byDest]))
	}
	if got := top(f.stores[byDest], 3); !reflect.DeepEqual(got, []ranked{{"ATL", 1396}, {"ORD", 1269}, {"BOS", 1245}}) {
		t.Errorf("top destinations %v", got)
	}
	if len(f.stores[byDest]) != 94 || len(f.stores[byCarrier]) != 16 || len(f.stores[byTail]) != 3148 {
		t.Errorf("%d destinations, %d carriers, %d aircraft; want 94, 16, 3148", len(f.stores[byDest]), len(f.stores[byCarrier]), len(f.stores[byTail]))
	}
}

func TestPlainPassSkipsWhatIsNull(t *testing.T) {
	f, err := passOver([]string{"dest", "carrier", "tailnum", "flight", "dep_delay"}, []string{
		"ATL,UA,N1,1,5",
		"ATL,UA,NA,2,NA",
		"NA,AA,N2,3,-7",
		"BOS,AA,N1,4,",
		"BOS,,,5,9",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]contents{
		byDest:    {"ATL": "2", "BOS": "2"},
		byCarrier: {"UA": "5", "AA": "-7"},
		byTail: {
			"N1": `{"carrier":"AA","dep_delay":null,"dest":"BOS","flight":4,"tailnum":"N1"}`,
			"N2": `{"carrier":"AA","dep_delay":-7,"dest":null,"flight":3,"tailnum":"N2"}`,
		},
	}
	if !reflect.DeepEqual(f.stores, want) {
		t.Errorf("stores %v, want %v", f.stores, want)
	}
	for n, keys := range map[int]string{0: "", 1: "N1", 2: "N1", 3: "N1 N2", 5: "N1 N2"} {
		var got []string
		for _, k := range f.fed(byTail, n) {
			got = append(got, k.key)
		}
		if strings.Join(got, " ") != keys {
			t.Errorf("after %d lines the aircraft %v can be read, want %s", n, got, keys)
		}
	}
}

func TestBrokenFlightsAreRefusedByLine(t *testing.T) {
	columns := []string{"dest", "carrier", "tailnum", "flight", "dep_delay"}
	for _, line := range []string{"ATL,UA,N1,1", "ATL,UA,N1,1,late"} {
		if _, err := passOver(columns, []string{"ATL,UA,N1,1,5", line}); err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: error %v, want one that names line 3", line, err)
		}
	}
	if _, err := passOver(columns[1:], nil); err == nil || !strings.Contains(err.Error(), "dest") {
		t.Errorf("error %v, want one that names the column dest", err)
	}
}

func TestDifferencesAreFoundAndNothingElse(t *testing.T) {
	want := map[string]contents{byDest: {"ATL": "2", "BOS": "1"}, byCarrier: {"UA": "-3"}}
	for _, c := range []struct {
		name string
		got  map[string]contents
		want []string
	}{
		{"equal", map[string]contents{byDest: {"BOS": "1", "ATL": "2"}, byCarrier: {"UA": "-3"}}, nil},
		{"counted twice", map[string]contents{byDest: {"ATL": "3", "BOS": "1"}, byCarrier: {"UA": "-3"}}, []string{`by-dest "ATL" is 3, must be 2`}},
		{"lost", map[string]contents{byDest: {"ATL": "2"}, byCarrier: {"UA": "-3"}}, []string{`by-dest "BOS" is (absent), must be 1`}},
		{"too many", map[string]contents{byDest: {"ATL": "2", "BOS": "1", "NA": "1"}, byCarrier: {"UA": "-3"}}, []string{`by-dest "NA" is 1, must be (absent)`}},
		{"a store is missing", map[string]contents{byDest: {"ATL": "2", "BOS": "1"}}, []string{`by-carrier "UA" is (absent), must be -3`}},
		{"a store too many", map[string]contents{byDest: {"ATL": "2", "BOS": "1"}, byCarrier: {"UA": "-3"}, "x": {"k": "v"}}, []string{`x "k" is v, must be (absent)`}},
	} {
		var got []string
		for _, d := range differences(want, c.got) {
			got = append(got, d.String())
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Whatever single change is made to what the stores hold, the comparison sees it.
func TestAnySingleChangeIsADifference(t *testing.T) {
	want := readFlights(t).stores
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		store := storeNames[r.IntN(len(storeNames))]
		got := maps.Clone(want)
		got[store] = maps.Clone(want[store])
		var key string
		for key = range want[store] { // any
			break
		}
		switch r.IntN(3) {
		case 0:
			delete(got[store], key)
		case 1:
			got[store][key] += "0"
		case 2:
			got[store]["nowhere"] = "1"
		}
		if n := len(differences(want, got)); n != 1 {
			t.Fatalf("%d differences after one change to %s %s, want 1", n, store, key)
		}
	}
	if n := len(differences(want, maps.Clone(want))); n != 0 {
		t.Errorf("%d differences after no change", n)
	}
}

func TestValuesAreReadAsTheStoresWriteThem(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 1396, 1 << 40} {
		data, err := topology.Int64.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		if got := valueText(byDest, data); got != strconv.FormatInt(n, 10) {
			t.Errorf("%d is read as %s", n, got)
		}
	}
	row := `{"tailnum":"N1","flight":12,"dep_delay":null}`
	if got, want := valueText(byTail, []byte(row)), `{"dep_delay":null,"flight":12,"tailnum":"N1"}`; got != want {
		t.Errorf("%s is read as %s, want %s", row, got, want)
	}
	for store, data := range map[string]string{byDest: "12", byCarrier: "", byTail: "{"} {
		if got := valueText(store, []byte(data)); got != strconv.Quote(data) {
			t.Errorf("%s: %q, which is no value, is read as %s", store, data, got)
		}
	}
}

// The demo's topology is the one that package topology tests against a plain pass of its own.
func TestTopologyIsTheTestedOne(t *testing.T) {
	tested, err := os.ReadFile("../../../topology/testdata/flights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(tested) != flightsYAML {
		t.Error("flights.yaml differs from topology/testdata/flights.yaml")
	}
}
