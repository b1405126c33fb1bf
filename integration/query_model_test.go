//go:build synctests

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// modelTopology does to its four stores what the input says, and leaves in each the offset of the record as a marker.
func modelTopology() *topology.Topology {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	t, err := topology.New().
		Source("in", "in").
		Processor("apply", func() topology.Processor { return topology.ProcessorFunc(applyModel) }, "in").
		Store(topology.StoreSpec{Name: "kv", ValueSerde: topology.NameJSON}, "apply").
		Store(topology.StoreSpec{Name: "win", Kind: topology.Window, WindowSize: ms(modelWindow), Retention: ms(modelKept)}, "apply").
		Store(topology.StoreSpec{Name: "sess", Kind: topology.Session, Retention: ms(modelKept)}, "apply").
		Store(topology.StoreSpec{Name: "ver", Kind: topology.Versioned, Retention: ms(modelHistory)}, "apply").
		Build("app")
	if err != nil {
		panic(err)
	}
	return t
}

func applyModel(ctx topology.Context, r topology.Record) error {
	var o modelOp
	if err := json.Unmarshal(r.Value, &o); err != nil {
		return err
	}
	kv, win, sess, ver := ctx.Store("kv"), ctx.WindowStore("win"), ctx.SessionStore("sess"), ctx.VersionedStore("ver")
	var err error
	switch o.Store {
	case "kv":
		err = kv.Put(o.Key, o.Value, r.Timestamp)
	case "win":
		err = win.Put(o.Key, o.Value, o.Start, r.Timestamp)
	case "sess":
		err = sess.Put(o.Key, o.Value, o.Start, o.End, r.Timestamp)
	case "ver":
		_, err = ver.Put(o.Key, o.Value, o.Start)
	}
	marker, offset := []byte(modelMarker), []byte(strconv.FormatInt(r.Offset, 10))
	newest := func(streamTime int64) int64 { return max(streamTime, r.Timestamp) }
	_, errVer := ver.Put(marker, offset, newest(ver.StreamTime()))
	at := newest(sess.StreamTime())
	return errors.Join(err, errVer, kv.Put(marker, offset, newest(-1)),
		win.Put(marker, offset, newest(win.StreamTime()), newest(win.StreamTime())), sess.Put(marker, offset, at, at, at))
}

const modelPartitions = 2

var modelStores = []string{"kv", "win", "sess", "ver"}

// modelRun is a cluster whose input, and every answer that was read, is kept.
type modelRun struct {
	*fixture
	rng *rand.Rand

	mu    sync.Mutex
	log   [modelPartitions][]modelOp
	nodes map[string]*bubble.Node // that run
	seen  []modelSeen
}

// modelSeen is an answer: rows read in one call.
type modelSeen struct {
	from  string
	req   *iqv1.ScanRequest
	after map[int32]*iqv1.Row // the row of each partition that the pages before ended with
	rows  []*iqv1.Row
	reads []*iqv1.PartitionRead
	whole bool // nothing was left
}

// Every query on an active, a standby, a restored and a reopened store gives what a plain model of the store gives at the
// position at which the partition was read, whoever dies meanwhile, page by page or at once.
func TestQueriesGiveTheModelsAnswer(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": modelPartitions}, Topology: modelTopology, Routers: []string{"r1"}, Log: verboseLog(t)})
	r := &modelRun{
		fixture: &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))},
		rng:     rand.New(rand.NewPCG(seed, 6)), nodes: make(map[string]*bubble.Node),
	}
	defer r.close()
	router := r.StartRouter("r1")
	for _, id := range []string{"a", "b"} {
		r.nodes[id] = r.StartNode(id)
	}
	stop, done := context.WithCancel(r.ctx)
	defer done()
	var work sync.WaitGroup
	work.Go(func() { r.write(stop, rand.New(rand.NewPCG(seed, 1))) })
	for i := range 2 {
		work.Go(func() { r.query(stop, router, rand.New(rand.NewPCG(seed, uint64(2+i)))) })
	}
	r.disturb()
	done()
	work.Wait()

	for id, n := range r.nodes { // at rest: whoever is there now
		r.atRest(id, n, seed)
	}
	b := r.nodes["b"]
	b.Stop()
	b = r.StartNode("b")
	r.atRest("b reopened", b, seed)
	b.Stop()
	fresh := r.StartNode("fresh")
	r.atRest("fresh", fresh, seed)
	r.verify()
}

