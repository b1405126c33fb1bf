package topology_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// order is one random record, and how it is written.
type order struct {
	customer, item string // "" is null
	amount         int64
	noAmount       bool
}

func randomOrder(rng *rand.Rand) order {
	o := order{
		customer: []string{"", "a", "b,c", `d"e`, "日本", "k1", "k2", "k3"}[rng.IntN(8)],
		item:     strconv.Itoa(rng.IntN(5)),
		amount:   rng.Int64N(2000) - 1000,
		noAmount: rng.IntN(5) == 0,
	}
	return o
}

func (o order) csv() []byte {
	quoted := `"` + strings.ReplaceAll(o.customer, `"`, `""`) + `"`
	amount := strconv.FormatInt(o.amount, 10)
	if o.noAmount {
		amount = "NA"
	}
	return []byte(quoted + ";" + o.item + ";" + amount)
}

func (o order) json(t *testing.T) []byte {
	t.Helper()
	m := map[string]any{"customer": o.customer, "item": o.item, "amount": o.amount}
	if o.customer == "" {
		m["customer"] = nil
	}
	if o.noAmount {
		delete(m, "amount")
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The same random records in both formats, on any number of partitions and with any partitioner, give what one plain pass
// gives; and, S02, every key that a scan shows is found by a lookup with the same value.
func TestS02ReadyMadeStoresMatchAPlainPass(t *testing.T) {
	seed := rand.Uint64()
	for round, partitions := range []int32{1, 3, 12} {
		for _, hash := range []string{"murmur2", "crc32", "fnv1a"} {
			for _, format := range []string{"json", `csv, columns: [customer, item, amount], delimiter: ";"`} {
				t.Run(fmt.Sprintf("partitions=%d/hash=%s/format=%.4s", partitions, hash, format), func(t *testing.T) {
					t.Logf("seed %d", seed)
					plainPass(t, rand.New(rand.NewPCG(seed, uint64(round))), partitions, hash, format)
				})
			}
		}
	}
}

func plainPass(t *testing.T, rng *rand.Rand, partitions int32, hash, format string) {
	t.Helper()
	c, err := topology.LoadYAML([]byte(strings.NewReplacer("HASH", hash, "FORMAT", format).Replace(`
application: app
sources:
  - {topic: orders, format: FORMAT}
aggregates:
  - {store: n, source: orders, group_by: customer, partitioner: HASH, count: true}
  - {store: sum, source: orders, group_by: customer, partitioner: HASH, sum: amount}
  - {store: least, source: orders, group_by: item, partitioner: HASH, partitions: 5, min: amount}
  - {store: own, source: orders, sum: amount}
`)))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(topo, map[string]int32{"orders": partitions})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]int64{"n": {}, "sum": {}, "least": {}, "own": {}}
	for i := range 500 {
		o := randomOrder(rng)
		value := o.csv()
		if format == "json" {
			value = o.json(t)
		}
		key := strconv.Itoa(i % 7)
		if err := d.Put(topology.Record{Topic: "orders", Key: []byte(key), Value: value, Timestamp: int64(i)}); err != nil {
			t.Fatal(err)
		}
		if o.customer != "" {
			want["n"][o.customer]++
		}
		if o.noAmount {
			continue
		}
		if o.customer != "" {
			want["sum"][o.customer] += o.amount
		}
		if least, ok := want["least"][o.item]; !ok || o.amount < least {
			want["least"][o.item] = o.amount
		}
		want["own"][key] += o.amount
	}
	for store, numbers := range want {
		all, err := d.All(store)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != len(numbers) {
			t.Errorf("%s has %d keys, want %d", store, len(all), len(numbers))
		}
		for _, e := range all {
			got, err := topology.Int64.Decode(e.Value)
			if err != nil || got != numbers[string(e.Key)] {
				t.Errorf("%s: %q = %d, %v, want %d", store, e.Key, got, err, numbers[string(e.Key)])
			}
			value, found, err := d.Get(store, e.Key, nil)
			if err != nil || !found || string(value) != string(e.Value) {
				t.Errorf("%s: a scan shows %q, a lookup gives %x, %v, %v", store, e.Key, value, found, err)
			}
		}
	}
}
