//go:build kafka

package integration

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/kafkabroker"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Reads that tolerate some staleness never fail, while nodes are killed one after the other, and routers too: each by a
// client of both routers.
func TestKafkaReadsGoOnWhileNodesAndRoutersAreKilled(t *testing.T) {
	a := sumsApp(t)
	routers := []*server{a.startRouter("r1"), a.startRouter("r2")}
	nodes := []*server{a.start("a"), a.start("b"), a.start("c")}
	f := a.startFeed(40 * time.Millisecond)
	both := a.ask(a.routerAddresses()...)
	a.hasAll(both, client.MaxStaleness(10*time.Second))
	a.twoCopies(3)
	reads := a.newReaders()
	for range 2 {
		reads.read("any", a.ask(a.routerAddresses()...), client.Any())
		reads.read("max_staleness", a.ask(a.routerAddresses()...), client.MaxStaleness(10*time.Second))
	}
	kill := func(s *server) {
		a.twoCopies(3)
		s.Kill()
		a.pause(500 * time.Millisecond) // longer than a router needs to notice, shorter than the group does
		s.run()
	}
	for range 2 {
		for _, n := range nodes {
			kill(n)
		}
	}
	for _, r := range routers {
		kill(r)
	}
	a.twoCopies(3)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	reads.stop()
	a.sumsTo(30*time.Second, "counts", f.counts)
}

// twoCopies waits until each partition of the store "counts" has an active and a fresh standby, by the nodes and as each
// router sees it.
func (a *app) twoCopies(partitions int) {
	a.t.Helper()
	a.eventually(30*time.Second, "two copies of each partition", func() error {
		hosts := make(map[string]bool) // "partition node"
		copies, actives := make([]int, partitions), make([]int, partitions)
		for _, n := range a.nodes {
			if err := n.running("counts", func(st *iqv1.ReplicaStatus) {
				hosts[replicaName(st)] = true
				copies[st.GetPartition()]++
				if st.GetRole() == iqv1.Role_ROLE_ACTIVE {
					actives[st.GetPartition()]++
				}
			}); err != nil {
				return err
			}
		}
		for p := range partitions {
			if copies[p] < 2 || actives[p] != 1 {
				return fmt.Errorf("partition %d has %d copies and %d actives", p, copies[p], actives[p])
			}
		}
		for _, r := range a.routers {
			seen := make(map[string]bool)
			if err := r.running("counts", func(st *iqv1.ReplicaStatus) { seen[replicaName(st)] = true }); err != nil {
				return err
			}
			if !maps.Equal(seen, hosts) {
				return fmt.Errorf("%s sees %v, the nodes have %v", r.id, seen, hosts)
			}
		}
		return nil
	})
}

func replicaName(st *iqv1.ReplicaStatus) string {
	return strconv.Itoa(int(st.GetPartition())) + " at " + st.GetNode()
}

// running calls f for each replica of a store that runs and is at most a second behind, as the server tells.
func (s *server) running(store string, f func(*iqv1.ReplicaStatus)) error {
	ctx, cancel := context.WithTimeout(s.app.ctx, askTimeout)
	defer cancel()
	replicas, err := s.Lags(ctx, store)
	if err != nil {
		return fmt.Errorf("%s: %w", s.id, err)
	}
	for _, st := range replicas {
		if st.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING && st.GetTimeLag() != nil && st.GetTimeLag().AsDuration() < time.Second {
			f(st)
		}
	}
	return nil
}

// Whoever has written a key, Java's producer or franz-go, it is found: the router asks the partition that it went to.
func TestS01S02KafkaKeysOfJavaAndGoAreFound(t *testing.T) {
	t.Parallel()
	const yaml = `
application: APP
sources:
  - {topic: APP-in1, format: raw, value_serde: string}
  - {topic: APP-in3, format: raw, value_serde: string}
  - {topic: APP-in12, format: raw, value_serde: string}
tables:
  - {store: in1, source: APP-in1, key_serde: bytes}
  - {store: in3, source: APP-in3, key_serde: bytes}
  - {store: in12, source: APP-in12, key_serde: bytes}
`
	topics := map[string]int32{"in1": 1, "in3": 3, "in12": 12}
	a := newApp(t, yaml, topics)
	r := a.startRouter("r")
	a.start("a")
	a.start("b")
	keys := murmurKeys(t)
	typed := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { // what a line of text can hold
		return key == "" || !utf8.ValidString(key) || strings.ContainsAny(key, "\t\r\n")
	})
	if len(typed) < 40 || len(typed) == len(keys) {
		t.Fatalf("%d keys, of which %d are text: want 40 and some that are not", len(keys), len(typed))
	}
	found := func(key, value string) {
		t.Helper()
		for topic := range topics {
			a.eventually(30*time.Second, fmt.Sprintf("%q of %s is %q", key, topic, value), func() error {
				ctx, cancel := context.WithTimeout(a.ctx, askTimeout)
				defer cancel()
				res, err := r.Get(ctx, topic, []byte(key), client.Strong())
				if err == nil && string(res.Value) != value {
					err = fmt.Errorf("found %v: %q", res.Found, res.Value)
				}
				return err
			})
		}
	}
	for topic := range topics {
		a.writeByJava(topic, typed)
	}
	for _, key := range typed {
		found(key, "java:"+key)
	}
	for topic := range topics {
		var recs []*kgo.Record
		for _, key := range keys {
			recs = append(recs, &kgo.Record{Topic: a.topic(topic), Key: []byte(key), Value: []byte("go:" + key)})
		}
		if err := a.kafka.ProduceSync(a.ctx, recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		found(key, "go:"+key)
	}
}

// murmurKeys are the keys of the published table of hashes, with every kind of byte in them, each once.
func murmurKeys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "partitioner", "testdata", "murmur2.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		field, _, _ := strings.Cut(line, "\t")
		if key, err := hex.DecodeString(field); err == nil {
			keys = append(keys, string(key))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// writeByJava writes each key with the value "java:" and the key, by the producer of Kafka's own tools.
func (a *app) writeByJava(topic string, keys []string) {
	a.t.Helper()
	jars, err := kafkabroker.Jars(a.ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	var lines strings.Builder
	for _, key := range keys {
		lines.WriteString(key + "\tjava:" + key + "\n")
	}
	cmd := exec.CommandContext(a.ctx, java(a.t), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Dfile.encoding=UTF-8",
		"-cp", filepath.Join(jars, "*"), "org.apache.kafka.tools.ConsoleProducer",
		"--bootstrap-server", shared.broker.Addr(), "--topic", a.topic(topic), "--reader-property", "parse.key=true")
	cmd.Stdin = strings.NewReader(lines.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("Java's producer: %v: %s", err, out)
	}
}

// java is the Java that runs the broker.
func java(t *testing.T) string {
	t.Helper()
	if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", shared.broker.PID())); err == nil {
		return path
	}
	path, err := exec.LookPath("java")
	if err != nil {
		t.Fatal(errors.Join(errors.New("no Java for the producer"), err))
	}
	return path
}