// atRest asks a node while nothing changes: then lookups and counts must agree with scans, which verify judges.
func (r *modelRun) atRest(from string, n *bubble.Node, seed uint64) {
	r.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 4))
	r.waitAll(n, anyRole, len(modelStores)*modelPartitions)
	r.ask(r.ctx, from, n.Query(), rng, 40)
	for range 40 {
		req := randomScan(rng)
		rows, _, err := scanAll(r.ctx, n.Query(), req)
		count, errCount := n.Query().Count(r.ctx, &iqv1.CountRequest{Selection: req.GetSelection(), Policy: anyReplica()})
		if err != nil || errCount != nil || count.GetCount() != int64(len(rows)) {
			r.t.Errorf("%s: %v: count %v, %v; scan %d rows, %v", from, req, count, errCount, len(rows), err)
		}
	}
	for _, store := range modelStores {
		r.lookUp(from, n, store, nil)
	}
	for range 10 {
		r.lookUp(from, n, "ver", new(1_000_000+rng.Int64N(30_000)))
	}
}

// lookUp compares a scan with Gets and MultiGets of everything that it found and of keys that it did not find.
func (r *modelRun) lookUp(from string, n *bubble.Node, store string, asOf *int64) {
	r.t.Helper()
	rows, _, err := scanAll(r.ctx, n.Query(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: store, AsOfMs: asOf}, Policy: anyReplica()})
	if err != nil {
		r.t.Fatal(err)
	}
	found := make(map[string]*iqv1.Row)
	for _, row := range rows {
		if string(row.GetKey()) == modelMarker {
			continue // in each partition, also where its key does not belong
		}
		found[string(row.GetKey())] = row
		req := &iqv1.GetRequest{Store: store, Key: row.GetKey(), AsOfMs: asOf, Policy: anyReplica()}
		switch store {
		case "win":
			req.WindowStartMs = row.StartMs
		case "sess":
			req.WindowStartMs, req.SessionEndMs = row.StartMs, row.EndMs
		}
		got, err := n.Query().Get(r.ctx, req)
		if err != nil || !got.GetFound() || string(got.GetValue()) != string(row.GetValue()) || got.GetTimestampMs() != row.GetTimestampMs() ||
			store == "ver" && (got.ValidUntilMs == nil) != (row.EndMs == nil) || store == "ver" && got.GetValidUntilMs() != row.GetEndMs() {
			r.t.Errorf("%s: %v gave %v, %v; the scan %v", from, req, got, err, row)
		}
	}
	if store == "win" || store == "sess" {
		return
	}
	many, err := n.Query().MultiGet(r.ctx, &iqv1.MultiGetRequest{Store: store, Keys: modelKeys, AsOfMs: asOf, Policy: anyReplica()})
	if err != nil {
		r.t.Fatal(err)
	}
	for i, key := range modelKeys {
		got, row := many.GetResults()[i], found[string(key)]
		if got.Read == nil || got.GetFound() != (row != nil) || string(got.GetValue()) != string(row.GetValue()) || got.GetTimestampMs() != row.GetTimestampMs() {
			r.t.Errorf("%s: %q of a MultiGet of %s: %v; the scan %v", from, key, store, got, row)
		}
		if p := many.GetPartitions()[got.GetRead()].GetPartition(); p != partitioner.Murmur2().Partition(key, modelPartitions) {
			r.t.Errorf("%s: %q was read in partition %d", from, key, p)
		}
	}
}

