package routing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestDecideByText runs testdata/decide. Commands:
//
//	view [partitions=1] [actual=N]: one replica a line, all of store s
//	    <node> <role> <state> [p=0] [gen=1] [pos=N] [end=N] [time=D] [age=D] [lease] [input=topic-0:N]
//	        [heard=D: so long ago] [rack=R] [load=N] [refused]
//	decide [wait] [store=s] [p=0] [mode=M] [max_staleness=D] [max_offset_lag=N] [at_least=topic-0:N] [prefer=P] [rack=R]
func TestDecideByText(t *testing.T) {
	datadriven.Walk(t, "testdata/decide", func(t *testing.T, path string) {
		t.Helper()
		v := metadata.NewView(metadata.Limits{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "view":
				v = readView(t, d.Input, int32(atoi(t, arg(d, "partitions", "1"))))
				return "ok"
			case "decide":
				decision, err := Decide(v, readQuery(t, d), epoch)
				return showDecision(&decision, err)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func showDecision(d *Decision, err error) string {
	var b strings.Builder
	for i := range d.Candidates {
		c := &d.Candidates[i]
		rank := "-"
		if c.Rank > 0 {
			rank = strconv.Itoa(c.Rank)
		}
		fmt.Fprintf(&b, "%s %s: %s\n", rank, c.Node.ID, d.why(c))
	}
	switch {
	case err == nil:
	case len(d.Candidates) > 0: // its text is iqerr's, from the lines above
		fmt.Fprintf(&b, "%s\n", iqerr.Name(iqerr.ReasonOf(err)))
	default:
		fmt.Fprintf(&b, "%s: %v\n", iqerr.Name(iqerr.ReasonOf(err)), err)
	}
	return b.String()
}

func readView(t *testing.T, input string, partitions int32) *metadata.View {
	t.Helper()
	v := metadata.NewView(metadata.Limits{})
	refused := map[metadata.NodeID]bool{}
	lines := map[metadata.NodeID][]string{}
	var order []metadata.NodeID
	for line := range strings.SplitSeq(input, "\n") {
		node, _, _ := strings.Cut(line, " ")
		if node != "" {
			lines[metadata.NodeID(node)] = append(lines[metadata.NodeID(node)], line)
			order = append(order, metadata.NodeID(node))
		}
	}
	for _, id := range order {
		if lines[id] == nil {
			continue
		}
		r := metadata.Report{
			Node: id, Application: "app", Address: string(id) + ":1", Full: true, Interval: 100 * time.Millisecond,
			Stores: []metadata.StoreInfo{{Name: "s", Partitions: partitions, ActualPartitions: partitions, Partitioner: "murmur2"}},
		}
		var heard time.Duration
		for _, line := range lines[id] {
			rep, more := readReplica(t, strings.Fields(line)[1:])
			if rep.Role != 0 {
				r.Replicas = append(r.Replicas, rep)
			}
			for key, value := range more {
				switch key {
				case "heard":
					heard = parseDuration(t, value)
				case "rack":
					r.Rack = value
				case "load":
					r.InFlight = int32(atoi(t, value))
				case "refused":
					refused[id] = true
				}
			}
		}
		lines[id] = nil
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		var err error
		if v, err = v.Apply(r, epoch.Add(-heard)); err != nil {
			t.Fatal(err)
		}
	}
	for id := range refused {
		v = v.Suspect(id, 0, true)
	}
	return v.Expire(epoch)
}

func readReplica(t *testing.T, words []string) (metadata.Replica, map[string]string) {
	t.Helper()
	more := map[string]string{}
	rep := metadata.Replica{Partition: metadata.Partition{Store: "s"}, Generation: 1, Lag: metadata.LagInfo{
		End: metadata.LagUnknown, Offsets: metadata.LagUnknown, Time: metadata.LagUnknown,
	}}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "active", "standby", "warmup":
			rep.Role = metadata.Role(1 + slices.Index([]string{"active", "standby", "warmup"}, key))
		case "restoring", "running", "suspended":
			rep.State = metadata.State(1 + slices.Index([]string{"restoring", "running", "suspended"}, key))
		case "p":
			rep.Partition.Partition = int32(atoi(t, value))
		case "gen":
			rep.Generation = metadata.Generation(atoi(t, value))
		case "pos":
			rep.Lag.Position = atoi(t, value)
		case "end":
			rep.Lag.End = atoi(t, value)
			rep.Lag.Offsets = max(0, rep.Lag.End-rep.Lag.Position)
		case "time":
			rep.Lag.Time = parseDuration(t, value)
		case "age":
			rep.Lag.SampleAge = parseDuration(t, value)
		case "lease":
			rep.LeaseValid = true
		case "input":
			rep.Input = readPosition(t, value)
		default:
			more[key] = value
		}
	}
	return rep, more
}

func readPosition(t *testing.T, s string) metadata.Position {
	t.Helper()
	p := metadata.Position{}
	for part := range strings.SplitSeq(s, ",") {
		name, offset, _ := strings.Cut(part, ":")
		topic, partition, _ := strings.Cut(name, "-")
		p[metadata.TopicPartition{Topic: topic, Partition: int32(atoi(t, partition))}] = atoi(t, offset)
	}
	return p
}

func readQuery(t *testing.T, d *datadriven.TestData) Query {
	t.Helper()
	q := Query{
		Partition: metadata.Partition{Store: arg(d, "store", "s"), Partition: int32(atoi(t, arg(d, "p", "0")))},
		Policy:    Unbounded(ModeAny),
	}
	for mode := ModeStrong; mode <= ModeAny; mode++ {
		if mode.String() == arg(d, "mode", "any") {
			q.Policy.Mode = mode
		}
	}
	if s := arg(d, "max_staleness", ""); s != "" {
		q.Policy.MaxStaleness = parseDuration(t, s)
	}
	if s := arg(d, "max_offset_lag", ""); s != "" {
		q.Policy.MaxOffsetLag = atoi(t, s)
	}
	if s := arg(d, "at_least", ""); s != "" {
		q.Policy.AtLeast = readPosition(t, s)
	}
	switch arg(d, "prefer", "active") {
	case "least_loaded":
		q.Policy.Prefer = PreferLeastLoaded
	case "nearest":
		q.Policy.Prefer = PreferNearest
	}
	q.Policy.Rack = arg(d, "rack", "")
	q.Patient = d.HasArg("wait")
	return q
}

func arg(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return def
}

func atoi(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func parseDuration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// told is one replica of the twin: what its node told and how long ago.
type told struct {
	metadata.Replica
	node    metadata.NodeID
	heard   time.Duration
	rack    string
	load    int32
	refused bool
	drains  bool
}

// slowDecide is Decide as its comment says it, one question after another, each over all replicas.
func slowDecide(all []told, q Query) (order []metadata.NodeID, sentinel error) {
	alive := func(r told) bool { return r.heard < 2*time.Second }
	suspect := func(r told) bool { return r.refused || r.heard >= 400*time.Millisecond }
	var end int64 = metadata.LagUnknown
	var generation metadata.Generation
	for _, r := range all {
		end = max(end, r.Lag.End, r.Lag.Position)
		if r.Role == metadata.RoleActive {
			generation = max(generation, r.Generation)
		}
	}
	claims := func(r told) bool { return alive(r) && r.Role == metadata.RoleActive && r.Generation == generation }
	leased := func(r told) bool { return claims(r) && r.State == metadata.StateRunning && r.LeaseValid }
	var active metadata.NodeID
	for _, r := range all { // in the order of node ids
		if claims(r) && active == "" {
			active = r.node
		}
	}
	for _, r := range slices.Backward(all) {
		if leased(r) {
			active = r.node
		}
	}
	serves := func(r told) bool { return leased(r) && r.node == active }
	offsets := func(r told) int64 {
		switch {
		case serves(r) && !suspect(r) || r.Lag.Offsets == metadata.LagUnknown:
			return r.Lag.Offsets
		}
		return max(0, end-r.Lag.Position)
	}
	staleness := func(r told) time.Duration {
		if serves(r) && !suspect(r) || r.Lag.Time == metadata.LagUnknown {
			return r.Lag.Time
		}
		return r.Lag.Time + r.heard
	}
	roleFits := func(r told) bool { return q.Policy.Mode > ModeActive || serves(r) }
	offsetsFit := func(r told) bool {
		fresh := r.Lag.SampleAge+r.heard <= 5*time.Second || serves(r)
		return q.Policy.MaxOffsetLag == NoBound || (offsets(r) >= 0 && fresh && offsets(r) <= q.Policy.MaxOffsetLag)
	}
	timeFits := func(r told) bool {
		return q.Policy.MaxStaleness == NoBound || (staleness(r) >= 0 && staleness(r) <= q.Policy.MaxStaleness)
	}
	positionFits := func(r told) bool { return serves(r) || r.Input.Covers(q.Policy.AtLeast) }
	fits := func(r told) bool {
		return alive(r) && !r.refused && roleFits(r) && offsetsFit(r) && timeFits(r) && positionFits(r)
	}
	healthy := slices.ContainsFunc(all, func(r told) bool { return fits(r) && !suspect(r) })
	late := func(r told) bool { return r.heard >= 200*time.Millisecond }
	better := func(a, b told) bool {
		if late(a) != late(b) {
			return late(b)
		}
		if q.Policy.Prefer == PreferLeastLoaded && a.load != b.load {
			return a.load < b.load
		}
		if near := q.Policy.Rack; q.Policy.Prefer == PreferNearest && (a.rack == near) != (b.rack == near) {
			return a.rack == near
		}
		if q.Policy.Prefer != PreferActive && a.drains != b.drains {
			return b.drains
		}
		if serves(a) != serves(b) {
			return serves(a)
		}
		if a.Lag.Position != b.Lag.Position {
			return a.Lag.Position > b.Lag.Position
		}
		if a.drains != b.drains {
			return b.drains
		}
		return a.node < b.node
	}
	left := slices.Clone(all)
	for {
		best := -1
		for i, r := range left {
			if fits(r) && (!suspect(r) || !healthy && !q.Patient) && (best < 0 || better(r, left[best])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		order = append(order, left[best].node)
		left = slices.Delete(left, best, best+1)
	}
	if len(order) > 0 {
		return order, nil
	}
	some := func(f func(told) bool) bool { return slices.ContainsFunc(all, f) }
	reachable := func(r told) bool { return alive(r) && !r.refused }
	activeOnly := q.Policy.Mode <= ModeActive
	beyond := func(r told) bool { return !offsetsFit(r) || !timeFits(r) }
	switch {
	case some(func(r told) bool {
		return reachable(r) && roleFits(r) && offsetsFit(r) && timeFits(r) && !positionFits(r)
	}):
		return nil, iqerr.ErrPositionNotReached
	case !some(alive), !activeOnly && !some(reachable):
		return nil, iqerr.ErrNoReplica
	case activeOnly && !some(func(r told) bool { return reachable(r) && roleFits(r) && beyond(r) }):
		return nil, iqerr.ErrNoActive
	case !some(func(r told) bool { return reachable(r) && roleFits(r) && beyond(r) }):
		return nil, iqerr.ErrNoReplica // only suspects, and the read can wait
	}
	return nil, iqerr.ErrStale
}

// TestDecideEqualsItsSlowTwin compares Decide with slowDecide on random partitions and policies, and checks that a
// second call says the same.
func TestDecideEqualsItsSlowTwin(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		all, v := randomPartition(t, rng)
		q := randomQuery(rng)
		d, err := Decide(v, q, epoch)
		var got []metadata.NodeID
		for _, c := range d.Candidates[:d.Eligible] {
			got = append(got, c.Node.ID)
		}
		want, sentinel := slowDecide(all, q)
		if !slices.Equal(got, want) || !errors.Is(err, sentinel) || (sentinel == nil) != (err == nil) {
			t.Fatalf("seed %d, %s prefer %d\n%+v\ngot  %v, %v\nwant %v, %v", seed, q.Policy, q.Policy.Prefer, all, got, err, want, sentinel)
		}
		again, _ := Decide(v, q, epoch)
		if showDecision(&d, nil) != showDecision(&again, nil) {
			t.Fatalf("seed %d: two calls, two decisions", seed)
		}
		outcomes[iqerr.Name(iqerr.ReasonOf(err))]++
	}
	for _, reason := range []string{"UNSPECIFIED", "NO_REPLICA", "NO_ACTIVE", "STALE", "POSITION_NOT_REACHED"} {
		if outcomes[reason] < 100 {
			t.Errorf("only %d of the random queries ended as %s", outcomes[reason], reason)
		}
	}
}

func randomPartition(t *testing.T, rng *rand.Rand) ([]told, *metadata.View) {
	t.Helper()
	v := metadata.NewView(metadata.Limits{})
	var all []told
	for i := range 1 + rng.IntN(4) {
		id := metadata.NodeID(rune('a' + i))
		r := told{node: id, rack: []string{"", "r1", "r2"}[rng.IntN(3)], load: rng.Int32N(3), refused: rng.IntN(8) == 0}
		r.drains = rng.IntN(3) == 0
		r.heard = time.Duration(rng.IntN(600)) * time.Millisecond
		if rng.IntN(6) == 0 {
			r.heard = time.Duration(rng.IntN(3000)) * time.Millisecond
		}
		r.Replica = metadata.Replica{
			Partition: metadata.Partition{Store: "s"}, Role: metadata.Role(1 + rng.IntN(3)), State: metadata.State(1 + rng.IntN(3)),
			Generation: metadata.Generation(rng.IntN(2)), LeaseValid: rng.IntN(3) > 0,
			Lag: metadata.LagInfo{Position: rng.Int64N(100) / 20 * 20, SampleAge: time.Duration(rng.IntN(6000)) * time.Millisecond},
		}
		r.Lag.End = r.Lag.Position + rng.Int64N(20)
		r.Lag.Offsets = r.Lag.End - r.Lag.Position
		r.Lag.Time = time.Duration(rng.IntN(2000)) * time.Millisecond
		if rng.IntN(5) == 0 {
			r.Lag.Time = metadata.LagUnknown
		}
		if rng.IntN(8) == 0 {
			r.Lag.End, r.Lag.Offsets = metadata.LagUnknown, metadata.LagUnknown
		}
		if rng.IntN(3) > 0 {
			r.Input = metadata.Position{{Topic: "in"}: rng.Int64N(10)}
		}
		all = append(all, r)
		var err error
		v, err = v.Apply(metadata.Report{
			Node: id, Address: string(id) + ":1", Rack: r.rack, InFlight: r.load, Draining: r.drains, Full: true, Replicas: []metadata.Replica{r.Replica},
			Interval: 100 * time.Millisecond,
			Stores:   []metadata.StoreInfo{{Name: "s", Partitions: 1}},
		}, epoch.Add(-r.heard))
		if err != nil {
			t.Fatal(err)
		}
		if r.refused {
			v = v.Suspect(id, 0, true)
		}
	}
	return all, v.Expire(epoch)
}

func randomQuery(rng *rand.Rand) Query {
	q := Query{Partition: metadata.Partition{Store: "s"}, Policy: Unbounded(Mode(1 + rng.IntN(4)))}
	if rng.IntN(3) == 0 {
		q.Policy.MaxStaleness = time.Duration(rng.IntN(2000)) * time.Millisecond
	}
	if rng.IntN(3) == 0 {
		q.Policy.MaxOffsetLag = rng.Int64N(60)
	}
	if rng.IntN(3) == 0 {
		q.Policy.AtLeast = metadata.Position{{Topic: "in"}: rng.Int64N(12)}
	}
	q.Policy.Prefer, q.Policy.Rack = Prefer(rng.IntN(3)), "r1"
	q.Patient = rng.IntN(4) == 0
	return q
}

// BenchmarkDecide is the router's own work per read, apart from gRPC.
func BenchmarkDecide(b *testing.B) {
	for _, replicas := range []int{1, 3, 5} {
		for _, policy := range []Policy{
			Unbounded(ModeActive),
			{Mode: ModeBounded, MaxStaleness: time.Second, MaxOffsetLag: 1000},
		} {
			b.Run(fmt.Sprintf("replicas=%d/policy=%s", replicas, policy.Mode), func(b *testing.B) {
				v := benchView(replicas)
				q := Query{Partition: metadata.Partition{Store: "s", Partition: 7}, Policy: policy}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Decide(v, q, epoch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func benchView(replicas int) *metadata.View {
	v := metadata.NewView(metadata.Limits{})
	for n := range replicas {
		id := metadata.NodeID("node-" + strconv.Itoa(n))
		r := metadata.Report{Node: id, Address: string(id) + ":1", Full: true, Stores: []metadata.StoreInfo{{Name: "s", Partitions: 64}}}
		for p := range int32(64) {
			rep := metadata.Replica{
				Partition: metadata.Partition{Store: "s", Partition: p}, Role: metadata.RoleStandby, State: metadata.StateRunning,
				Lag: metadata.LagInfo{Position: 1000, End: 1000, Time: 100 * time.Millisecond},
			}
			if n == 0 {
				rep.Role, rep.LeaseValid = metadata.RoleActive, true
			}
			r.Replicas = append(r.Replicas, rep)
		}
		v, _ = v.Apply(r, epoch)
	}
	return v
}

// TestDecideAllocs holds the hot path to one allocation: the list of candidates.
func TestDecideAllocs(t *testing.T) {
	const ceiling = 1
	v := benchView(3)
	q := Query{Partition: metadata.Partition{Store: "s", Partition: 7}, Policy: Policy{Mode: ModeBounded, MaxStaleness: time.Second, MaxOffsetLag: 10}}
	if got := testing.AllocsPerRun(200, func() {
		if _, err := Decide(v, q, epoch); err != nil {
			t.Fatal(err)
		}
	}); got > ceiling {
		t.Errorf("%v allocations, at most %d allowed", got, ceiling)
	}
}

// TestS14PositionBeyondAnOldEndIsNoReason: a position tells that the log goes at least so far; an end below it is only old,
// as when Kafka has not answered for a while. The replica was taken for one of another log, and reads failed.
func TestS14PositionBeyondAnOldEndIsNoReason(t *testing.T) {
	v, err := metadata.NewView(metadata.Limits{}).Apply(metadata.Report{
		Node: "a", Address: "a:1", Full: true, Sequence: 1,
		Stores: []metadata.StoreInfo{{Name: "s", Partitions: 1, ChangelogID: "one"}},
		Replicas: []metadata.Replica{{
			Partition: metadata.Partition{Store: "s"}, Role: metadata.RoleStandby, State: metadata.StateRunning,
			Lag: metadata.LagInfo{Position: 100, End: 90},
		}},
	}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decide(v, Query{Partition: metadata.Partition{Store: "s"}, Policy: Unbounded(ModeAny)}, epoch)
	if got := showDecision(&d, err); got != "1 a: within the policy\n" {
		t.Error(got)
	}
}
