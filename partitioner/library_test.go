package partitioner

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The hashes are those of librdkafka's tests/0048-partitioner.c, which took them from the crc32 command.
func TestCRC32GivesLibrdkafkasConsistentPartition(t *testing.T) {
	for key, hash := range map[string]uint32{
		"":      0,
		"23456": 0xb1b451d7,
		"this is another string with more length to it perhaps": 0xb0150df7,
		"hejsan": 0xd077037e,
	} {
		for _, n := range []int32{1, 3, 7, 17, 100} {
			want := int32(hash % uint32(n))
			if got := CRC32().Partition([]byte(key), n); got != want {
				t.Errorf("partition of %q among %d = %d, want %d", key, n, got, want)
			}
		}
	}
}

// The absolute hashes are those of librdkafka's src/rdfnv1a.c and tests/0048-partitioner.c, computed with Sarama's own
// code; the last row is kafka-go's case of a key with the top bit set, where the unsigned remainder was wrong.
func TestFNV1aGivesSaramasPartition(t *testing.T) {
	for key, abs := range map[string]int64{
		"kafka": 0xd33c4e1, "giberish123456789": 0x77a58295, "1234": 0x23bdd03, "234": 0x2dea3cd2, "34": 0x740fa83e,
		"4": 0x310ca263, "PreAmbleWillBeRemoved,ThePrePartThatIs": 0x65cbd69c, "reAmbleWillBeRemoved,ThePrePartThatIs": 0x6e49c79a,
		"eAmbleWillBeRemoved,ThePrePartThatIs": 0x69eed356, "AmbleWillBeRemoved,ThePrePartThatIs": 0x6abcc023, "": 0x7ee3623b,
		"23456": 0x27e6f469, "this is another string with more length to it perhaps": 0x155e3e5f, "hejsan": 0x17b1e27a,
	} {
		for _, n := range []int32{1, 3, 7, 16, 17, 100} {
			want := int32(abs % int64(n))
			if got := FNV1a().Partition([]byte(key), n); got != want {
				t.Errorf("partition of %q among %d = %d, want %d", key, n, got, want)
			}
		}
	}
	if got := FNV1a().Partition([]byte("20"), 16); got != 1 {
		t.Errorf("partition of 20 among 16 = %d, want 1", got)
	}
}

// librdkafka is the partitioners of librdkafka, by its names.
func librdkafka() []Partitioner {
	return []Partitioner{Consistent(), ConsistentRandom(), Murmur2(), Murmur2Random(), FNV1a(), FNV1aRandom()}
}

// kcat wrote the file; this package must answer the same.
func TestLibrdkafkasVectors(t *testing.T) {
	var keys []string
	for _, v := range readVectors(t) {
		keys = append(keys, string(v.key))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	datadriven.RunTest(t, "testdata/librdkafka", func(t *testing.T, d *datadriven.TestData) string {
		var n int32
		d.ScanArgs(t, "n", &n)
		var out strings.Builder
		out.WriteString("key_hex")
		for _, p := range librdkafka() {
			out.WriteString("\t" + p.Name())
		}
		out.WriteString("\n")
		for _, key := range keys {
			fmt.Fprintf(&out, "%x", key)
			for _, p := range librdkafka() {
				in, err := Lookup(p, []byte(key), n)
				switch {
				case err != nil:
					t.Fatal(err)
				case len(in) == 1:
					fmt.Fprintf(&out, "\t%d", in[0])
				case len(in) == int(n):
					out.WriteString("\tany")
				default:
					t.Fatalf("%s: %x is in %v", p.Name(), key, in)
				}
			}
			out.WriteString("\n")
		}
		return out.String()
	})
}

// Sarama's own code wrote the file (tools/vectors).
func TestSaramasVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/sarama.tsv")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Partitioner{NameFNV1a: FNV1a(), NameCRC32: CRC32(), NameMurmur2: Murmur2()}
	var counts []int32
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case counts == nil:
			for _, name := range cells[2:] {
				counts = append(counts, number(t, strings.TrimPrefix(name, "p")))
			}
		default:
			rows++
			key, err := hex.DecodeString(cells[0])
			if err != nil || len(cells) != 2+len(counts) {
				t.Fatalf("%q: %v", line, err)
			}
			for i, n := range counts {
				if got, want := byName[cells[1]].Partition(key, n), number(t, cells[2+i]); got != want {
					t.Errorf("%s of %x among %d = %d, want %d", cells[1], key, n, got, want)
				}
			}
		}
	}
	if want := len(byName) * len(readVectors(t)); rows != want || len(counts) != 7 {
		t.Errorf("%d rows of %d counts, want %d rows of 7", rows, len(counts), want)
	}
}

