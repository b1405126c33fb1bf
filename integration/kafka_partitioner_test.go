//go:build kafka

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/partitioner"
)

const (
	// propertySeedEnv gives the seed of the property test again.
	propertySeedEnv = "IQGATE_PARTITIONER_SEED"
	// propertyKeys is how many random keys each producer writes.
	propertyKeys = 200
	// propertyPartitions is small enough for one node to have those of all topics; not a power of two, by which remainders
	// of signed and unsigned numbers agree.
	propertyPartitions = 5
	// spreadTries is how often a key is written to see whether it is spread: with two partitions or more, one that is
	// spread looks as if it were not in one of 2^(spreadTries-1) runs.
	spreadTries = 64
)

// placed is where a topic's records are: the partitions by key, each ascending and once.
func (a *app) placed(topic, value string) map[string][]int32 {
	a.t.Helper()
	where := make(map[string][]int32)
	for _, r := range a.readAll(topic) {
		if string(r.Value) == value && r.Key != nil {
			where[string(r.Key)] = append(where[string(r.Key)], r.Partition)
		}
	}
	for key, in := range where {
		slices.Sort(in)
		where[key] = slices.Compact(in)
	}
	return where
}

// The vectors by which package partitioner is tested are what librdkafka does; `-rewrite` writes them again.
func TestS01S04KafkaLibrdkafkaChoosesThePartitionsOfItsVectors(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, nil)
	needKcat(t)
	var keys [][]byte
	for _, key := range murmurKeys(t) {
		keys = append(keys, []byte(key))
	}
	written := append(slices.Clone(keys), slices.Repeat([][]byte{{}}, spreadTries)...)
	datadriven.RunTest(t, "../partitioner/testdata/librdkafka", func(t *testing.T, d *datadriven.TestData) string {
		var n int32
		d.ScanArgs(t, "n", &n)
		topic := fmt.Sprintf("vectors-%d", n)
		a.createTopic(topic, n, nil)
		var where []map[string][]int32 // by partitioner
		for _, name := range rdkafkaPartitioners {
			a.writeByKcat(topic, name, name, written)
			where = append(where, a.placed(topic, name))
		}
		out := "key_hex\t" + strings.Join(rdkafkaPartitioners, "\t") + "\n"
		for _, key := range keys {
			out += fmt.Sprintf("%x", key)
			for _, in := range where {
				out += "\t" + cell(in[string(key)])
			}
			out += "\n"
		}
		return out
	})
}

// cell is the partitions in which the records of a key are, as the file of vectors has it.
func cell(in []int32) string {
	switch len(in) {
	case 0:
		return "none"
	case 1:
		return strconv.Itoa(int(in[0]))
	default:
		return "any"
	}
}

// producers write keys to the topic of a partitioner's name, by real producers that partition so, each in its turn with its
// own name as the value.
type producers struct {
	partitioner string // the name by which a store must look up what they write
	names       []string
}

// store is their store, and its topic without the application's name.
func (p producers) store() string { return strings.ReplaceAll(p.partitioner, "_", "-") }

func allProducers() []producers {
	return []producers{
		{partitioner.NameMurmur2, []string{"java", "franz-go", "kcat:murmur2"}},
		{partitioner.NameMurmur2Random, []string{"kcat:murmur2_random"}},
		{partitioner.NameCRC32, []string{"kcat:consistent"}},
		{partitioner.NameConsistent, []string{"kcat:consistent"}},
		{partitioner.NameConsistentRandom, []string{"kcat:", "kcat:consistent_random"}}, // librdkafka's default first
		{partitioner.NameFNV1a, []string{"kcat:fnv1a"}},
		{partitioner.NameFNV1aRandom, []string{"kcat:fnv1a_random"}},
	}
}

// writeBy writes the keys to a topic by one of the producers, with its name as the value.
func (a *app) writeBy(producer, topic string, keys [][]byte) {
	a.t.Helper()
	rdkafka, isKcat := strings.CutPrefix(producer, "kcat:")
	switch {
	case isKcat:
		a.writeByKcat(topic, rdkafka, producer, keys)
	case producer == "java":
		a.checkJavaHashes(keys, a.writeKeysByJava(topic, keys, javaCounts...))
	case producer == "franz-go":
		a.writeByGo(topic, producer, keys)
	default:
		a.t.Fatalf("no producer %q", producer)
	}
}

// javaCounts are the numbers of partitions for which Java hashes; the last one shows nearly all of the hash.
var javaCounts = []int32{1, 3, 7, 12, 50, 100, 1<<31 - 1}

// checkJavaHashes compares what Java's library computes with our partitioner.
func (a *app) checkJavaHashes(keys [][]byte, hashes []javaHash) {
	a.t.Helper()
	negative := 0
	for i, h := range hashes {
		if h.murmur2 < 0 {
			negative++
		}
		for n, want := range h.partitions {
			if got := partitioner.Murmur2().Partition(keys[i], n); got != want {
				a.t.Errorf("partition of %.60x among %d is %d, Java says %d (murmur2 %d)", keys[i], n, got, want, h.murmur2)
			}
		}
	}
	if negative < len(keys)/4 {
		a.t.Errorf("only %d of %d keys have a negative hash: the sign bit was hardly tested", negative, len(keys))
	}
}

