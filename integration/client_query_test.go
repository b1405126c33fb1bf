//go:build synctests

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// queryCluster is three nodes and two routers, with a count of 1 for each of keys, and a client of both routers.
type queryCluster struct {
	*bubble.Cluster
	t      *testing.T
	nodes  map[string]*bubble.Node
	router *bubble.Router // which the client asks first
	client *client.Client
	keys   []string // in order
}

func newQueryCluster(t *testing.T, partitions int32, keys int) *queryCluster {
	t.Helper()
	c := &queryCluster{t: t, nodes: map[string]*bubble.Node{}, Cluster: bubble.New(t, bubble.Options{
		Topics: map[string]int32{"in": partitions}, Topology: countByKey, Routers: []string{"r1", "r2"}, Log: verboseLog(t),
	})}
	c.router = c.StartRouter("r1")
	c.StartRouter("r2")
	for _, id := range []string{"a", "b", "c"} {
		c.nodes[id] = c.StartNode(id)
	}
	var err error
	c.client, err = client.New([]string{"passthrough:///r1:7000", "passthrough:///r2:7000"}, client.WithTargetsInOrder(),
		client.WithDialOptions(grpc.WithContextDialer(c.Dial)), client.WithReadOptions(client.Wait(10*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	cl := c.Client()
	defer cl.Close()
	for i := range keys {
		c.keys = append(c.keys, fmt.Sprintf("k%05d", i))
		if err := bubble.Produce(t.Context(), cl, "in", c.keys[i], "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(time.Minute, "each replica has every count", func() error {
		lags, err := c.client.Lags(t.Context(), "counts")
		if err == nil && len(lags) != 2*int(partitions) {
			err = fmt.Errorf("%d replicas", len(lags))
		}
		if err != nil {
			return err
		}
		n, err := c.client.Count(t.Context(), "counts", client.MaxStaleness(time.Second))
		if err == nil && n.Count != int64(keys) {
			err = fmt.Errorf("%d counts", n.Count)
		}
		return err
	})
	return c
}

func (c *queryCluster) close() {
	_ = c.client.Close()
	c.Close()
}

// scanned are the keys of a scan; after is called after some of its rows.
func (c *queryCluster) scanned(s *client.Scanner, rows int, after func()) []string {
	c.t.Helper()
	var keys []string
	for row, err := range s.Rows() {
		if err != nil {
			c.t.Fatalf("after %d rows: %v", len(keys), err)
		}
		if keys = append(keys, string(row.Key)); len(keys) == rows {
			after()
		}
	}
	return keys
}

// TestS17ScansOfAClientAreWholeWhileRoutersAndNodesDie: every key once and in order, in either direction and page by page, although
// the router that sends and then a node are killed midway.
func TestS17ScansOfAClientAreWholeWhileRoutersAndNodesDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueryCluster(t, 4, 3000)
		defer c.close()
		if got := c.scanned(c.client.Scan(t.Context(), "counts", client.Any()), 700, c.router.Kill); !slices.Equal(got, c.keys) {
			t.Errorf("with the router killed: %d keys of %d", len(got), len(c.keys))
		}
		backwards := slices.Clone(c.keys)
		slices.Reverse(backwards)
		got := c.scanned(c.client.Scan(t.Context(), "counts", client.Any(), client.Reverse()), 700, c.nodes["a"].Kill)
		if !slices.Equal(got, backwards) {
			t.Errorf("with a node killed: %d keys of %d", len(got), len(c.keys))
		}
		var pages []string
		var token []byte
		for more := true; more; {
			s := c.client.Scan(t.Context(), "counts", client.Any(), client.Limit(800), client.KeysOnly(), client.PageToken(token))
			pages = append(pages, c.scanned(s, 0, nil)...)
			token, more = s.Token(), s.More()
		}
		if !slices.Equal(pages, c.keys) {
			t.Errorf("page by page: %d keys of %d", len(pages), len(c.keys))
		}
		prefixed := c.scanned(c.client.Scan(t.Context(), "counts", client.Any(), client.Prefix([]byte("k0001"))), 0, nil)
		ranged := c.scanned(c.client.Scan(t.Context(), "counts", client.Any(), client.After([]byte("k00009")), client.Before([]byte("k00020"))), 0, nil)
		if !slices.Equal(prefixed, c.keys[10:20]) || !slices.Equal(ranged, c.keys[10:20]) {
			t.Errorf("prefix %v, range %v", prefixed, ranged)
		}
	})
}

