//go:build synctests

package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// kinds has the stores of the Java application whose changelogs testdata holds, with the retention that S25 has for windows.
var kinds = topologyOf(`
application: app
sources:
  - {topic: in, format: raw, value_serde: string}
tables:
  - {store: tab, source: in}
  - {store: ver, source: in, versioned: {history: 5m}}
aggregates:
  - {store: counts, source: in, count: true}
  - {store: win, source: in, count: true, window: {tumbling: 60s, grace: 1m, retention: 2m}}
  - {store: sess, source: in, count: true, window: {session: 30s, grace: 1m, retention: 2m}}
`)

// t0 is the time that the cases call T.
const t0 = 1700000040000

// newKinds has the topic "in" with partitions, and waits for the first node to make the changelogs. That node's capacity keeps
// all actives there: an active does not see what the test writes to its changelogs.
func newKinds(t *testing.T, partitions int32) (*fixture, *bubble.Node) {
	t.Helper()
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": partitions}, Topology: kinds, Log: verboseLog(t)})
	f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	a := f.StartNode("a", func(cfg *nodeConfig) { cfg.Capacity = 1000 })
	f.waitAll(a, iqv1.Role_ROLE_ACTIVE, 5*int(partitions))
	return f, a
}

// anyRole is for waitAll.
const anyRole = iqv1.Role_ROLE_UNSPECIFIED

// waitAll waits until the node has that many replicas, all of them in the role, running, and at lag 0, and is in the newest
// assignment that it knows. A node that is stopped while it joins may stay a member until its session ends.
func (f *fixture) waitAll(n *bubble.Node, role iqv1.Role, replicas int) {
	f.t.Helper()
	f.Eventually(60*time.Second, fmt.Sprintf("%s: %d x %s", n.ID, replicas, role), func() error {
		resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{})
		if err != nil {
			return err
		}
		if len(resp.GetReplicas()) != replicas {
			return fmt.Errorf("%d replicas", len(resp.GetReplicas()))
		}
		hosts, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(hosts.GetInstances(), func(in *iqv1.Instance) bool { return in.GetNode() == n.ID }) {
			return errors.New("not assigned")
		}
		for _, r := range resp.GetReplicas() {
			if role != anyRole && r.GetRole() != role || r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING || r.OffsetLag == nil || r.GetOffsetLag() != 0 {
				return errors.New(r.String())
			}
		}
		return nil
	})
}

// waitPosition waits until the node's replica of a store partition has applied everything below position.
func (f *fixture) waitPosition(n *bubble.Node, store string, partition int32, position int64) {
	f.t.Helper()
	f.Eventually(30*time.Second, fmt.Sprintf("%s: %s/%d at %d", n.ID, store, partition, position), func() error {
		resp, err := n.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{Store: store})
		if err != nil {
			return err
		}
		for _, r := range resp.GetReplicas() {
			if r.GetPartition() == partition && r.GetPosition() == position {
				return nil
			}
		}
		return errors.New(resp.String())
	})
}

// javaStep is what the Java application wrote to a partition in one transaction, and the position behind its marker.
type javaStep struct {
	partition int32
	next      int64
	records   []*kgo.Record
}

// javaSteps are the transactions of one changelog in the order of the file.
func javaSteps(t *testing.T, store string) []javaStep {
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
	records := javaChangelog(t, "javaapp-"+store+"-changelog")
	var steps []javaStep
	var step javaStep
	for _, row := range rows[1:] {
		if row[0] != "javaapp-"+store+"-changelog" {
			continue
		}
		if row[3] == "record" {
			rec := records[0]
			records = records[1:]
			rec.Topic = "app-" + store + "-changelog"
			step.records = append(step.records, rec)
			continue
		}
		partition, errP := strconv.ParseInt(row[1], 10, 32)
		offset, errO := strconv.ParseInt(row[2], 10, 64)
		if errP != nil || errO != nil || len(step.records) == 0 {
			t.Fatal(row)
		}
		step.partition, step.next = int32(partition), offset+1
		steps = append(steps, step)
		step = javaStep{}
	}
	return steps
}

