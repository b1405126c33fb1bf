package node

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/store"
)

// FuzzStreamTimesOfAnyMetadata gives any text as the metadata of a committed offset. What is ours and whole comes back, all
// else says nothing.
func FuzzStreamTimesOfAnyMetadata(f *testing.F) {
	f.Add(timesFormat + `{"task":5,"processors":{"a":7,"b":-1}}`)
	f.Add(timesFormat + `{"task":5`)
	f.Add(timesFormat + `null`)
	f.Add(timesFormat + `{"task":1e400,"processors":[]}`)
	f.Add("AgAAAYvP5gRA") // Kafka Streams'
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		s := decodeTimes(text)
		if len(text) < len(timesFormat) || text[:len(timesFormat)] != timesFormat || !json.Valid([]byte(text[len(timesFormat):])) {
			if s.Task != -1 || len(s.Processors) > 0 {
				t.Fatalf("%q says %+v", text, s)
			}
			return
		}
		again := decodeTimes(s.encode())
		if again.Task != s.Task {
			t.Fatalf("%q says %+v, and then %+v", text, s, again)
		}
		for name, ms := range again.Processors {
			if have, ok := s.Processors[name]; ok && have != ms {
				t.Fatalf("%q: %q is at %d, and then at %d", text, name, have, ms)
			}
		}
	})
}

// FuzzChangelogBatches gives any records as a changelog's, for a store of each kind. What is not left out can be applied.
func FuzzChangelogBatches(f *testing.F) {
	f.Add([]byte("alice\x00\x00\x01\x8b\xcf\xe6\x04\x40\x00\x00\x00\x00"), []byte("v"), int64(5), []byte("k"), false)
	f.Add([]byte("alice\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05"), []byte{}, int64(-5), []byte{}, true)
	f.Add([]byte{0, 0xff, 0, 1}, []byte("v"), int64(1<<62), []byte{0}, true)
	schemas := []store.Schema{
		{},
		{Kind: store.KindWindow, WindowSize: time.Second, Retention: time.Minute},
		{Kind: store.KindSession, Retention: time.Minute},
		{Kind: store.KindVersioned, Retention: time.Minute},
	}
	f.Fuzz(func(t *testing.T, key, value []byte, ms int64, other []byte, deleted bool) {
		if ms > 1<<52 || ms < -1<<52 {
			ms %= 1 << 52 // what time.Time keeps to the millisecond
		}
		second := &kgo.Record{Key: other, Value: value, Timestamp: time.UnixMilli(ms - 1), Offset: 1}
		if deleted {
			second.Value = nil
		}
		b := kafka.Batch{Next: 3, Records: []*kgo.Record{
			{Key: key, Value: value, Timestamp: time.UnixMilli(ms), Headers: []kgo.RecordHeader{{Key: string(other), Value: key}}}, second, {Offset: 2},
		}}
		for _, schema := range schemas {
			changes, foreign, first := changesOf(schema, b, store.NoStreamTime)
			if foreign < 1 || first == nil { // the null key is none of any kind
				t.Fatalf("%s: %d records are left out, %v", schema, foreign, first)
			}
			kv, err := store.Open("", store.ID{Application: "a", Store: "s", Changelog: "c", Schema: schema}, store.Options{InMemory: true, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := kv.Apply(changes, store.Checkpoint{Position: b.Next}); err != nil {
				t.Fatalf("%s: %q=%q@%d cannot be applied: %v", schema, key, value, ms, err)
			}
			if err := kv.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzMembershipFile gives any bytes as the file in which a node keeps what it told the group.
func FuzzMembershipFile(f *testing.F) {
	f.Add([]byte("g\ntold"))
	f.Add([]byte("g\n"))
	f.Add([]byte("\n\n"))
	f.Add([]byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &memory{path: filepath.Join(dir, "membership"), group: "g", log: slog.New(slog.DiscardHandler)}
		if err := os.WriteFile(m.path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		told, _ := m.Recall()
		if len(data) > 2 && string(data[:2]) == "g\n" {
			if string(told) != string(data[2:]) {
				t.Fatalf("%q says %q", data, told)
			}
		} else if told != nil {
			t.Fatalf("%q says %q", data, told)
		}
	})
}
