package partitioner

import (
	"bufio"
	"encoding/hex"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"
)

type vector struct {
	line       int
	key        []byte
	hash, mask int64
	partitions map[int32]int32 // count -> partition
}

// readVectors reads testdata/murmur2.tsv: keys with Java's hash and partitions.
func readVectors(t *testing.T) []vector {
	t.Helper()
	f, err := os.Open("testdata/murmur2.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	scan.Scan()
	header := strings.Split(scan.Text(), "\t")
	var all []vector
	for line := 2; scan.Scan(); line++ {
		cells := strings.Split(scan.Text(), "\t")
		v := vector{line: line, partitions: map[int32]int32{}}
		if v.key, err = hex.DecodeString(cells[0]); err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		for i, name := range header[2:10] {
			n, err := strconv.ParseInt(cells[i+2], 10, 64)
			if err != nil {
				t.Fatalf("line %d: %v", line, err)
			}
			switch count, isCount := strings.CutPrefix(name, "p"); {
			case name == "murmur2_int32":
				v.hash = n
			case name == "to_positive":
				v.mask = n
			case isCount:
				c, err := strconv.ParseInt(count, 10, 32)
				if err != nil {
					t.Fatalf("column %q: %v", name, err)
				}
				v.partitions[int32(c)] = int32(n)
			}
		}
		all = append(all, v)
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestS01Murmur2GivesJavasPartitionForEveryVector(t *testing.T) {
	all := readVectors(t)
	if len(all) < 50 {
		t.Fatalf("only %d vectors read", len(all))
	}
	for _, v := range all {
		if got := int64(int32(murmur2(v.key))); got != v.hash {
			t.Errorf("line %d: murmur2(%x) = %d, want %d", v.line, v.key, got, v.hash)
		}
		if got := int64(murmur2(v.key) & 0x7fffffff); got != v.mask {
			t.Errorf("line %d: masked murmur2(%x) = %d, want %d", v.line, v.key, got, v.mask)
		}
		if len(v.partitions) != 6 {
			t.Fatalf("line %d: %d counts, want 6", v.line, len(v.partitions))
		}
		for n, want := range v.partitions {
			if got := Murmur2().Partition(v.key, n); got != want {
				t.Errorf("line %d: partition of %x among %d = %d, want %d", v.line, v.key, n, got, want)
			}
			in, err := Lookup(Murmur2(), v.key, n)
			if err != nil || len(in) != 1 || in[0] != want {
				t.Errorf("line %d: Lookup(%x, %d) = %v, %v, want [%d]", v.line, v.key, n, in, err, want)
			}
		}
	}
}

// The keys that tell the mask from abs() and from an unsigned remainder.
func TestS01Murmur2MasksTheSignBit(t *testing.T) {
	for _, c := range []struct {
		key     string
		n, want int32
	}{
		{"21", 12, 0},
		{"foobar", 12, 6},
		{"a-little-bit-longer-string", 7, 0},
		{"bob", 12, 6},
		{"\xa7\xd6\x50\x6c", 3, 0},
		{"\xa7\xd6\x50\x6c", 7, 0},
		{"\xa7\xd6\x50\x6c", 12, 0},
	} {
		if got := Murmur2().Partition([]byte(c.key), c.n); got != c.want {
			t.Errorf("partition of %q among %d = %d, want %d", c.key, c.n, got, c.want)
		}
	}
}

// The fixture of S02: what a router that used FNV would answer is in the second list.
func TestS02Murmur2AndFNVDisagree(t *testing.T) {
	java := []int32{2, 2, 0, 1, 1, 0, 1, 1, 2, 2, 1, 0}
	other := []int32{0, 1, 1, 2, 1, 2, 2, 0, 1, 2, 0, 2}
	for i, want := range java {
		key := []byte("k" + strconv.Itoa(i))
		if got := Murmur2().Partition(key, 3); got != want {
			t.Errorf("murmur2 of %s = %d, want %d", key, got, want)
		}
		if got := FNV1a().Partition(key, 3); got != other[i] {
			t.Errorf("fnv1a of %s = %d, want %d", key, got, other[i])
		}
	}
}

func TestS04EmptyKeyIsHashedAndNullKeyIsNot(t *testing.T) {
	empty := []byte{}
	if got := murmur2(empty); got != 275646681 {
		t.Errorf("murmur2 of the empty key = %d", got)
	}
	for n, want := range map[int32]int32{3: 0, 12: 9} {
		to, err := Route(Murmur2(), "t", empty, nil, n)
		if err != nil || len(to) != 1 || to[0] != want {
			t.Errorf("the empty key among %d goes to %v, %v, want [%d]", n, to, err, want)
		}
		in, err := Lookup(Murmur2(), nil, n) // a lookup has a key
		if err != nil || len(in) != 1 || in[0] != want {
			t.Errorf("the empty key among %d is looked up in %v, %v, want [%d]", n, in, err, want)
		}
	}
	for _, p := range builtIn() {
		if to, err := Route(p, "t", nil, []byte("v"), 3); err != ErrNoKey { //nolint:errorlint // returned as it is
			t.Errorf("%s: a record without a key goes to %v, %v, want ErrNoKey", p.Name(), to, err)
		}
	}
}

func FuzzPartitionIsInRange(f *testing.F) {
	f.Add([]byte("foobar"), int32(12))
	f.Add([]byte{}, int32(1))
	f.Add([]byte{0xa7, 0xd6, 0x50, 0x6c}, int32(2147483647))
	f.Add([]byte("x"), int32(-1))
	f.Fuzz(func(t *testing.T, key []byte, n int32) {
		for _, p := range builtIn() {
			got := p.Partition(key, n)
			if n <= 0 {
				if got != -1 {
					t.Fatalf("%s: partition among %d = %d, want -1", p.Name(), n, got)
				}
				if _, err := Route(p, "t", key, nil, n); err == nil {
					t.Fatalf("%s: a topic of %d partitions has one", p.Name(), n)
				}
				continue
			}
			if got < 0 || got >= n {
				t.Fatalf("%s: partition of %x among %d = %d", p.Name(), key, n, got)
			}
		}
		h := fnv.New32a()
		h.Write(key)
		if got := fnv1a(key); got != h.Sum32() {
			t.Fatalf("fnv1a of %x = %d, hash/fnv says %d", key, got, h.Sum32())
		}
	})
}

func TestPartitionAllocs(t *testing.T) {
	key := []byte("customer/7/eu")
	for _, p := range builtIn() {
		if got := testing.AllocsPerRun(100, func() { p.Partition(key, 12) }); got != 0 {
			t.Errorf("%s: %v allocations, want none", p.Name(), got)
		}
	}
}

func BenchmarkPartition(b *testing.B) {
	key := []byte("customer/7/eu")
	for _, p := range builtIn() {
		b.Run("hash="+p.Name(), func(b *testing.B) {
			for b.Loop() {
				p.Partition(key, 12)
			}
		})
	}
}
