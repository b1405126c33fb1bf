//go:build synctests

package integration

import (
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// javaChangelog is the committed records of one changelog that a Kafka Streams application wrote, in order.
func javaChangelog(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	data, err := os.ReadFile("testdata/kafka-streams-changelogs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma = '\t'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	field := func(s string) []byte {
		switch s {
		case "NULL":
			return nil
		case "EMPTY":
			return []byte{}
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var recs []*kgo.Record
	for _, row := range rows[1:] {
		if row[0] != topic || row[3] != "record" {
			continue
		}
		partition, errP := strconv.ParseInt(row[1], 10, 32)
		ms, errT := strconv.ParseInt(row[4], 10, 64)
		if errP != nil || errT != nil {
			t.Fatal(row)
		}
		recs = append(recs, &kgo.Record{Partition: int32(partition), Timestamp: time.UnixMilli(ms), Key: field(row[5]), Value: field(row[6])})
	}
	if len(recs) == 0 {
		t.Fatal("no records of " + topic)
	}
	return recs
}

// What a Java application wrote to a table's changelog is found by key through the router, each key in the partition where
// Java put it, tombstones and empty values told apart (S22).
func TestS02RouterFindsEveryKeyOfAJavaTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3)
		defer f.close()
		live := make(map[string]string)
		where := make(map[string]int32)
		for _, r := range javaChangelog(t, "javaapp-tab-changelog") {
			r.Topic = tableChangelog
			if err := f.cl.ProduceSync(f.ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			where[string(r.Key)] = r.Partition
			if r.Value == nil {
				delete(live, string(r.Key))
			} else {
				live[string(r.Key)] = string(r.Value)
			}
		}
		if len(live) != 13 {
			t.Fatalf("the fixture has %d live keys, want 13", len(live))
		}
		rt := f.StartRouter("r1")
		for _, id := range []string{"a", "b"} {
			f.StartNode(id, func(cfg *nodeConfig) { cfg.Routers = []string{rt.Address} })
		}
		for key, want := range live {
			f.Eventually(20*time.Second, fmt.Sprintf("key %q", key), func() error {
				resp, err := rt.Query().Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: []byte(key), Policy: strong()})
				if err != nil {
					return iqerr.FromStatus(err)
				}
				if !resp.GetFound() || string(resp.GetValue()) != want || resp.GetServed().GetPartition() != where[key] {
					t.Errorf("key %q: %v, want %q from partition %d", key, resp, want, where[key])
				}
				return nil
			})
		}
		resp, err := rt.Query().Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: []byte("k3"), Policy: strong()})
		if err != nil || resp.GetFound() {
			t.Errorf("k3 was deleted: %v, %v", resp, err)
		}
		if st := resp.GetServed(); st.GetPartition() != 1 {
			t.Errorf("k3 was looked for in partition %d, want 1", st.GetPartition())
		}
	})
}

// Every key that was produced is found, whatever the partition count.
func TestS02RouterFindsEveryProducedKey(t *testing.T) {
	for _, partitions := range []int32{1, 3, 12} {
		t.Run(fmt.Sprintf("partitions=%d", partitions), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, partitions)
				defer f.close()
				hash := f.Client()
				defer hash.Close()
				const keys = 100
				for i := range keys {
					if err := bubble.Produce(f.ctx, hash, "in", fmt.Sprintf("key-%d", i), strconv.Itoa(i)); err != nil {
						t.Fatal(err)
					}
				}
				rt := f.StartRouter("r1")
				for _, id := range []string{"a", "b"} {
					f.StartNode(id, func(cfg *nodeConfig) { cfg.Routers = []string{rt.Address} })
				}
				for i := range keys {
					f.Eventually(20*time.Second, "found", func() error {
						resp, err := rt.Query().Get(f.ctx, &iqv1.GetRequest{Store: "table", Key: fmt.Appendf(nil, "key-%d", i), Policy: strong()})
						if err == nil && string(resp.GetValue()) != strconv.Itoa(i) {
							err = errors.New(resp.String())
						}
						return err
					})
				}
			})
		})
	}
}

// The directory of a store that went to another node is removed after the clean-up delay, not before.
func TestUnusedStoreIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 4)
		defer f.close()
		edit := func(cfg *nodeConfig) {
			cfg.Standbys, cfg.ReleaseDelay, cfg.CleanupDelay = -1, 10*time.Second, time.Minute
		}
		var dir string
		a := f.StartNode("a", edit, func(cfg *nodeConfig) { dir = cfg.StateDir })
		f.Eventually(20*time.Second, "a has all", func() error { return f.hosts(a, 4) })
		b := f.StartNode("b", edit)
		f.Eventually(20*time.Second, "b has its part", func() error { return f.hosts(b, 2) })
		stores := func() int {
			found, err := filepath.Glob(filepath.Join(dir, "stores", "table", "*"))
			if err != nil {
				t.Fatal(err)
			}
			return len(found)
		}
		if n := stores(); n != 4 {
			t.Errorf("%d directories at once, want 4", n)
		}
		time.Sleep(30 * time.Second)
		if err := f.hosts(a, 2); err != nil {
			t.Errorf("after the release delay: %v", err)
		}
		if n := stores(); n != 4 {
			t.Errorf("%d directories before the clean-up, want 4", n)
		}
		time.Sleep(time.Minute)
		if n := stores(); n != 2 {
			t.Errorf("%d directories after the clean-up, want 2", n)
		}
	})
}

// hosts says whether the node has n replicas.
func (f *fixture) hosts(n *bubble.Node, want int) error {
	resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
	if err == nil && len(resp.GetReplicas()) != want {
		err = fmt.Errorf("%d replicas, want %d", len(resp.GetReplicas()), want)
	}
	return err
}
