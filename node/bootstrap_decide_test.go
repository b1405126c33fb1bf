package node

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/metadata"
)

// Each case gives a replica (`choose position=0 end=1000000`) and, line by line, what other nodes offer:
// `b standby position=990000 entries=1000 bytes=1000 rack=same`.
func TestBootstrapSituations(t *testing.T) {
	datadriven.RunTest(t, "testdata/bootstrap.txt", func(t *testing.T, d *datadriven.TestData) string {
		s, distance, free := shortfall{position: unknownOffset, end: unknownOffset}, int64(25_000), int64(-1)
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "position":
				s.position = number(t, arg.Vals[0])
			case "end":
				s.end = number(t, arg.Vals[0])
			case "caught-up":
				s.caughtUp = true
			case "distance":
				distance = number(t, arg.Vals[0])
			case "free":
				free = number(t, arg.Vals[0])
			default:
				d.Fatalf(t, "unknown argument %s", arg.Key)
			}
		}
		var offers []offer
		for line := range strings.Lines(d.Input) {
			offers = append(offers, parseOffer(t, line))
		}
		chosen, why := chooseSources(s, offers, distance, free)
		if len(chosen) == 0 {
			return "changelog: " + why + "\n"
		}
		var names []string
		for _, o := range chosen {
			names = append(names, string(o.node))
		}
		return "copy of " + strings.Join(names, ", then ") + "\n"
	})
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parseOffer(t *testing.T, line string) offer {
	t.Helper()
	f := strings.Fields(line)
	o := offer{node: metadata.NodeID(f[0]), active: f[1] == "active"}
	for _, arg := range f[2:] {
		k, v, _ := strings.Cut(arg, "=")
		switch k {
		case "position":
			o.position = number(t, v)
		case "entries":
			o.entries = number(t, v)
		case "bytes":
			o.bytes = number(t, v)
		case "rack":
			o.sameRack = v == "same"
		default:
			t.Fatalf("unknown field %s", arg)
		}
	}
	return o
}

// TestChooseSourcesMatchesBruteForce compares the choice with the obvious one: of all offers that may be taken, the first is
// one that no other beats, rule by rule.
func TestChooseSourcesMatchesBruteForce(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		s := shortfall{position: rng.Int64N(100), end: rng.Int64N(400), caughtUp: rng.IntN(8) == 0}
		distance, free := rng.Int64N(30)-1, rng.Int64N(100)-10
		offers := make([]offer, rng.IntN(5))
		for i := range offers {
			offers[i] = offer{
				node: metadata.NodeID(rune('a' + i)), active: rng.IntN(2) == 0, sameRack: rng.IntN(2) == 0,
				position: rng.Int64N(400), entries: rng.Int64N(200), bytes: rng.Int64N(80),
			}
		}
		chosen, why := chooseSources(s, offers, distance, free)
		var may []offer
		least := distance
		if s.caughtUp {
			least *= 20
		}
		for _, o := range offers {
			saved := o.position - s.position
			if distance >= 0 && s.end-s.position >= max(1, least) && saved >= max(1, least) && saved >= o.entries && (free < 0 || float64(free) >= 1.2*float64(o.bytes)) {
				may = append(may, o)
			}
		}
		if len(chosen) != min(len(may), 2) || (why == "") != (len(chosen) > 0) {
			t.Fatalf("%+v with %+v: chose %+v (%q) of %+v", s, offers, chosen, why, may)
		}
		if len(may) == 0 {
			continue
		}
		most := int64(0)
		for _, o := range may {
			most = max(most, o.position-s.position)
		}
		rank := func(o offer) string { // the smaller the better
			return fmt.Sprintf("%t %t %t %09d %s", float64(o.position-s.position) < 0.9*float64(most), o.active, !o.sameRack, 1_000_000-o.position, o.node)
		}
		for _, o := range may {
			if rank(o) < rank(chosen[0]) {
				t.Fatalf("%+v with %+v: %s was chosen before %s", s, offers, chosen[0].node, o.node)
			}
		}
	}
}

func TestPeersOfAPartition(t *testing.T) {
	t.Parallel()
	p, other := metadata.Partition{Store: "s", Partition: 1}, metadata.Partition{Store: "s", Partition: 2}
	host := func(node string, active, standby []metadata.Partition) metadata.Host {
		return metadata.Host{Node: metadata.NodeID(node), Active: active, Standby: standby}
	}
	hm := &metadata.HostMap{Hosts: []metadata.Host{
		host("a", []metadata.Partition{p}, nil), host("b", nil, []metadata.Partition{p}), host("c", []metadata.Partition{other}, nil),
		host("d", nil, []metadata.Partition{other, p}), host("e", nil, []metadata.Partition{p}), host("f", nil, []metadata.Partition{p}),
		host("g", nil, []metadata.Partition{p}),
	}}
	for self, want := range map[string]string{"c": "b d e a", "b": "d e f a", "a": "b d e f", "x": "b d e a"} {
		var got []string
		for _, h := range peersOf(hm, p, metadata.NodeID(self)) {
			got = append(got, string(h.Node))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s asks %s, want %s", self, s, want)
		}
	}
	if got := peersOf(nil, p, "a"); got != nil {
		t.Errorf("without an assignment: %v", got)
	}
}
