package demo

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// The stores of flights.yaml.
const (
	byDest    = "by-dest"
	byCarrier = "by-carrier"
	byTail    = "by-tail"
)

// storeNames are the stores, in the order of the report.
var storeNames = []string{byDest, byCarrier, byTail}

// maxFlightBytes bounds the unpacked file.
const maxFlightBytes = 64 << 20

// contents is what a store holds: for each key its value as text, in one fixed form.
type contents map[string]string

// flights is the file, and what the stores must hold in the end by one plain pass over it. It shares no code with the
// topology.
type flights struct {
	lines  []string // without the header
	keys   []string // of the records, by line
	stores map[string]contents
	// seen has each store's keys in the order in which the file names them, with the line where it does.
	seen map[string][]firstSeen
}

type firstSeen struct {
	key  string
	line int
}

// parseFlights unpacks the file and passes over it once.
func parseFlights(gz []byte) (*flights, error) {
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, fmt.Errorf("the flights: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxFlightBytes))
	if err != nil {
		return nil, fmt.Errorf("the flights: %w", err)
	}
	header, rest, _ := strings.Cut(string(text), "\n")
	return passOver(strings.Split(header, ","), strings.Split(strings.TrimSuffix(rest, "\n"), "\n"))
}

// texts are the columns that are no numbers.
var texts = []string{"carrier", "tailnum", "origin", "dest"}

// passOver computes what the stores must hold: how many flights go to each destination, how many minutes each carrier
// was late at departure in all, and the latest flight of each aircraft. NA and nothing are null: they group nothing and
// add nothing.
func passOver(columns, lines []string) (*flights, error) {
	at := make(map[string]int, len(columns))
	for i, c := range columns {
		at[c] = i
	}
	for _, c := range []string{"dest", "carrier", "tailnum", "flight", "dep_delay"} {
		if _, ok := at[c]; !ok {
			return nil, fmt.Errorf("the flights have no column %s", c)
		}
	}
	f := &flights{lines: lines, stores: map[string]contents{}, seen: map[string][]firstSeen{}}
	counts, delays, latest := map[string]int{}, map[string]int{}, map[string][]string{}
	known := map[string]map[string]bool{byDest: {}, byCarrier: {}, byTail: {}}
	see := func(store, key string, line int) {
		if !known[store][key] {
			known[store][key] = true
			f.seen[store] = append(f.seen[store], firstSeen{key, line})
		}
	}
	for i, line := range lines {
		cells := strings.Split(line, ",")
		if len(cells) != len(columns) {
			return nil, fmt.Errorf("line %d of the flights has %d columns, want %d", i+2, len(cells), len(columns))
		}
		f.keys = append(f.keys, cells[at["carrier"]]+cells[at["flight"]])
		if dest := cells[at["dest"]]; !null(dest) {
			counts[dest]++
			see(byDest, dest, i)
		}
		if carrier, delay := cells[at["carrier"]], cells[at["dep_delay"]]; !null(carrier) && !null(delay) {
			minutes, err := strconv.Atoi(delay)
			if err != nil {
				return nil, fmt.Errorf("line %d of the flights: dep_delay %q is no whole number", i+2, delay)
			}
			delays[carrier] += minutes
			see(byCarrier, carrier, i)
		}
		if tail := cells[at["tailnum"]]; !null(tail) {
			latest[tail] = cells
			see(byTail, tail, i)
		}
	}
	f.stores[byDest], f.stores[byCarrier] = numbersText(counts), numbersText(delays)
	f.stores[byTail] = contents{}
	for tail, cells := range latest {
		text, err := rowText(columns, cells)
		if err != nil {
			return nil, err
		}
		f.stores[byTail][tail] = text
	}
	return f, nil
}

func null(cell string) bool { return cell == "" || cell == "NA" }

func numbersText(numbers map[string]int) contents {
	c := contents{}
	for key, n := range numbers {
		c[key] = strconv.Itoa(n)
	}
	return c
}

// rowText is a line as JSON with its members in the order of their names, the form of jsonText.
func rowText(columns, cells []string) (string, error) {
	row := map[string]any{}
	for i, c := range columns {
		switch {
		case null(cells[i]):
			row[c] = nil
		case slices.Contains(texts, c):
			row[c] = cells[i]
		default:
			row[c] = json.Number(cells[i])
		}
	}
	text, err := json.Marshal(row)
	return string(text), err
}

// jsonText brings a JSON object into the form of rowText.
func jsonText(data []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var row map[string]any
	if err := d.Decode(&row); err != nil {
		return "", err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("more than one JSON value")
	}
	text, err := json.Marshal(row)
	return string(text), err
}

// fed gives the keys of a store that the first n lines name.
func (f *flights) fed(store string, n int) []firstSeen {
	all := f.seen[store]
	return all[:sort.Search(len(all), func(i int) bool { return all[i].line >= n })]
}
