package topology_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// eventTime is the first timestamp of the fixture, in milliseconds; no multiple of a minute by accident.
const eventTime = 1700000040000

// fixtureRow is one record of a changelog.
type fixtureRow struct {
	store     string
	partition int32
	key       string
	value     []byte
	timestamp int64
}

// String shows every byte.
func (r fixtureRow) String() string {
	value := "~"
	if r.value != nil {
		value = strconv.Quote(string(r.value))
	}
	return fmt.Sprintf("%s/%d %x = %s at T%+d", r.store, r.partition, r.key, value, r.timestamp-eventTime)
}

// fixture reads what Kafka Streams wrote to its changelogs, control records left out.
func fixture(t *testing.T) []fixtureRow {
	t.Helper()
	text, err := os.ReadFile("../integration/testdata/kafka-streams-changelogs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		switch s {
		case "NULL":
			return nil
		case "EMPTY":
			return []byte{}
		}
		data, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	number := func(s string) int64 {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var rows []fixtureRow
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if cells[3] != "record" {
			continue
		}
		store := strings.TrimSuffix(strings.TrimPrefix(cells[0], "javaapp-"), "-changelog")
		rows = append(rows, fixtureRow{store, int32(number(cells[1])), string(unhex(cells[5])), unhex(cells[6]), number(cells[4])})
	}
	return rows
}

// javaApp is the application that wrote the fixture, in our terms, with the records that it was given.
func javaApp(t *testing.T) *topologytest.Driver {
	t.Helper()
	c, err := topology.LoadYAML([]byte(`
application: javaapp
sources:
  - {topic: events, format: raw}
  - {topic: versions, format: raw}
  - {topic: rows, format: raw}
tables:
  - {store: ver, source: versions, versioned: {history: 5m}}
  - {store: tab, source: rows}
aggregates:
  - {store: counts, source: events, count: true}
  - {store: win, source: events, count: true, window: {tumbling: 60s, grace: 60s}}
  - {store: sess, source: events, count: true, window: {session: 30s, grace: 60s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(topo, map[string]int32{"events": 3, "versions": 3, "rows": 3})
	if err != nil {
		t.Fatal(err)
	}
	put := func(topic, key string, value []byte, timestamp int64) {
		t.Helper()
		if err := d.Put(topology.Record{Topic: topic, Key: []byte(key), Value: value, Timestamp: timestamp}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct {
		key   string
		after int64
	}{{"alice", 0}, {"alice", 10000}, {"bob", 20000}, {"alice", 60000}, {"alice", 35000}} {
		put("events", r.key, []byte("x"), eventTime+r.after)
	}
	for _, r := range fixture(t) {
		switch r.store {
		case "ver":
			put("versions", r.key, r.value, r.timestamp)
		case "tab":
			put("rows", r.key, r.value, r.timestamp)
		}
	}
	return d
}

// The changelogs are those of Kafka Streams, record by record: keys, values, tombstones, timestamps and partitions, of
// stores of every kind.
func TestS21S23ChangelogsAreThoseOfKafkaStreams(t *testing.T) {
	d := javaApp(t)
	rows := fixture(t)
	for _, store := range []string{"counts", "win", "sess", "ver", "tab"} {
		for p := range int32(3) {
			var want, got []string
			for _, r := range rows {
				if r.store == store && r.partition == p {
					want = append(want, r.String())
				}
			}
			records, err := d.Changelog(store, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				got = append(got, fixtureRow{store, p, string(r.Key), r.Value, r.Timestamp}.String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s partition %d:\n%s\nwant\n%s", store, p, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if n := len(rows); n != 39 {
		t.Errorf("the fixture has %d records, want 39", n)
	}
	if skipped := d.Skipped(); len(skipped) > 0 {
		t.Errorf("skipped %v, want none", skipped)
	}
}

// What the fixture's stores hold, as the case has it.
func TestS21WindowsAndSessionsHoldTheirCounts(t *testing.T) {
	d := javaApp(t)
	var got []string
	for _, e := range d.WindowStore("win", 0).All() {
		got = append(got, fmt.Sprintf("%s T%+d %d", e.Key, e.Start-eventTime, e.Value[7]))
	}
	for _, e := range d.SessionStore("sess", 0).All() {
		got = append(got, fmt.Sprintf("%s T%+d..T%+d %d", e.Key, e.Start-eventTime, e.End-eventTime, e.Value[7]))
	}
	want := []string{"alice T+0 3", "alice T+60000 1", "bob T+0 1", "alice T+0..T+60000 4", "bob T+20000..T+20000 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if key := fmt.Sprintf("%x", topology.WindowKey([]byte("alice"), eventTime)); key != "616c6963650000018bcfe60440" {
		t.Errorf("the key is %s", key)
	}
}