// writeStep writes a transaction as Java wrote it.
func (f *fixture) writeStep(w *kgo.Client, s javaStep) {
	f.t.Helper()
	f.begin(w)
	for _, rec := range s.records {
		if err := w.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.end(w, kgo.TryCommit)
}

// writeJava writes everything that Java wrote to a store's changelog.
func (f *fixture) writeJava(stores ...string) {
	f.t.Helper()
	w := f.txn("java")
	defer w.Close()
	for _, store := range stores {
		for _, s := range javaSteps(f.t, store) {
			f.writeStep(w, s)
		}
	}
}

// scanAll collects a scan, whose end must be OK.
func scanAll(ctx context.Context, q iqv1.QueryServiceClient, req *iqv1.ScanRequest) ([]*iqv1.Row, []*iqv1.ScanResponse, error) {
	st, err := q.Scan(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	var rows []*iqv1.Row
	var msgs []*iqv1.ScanResponse
	for {
		m, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return rows, msgs, nil
		}
		if err != nil {
			return rows, msgs, iqerr.FromStatus(err)
		}
		rows, msgs = append(rows, m.GetRows()...), append(msgs, m)
	}
}

// rowText is a row as the cases write it: times relative to T, counts as numbers.
func rowText(r *iqv1.Row) string {
	var b strings.Builder
	b.Write(r.GetKey())
	if r.StartMs != nil {
		fmt.Fprintf(&b, "[%d", r.GetStartMs()-t0)
		if r.EndMs != nil {
			fmt.Fprintf(&b, ",%d", r.GetEndMs()-t0)
		}
		b.WriteByte(']')
	}
	value := string(r.GetValue())
	if len(r.GetValue()) == 8 && r.GetValue()[0] == 0 {
		value = strconv.FormatUint(binary.BigEndian.Uint64(r.GetValue()), 10)
	}
	if r.GetDeleted() {
		value = "deleted"
	}
	return b.String() + "=" + value
}

func rowTexts(rows []*iqv1.Row) string {
	var all []string
	for _, r := range rows {
		all = append(all, rowText(r))
	}
	return strings.Join(all, " ")
}

// expectScan compares the text of a scan.
func (f *fixture) expectScan(n *bubble.Node, what string, req *iqv1.ScanRequest, want string) {
	f.t.Helper()
	req.Policy = anyReplica()
	rows, _, err := scanAll(f.ctx, n.Query(), req)
	if err != nil {
		f.t.Fatalf("%s at %s: %v", what, n.ID, err)
	}
	if got := rowTexts(rows); got != want {
		f.t.Errorf("%s at %s:\n got %s\nwant %s", what, n.ID, got, want)
	}
}

func scanOf(store string, partitions ...int32) *iqv1.ScanRequest {
	return &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: store, Partitions: partitions}}
}

// everywhere runs a check on a standby that has followed, on one that has restored, and on one that was opened again.
func (f *fixture) everywhere(partitions int32, b *bubble.Node, check func(n *bubble.Node)) {
	f.t.Helper()
	check(b)
	b.Stop()
	b = f.StartNode("b")
	f.waitAll(b, anyRole, 5*int(partitions))
	check(b)
	b.Stop()
	c := f.StartNode("c")
	f.waitAll(c, anyRole, 5*int(partitions))
	check(c)
}

