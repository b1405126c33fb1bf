package metadata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestViewByText runs testdata/view: reports in, the view out. Commands:
//
//	report node=a [inc=1] [seq=next] [gen=0] [addr=a:1] [app=flights] [interval=100ms] [partial] [leaving] [draining] [at=0s]
//	    <store>/<partition> <role> <state> [gen=N] [pos=N] [end=N] [offsets=N] [time=D] [age=D] [lease]
//	    store <name> <partitions> [actual=N] [id=topic id]
//	    misplaced <store> <topic> <partition> <records> <first offset> <first key>
//	    dropped <sink> <topic> <records>
//	suspect node=a [inc=1] [refused]
//	expire at=2s
//	show [at=0s]
//	relieved node=a
//	lookup store=s partition=0
func TestViewByText(t *testing.T) {
	datadriven.Walk(t, "testdata/view", func(t *testing.T, path string) {
		t.Helper()
		v := NewView(Limits{})
		sequences := map[NodeID]int64{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			at := epoch.Add(duration(t, d, "at"))
			before := v
			switch d.Cmd {
			case "report":
				r := readReport(t, d, sequences)
				if err := r.Validate(); err != nil {
					return "invalid: " + err.Error()
				}
				var err error
				if v, err = v.Apply(r, at); err != nil {
					return "refused: " + err.Error()
				}
			case "suspect":
				v = v.Suspect(NodeID(text(d, "node", "")), Incarnation(number(t, d, "inc", 1)), d.HasArg("refused"))
			case "expire":
				v = v.Expire(at)
			case "lookup":
				_, err := v.Partition(Partition{text(d, "store", "s"), int32(number(t, d, "partition", 0))})
				if err == nil {
					return "found"
				}
				return kind(err) + err.Error()
			case "show":
				return show(v, at)
			case "relieved":
				return strconv.FormatBool(v.Relieved(NodeID(text(d, "node", ""))))
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			if v == before {
				return "unchanged"
			}
			return "ok"
		})
	})
}

func kind(err error) string {
	var unknown *UnknownStoreError
	var none *NoPartitionError
	var unassigned *UnassignedError
	switch {
	case errors.Is(err, ErrNotReady):
		return "not ready: "
	case errors.As(err, &unknown):
		return "unknown store: "
	case errors.As(err, &none):
		return "no such partition: "
	case errors.As(err, &unassigned):
		return "not yet assigned: "
	}
	return ""
}

func show(v *View, now time.Time) string {
	var b strings.Builder
	for _, in := range v.Instances(now) {
		state := "alive"
		switch {
		case !in.Alive:
			state = "dead"
		case in.Refused:
			state = "refused"
		case in.Suspect:
			state = "suspect"
		}
		if in.Draining {
			state += " draining"
		}
		fmt.Fprintf(&b, "%s %s %s heard=%s active=%v standby=%v replicas=%d\n",
			in.ID, in.Address, state, in.LastHeard, in.ActivePartitions, in.StandbyPartitions, len(in.Replicas))
		for _, m := range in.Misplaced {
			fmt.Fprintf(&b, "  misplaced in %s for %s: %d since %d, key %s\n", m.TopicPartition, m.Store, m.Records, m.FirstOffset, m.FirstKey)
		}
		for _, d := range in.Dropped {
			fmt.Fprintf(&b, "  dropped by %s to %s: %d\n", d.Sink, d.Topic, d.Records)
		}
	}
	for p := range v.partitions {
		fmt.Fprintf(&b, "%s end=%d\n", p.Partition, p.End())
		for i := range p.Len() {
			h := p.At(i)
			l := p.LagAt(h, now)
			mark := ""
			if h.Active {
				mark = " *"
			}
			fmt.Fprintf(&b, "  %s %s %s pos=%d offsets=%d time=%s sampled=%s%s\n",
				h.Node.ID, h.Role, h.State, l.Position, l.Offsets, lagText(l.Time), l.SampleAge, mark)
		}
	}
	return b.String()
}

func lagText(d time.Duration) string {
	if d == LagUnknown {
		return "unknown"
	}
	return d.String()
}

func readReport(t *testing.T, d *datadriven.TestData, sequences map[NodeID]int64) Report {
	t.Helper()
	node := NodeID(text(d, "node", ""))
	sequences[node]++
	r := Report{
		Node: node, Incarnation: Incarnation(number(t, d, "inc", 1)), Sequence: number(t, d, "seq", sequences[node]),
		Application: text(d, "app", "flights"), Address: text(d, "addr", string(node)+":1"),
		Generation: Generation(number(t, d, "gen", 0)), Full: !d.HasArg("partial"), Leaving: d.HasArg("leaving"),
		Interval: duration(t, d, "interval"), Draining: d.HasArg("draining"),
	}
	if r.Interval == 0 {
		r.Interval = 100 * time.Millisecond
	}
	for line := range strings.SplitSeq(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "misplaced":
			r.Misplaced = append(r.Misplaced, Misplaced{
				Store: words[1], TopicPartition: TopicPartition{words[2], int32(atoi(t, words[3]))}, Records: atoi(t, words[4]),
				FirstOffset: atoi(t, words[5]), FirstKey: []byte(words[6]),
			})
			continue
		case "dropped":
			r.Dropped = append(r.Dropped, Dropped{Sink: words[1], Topic: words[2], Records: atoi(t, words[3])})
			continue
		case "store":
			s := StoreInfo{Name: words[1], Partitions: int32(atoi(t, words[2])), SourceTopics: []string{"in"}}
			for _, w := range words[3:] {
				name, value, _ := strings.Cut(w, "=")
				if name == "actual" {
					s.ActualPartitions = int32(atoi(t, value))
				} else {
					s.ChangelogID = value
				}
			}
			r.Stores = append(r.Stores, s)
			continue
		}
		r.Replicas = append(r.Replicas, readReplica(t, words, r.Generation))
	}
	return r
}

