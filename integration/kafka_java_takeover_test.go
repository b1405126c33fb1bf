//go:build kafka && java

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/javaapp"
)

// sharedYAML is what the Java application has as its shared stores, as a topology of our own.
const sharedYAML = `
application: APP
sources:
  - {topic: APP-in, format: raw, value_serde: string}
aggregates:
  - {store: counts, source: APP-in, count: true}
  - {store: win, source: APP-in, count: true, window: {tumbling: 60s, grace: 1m, retention: 20m}}
`

// A Kafka Streams application of the same topology goes on with what our nodes have counted, and our nodes with what it has:
// group, committed offsets, changelogs and their formats are the same, whoever made them.
func TestKafkaStreamsAndOurNodesTakeOverFromEachOther(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []string
	}{
		{"ours first", []string{"ours", "java", "ours"}},
		{"java first", []string{"java", "ours", "java"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			buildJava(t)
			a := newApp(t, sharedYAML, map[string]int32{"in": 3})
			j := a.java(javaapp.Options{Stores: "shared"})
			var n *server
			events := 0
			for turn, who := range c.turns {
				switch {
				case who == "java":
					j.run()
				case n == nil:
					n = a.start("a")
				default:
					n.run()
				}
				events = a.feedShared(events, 6000)
				a.caughtUp("in")
				for _, store := range []string{"counts", "win"} {
					want := wantShared(store, events)
					var got []string
					a.eventually(30*time.Second, fmt.Sprintf("turn %d, %s: %s counts on", turn, who, store), func() (err error) {
						if who == "java" {
							got, err = j.lines(store)
						} else {
							got, err = a.strongRows(n.Client, store)
						}
						if err == nil && !slices.Equal(got, want) && len(got) < len(want) {
							err = fmt.Errorf("%d of %d lines", len(got), len(want))
						}
						return err
					})
					sameLines(t, fmt.Sprintf("turn %d, %s: %s", turn, who, store), want, got)
				}
				if who == "java" {
					j.stop()
				} else {
					n.stop()
				}
			}
		})
	}
}

// feedShared writes so many records more, from the one with number from on.
func (a *app) feedShared(from, n int) int {
	a.t.Helper()
	var recs []*kgo.Record
	for i := from; i < from+n; i++ {
		recs = append(recs, sharedEvent(i, a.topic("in")))
	}
	if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
	return from + n
}

// sharedEvent is the i-th record: 500 keys, in the order of their time, over six minutes for each turn of 6,000.
func sharedEvent(i int, topic string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%500), Value: []byte("x"), Timestamp: time.UnixMilli(javaT0 + int64(i)*60),
	}
}

// wantShared is what a store holds after so many records, in the words of the application's dump.
func wantShared(store string, events int) []string {
	type place struct {
		key   string
		start int64
	}
	counts := make(map[place]uint64)
	for i := range events {
		rec := sharedEvent(i, "")
		p := place{key: string(rec.Key)}
		if store == "win" {
			p.start = rec.Timestamp.UnixMilli() / 60_000 * 60_000
		}
		counts[p]++
	}
	var lines []string
	for p, n := range counts {
		times := ""
		if store == "win" {
			times = fmt.Sprintf("%d %d ", p.start, p.start+60_000)
		}
		lines = append(lines, fmt.Sprintf("%x %s=%016x", p.key, times, n))
	}
	slices.Sort(lines)
	return lines
}

// strongRows are all rows of a store at the actives.
func (a *app) strongRows(from *client.Client, store string) ([]string, error) {
	var all []string
	for row, err := range from.Scan(a.ctx, store, client.Strong(), client.Wait(10*time.Second)).Rows() {
		if err != nil {
			return nil, err
		}
		all = append(all, rowLine(row))
	}
	slices.Sort(all)
	return all, nil
}