// A replica of the changelogs that a Java application has written shows what that application shows: windows and sessions
// by their keys, never by the bytes of the composite ones (S21), tombstones, empty values and the empty key (S22), versions
// as of a time (S24).
func TestS21ReplicaOfAJavaApplicationShowsAllItsStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 3)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 15)
		f.writeJava("counts", "win", "sess", "ver", "tab")
		z := &kgo.Record{Topic: "app-ver-changelog", Partition: 2, Key: []byte("z"), Value: []byte("1"), Timestamp: time.UnixMilli(t0 + 1000000)}
		f.waitPosition(b, "ver", 2, 5)
		f.expectScan(b, "versions of p", &iqv1.ScanRequest{Selection: &iqv1.Selection{
			Store: "ver", Keys: &iqv1.Selection_Key{Key: []byte("p")}, Times: &iqv1.TimeRange{FromMs: new(int64(t0 + 50000))},
		}}, "p[50000,100000]=11 p[100000,200000]=12 p[200000]=deleted")
		for asOf, want := range map[int64]string{
			-1: "miss", 0: "10", 49999: "10", 50000: "11", 99999: "11", 100000: "12", 199999: "12", 200000: "miss",
		} {
			f.expectAsOf(b, "p", asOf, want)
		}
		if err := f.cl.ProduceSync(f.ctx, z).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 15)
		f.everywhere(3, b, func(n *bubble.Node) {
			f.expectScan(n, "counts", scanOf("counts"), "alice=4 bob=1")
			f.expectScan(n, "windows", scanOf("win", 0), "alice[0,60000]=3 alice[60000,120000]=1 bob[0,60000]=1")
			f.expectScan(n, "sessions", scanOf("sess", 0), "alice[0,60000]=4 bob[20000,20000]=1")
			f.expectScan(n, "table", scanOf("tab"),
				"=emptykey ev= k0=v0 k1=v1 k10=v10 k11=v11 k2=v2 k4=v4 k5=late-but-last k6=v6 k7=v7 k8=v8 k9=v9")
			f.expectScan(n, "latest versions", scanOf("ver"), "q[-90000]=1 z[1000000]=1")
			for asOf, want := range map[int64]string{60000: "miss", 900000: "miss"} {
				f.expectAsOf(n, "p", asOf, want)
			}
			f.expectAsOf(n, "q", 500000, "1")
			for _, key := range []string{"alice", "bob"} {
				resp, err := n.Query().Get(f.ctx, &iqv1.GetRequest{Store: "win", Key: []byte(key), WindowStartMs: new(int64(t0)), Policy: anyReplica()})
				if err != nil || !resp.GetFound() || resp.GetServed().GetPartition() != 0 {
					t.Errorf("%s at %s: %v, %v", key, n.ID, resp, err)
				}
			}
			count, err := n.Query().Count(f.ctx, &iqv1.CountRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: anyReplica()})
			if err != nil || count.GetCount() != 13 || len(count.GetReads()) != 3 {
				t.Errorf("S22: count at %s is %v, %v; want 13", n.ID, count, err)
			}
		})
	})
}

// expectAsOf looks a version up.
func (f *fixture) expectAsOf(n *bubble.Node, key string, asOf int64, want string) {
	f.t.Helper()
	resp, err := n.Query().Get(f.ctx, &iqv1.GetRequest{Store: "ver", Key: []byte(key), AsOfMs: new(t0 + asOf), Policy: anyReplica()})
	if err != nil {
		f.t.Fatal(err)
	}
	got := "miss"
	if resp.GetFound() {
		got = string(resp.GetValue())
	}
	if got != want {
		f.t.Errorf("%s as of T%+d at %s: %s, want %s", key, asOf, n.ID, got, want)
	}
}

// Of a session merge, whose tombstones and put are in one transaction, a reader sees all or nothing; and a tombstone of a
// session whose put is not there any more is no error.
func TestS23SessionMergeIsSeenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 3)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 15)
		w := f.txn("java")
		defer w.Close()
		want := []string{
			"alice[0,0]=1",
			"alice[0,10000]=2",
			"alice[0,10000]=2 bob[20000,20000]=1",
			"alice[0,10000]=2 alice[60000,60000]=1 bob[20000,20000]=1",
			"alice[0,60000]=4 bob[20000,20000]=1",
		}
		steps := javaSteps(t, "sess")
		if len(steps) != len(want) {
			t.Fatalf("%d transactions", len(steps))
		}
		position, before := int64(0), ""
		for i, s := range steps {
			f.begin(w)
			for _, rec := range s.records {
				if err := w.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(300 * time.Millisecond) // the tail has looked
				f.expectScan(b, "inside the transaction", scanOf("sess", 0), before)
			}
			f.end(w, kgo.TryCommit)
			position = s.next
			f.waitPosition(b, "sess", 0, position)
			before = want[i]
			f.expectScan(b, "after the transaction", scanOf("sess", 0), before)
		}
		// Again from the first merge on, as if compaction had removed the put, into a partition that has nothing.
		for _, s := range steps[1:] {
			for _, rec := range s.records {
				rec.Partition = 1
			}
			f.writeStep(w, s)
		}
		f.waitPosition(b, "sess", 1, position-2)
		f.expectScan(b, "replayed from row 2 on", scanOf("sess", 1), want[4])
	})
}