// disturb kills, stops and restarts nodes.
func (r *modelRun) disturb() {
	for range 4 {
		time.Sleep(time.Duration(500+r.rng.IntN(2500)) * time.Millisecond)
		id := []string{"a", "b"}[r.rng.IntN(2)]
		r.mu.Lock()
		n := r.nodes[id]
		delete(r.nodes, id)
		r.mu.Unlock()
		if r.rng.IntN(3) > 0 {
			n.Kill()
		} else {
			n.Stop()
		}
		time.Sleep(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
		n = r.StartNode(id)
		r.mu.Lock()
		r.nodes[id] = n
		r.mu.Unlock()
	}
	time.Sleep(3 * time.Second)
}

var modelKeys = [][]byte{{}, {0}, {0, 0}, {0, 0xff}, []byte("a"), []byte("a\x00"), []byte("ab"), []byte("b"), {0xff}, {0xff, 0xff}, []byte("zz")}

// write produces input whose time goes on, with some that is late.
func (r *modelRun) write(ctx context.Context, rng *rand.Rand) {
	now := int64(1_000_000)
	for ctx.Err() == nil {
		now += rng.Int64N(150)
		at := now - rng.Int64N(1+rng.Int64N(7_000))
		o := modelOp{Store: modelStores[rng.IntN(len(modelStores))], Key: modelKeys[rng.IntN(len(modelKeys))], At: at, Start: at}
		switch o.Store {
		case "win":
			o.Start = at - at%modelWindow
		case "sess":
			o.Start = at - at%500
			o.End = o.Start + rng.Int64N(3)*500
		}
		if rng.IntN(5) > 0 {
			o.Value = fmt.Appendf(nil, `{"n":%d,"s":"x"}`, rng.IntN(10))
		}
		p := partitioner.Murmur2().Partition(o.Key, modelPartitions)
		r.mu.Lock()
		o.Offset = int64(len(r.log[p]))
		r.log[p] = append(r.log[p], o)
		r.mu.Unlock()
		rec := &kgo.Record{Topic: "in", Partition: p, Key: o.Key, Value: o.encode(), Timestamp: time.UnixMilli(at)}
		if err := r.cl.ProduceSync(context.WithoutCancel(ctx), rec).FirstErr(); err != nil || rec.Offset != o.Offset {
			r.t.Errorf("produced at %d, want %d: %v", rec.Offset, o.Offset, err)
			return
		}
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
	}
}

// query asks nodes and the router until ctx ends.
func (r *modelRun) query(ctx context.Context, router *bubble.Router, rng *rand.Rand) {
	for ctx.Err() == nil {
		from, q := "router", router.Query()
		if rng.IntN(3) > 0 {
			r.mu.Lock()
			for id, n := range r.nodes {
				from, q = id, n.Query()
			}
			r.mu.Unlock()
		}
		r.ask(ctx, from, q, rng, 1)
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	}
}

// ask makes some random queries, each in pages until its end or its first failure, and keeps the answers.
func (r *modelRun) ask(ctx context.Context, from string, q iqv1.QueryServiceClient, rng *rand.Rand, queries int) {
	for range queries {
		req := randomScan(rng)
		after := make(map[int32]*iqv1.Row)
		for {
			if rng.IntN(2) == 0 {
				req.Limit = 1 + rng.Int64N(12)
			}
			rows, msgs, err := scanAll(ctx, q, req)
			if err != nil {
				if iqerr.ReasonOf(err) == iqv1.Reason_REASON_INVALID || errors.Is(err, iqerr.ErrPageLost) {
					r.t.Errorf("%s: %v: %v", from, req, err)
				}
				break
			}
			s := modelSeen{from: from, req: proto.CloneOf(req), after: after, rows: rows}
			for _, m := range msgs {
				s.reads = append(s.reads, m.GetReads()...)
			}
			var token []byte
			if len(msgs) > 0 {
				token = msgs[len(msgs)-1].GetPageToken()
			} else if !emptySelection(req.GetSelection()) {
				r.t.Errorf("%s: OK without a word: %v", from, req)
			}
			s.whole = token == nil
			r.mu.Lock()
			r.seen = append(r.seen, s)
			r.mu.Unlock()
			if token == nil {
				break
			}
			next := maps.Clone(after)
			for _, row := range rows {
				next[row.GetPartition()] = row
			}
			req, after = proto.CloneOf(req), next
			req.PageToken, req.Limit = token, 0
		}
	}
}

// emptySelection says whether no entry can be meant.
func emptySelection(sel *iqv1.Selection) bool {
	kr, t := sel.GetRange(), sel.GetTimes()
	if kr != nil && kr.From != nil && kr.To != nil {
		if c := slices.Compare(kr.GetFrom(), kr.GetTo()); c > 0 || c == 0 && (kr.GetFromExclusive() || kr.GetToExclusive()) {
			return true
		}
	}
	return t != nil && t.FromMs != nil && t.ToMs != nil && t.GetFromMs() > t.GetToMs()
}

// randomScan is a scan of anything that a store can be asked for.
func randomScan(rng *rand.Rand) *iqv1.ScanRequest {
	key := func() []byte { return modelKeys[rng.IntN(len(modelKeys))] }
	sel := &iqv1.Selection{Store: modelStores[rng.IntN(len(modelStores))]}
	switch rng.IntN(6) {
	case 0:
		sel.Keys = &iqv1.Selection_Key{Key: key()}
	case 1:
		sel.Keys = &iqv1.Selection_Prefix{Prefix: key()}
	case 2, 3:
		kr := &iqv1.KeyRange{FromExclusive: rng.IntN(2) == 0, ToExclusive: rng.IntN(2) == 0}
		if rng.IntN(3) > 0 {
			kr.From = key()
		}
		if rng.IntN(3) > 0 {
			kr.To = key()
		}
		sel.Keys = &iqv1.Selection_Range{Range: kr}
	}
	at := func() *int64 { return new(1_000_000 + rng.Int64N(30_000)) }
	switch {
	case sel.GetStore() == "kv":
	case rng.IntN(2) == 0:
		sel.Times = &iqv1.TimeRange{}
		if rng.IntN(3) > 0 {
			sel.Times.FromMs = at()
		}
		if rng.IntN(3) > 0 {
			sel.Times.ToMs = at()
		}
	case sel.GetStore() == "ver" && rng.IntN(2) == 0:
		sel.AsOfMs = at()
	}
	req := &iqv1.ScanRequest{Selection: sel, Policy: anyReplica(), Reverse: rng.IntN(2) == 0, KeysOnly: rng.IntN(4) == 0}
	if rng.IntN(3) == 0 {
		req.Order = iqv1.ScanRequest_ORDER_PARTITION
	}
	if rng.IntN(4) == 0 {
		sel.Partitions = []int32{rng.Int32N(modelPartitions)}
	}
	return req
}

// modelMark is a marker in a changelog: up to which input record the store is at the position behind it.
type modelMark struct{ position, input int64 }

// marks reads the committed markers of a store's changelog.
func (r *modelRun) marks(store string) [modelPartitions][]modelMark {
	r.t.Helper()
	var marks [modelPartitions][]modelMark
	topic := "app-" + store + "-changelog"
	ends, err := kadm.NewClient(r.cl).ListEndOffsets(r.ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	for p := range int32(modelPartitions) {
		end, _ := ends.Lookup(topic, p)
		if end.Offset == 0 {
			continue
		}
		cl := r.Client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(0)}}))
		for last := int64(-1); last < end.Offset-1; {
			fs := cl.PollFetches(r.ctx)
			if err := fs.Err(); err != nil {
				r.t.Fatal(err)
			}
			fs.EachRecord(func(rec *kgo.Record) {
				last = rec.Offset
				if rec.Attrs.IsControl() || len(rec.Key) == 0 || string(rec.Key[:1]) != modelMarker || string(rec.Key) != modelMarker && store != "win" && store != "sess" {
					return
				}
				input, err := strconv.ParseInt(string(rec.Value), 10, 64)
				if err != nil {
					r.t.Fatal(err)
				}
				if n := len(marks[p]); n > 0 {
					input = max(input, marks[p][n-1].input)
				}
				marks[p] = append(marks[p], modelMark{rec.Offset + 1, input})
			})
		}
		cl.Close()
	}
	return marks
}

