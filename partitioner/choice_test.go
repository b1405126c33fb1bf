package partitioner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// multicast is the partitioner of S28, with two keys more that are at fault.
func multicast() Partitioner {
	return Custom("multicast", nil, func(_ string, key, _ []byte, _ int32) Choice {
		kind, _, _ := strings.Cut(string(key), "-")
		switch kind {
		case "all":
			return All()
		case "pair":
			return Partitions(2, 0, 2)
		case "drop":
			return Drop()
		case "three":
			return Partitions(0, 3)
		case "minus":
			return Partitions(-1)
		}
		return Default()
	})
}

func TestS28MulticastKeysGoWhereChosenAndAreFoundThere(t *testing.T) {
	p := multicast()
	for _, c := range []struct {
		key  string
		want []int32
	}{
		{"all-1", []int32{0, 1, 2}},
		{"pair-1", []int32{0, 2}},
		{"drop-1", nil},
		{"k0", []int32{2}},
		{"", []int32{0}},
	} {
		to, err := Route(p, "t", []byte(c.key), []byte("v"), 3)
		if err != nil || !slices.Equal(to, c.want) {
			t.Errorf("%q goes to %v, %v, want %v", c.key, to, err, c.want)
		}
		in, err := Lookup(p, []byte(c.key), 3)
		if err != nil || !slices.Equal(in, c.want) {
			t.Errorf("%q is looked up in %v, %v, want %v", c.key, in, err, c.want)
		}
	}
}

func TestS28PartitionOutOfRangeIsRefusedWithBothNumbers(t *testing.T) {
	p := multicast()
	for key, bad := range map[string]int32{"three-1": 3, "minus-1": -1} {
		to, err := Route(p, "orders", []byte(key), nil, 3)
		var r *RangeError
		if to != nil || !errors.As(err, &r) {
			t.Fatalf("%s goes to %v, %v, want a RangeError", key, to, err)
		}
		if want := (RangeError{"multicast", "orders", bad, 3}); *r != want {
			t.Errorf("%s: %+v, want %+v", key, *r, want)
		}
		if want := fmt.Sprintf(`partitioner "multicast": partition %d is not one of the 3 of topic "orders"`, bad); err.Error() != want {
			t.Errorf("%s: %q, want %q", key, err, want)
		}
		if in, err := Lookup(p, []byte(key), 3); !errors.As(err, &r) {
			t.Errorf("%s is looked up in %v, %v, want a RangeError", key, in, err)
		}
	}
}

// A custom choice needs no key: only the hash does.
func TestRecordWithoutKeyIsRoutedWhenTheChoiceIsMade(t *testing.T) {
	p := Custom("broadcast", CRC32(), func(string, []byte, []byte, int32) Choice { return All() })
	to, err := Route(p, "t", nil, nil, 2)
	if err != nil || !slices.Equal(to, []int32{0, 1}) {
		t.Errorf("goes to %v, %v, want [0 1]", to, err)
	}
}