// A window goes when the stream time has passed its start by the retention, alike on the active, which counts the records,
// and on a standby, which follows; older records do not bring it back, and the wall clock has no say.
func TestS25WindowsExpireAlikeOnActiveAndStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		put := func(key string, at int64) {
			t.Helper()
			rec := &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("x"), Timestamp: time.UnixMilli(t0 + at)}
			if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []int64{0, 10000, 60000, 35000} {
			put("alice", at)
		}
		alice := &iqv1.Selection{Store: "win", Keys: &iqv1.Selection_Key{Key: []byte("alice")}}
		check := func(what, want string) {
			t.Helper()
			time.Sleep(time.Second)
			for _, n := range []*bubble.Node{a, b} {
				f.expectScan(n, what, &iqv1.ScanRequest{Selection: alice}, want)
			}
		}
		check("T+60000", "alice[0,60000]=3 alice[60000,120000]=1")
		// Windows start at whole minutes, so the store's stream time is the start of carol's window.
		put("carol", 119999)
		check("T+119999", "alice[0,60000]=3 alice[60000,120000]=1")
		time.Sleep(time.Minute)
		check("a minute later", "alice[0,60000]=3 alice[60000,120000]=1")
		put("carol", 120000)
		check("T+120000", "alice[60000,120000]=1")
		put("carol", 1)
		check("an older record", "alice[60000,120000]=1")
		put("carol", 180000)
		check("T+180000", "")
	})
}

// The changelog of a caught-up replica holds records of 2023 and markers of now; its time lag is that of the samples all
// the same, also when nothing happens for a minute.
func TestS26TimeLagKnowsNoEventTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 3)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 15)
		f.writeJava("win", "sess")
		f.waitPosition(b, "win", 0, 10)
		check := func(what string, below time.Duration) {
			t.Helper()
			req := &iqv1.GetRequest{Store: "win", Key: []byte("alice"), WindowStartMs: new(int64(t0)), Policy: maxStaleness(10 * time.Second)}
			resp, err := b.Query().Get(f.ctx, req)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if lag := resp.GetServed().GetTimeLag(); lag == nil || lag.AsDuration() > below {
				t.Errorf("%s: time lag %v", what, resp.GetServed())
			}
		}
		time.Sleep(time.Second)
		check("caught up", 300*time.Millisecond)
		time.Sleep(time.Minute)
		check("idle", 300*time.Millisecond)
		w := f.txn("open")
		defer w.Close()
		f.begin(w)
		for range 10 {
			rec := &kgo.Record{Topic: "app-win-changelog", Key: javaSteps(t, "win")[0].records[0].Key, Value: make([]byte, 8), Timestamp: time.UnixMilli(t0)}
			if err := w.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second) // they are there and cannot be read
		resp, err := b.Query().Get(f.ctx, &iqv1.GetRequest{Store: "win", Key: []byte("alice"), WindowStartMs: new(int64(t0)), Policy: anyReplica()})
		if err != nil {
			t.Fatal(err)
		}
		if lag := resp.GetServed().GetTimeLag().AsDuration(); lag < 4500*time.Millisecond || lag > 5500*time.Millisecond || resp.GetServed().GetOffsetLag() != 10 {
			t.Errorf("after 5s: %v", resp.GetServed())
		}
		check("within 10s", 6*time.Second)
	})
}