func readReplica(t *testing.T, words []string, generation Generation) Replica {
	t.Helper()
	store, partition, _ := strings.Cut(words[0], "/")
	rep := Replica{
		Partition: Partition{store, int32(atoi(t, partition))}, Generation: generation,
		Lag: LagInfo{End: LagUnknown, Offsets: LagUnknown, Time: LagUnknown},
	}
	for r := RoleActive; r <= RoleWarmup; r++ {
		if r.String() == words[1] {
			rep.Role = r
		}
	}
	for s := StateRestoring; s <= StateClosed; s++ {
		if s.String() == words[2] {
			rep.State = s
		}
	}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "gen":
			rep.Generation = Generation(atoi(t, value))
		case "pos":
			rep.Lag.Position = atoi(t, value)
		case "end":
			rep.Lag.End = atoi(t, value)
			rep.Lag.Offsets = max(0, rep.Lag.End-rep.Lag.Position)
		case "offsets":
			rep.Lag.Offsets = atoi(t, value)
		case "time":
			rep.Lag.Time = parseDuration(t, value)
		case "age":
			rep.Lag.SampleAge = parseDuration(t, value)
		case "lease":
			rep.LeaseValid = true
		default:
			t.Fatalf("unknown word %q", w)
		}
	}
	return rep
}

func text(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return def
}

func number(t *testing.T, d *datadriven.TestData, key string, def int64) int64 {
	t.Helper()
	return atoi(t, text(d, key, strconv.FormatInt(def, 10)))
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	return parseDuration(t, text(d, key, "0s"))
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

// TestValidateNamesEveryBadField gives each field a value that no node may send.
func TestValidateNamesEveryBadField(t *testing.T) {
	good := Replica{Partition: Partition{"s", 0}, Role: RoleActive, State: StateRunning}
	with := func(change func(*Replica)) []Replica {
		r := good
		change(&r)
		return []Replica{r}
	}
	misplaced := func(change func(*Misplaced)) Report {
		m := Misplaced{Store: "s", TopicPartition: TopicPartition{"in", 0}, Records: 1, FirstKey: make([]byte, MaxFirstKeyBytes), Expected: []int32{1}}
		change(&m)
		return Report{Misplaced: []Misplaced{m}}
	}
	nothing := func(*Misplaced) {}
	for want, r := range map[string]Report{
		"node":                 {},
		"incarnation":          {Incarnation: -1},
		"sequence":             {Sequence: -2},
		"address":              {},
		"interval":             {Interval: 11 * time.Second},
		"in_flight":            {InFlight: -1},
		"version":              {Version: strings.Repeat("v", MaxVersionBytes+1)},
		"replicas[0] (/0)":     {Replicas: with(func(r *Replica) { r.Store = "" })},
		"partition: -1":        {Replicas: with(func(r *Replica) { r.Partition.Partition = -1 })},
		"partition: 131072":    {Replicas: with(func(r *Replica) { r.Partition.Partition = MaxPartitions })},
		"role(9)":              {Replicas: with(func(r *Replica) { r.Role = 9 })},
		"state(0)":             {Replicas: with(func(r *Replica) { r.State = 0 })},
		"position: -1":         {Replicas: with(func(r *Replica) { r.Lag.Position = -1 })},
		"end_position: -2":     {Replicas: with(func(r *Replica) { r.Lag.End = -2 })},
		"offset_lag: -2":       {Replicas: with(func(r *Replica) { r.Lag.Offsets = -2 })},
		"time_lag: -1s":        {Replicas: with(func(r *Replica) { r.Lag.Time = -time.Second })},
		"sample_age: -1s":      {Replicas: with(func(r *Replica) { r.Lag.SampleAge = -time.Second })},
		"named once":           {Replicas: []Replica{good, good}},
		"stores[0] ().name":    {Stores: []StoreInfo{{Partitions: 1}}},
		"partitions: 0":        {Stores: []StoreInfo{{Name: "s"}}},
		"actual_partitions: -": {Stores: []StoreInfo{{Name: "s", Partitions: 1, ActualPartitions: -1}}},

		"misplaced[0] (, in-0).store":                              misplaced(func(m *Misplaced) { m.Store = "" }),
		`misplaced[0] (s, -0).topic: ""`:                           misplaced(func(m *Misplaced) { m.Topic = "" }),
		"misplaced[0] (s, in--1).partition: -1":                    misplaced(func(m *Misplaced) { m.Partition = -1 }),
		"misplaced[0] (s, in-0).records: -1":                       misplaced(func(m *Misplaced) { m.Records = -1 }),
		"misplaced[0] (s, in-0).first_offset: -1":                  misplaced(func(m *Misplaced) { m.FirstOffset = -1 }),
		"misplaced[0] (s, in-0).first_key: a key of 1025 bytes":    misplaced(func(m *Misplaced) { m.FirstKey = make([]byte, 1025) }),
		"misplaced[0] (s, in-0).expected: -1":                      misplaced(func(m *Misplaced) { m.Expected = []int32{0, -1} }),
		"misplaced[1] (s, in-0).partition: in-0 is not named once": {Misplaced: append(misplaced(nothing).Misplaced, misplaced(nothing).Misplaced...)},
		"dropped[0] ().sink":                                       {Dropped: []Dropped{{}}},
		"dropped[0] (k).records: -1":                               {Dropped: []Dropped{{Sink: "k", Records: -1}}},
		"dropped[1] (k).sink: k is not named once":                 {Dropped: []Dropped{{Sink: "k", Topic: "t"}, {Sink: "k", Topic: "t"}}},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: want an error with %q, got %v", r, want, err)
		}
	}
	r := misplaced(nothing)
	r.Node, r.Address, r.Replicas = "a", "a:1", []Replica{good}
	r.Dropped = []Dropped{{Sink: "k", Topic: "t"}, {Sink: "k", Topic: "u"}}
	if err := r.Validate(); err != nil {
		t.Errorf("a good report: %v", err)
	}
}