func number(t *testing.T, text string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

// Names that differ by the treatment of empty and NULL keys alone answer alike for all other keys.
func TestNamesOfOneHashAgreeOnEveryKeyThatIsHashed(t *testing.T) {
	for _, same := range [][]Partitioner{
		{Murmur2(), Murmur2Random()},
		{CRC32(), Consistent(), ConsistentRandom()},
		{FNV1a(), FNV1aRandom()},
	} {
		for _, v := range readVectors(t) {
			for _, p := range same {
				if got, want := p.Partition(v.key, 50), same[0].Partition(v.key, 50); got != want {
					t.Errorf("%s of %x is %d, of %s %d", p.Name(), v.key, got, same[0].Name(), want)
				}
			}
		}
	}
}

// An empty key that the producer spreads may be anywhere, and only librdkafka's default spreads it (librdkafka#4510).
func TestS04EmptyKeyIsLookedUpEverywhereIfItsProducerSpreadsIt(t *testing.T) {
	own := Custom("own", ConsistentRandom(), func(_ string, key, _ []byte, _ int32) Choice {
		if string(key) == "all" {
			return All()
		}
		return Default()
	})
	for _, p := range append(builtIn(), own) {
		spread := p.Name() == NameConsistentRandom || p.Name() == "own"
		for _, key := range [][]byte{nil, {}} {
			in, err := Lookup(p, key, 3)
			want := []int32{p.Partition(key, 3)}
			if spread {
				want = []int32{0, 1, 2}
			}
			if err != nil || !slices.Equal(in, want) {
				t.Errorf("%s: the empty key is looked up in %v, %v, want %v", p.Name(), in, err, want)
			}
		}
		to, err := Route(p, "t", []byte{}, nil, 3)
		if spread != (err == ErrNoKey) || spread != (to == nil) { //nolint:errorlint // returned as it is
			t.Errorf("%s: the empty key goes to %v, %v", p.Name(), to, err)
		}
		if to, err := Route(p, "t", []byte("x"), nil, 3); err != nil || len(to) != 1 || to[0] != p.Partition([]byte("x"), 3) {
			t.Errorf("%s: x goes to %v, %v", p.Name(), to, err)
		}
		if in, err := Lookup(p, []byte{}, 0); err == nil {
			t.Errorf("%s: the empty key is in %v of no partitions", p.Name(), in)
		}
	}
	if to, err := Route(own, "t", []byte("all"), nil, 2); err != nil || !slices.Equal(to, []int32{0, 1}) {
		t.Errorf("a multicast key over a base that spreads goes to %v, %v, want [0 1]", to, err)
	}
}

// The key's bytes count, not the text that they may be.
func TestEveryByteOfAKeyCounts(t *testing.T) {
	for _, p := range builtIn() {
		seen := map[int32]bool{}
		for b := range 256 {
			seen[p.Partition([]byte{byte(b)}, 1<<30)] = true
		}
		if len(seen) != 256 {
			t.Errorf("%s: 256 keys of one byte have %d partitions of 2^30", p.Name(), len(seen))
		}
	}
}