// verify compares every answer with the model at the positions that it says it was read at.
func (r *modelRun) verify() {
	r.t.Helper()
	marks := make(map[string][modelPartitions][]modelMark)
	for _, store := range modelStores {
		marks[store] = r.marks(store)
	}
	type at struct {
		store     string
		partition int32
		input     int64
	}
	models := make(map[at]*modelStore)
	checked, rows, movedOn := 0, 0, 0
	for _, s := range r.seen {
		sel := s.req.GetSelection()
		perPartition := make(map[int32][]*iqv1.Row)
		moved := false
		for _, read := range s.reads {
			p := read.GetPartition()
			if _, twice := perPartition[p]; twice {
				moved = true // to another replica in the middle: read at two positions
			}
			input := int64(-1)
			for _, m := range marks[sel.GetStore()][p] {
				if m.position <= read.GetServed().GetPosition() {
					input = m.input
				}
			}
			key := at{sel.GetStore(), p, input}
			if models[key] == nil {
				models[key] = modelOf(sel.GetStore(), r.log[p][:input+1])
			}
			perPartition[p] = r.expected(models[key], p, &s)
		}
		if moved { // at two positions, but never with a row twice or out of order
			if !r.inOrder(&s) {
				r.t.Fatalf("%s: %v\nread at %v\n got %v", s.from, s.req, s.reads, s.rows)
			}
			movedOn++
			continue
		}
		want := r.merge(perPartition, &s)
		if n := len(s.rows); !s.whole && n <= len(want) {
			want = want[:n]
			if s.req.GetLimit() > 0 && int64(n) != s.req.GetLimit() {
				r.t.Fatalf("%s: %d rows and a page token for limit %d: %v", s.from, n, s.req.GetLimit(), s.req)
			}
		}
		got := make([]*iqv1.Row, len(s.rows))
		for i, row := range s.rows {
			got[i] = proto.CloneOf(row)
			got[i].Cursor = nil
		}
		if !slices.EqualFunc(got, want, func(a, b *iqv1.Row) bool { return proto.Equal(a, b) }) {
			r.t.Fatalf("%s: %v\nread at %v\n got %v\nwant %v", s.from, s.req, s.reads, got, want)
		}
		checked++
		rows += len(want)
	}
	r.t.Logf("%d answers with %d rows checked, of %d records; %d went on at another replica", checked, rows, len(r.log[0])+len(r.log[1]), movedOn)
	if checked < 200 || rows < 500 {
		r.t.Error("too few to mean anything")
	}
}