// BenchmarkApply is one heartbeat of one of several nodes that hold 1,000 replicas each: all lags in one report. The
// time per replica must not grow with the number of replicas.
func BenchmarkApply(b *testing.B) {
	for _, nodes := range []int{3, 12} {
		for _, replicas := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("nodes=%d/replicas=%d", nodes, replicas), func(b *testing.B) {
				v := NewView(Limits{})
				reports := make([]Report, nodes)
				for n := range reports {
					reports[n] = bigReport(n, replicas)
					v, _ = v.Apply(reports[n], epoch)
				}
				for n := range reports {
					reports[n].Full, reports[n].Stores = false, nil
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					r := &reports[i%nodes]
					r.Sequence++
					for j := range r.Replicas {
						r.Replicas[j].Lag.Position++
						r.Replicas[j].Lag.End++
					}
					v, _ = v.Apply(*r, epoch)
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*replicas), "ns/replica")
			})
		}
	}
}

// BenchmarkApplyManyNodes is one heartbeat of one of 1,000 nodes that hold 3 replicas each of a store of 1,000 partitions.
// It must stay below 50 us.
func BenchmarkApplyManyNodes(b *testing.B) {
	const nodes = 1000
	v := NewView(Limits{})
	reports := make([]Report, nodes)
	for n := range reports {
		r := bigReport(n, 0)
		r.Stores[0].Partitions = nodes
		for i := range 3 {
			role := RoleStandby
			if i == 0 {
				role = RoleActive
			}
			r.Replicas = append(r.Replicas, Replica{
				Partition: Partition{"s", int32((n + i) % nodes)}, Role: role, State: StateRunning, LeaseValid: role == RoleActive,
			})
		}
		var err error
		if v, err = v.Apply(r, epoch); err != nil {
			b.Fatal(err)
		}
		r.Full, r.Stores = false, nil
		reports[n] = r
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r := &reports[i%nodes]
		r.Sequence++
		for j := range r.Replicas {
			r.Replicas[j].Lag.Position++
		}
		v, _ = v.Apply(*r, epoch)
		i++
	}
}

func bigReport(n, replicas int) Report {
	id := NodeID("n" + strconv.Itoa(n))
	r := Report{Node: id, Application: "flights", Address: string(id) + ":1", Full: true, Sequence: 1}
	r.Stores = []StoreInfo{{Name: "s", Partitions: int32(replicas), Partitioner: "murmur2"}}
	for p := range replicas {
		role := RoleStandby
		if p%3 == n {
			role = RoleActive
		}
		r.Replicas = append(r.Replicas, Replica{
			Partition: Partition{"s", int32(p)}, Role: role, State: StateRunning, Generation: 1, LeaseValid: role == RoleActive,
			Lag: LagInfo{Position: int64(n), End: int64(n)},
		})
	}
	return r
}

// TestReadsOfThePartitionDoNotAllocate holds the hot path to its ceiling.
func TestReadsOfThePartitionDoNotAllocate(t *testing.T) {
	v := NewView(Limits{})
	for n := range 3 {
		v, _ = v.Apply(bigReport(n, 10), epoch)
	}
	var sum int64
	allocs := testing.AllocsPerRun(100, func() {
		p, err := v.Partition(Partition{"s", 7})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Len() {
			sum += p.LagAt(p.At(i), epoch).Position
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