func TestAClientGetsManyKeysAtOnceEachWithItsOwnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueryCluster(t, 4, 50)
		defer c.close()
		keys := [][]byte{[]byte("none")}
		for _, k := range c.keys {
			keys = append(keys, []byte(k))
		}
		got, err := c.client.MultiGet(t.Context(), "counts", keys, client.Active())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range got {
			if r.Err != nil || r.Found != (i > 0) || string(r.Key) != string(keys[i]) || r.Read.GetServed().GetRole() != iqv1.Role_ROLE_ACTIVE {
				t.Errorf("%s: found %t, %v, read %v", r.Key, r.Found, r.Err, r.Read)
			}
		}
		for _, n := range c.nodes {
			n.Gate().Cut() // nobody is left
		}
		got, err = c.client.MultiGet(t.Context(), "counts", keys[:3], client.MaxStaleness(0), client.Wait(0))
		for i := range got {
			if got[i].Err == nil {
				t.Errorf("%s was read from nobody", got[i].Key)
			}
		}
		if err != nil && !iqerr.Retriable(err) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAClientsWatchSeesEachCountOnceThroughARoutersAndANodesDeath: what is there, then a change for each record produced.
func TestAClientsWatchSeesEachCountOnceThroughARoutersAndANodesDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueryCluster(t, 2, 20)
		defer c.close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cl := c.Client()
		defer cl.Close()
		produce := func() {
			for _, k := range c.keys {
				if err := bubble.Produce(t.Context(), cl, "in", k, "x"); err != nil {
					t.Error(err)
				}
			}
		}
		seen, current, resumed := map[string][]string{}, 0, 0
		total := 0
		for e, err := range c.client.Watch(ctx, "counts", client.Any()).Events() {
			if err != nil {
				t.Fatalf("after %d events: %v", total, err)
			}
			switch e.Kind {
			case client.EventCurrent:
				if current += len(e.Partitions); current == 2 {
					produce()
				}
			case client.EventResumed:
				if resumed++; len(e.Partitions) > 0 {
					t.Errorf("partitions %v began anew", e.Partitions)
				}
			case client.EventEntry:
				total++
				seen[string(e.Row.Key)] = append(seen[string(e.Row.Key)], fmt.Sprint(e.Row.Value[len(e.Row.Value)-1]))
			case client.EventRemoved:
				t.Errorf("%s was removed", e.Row.Key)
			}
			if current < 2 {
				continue
			}
			switch total {
			case 2 * len(c.keys):
				total++ // once
				c.router.Kill()
				produce()
			case 3*len(c.keys) + 1:
				total++
				c.nodes["b"].Kill()
				produce()
			}
			if total == 4*len(c.keys)+2 {
				break
			}
		}
		for _, k := range c.keys {
			if got := strings.Join(seen[k], " "); got != "1 2 3 4" {
				t.Errorf("%s: counts %s", k, got)
			}
		}
		if resumed == 0 {
			t.Error("the watch outlived its router without resuming")
		}
	})
}

// TestASessionReadsItsWritesFromWhicheverReplica: right after a record is produced, with a wait, from standbys too.
func TestASessionReadsItsWritesFromWhicheverReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueryCluster(t, 4, 10)
		defer c.close()
		cl := c.Client()
		defer cl.Close()
		s := c.client.NewSession(client.Any(), client.LeastLoaded(), client.Wait(30*time.Second))
		for round := byte(2); round < 6; round++ {
			for _, k := range c.keys {
				r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte(k), Value: []byte("x")}).First()
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Wrote(r.Topic, r.Partition, r.Offset); err != nil {
					t.Fatal(err)
				}
				res, err := s.Get(t.Context(), "counts", []byte(k))
				if err != nil || !res.Found || res.Value[len(res.Value)-1] != round {
					t.Fatalf("%s: %v, %v; want %d", k, res.Value, err, round)
				}
			}
			for row, err := range s.Scan(t.Context(), "counts").Rows() {
				if err != nil || row.Value[len(row.Value)-1] != round {
					t.Fatalf("%s: %v, %v; want %d", row.Key, row.Value, err, round)
				}
			}
		}
	})
}

func TestAClientDrainsANodeThatThenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newQueryCluster(t, 4, 10)
		defer c.close()
		if err := c.client.Drain(t.Context(), "nosuch", nil); status.Code(err) != codes.NotFound {
			t.Errorf("got %v", err)
		}
		var last *iqv1.DrainResponse
		if err := c.client.Drain(t.Context(), "b", func(m *iqv1.DrainResponse) { last = m }); err != nil || !last.GetDone() {
			t.Fatalf("got %v, %v", last, err)
		}
		select {
		case <-c.nodes["b"].Done():
		case <-time.After(10 * time.Second):
			t.Error("the node does not end")
		}
		n, err := c.client.Count(t.Context(), "counts", client.Active())
		if err != nil || n.Count != 10 {
			t.Errorf("counted %d, %v", n.Count, err)
		}
		for _, r := range n.Reads {
			if r.GetServed().GetNode() == "b" {
				t.Errorf("partition %d was read at the drained node", r.GetPartition())
			}
		}
	})
}
