//go:build kafka

package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
)

// serveHere runs a server of this process until the test ends or stop is called.
func (a *app) serveHere(name string, run func(context.Context) error) (stop func()) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.ctx)) // ended by stop
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			a.t.Errorf("%s ended with %v", name, err)
		}
	}
	a.t.Cleanup(stop)
	return stop
}

// Against a real broker: a record goes to every partition that the sink's partitioner names, in one transaction, so a try
// that was aborted after the records were written leaves copies that no reader of committed records sees. The key is read
// from any of its partitions, and from the other one when the node of one has gone. The text's code sends to the first
// partition only. A partitioner is Go code, so nodes and router run in this process.
func TestS28KafkaMulticastGoesToAllPartitionsAndIsReadFromAny(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1, "cast": 3})
	rt, err := router.New(router.Config{Name: "r", Listen: "127.0.0.1:0", Partitioners: casters(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a.serveHere("router", rt.Run)
	addr, err := rt.Address(a.ctx)
	if err != nil {
		t.Fatal(err)
	}
	address := addr.String()
	var failures atomic.Int32
	stops := map[string]func(){}
	for _, id := range []string{"a", "b", "c"} {
		n, err := node.New(node.Config{
			NodeID: id, Topology: castTable(a.name, a.topic("in"), a.topic("cast")), Brokers: []string{shared.broker.Addr()},
			StateDir: filepath.Join(a.dir, id), Listen: "127.0.0.1:0", Routers: []string{address}, Partitioners: casters(),
			Standbys: -1, ReleaseDelay: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			SessionTimeout: 3 * time.Second, RebalanceTimeout: 2 * time.Second, Lease: time.Second,
			Step: func(step string) error {
				if step == "end" && failures.Add(1) == 1 {
					return errors.New("injected before EndTxn")
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		stops[id] = a.serveHere("node "+id, n.Run)
	}
	cl := a.ask(address)
	a.write(a.kafka, "in", "all-1", "v", "pair-1", "v", "drop-1", "v")
	for key, partitions := range map[string][]int32{"all-1": {0, 1, 2}, "pair-1": {0, 2}} {
		for _, p := range partitions {
			a.eventually(60*time.Second, fmt.Sprintf("%s in partition %d", key, p), func() error {
				got, res, err := a.read(cl, key, client.Strong(), client.Partition(p))
				if err == nil && (got != "v" || res.Served.GetPartition() != p) {
					err = fmt.Errorf("%s from %v", got, res.Served)
				}
				return err
			})
		}
		where, err := cl.QueryKey(a.ctx, "table", []byte(key))
		if err != nil || len(where) != len(partitions) {
			t.Errorf("%s is in %v, %v", key, where, err)
		}
	}
	if got, _, err := a.read(cl, "drop-1", client.Strong()); err != nil || got != "absent" {
		t.Errorf("drop-1 is %s, %v", got, err)
	}
	copies := func(opts ...kgo.Opt) map[string]int {
		n := map[string]int{}
		for _, r := range a.readAll("cast", opts...) {
			n[fmt.Sprintf("%s in %d", r.Key, r.Partition)]++
		}
		return n
	}
	want := map[string]int{"all-1 in 0": 1, "all-1 in 1": 1, "all-1 in 2": 1, "pair-1 in 0": 1, "pair-1 in 2": 1}
	if got := copies(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("committed copies are %v, want %v", got, want)
	}
	if got := copies(kgo.FetchIsolationLevel(kgo.ReadUncommitted())); got["all-1 in 2"] != 2 {
		t.Errorf("no transaction was aborted: %v", got)
	}
	a.eventually(10*time.Second, "the router tells of the dropped record", func() error {
		instances, err := cl.Instances(a.ctx, "")
		var dropped int64
		for _, in := range instances {
			for _, d := range in.GetDropped() {
				dropped += d.GetRecords()
			}
		}
		if err == nil && dropped != 1 {
			err = fmt.Errorf("%d dropped", dropped)
		}
		return err
	})

	stops[a.activeOf(cl, "table", 0).GetNode()]()
	for range 50 {
		got, res, err := a.read(cl, "pair-1")
		if err != nil || got != "v" {
			t.Fatalf("with the node of partition 0 gone: %s, %v, %v", got, res.Served, err)
		}
		a.pause(pollEvery)
	}
}

// activeOf is the active of a store partition, as a server has it, once every partition of the store has one node of its
// own.
func (a *app) activeOf(cl *client.Client, store string, partition int32) *iqv1.ReplicaStatus {
	a.t.Helper()
	var found *iqv1.ReplicaStatus
	a.eventually(60*time.Second, "each partition on one node of its own", func() error {
		lags, err := cl.Lags(a.ctx, store)
		if err != nil {
			return err
		}
		var nodes []string
		for _, r := range lags {
			if r.GetRole() != iqv1.Role_ROLE_ACTIVE || r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING || slices.Contains(nodes, r.GetNode()) {
				return fmt.Errorf("%v", lags)
			}
			nodes = append(nodes, r.GetNode())
			if r.GetPartition() == partition {
				found = r
			}
		}
		if found == nil {
			return fmt.Errorf("%v", lags)
		}
		return nil
	})
	return found
}

// A topic that librdkafka's default partitioner writes is read into a store that looks up as Java does: what lies in the
// wrong partition is counted at the node and told by the router, each record once, and lookups of right ones find them.
func TestKafkaRecordsOfAnotherClientsPartitionerAreToldAsMisplaced(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 3})
	needKcat(t)
	r := a.startRouter("r")
	n := a.start("a")
	var keys [][]byte
	want := map[int32]int64{} // by partition
	first := map[int32]string{}
	var right, wrong string
	for i := range 300 {
		key := fmt.Sprintf("key-%d", i)
		keys = append(keys, []byte(key))
		at := partitioner.ConsistentRandom().Partition([]byte(key), 3)
		if partitioner.Murmur2().Partition([]byte(key), 3) == at {
			right = key
			continue
		}
		wrong = key
		want[at]++
		if first[at] == "" {
			first[at] = key
		}
	}
	a.writeByKcat("in", "", "v", keys)
	n.becomes(client.Strong(), right, "v")
	for who, server := range map[string]*client.Client{"node": n.Client, "router": r.Client} {
		a.eventually(30*time.Second, "the "+who+" tells of all of them", func() error {
			instances, err := server.Instances(a.ctx, "")
			if err != nil || len(instances) != 1 {
				return fmt.Errorf("%v, %w", instances, err)
			}
			got, firsts := map[int32]int64{}, map[int32]string{}
			for _, m := range instances[0].GetMisplaced() {
				got[m.GetPartition()], firsts[m.GetPartition()] = m.GetRecords(), string(m.GetFirstKey())
			}
			if fmt.Sprint(got, firsts) != fmt.Sprint(want, first) {
				return fmt.Errorf("%v with %v, want %v with %v", got, firsts, want, first)
			}
			return nil
		})
	}
	if got, _, err := a.read(r.Client, wrong, client.Strong()); err != nil || got != "absent" {
		t.Errorf("%s, which is misplaced, is %s, %v", wrong, got, err)
	}
}