// Whichever producer wrote a random key, the partition that it chose is the one that our partitioner of that name gives,
// where the router says that the key is (QueryKey), and where a read through the router finds it. A key that the producer
// spread is said to be anywhere.
func TestS01S02S04KafkaKeysAreWhereRealProducersPutThem(t *testing.T) {
	t.Parallel()
	seed := propertySeed(t)
	sources, tables, topics := "", "", make(map[string]int32)
	for _, p := range allProducers() {
		sources += fmt.Sprintf("  - {topic: APP-%s, format: raw, value_serde: string, partitioner: %s}\n", p.store(), p.partitioner)
		tables += fmt.Sprintf("  - {store: %s, source: APP-%s, key_serde: bytes}\n", p.store(), p.store())
		topics[p.store()] = propertyPartitions
	}
	a := newApp(t, "application: APP\nsources:\n"+sources+"tables:\n"+tables, topics)
	needKcat(t)
	needJavac(a.ctx, t)
	router := a.startRouter("r")
	a.start("a")
	keys := randomKeys(rand.New(rand.NewPCG(seed, 1)), propertyKeys)
	written := append(slices.Clone(keys), slices.Repeat([][]byte{{}}, spreadTries)...)
	for _, p := range allProducers() {
		for _, name := range p.names {
			a.writeBy(name, p.store(), written)
		}
	}
	for _, p := range allProducers() {
		want := a.checkPlaces(p, keys)
		for i, key := range keys {
			a.routerFinds(router, p, key, want[i])
		}
	}
}

// checkPlaces compares where each of the producers put each key with where our partitioner looks, which it returns.
func (a *app) checkPlaces(ps producers, keys [][]byte) [][]int32 {
	a.t.Helper()
	p, err := (*partitioner.Registry)(nil).Get(ps.partitioner)
	if err != nil {
		a.t.Fatal(err)
	}
	looks := make([][]int32, len(keys))
	for i, key := range keys {
		if looks[i], err = partitioner.Lookup(p, key, propertyPartitions); err != nil {
			a.t.Fatal(err)
		}
	}
	for _, name := range ps.names {
		where := a.placed(ps.store(), name)
		if len(where) != len(keys) {
			a.t.Fatalf("%s wrote %d keys to %s, want %d", name, len(where), ps.store(), len(keys))
		}
		for i, key := range keys {
			got := where[string(key)]
			switch spread := len(key) == 0 && ps.partitioner == partitioner.NameConsistentRandom; {
			case spread && (len(got) == 1 || len(looks[i]) != propertyPartitions):
				a.t.Errorf("%s put the empty key in %v, %s looks in %v; want several and all", name, got, p.Name(), looks[i])
			case !spread && (len(got) != 1 || !slices.Equal(looks[i], got)):
				a.t.Errorf("%s put key %.60x in %v, %s looks in %v", name, key, got, p.Name(), looks[i])
			}
		}
	}
	return looks
}

// propertySeed is the seed of this run, printed for the next.
func propertySeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(propertySeedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", propertySeedEnv, err)
		}
	}
	t.Logf("the keys are those of %s=%d", propertySeedEnv, seed)
	return seed
}

// routerFinds checks that the router says that the key is in these partitions, and waits until a read through it has what
// the last of the producers wrote, if the key is in one.
func (a *app) routerFinds(router *server, ps producers, key []byte, want []int32) {
	a.t.Helper()
	a.eventually(30*time.Second, fmt.Sprintf("the router finds key %.60x of %s in %v", key, ps.partitioner, want), func() error {
		ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
		defer cancel()
		parts, err := router.QueryKey(ctx, ps.store(), key)
		if err != nil {
			return err
		}
		var got []int32
		for _, part := range parts {
			got = append(got, part.GetPartition())
		}
		if !slices.Equal(got, want) {
			a.t.Fatalf("the router says that key %.60x of %s is in %v, it is in %v", key, ps.partitioner, got, want)
		}
		if len(want) > 1 {
			return nil
		}
		res, err := router.Get(ctx, ps.store(), key, client.Strong())
		last := ps.names[len(ps.names)-1]
		if err == nil && (string(res.Value) != last || res.Served.GetPartition() != want[0]) {
			err = fmt.Errorf("found %v: %q, want %q", res.Found, res.Value, last)
		}
		return err
	})
}

// randomKeys are n different keys: the empty one, long ones, and the rest of all lengths that take another path through a
// hash, with bytes of every kind. None holds what cuts kcat's input.
func randomKeys(r *rand.Rand, n int) [][]byte {
	keys := [][]byte{{}, randomBytes(r, 255), randomBytes(r, 4096), randomBytes(r, 65_001), []byte("\x00"), []byte("\xff"), []byte("!badger!x")}
	seen := make(map[string]bool)
	for _, key := range keys {
		seen[string(key)] = true
	}
	for len(keys) < n {
		key := randomBytes(r, 1+r.IntN(40))
		switch r.IntN(3) {
		case 0: // text
			for i, b := range key {
				key[i] = 'a' + b%26
			}
		case 1: // high bytes alone: signed char is the classic mistake
			for i := range key {
				key[i] |= 0x80
			}
		}
		if !seen[string(key)] && !strings.Contains(string(key), "<:") {
			seen[string(key)] = true
			keys = append(keys, key)
		}
	}
	return keys
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