// A range over several partitions comes in the order of keys, or partition after partition where asked; a limit counts over
// all; from is not to.
func TestS27RangesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := newKinds(t, 3)
		defer f.close()
		cl := f.Client()
		defer cl.Close()
		for i := range 12 {
			if err := bubble.Produce(f.ctx, cl, "in", fmt.Sprintf("k%d", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		f.Eventually(20*time.Second, "12 keys", func() error {
			c, err := a.Query().Count(f.ctx, &iqv1.CountRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: strong()})
			if err == nil && c.GetCount() != 12 {
				err = errors.New(c.String())
			}
			return err
		})
		keys := func(rows []*iqv1.Row) string {
			var all []string
			for _, r := range rows {
				all = append(all, string(r.GetKey()))
			}
			return strings.Join(all, " ")
		}
		k0k9 := func() *iqv1.Selection {
			return &iqv1.Selection{Store: "tab", Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("k0"), To: []byte("k9")}}}
		}
		ascending := "k0 k1 k10 k11 k2 k3 k4 k5 k6 k7 k8 k9"
		words := strings.Fields(ascending)
		slices.Reverse(words)
		byPartition := "k11 k2 k5 k10 k3 k4 k6 k7 k0 k1 k8 k9"
		for _, test := range []struct {
			req  *iqv1.ScanRequest
			want string
		}{
			{&iqv1.ScanRequest{Selection: k0k9()}, ascending},
			{&iqv1.ScanRequest{Selection: k0k9(), Reverse: true}, strings.Join(words, " ")},
			{&iqv1.ScanRequest{Selection: k0k9(), Limit: 5}, "k0 k1 k10 k11 k2"},
			{&iqv1.ScanRequest{Selection: k0k9(), KeysOnly: true, Order: iqv1.ScanRequest_ORDER_PARTITION}, byPartition},
			{&iqv1.ScanRequest{Selection: k0k9(), Limit: 5, Order: iqv1.ScanRequest_ORDER_PARTITION}, "k11 k2 k5 k10 k3"},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab", Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("k9"), To: []byte("k0")}}}}, ""},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "tab", Keys: &iqv1.Selection_Prefix{Prefix: []byte("k1")}}}, "k1 k10 k11"},
		} {
			test.req.Policy = strong()
			rows, _, err := scanAll(f.ctx, a.Query(), test.req)
			if err != nil || keys(rows) != test.want {
				t.Errorf("%v:\n got %s, %v\nwant %s", test.req, keys(rows), err, test.want)
				continue
			}
			// Page by page, one by one, it is the same.
			var paged []*iqv1.Row
			limit := test.req.GetLimit()
			for range 50 {
				test.req.Limit = 1
				page, msgs, err := scanAll(f.ctx, a.Query(), test.req)
				if err != nil {
					t.Fatal(err)
				}
				paged = append(paged, page...)
				if test.req.PageToken = msgs[len(msgs)-1].GetPageToken(); test.req.GetPageToken() == nil || int64(len(paged)) == limit {
					break
				}
			}
			if keys(paged) != test.want {
				t.Errorf("in pages: %s, want %s", keys(paged), test.want)
			}
		}
		// Windows of two keys in two partitions.
		now := time.Now().UnixMilli()
		rows, _, err := scanAll(f.ctx, a.Query(), &iqv1.ScanRequest{Policy: strong(), Selection: &iqv1.Selection{
			Store: "win", Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("k2"), To: []byte("k3")}},
			Times: &iqv1.TimeRange{FromMs: new(now - now%60000), ToMs: new(now)},
		}})
		if err != nil || keys(rows) != "k2 k3" || rows[0].GetPartition() == rows[1].GetPartition() {
			t.Errorf("windows: %v, %v", rows, err)
		}
	})
}

// A Kafka transaction of more changes than Badger takes in one of its own becomes visible as one, on a standby as on a
// replica that restores it.
func TestS35LargeTransactionIsAppliedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		const records = 100_000
		w := f.Client(kgo.TransactionalID("large"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(records))
		defer w.Close()
		f.begin(w)
		for i := range records {
			rec := &kgo.Record{Topic: "app-tab-changelog", Key: fmt.Appendf(nil, "key-%06d", i), Value: make([]byte, 100), Timestamp: time.UnixMilli(t0)}
			w.Produce(f.ctx, rec, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := w.Flush(f.ctx); err != nil {
			t.Fatal(err)
		}
		count := func(n *bubble.Node, p *iqv1.ReadPolicy) (int64, error) {
			c, err := n.Query().Count(f.ctx, &iqv1.CountRequest{Selection: &iqv1.Selection{Store: "tab"}, Policy: p})
			return c.GetCount(), err
		}
		time.Sleep(time.Second)
		if got, err := count(b, anyReplica()); got != 0 || err != nil {
			t.Errorf("%d records before the commit, %v", got, err)
		}
		f.end(w, kgo.TryCommit)
		check := func(n *bubble.Node) {
			t.Helper()
			f.waitPosition(n, "tab", 0, records+1)
			if got, err := count(n, maxLag(0)); got != records || err != nil {
				t.Errorf("%d records, %v, want %d", got, err, records)
			}
		}
		check(b)
		b.Stop()
		b = f.StartNode("b")
		f.waitAll(b, anyRole, 5)
		check(b)
		b.Stop()
		c := f.StartNode("c")
		f.waitAll(c, anyRole, 5)
		check(c)
	})
}