// expected are a partition's rows, in order, behind where the pages before ended.
func (r *modelRun) expected(m *modelStore, p int32, s *modelSeen) []*iqv1.Row {
	rows := m.rows(p, s.req.GetSelection())
	if s.req.GetReverse() {
		slices.Reverse(rows)
	}
	if last := s.after[p]; last != nil {
		rows = slices.DeleteFunc(rows, func(row *iqv1.Row) bool {
			c := m.compare(row, last)
			if m.kind == "ver" && s.req.GetSelection().GetTimes() == nil {
				c = slices.Compare(row.GetKey(), last.GetKey())
			}
			return c == 0 || c < 0 != s.req.GetReverse()
		})
	}
	for _, row := range rows {
		if s.req.GetKeysOnly() {
			row.Value = nil
			if m.kind != "ver" {
				row.TimestampMs = 0
			}
		}
	}
	return rows
}

// inOrder says whether rows come in the order asked for, each once.
func (r *modelRun) inOrder(s *modelSeen) bool {
	m := &modelStore{kind: s.req.GetSelection().GetStore()}
	return slices.IsSortedFunc(s.rows, func(a, b *iqv1.Row) int {
		byKey, byPartition := m.compare(a, b), int(a.GetPartition()-b.GetPartition())
		if s.req.GetReverse() {
			byKey = -byKey
		}
		c := cmp.Or(byKey, byPartition)
		if s.req.GetOrder() == iqv1.ScanRequest_ORDER_PARTITION {
			c = cmp.Or(byPartition, byKey)
		}
		return cmp.Or(c, -1) // an equal row is one too many
	})
}

// merge puts the partitions' rows in the order asked for.
func (r *modelRun) merge(perPartition map[int32][]*iqv1.Row, s *modelSeen) []*iqv1.Row {
	var all []*iqv1.Row
	for p := range int32(modelPartitions) {
		all = append(all, perPartition[p]...)
	}
	if s.req.GetOrder() == iqv1.ScanRequest_ORDER_PARTITION {
		return all
	}
	m := &modelStore{kind: s.req.GetSelection().GetStore()}
	slices.SortStableFunc(all, func(a, b *iqv1.Row) int {
		if s.req.GetReverse() {
			return m.compare(b, a)
		}
		return m.compare(a, b)
	})
	return all
}
