package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// epoch is now in the tests' views.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// readView makes a view of text: a line for each node, and below it, indented, one for each replica.
//
//	a rack=r1 heard=30ms draining generation=7
//	  s/0 active running pos=90 end=100 time=2s lease
//
// A store has as many partitions as parts=4 of its first line says, or 2. "refused" has the node's address refuse connections.
func readView(t *testing.T, text string) *metadata.View {
	t.Helper()
	stores := map[string]metadata.StoreInfo{}
	var order []string
	type told struct {
		metadata.Report
		heard   time.Duration
		refused bool
	}
	var nodes []*told
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "store":
			info := metadata.StoreInfo{Name: words[1], Kind: "keyvalue", KeySerde: "string", ValueSerde: "int64", Partitioner: "murmur2", Partitions: 2}
			for _, w := range words[2:] {
				name, value, _ := strings.Cut(w, "=")
				n, _ := strconv.ParseInt(value, 10, 32)
				switch name {
				case "parts":
					info.Partitions = int32(n)
				case "actual":
					info.ActualPartitions = int32(n)
				case "followed":
					info.Followed = true
				default:
					t.Fatalf("store: %q", w)
				}
			}
			stores[info.Name] = info
			order = append(order, info.Name)
		case line[0] != ' ':
			n := &told{Report: metadata.Report{
				Node: metadata.NodeID(words[0]), Application: "app", Address: words[0] + ":7070", Incarnation: 1, Sequence: 1, Full: true, Interval: 100 * time.Millisecond, Generation: 5,
			}}
			for _, w := range words[1:] {
				name, value, _ := strings.Cut(w, "=")
				switch name {
				case "rack":
					n.Rack = value
				case "heard":
					n.heard = parseTime(t, value)
				case "draining":
					n.Draining = true
				case "version":
					n.Version = value
				case "refused":
					n.refused = true
				case "misplaced":
					n.Misplaced = []metadata.Misplaced{{Store: value, TopicPartition: metadata.TopicPartition{Topic: "in"}, Records: 1234}}
				default:
					t.Fatalf("node: %q", w)
				}
			}
			nodes = append(nodes, n)
		default:
			n := nodes[len(nodes)-1]
			n.Replicas = append(n.Replicas, readReplica(t, words))
		}
	}
	v := metadata.NewView(metadata.Limits{})
	for _, n := range nodes {
		for _, name := range order {
			n.Stores = append(n.Stores, stores[name])
		}
		var err error
		if v, err = v.Apply(n.Report, epoch.Add(-n.heard)); err != nil {
			t.Fatal(err)
		}
		if n.refused {
			v = v.Suspect(n.Node, n.Incarnation, true)
		}
	}
	return v.Expire(epoch)
}

func readReplica(t *testing.T, words []string) metadata.Replica {
	t.Helper()
	store, number, _ := strings.Cut(words[0], "/")
	partition, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		t.Fatalf("replica %q: %v", words[0], err)
	}
	r := metadata.Replica{Partition: metadata.Partition{Store: store, Partition: int32(partition)}, Generation: 5}
	r.Lag = metadata.LagInfo{End: metadata.LagUnknown, Offsets: metadata.LagUnknown, Time: metadata.LagUnknown}
	for role := metadata.RoleActive; role <= metadata.RoleWarmup; role++ {
		if role.String() == words[1] {
			r.Role = role
		}
	}
	for state := metadata.StateRestoring; state <= metadata.StateClosed; state++ {
		if state.String() == words[2] {
			r.State = state
		}
	}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "pos":
			r.Lag.Position = n
		case "end":
			r.Lag.End, r.Lag.Offsets = n, max(0, n-r.Lag.Position)
		case "time":
			r.Lag.Time = parseTime(t, value)
		case "lease":
			r.LeaseValid = true
		default:
			t.Fatalf("replica: %q", w)
		}
	}
	return r
}

func parseTime(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// largeView is a cluster of so many nodes and store partitions, three replicas each.
func largeView(tb testing.TB, nodes, stores, partitions int) *metadata.View {
	tb.Helper()
	reports := make([]metadata.Report, nodes)
	for i := range reports {
		id := fmt.Sprintf("node-%02d", i)
		reports[i] = metadata.Report{Node: metadata.NodeID(id), Application: "app", Address: id + ":7070", Rack: "rack-" + strconv.Itoa(i%3), Incarnation: 1, Sequence: 1, Full: true, Generation: 5}
	}
	slot := 0
	for s := range stores {
		info := metadata.StoreInfo{Name: fmt.Sprintf("store-%02d", s), Kind: "keyvalue", KeySerde: "string", ValueSerde: "int64", Partitioner: "murmur2", Partitions: int32(partitions)}
		for i := range reports {
			reports[i].Stores = append(reports[i].Stores, info)
		}
		for p := range partitions {
			for role := range 3 {
				r := metadata.Replica{
					Partition: metadata.Partition{Store: info.Name, Partition: int32(p)}, Role: metadata.RoleStandby, State: metadata.StateRunning, Generation: 5,
					Lag: metadata.LagInfo{Position: 1000, End: 1000 + int64(slot%7), Offsets: int64(slot % 7), Time: 150 * time.Millisecond},
				}
				if role == 0 {
					r.Role, r.LeaseValid, r.Lag.Time = metadata.RoleActive, true, 0
				}
				at := &reports[(slot+role*17)%nodes]
				at.Replicas = append(at.Replicas, r)
			}
			slot++
		}
	}
	v := metadata.NewView(metadata.Limits{})
	for _, r := range reports {
		var err error
		if v, err = v.Apply(r, epoch); err != nil {
			tb.Fatal(err)
		}
	}
	return v
}