// Records go on being written while a replica restores. Its restore ends with the end that was there when it began.
func TestS47RestoreEndsUnderSteadyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		const records = 50_000
		write := func(i int) {
			rec := &kgo.Record{Topic: "app-tab-changelog", Key: fmt.Appendf(nil, "key-%05d", i%records), Value: make([]byte, 16), Timestamp: time.UnixMilli(t0)}
			f.cl.Produce(f.ctx, rec, nil)
		}
		for i := range records {
			write(i)
		}
		if err := f.cl.Flush(f.ctx); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(f.ctx)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i += 10 {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				for j := range 10 { // 1000 a second
					write(i + j)
				}
			}
		}()
		b := f.StartNode("b")
		began := time.Now()
		running := func() error {
			resp, err := b.Metadata().ListLags(f.ctx, &iqv1.ListLagsRequest{Store: "tab"})
			if err != nil {
				return err
			}
			if len(resp.GetReplicas()) != 1 || resp.GetReplicas()[0].GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
				return errors.New(resp.String())
			}
			if lag := resp.GetReplicas()[0].GetOffsetLag(); lag > 1000 {
				return fmt.Errorf("lag %d", lag)
			}
			return nil
		}
		f.Eventually(15*time.Second, "running", running)
		t.Logf("running after %s", time.Since(began))
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if err := running(); err != nil {
				t.Errorf("not any more: %v", err)
			}
		}
		stop()
		<-stopped
	})
}

// A record in a changelog that is none of the store's kind is skipped; what comes after it is applied.
func TestForeignRecordsInAChangelogAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newKinds(t, 1)
		defer f.close()
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 5)
		good := javaSteps(t, "win")[0].records[0]
		for _, rec := range []*kgo.Record{
			{Key: []byte("short"), Value: []byte("x")},
			{Key: append(bytes.Clone(good.Key[:len(good.Key)-1]), 7), Value: []byte("a sequence")},
			{Key: good.Key, Value: good.Value},
		} {
			rec.Topic = "app-win-changelog"
			rec.Timestamp = time.UnixMilli(t0)
			if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		f.waitPosition(b, "win", 0, 3)
		f.expectScan(b, "windows", scanOf("win"), "alice[0,60000]=1")
	})
}

// late has windows that close 30 seconds after their end, so that the newest window in the store does not say which are
// closed.
var late = topologyOf(`
application: app
sources:
  - {topic: in, format: raw, value_serde: string}
aggregates:
  - {store: win, source: in, count: true, window: {tumbling: 60s, grace: 30s, retention: 5m}}
`)

// A task that moves, by a kill, a handover or to a node that restores everything, has come as far in the time of its
// records as an uninterrupted one: a window that is closed stays closed. What somebody else left beside the committed offset
// is ignored.
func TestWindowsThatAreClosedStayClosedWhereverTheTaskGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: late, Log: verboseLog(t)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		defer f.close()
		commit := kadm.Offsets{}
		commit.Add(kadm.Offset{Topic: "in", Partition: 0, At: 0, LeaderEpoch: -1, Metadata: "iqgate-times-1:not json"})
		if err := kadm.NewClient(f.cl).CommitAllOffsets(f.ctx, "app", commit); err != nil {
			t.Fatal(err)
		}
		put := func(at int64) {
			t.Helper()
			rec := &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("x"), Timestamp: time.UnixMilli(t0 + at)}
			if err := f.cl.ProduceSync(f.ctx, rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		check := func(n *bubble.Node, want string) {
			t.Helper()
			rows, _, err := scanAll(f.ctx, n.Query(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "win"}, Policy: strong()})
			if got := rowTexts(rows); err != nil || got != want {
				t.Fatalf("at %s: %s, %v; want %s", n.ID, got, err, want)
			}
		}
		a := f.StartNode("a")
		f.waitAll(a, iqv1.Role_ROLE_ACTIVE, 1)
		b := f.StartNode("b")
		f.waitAll(b, iqv1.Role_ROLE_STANDBY, 1)
		put(0)
		put(95000)
		check(a, "k[0,60000]=1 k[60000,120000]=1")
		put(10000)
		check(a, "k[0,60000]=1 k[60000,120000]=1")
		a.Kill()
		f.waitAll(b, iqv1.Role_ROLE_ACTIVE, 1)
		put(10000)
		check(b, "k[0,60000]=1 k[60000,120000]=1")
		put(100000)
		check(b, "k[0,60000]=1 k[60000,120000]=2")
		b.Stop()
		fresh := f.StartNode("fresh")
		f.waitAll(fresh, iqv1.Role_ROLE_ACTIVE, 1)
		put(10000)
		check(fresh, "k[0,60000]=1 k[60000,120000]=2")
	})
}