func TestCustomPartitionerFallsBackToItsBase(t *testing.T) {
	p := Custom("c", CRC32(), func(string, []byte, []byte, int32) Choice { return Default() })
	for _, key := range []string{"", "hejsan", "23456"} {
		if got, want := p.Partition([]byte(key), 17), CRC32().Partition([]byte(key), 17); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestFromListReadsMinusOneAloneAsAll(t *testing.T) {
	for want, list := range map[string][]int32{
		"all": {-1}, "drop": {}, "0,2": {2, 0, 2}, "-1,0": {0, -1},
	} {
		if got := FromList(list).String(); got != want {
			t.Errorf("FromList(%v) = %s, want %s", list, got, want)
		}
	}
	for _, list := range [][]int32{{0, -1}, {-2}, {-1, -1}, {0, 3}} { // -1 is "all" alone only
		var r *RangeError
		if to, err := FromList(list).Resolve(0, 3); to != nil || !errors.As(err, &r) {
			t.Errorf("FromList(%v) goes to %v, %v, want a RangeError", list, to, err)
		}
	}
	if got := FromList(nil).Kind(); got != KindDrop {
		t.Errorf("FromList(nil) is %s, want drop", got)
	}
}

func TestChoiceKeepsNothingOfItsCallers(t *testing.T) {
	list := []int32{2, 1}
	c := Partitions(list...)
	list[0] = 0
	to, _ := c.Resolve(0, 3)
	to[0] = 7
	if again, err := c.Resolve(0, 3); err != nil || !slices.Equal(again, []int32{1, 2}) {
		t.Errorf("resolves to %v, %v, want [1 2]", again, err)
	}
}

// The slow twin builds the set as KIP-837 words it.
func FuzzResolveMatchesSets(f *testing.F) {
	f.Add(uint8(2), []byte{0, 2, 2}, int32(1), int32(3))
	f.Add(uint8(3), []byte{}, int32(0), int32(5))
	f.Add(uint8(0), []byte{}, int32(9), int32(5))
	f.Add(uint8(2), []byte{255}, int32(0), int32(5))
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte, def, n int32) {
		n %= 300
		var list []int32
		for _, b := range raw {
			list = append(list, int32(int8(b)))
		}
		set := map[int32]bool{}
		c := Default()
		switch Kind(kind % 4) {
		case KindDefault:
			set[def] = true
		case KindDrop:
			c = Drop()
		case KindSome:
			c = Partitions(list...)
			for _, p := range list {
				set[p] = true
			}
		case KindAll:
			c = All()
			for p := range n {
				set[p] = true
			}
		}
		bad := n <= 0
		for p := range set {
			bad = bad || p < 0 || p >= n
		}
		got, err := c.Resolve(def, n)
		if bad != (err != nil) {
			t.Fatalf("%s among %d: %v, %v", c, n, got, err)
		}
		if err != nil {
			return
		}
		if len(got) != len(set) || !slices.IsSorted(got) {
			t.Fatalf("%s among %d: %v, want %v", c, n, got, set)
		}
		for _, p := range got {
			if !set[p] {
				t.Fatalf("%s among %d: %v, want %v", c, n, got, set)
			}
		}
	})
}

func TestRegistryKnowsBuiltInAndOwnPartitioners(t *testing.T) {
	r, err := NewRegistry(multicast())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Names(), []string{"consistent", "consistent_random", "crc32", "fnv1a", "fnv1a_random", "multicast", "murmur2", "murmur2_random"}; !slices.Equal(got, want) {
		t.Errorf("names are %v, want %v", got, want)
	}
	for _, name := range r.Names() {
		if p, err := r.Get(name); err != nil || p.Name() != name {
			t.Errorf("Get(%q) = %v, %v", name, p, err)
		}
	}
	var none *Registry
	for _, r := range []*Registry{r, none} {
		if p, err := r.Get(""); err != nil || p.Name() != NameMurmur2 {
			t.Errorf(`Get("") = %v, %v, want murmur2`, p, err)
		}
		if _, err := r.Get("murmur3"); err == nil || !strings.Contains(err.Error(), `"murmur3"`) || !strings.Contains(err.Error(), `"fnv1a"`) {
			t.Errorf("an unknown name gives %v, want an error with it and the known ones", err)
		}
	}
	if _, err := none.Get("multicast"); err == nil {
		t.Error("the nil registry knows an application's partitioner")
	}
}

func TestRegistryReportsAllFaultsAtOnce(t *testing.T) {
	_, err := NewRegistry(multicast(), nil, multicast(), Custom("crc32", nil, nil), Custom("", nil, nil))
	if err == nil {
		t.Fatal("no error")
	}
	want := "partitioner 1 has no name\npartitioner \"multicast\" is registered twice\n" +
		"partitioner \"crc32\" is registered twice\npartitioner 4 has no name"
	if err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}
