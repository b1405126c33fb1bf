package query

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// FuzzFilterTakesAnyTextAndValue gives any bytes as an expression, and any as the value that it looks at. Either is refused
// as INVALID, or the answer is the same again.
func FuzzFilterTakesAnyTextAndValue(f *testing.F) {
	for _, text := range []string{
		`value.age > 30`, `value["name"].startsWith("A")`, `value.tags.exists(t, t == "b")`, `value.age in [30, 31]`, `has(value.a.b)`,
		`key == "k7" && partition == 2`, `timestamp_ms > 5`, `window_start_ms < 0`, `value.a[0] + 1.0 > 1u`, `value.matches("(a+)+$")`, `value.all(x, value.all(y, x == y))`, `((((`, "\x00", `"\u0000" == value`,
	} {
		f.Add(text, []byte(`{"age": 31, "name": "Ann", "tags": ["a", "b"], "a": {"b": null}, "id": 9007199254740993}`))
	}
	f.Add(`value.a == 1`, []byte(`{"a":1e400}`))
	f.Add(`value == null`, []byte(`{"a":1} {"b":2}`))
	f.Add(`value[0][0] == 0`, []byte("[[[[[[[[\xff"))
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		for _, kind := range []string{"keyvalue", "window"} {
			store := jsonStore(kind)
			filter, err := ParseFilter(text, &store)
			if err != nil {
				if !errors.Is(err, iqerr.ErrInvalid) {
					t.Fatalf("%q: %v", text, err)
				}
				continue
			}
			row := &iqv1.Row{Key: value, Value: value, TimestampMs: math.MinInt64, StartMs: new(int64(-1)), EndMs: new(int64(math.MaxInt64))}
			yes, err := filter.Match(row)
			if err != nil && !errors.Is(err, iqerr.ErrInvalid) {
				t.Fatalf("%q of %q: %v", text, value, err)
			}
			if again, errAgain := filter.Match(row); again != yes || (errAgain == nil) != (err == nil) {
				t.Fatalf("%q of %q is %v, %v and then %v, %v", text, value, yes, err, again, errAgain)
			}
		}
	})
}

// FuzzRequestsAreCheckedOrRefused gives any bytes as the requests of many keys, for stores of each kind. What is taken names
// only what the store has.
func FuzzRequestsAreCheckedOrRefused(f *testing.F) {
	seed := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	selection := &iqv1.Selection{
		Store: "s", Partitions: []int32{0, 2}, Keys: &iqv1.Selection_Prefix{Prefix: []byte("a")}, Filter: "value.a > 1", AsOfMs: new(int64(7)),
	}
	seed(&iqv1.ScanRequest{Selection: selection, Limit: 3, Reverse: true, Fields: []string{"a.b", "c"}, PageToken: []byte("x"), Order: 2})
	seed(&iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s", Partitions: []int32{-1, 3, math.MaxInt32}}, Limit: -1, Order: 99})
	seed(&iqv1.CountRequest{Selection: selection, Approximate: true})
	seed(&iqv1.MultiGetRequest{Store: "s", Keys: [][]byte{nil, []byte("k")}, AsOfMs: new(int64(math.MinInt64))})
	seed(&iqv1.WatchRequest{Selection: &iqv1.Selection{Store: "s"}, From: []*iqv1.PartitionPosition{{Partition: 1, Position: 5}, {Partition: 1, Position: -5}, {Partition: 9}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		refused := func(what string, err error) bool {
			if err != nil && !errors.Is(err, iqerr.ErrInvalid) && !errors.Is(err, iqerr.ErrPageLost) {
				t.Fatalf("%s of %x: %v", what, data, err)
			}
			return err != nil
		}
		within := func(what string, s *Selection, store metadata.StoreInfo) {
			for _, p := range s.All() {
				if p < 0 || p >= store.Partitions || !s.Includes(p) {
					t.Fatalf("%s of %x takes partition %d", what, data, p)
				}
			}
		}
		for _, kind := range []string{"keyvalue", "window", "session", "versioned"} {
			store := jsonStore(kind)
			var scan iqv1.ScanRequest
			if proto.Unmarshal(data, &scan) == nil {
				if s, err := ParseScan(&scan, store); !refused("scan", err) {
					within("scan", &s.Selection, store)
					for _, p := range s.All() {
						if place := s.Place(p); place.Partition != p {
							t.Fatalf("%x: the place of partition %d is %v", data, p, place)
						}
					}
				}
			}
			var count iqv1.CountRequest
			if proto.Unmarshal(data, &count) == nil {
				if c, err := ParseCount(&count, store); !refused("count", err) {
					within("count", &c.Selection, store)
				}
			}
			var get iqv1.MultiGetRequest
			if proto.Unmarshal(data, &get) == nil {
				if g, err := ParseMultiGet(&get, store); !refused("multiget", err) && len(g.Keys) > MaxKeys {
					t.Fatalf("%d keys are taken", len(g.Keys))
				}
			}
			var watch iqv1.WatchRequest
			if proto.Unmarshal(data, &watch) == nil {
				if w, err := ParseWatch(&watch, store); !refused("watch", err) {
					within("watch", &w.Selection, store)
					for p, at := range w.From {
						if !w.Includes(p) || at < 0 {
							t.Fatalf("%x: a watch from %d of partition %d", data, at, p)
						}
					}
				}
			}
		}
	})
}

// FuzzFieldsOfAnyValue gives any bytes as a json value of which fields are asked.
func FuzzFieldsOfAnyValue(f *testing.F) {
	f.Add("a", "b.c", []byte(`{"a":1,"b":{"c":[1,2]}}`))
	f.Add("", ".", []byte(`{}`))
	f.Add("a", "a", []byte("nul"))
	f.Fuzz(func(t *testing.T, one, two string, value []byte) {
		store := jsonStore("keyvalue")
		fields, err := ParseFields([]string{one, two}, &store)
		if err != nil {
			if !errors.Is(err, iqerr.ErrInvalid) {
				t.Fatalf("%q, %q: %v", one, two, err)
			}
			return
		}
		row := &iqv1.Row{Key: []byte("k"), Value: value}
		if err := fields.Project(row); err != nil {
			if !errors.Is(err, iqerr.ErrInvalid) {
				t.Fatalf("%q, %q of %q: %v", one, two, value, err)
			}
			return
		}
		once := string(row.GetValue())
		if !json.Valid(row.GetValue()) {
			t.Fatalf("%q, %q of %q is %q", one, two, value, once)
		}
		if err := fields.Project(row); utf8.ValidString(one) && utf8.ValidString(two) && (err != nil || string(row.GetValue()) != once) {
			t.Fatalf("%q, %q of %q is %q, and of that %q, %v", one, two, value, once, row.GetValue(), err)
		}
	})
}
