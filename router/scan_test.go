package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// TestS17ScanIsCompleteOrNamesThePartition kills the node of partition 1 in the middle of a full scan.
func TestS17ScanIsCompleteOrNamesThePartition(t *testing.T) {
	for _, order := range []iqv1.ScanRequest_Order{iqv1.ScanRequest_ORDER_KEY, iqv1.ScanRequest_ORDER_PARTITION} {
		for _, withStandby := range []bool{false, true} {
			for _, after := range []int{0, 1, 50, 170} {
				t.Run(fmt.Sprintf("order=%s/standby=%t/after=%d", order, withStandby, after), func(t *testing.T) {
					inBubble(t, Config{}, func(w *world) {
						w.holding(query.KeyValue, 3, keyRows(numbered("key-", 500)...)...)
						for p, want := range []int{153, 171, 176} {
							if got := len(w.rows.parts[p]); got != want {
								t.Fatalf("partition %d has %d keys, want %d", p, got, want)
							}
						}
						a, b, c := w.join("a", of(active(9), 0)...), w.join("b", of(active(9), 1)...), w.join("c", of(active(9), 2)...)
						d := w.join("d")
						if withStandby {
							d.kill()
							d = w.start("d", "d:7070", 2, of(standby(9, 9), 1)...)
							synctest.Wait()
						}
						dying := make(chan struct{})
						b.streams.batch = 10
						b.streams.scanned = func(ctx context.Context, _ int32, sent int) error {
							if sent != after {
								return nil
							}
							close(dying)
							<-ctx.Done()
							return errCut
						}
						ended := make(chan *scanned)
						go func() { ended <- w.scan(&iqv1.ScanRequest{Policy: anyPolicy(), Order: order}) }()
						<-dying
						synctest.Wait() // what was sent has come
						b.kill()
						s := <-ended
						distinct := map[string]bool{}
						for _, k := range s.keys() {
							if distinct[k] {
								t.Errorf("%s came twice", k)
							}
							distinct[k] = true
						}
						if withStandby {
							if s.err != nil || len(distinct) != 500 {
								t.Errorf("%d keys, %v; want 500 and OK", len(distinct), s.err)
							}
							if order == iqv1.ScanRequest_ORDER_KEY && !slices.IsSorted(s.keys()) {
								t.Error("not in order")
							}
							checkReads(t, s, 1, after >= 10)
						} else if status.Code(s.err) != codes.Unavailable || !strings.Contains(s.err.Error(), "s/1: ") {
							t.Errorf("%d keys, %v; want UNAVAILABLE that names s/1", len(distinct), s.err)
						}
						for _, n := range []*fakeNode{a, c, d} {
							n.kill()
						}
					})
				})
			}
		}
	}
}

// checkReads wants each partition's read to be told before its first row, and again when another replica goes on.
func checkReads(t *testing.T, s *scanned, moved int32, twice bool) {
	t.Helper()
	nodes := map[int32][]string{}
	for _, m := range s.messages {
		for _, read := range m.GetReads() {
			nodes[read.GetPartition()] = append(nodes[read.GetPartition()], read.GetServed().GetNode())
		}
		for _, row := range m.GetRows() {
			if len(nodes[row.GetPartition()]) == 0 {
				t.Fatalf("row %s of partition %d before its read", row.GetKey(), row.GetPartition())
			}
			if len(row.GetCursor()) > 0 {
				t.Fatalf("row %s has a cursor", row.GetKey())
			}
		}
	}
	if got := nodes[moved]; got[len(got)-1] != "d" || (twice && len(got) != 2) {
		t.Errorf("partition %d was read at %q", moved, got)
	}
}

// TestS27OrderOverPartitions has k0 to k11 on 3 partitions over 2 nodes.
func TestS27OrderOverPartitions(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("k", 12)...)...)
		a, b := w.join("a", of(active(9), 0, 2)...), w.join("b", of(active(9), 1)...)
		k0k9 := func(order iqv1.ScanRequest_Order, limit int64, reverse bool) *iqv1.ScanRequest {
			return &iqv1.ScanRequest{
				Selection: &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("k0"), To: []byte("k9")}}},
				Order:     order, Limit: limit, Reverse: reverse,
			}
		}
		byKey := "k0 k1 k10 k11 k2 k3 k4 k5 k6 k7 k8 k9"
		byPartition := "k11 k2 k5 k10 k3 k4 k6 k7 k0 k1 k8 k9"
		for _, c := range []struct {
			request *iqv1.ScanRequest
			want    string
		}{
			{k0k9(iqv1.ScanRequest_ORDER_UNSPECIFIED, 0, false), byKey},
			{k0k9(iqv1.ScanRequest_ORDER_KEY, 0, false), byKey},
			{k0k9(iqv1.ScanRequest_ORDER_KEY, 5, false), "k0 k1 k10 k11 k2"},
			{k0k9(iqv1.ScanRequest_ORDER_KEY, 12, false), byKey},
			{k0k9(iqv1.ScanRequest_ORDER_KEY, 0, true), "k9 k8 k7 k6 k5 k4 k3 k2 k11 k10 k1 k0"},
			{k0k9(iqv1.ScanRequest_ORDER_KEY, 3, true), "k9 k8 k7"},
			{k0k9(iqv1.ScanRequest_ORDER_PARTITION, 0, false), byPartition},
			{k0k9(iqv1.ScanRequest_ORDER_PARTITION, 5, false), "k11 k2 k5 k10 k3"},
			{k0k9(iqv1.ScanRequest_ORDER_PARTITION, 0, true), "k5 k2 k11 k7 k6 k4 k3 k10 k9 k8 k1 k0"},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Keys: &iqv1.Selection_Prefix{Prefix: []byte("k1")}}}, "k1 k10 k11"},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Keys: &iqv1.Selection_Key{Key: []byte("k8")}}}, "k8"},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Partitions: []int32{2, 0}}}, "k0 k1 k11 k2 k5 k8 k9"},
			{&iqv1.ScanRequest{Selection: &iqv1.Selection{Keys: &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("k9"), To: []byte("k0")}}}}, ""},
		} {
			s := w.scan(c.request)
			if got := strings.Join(s.keys(), " "); got != c.want || s.err != nil {
				t.Errorf("%v: %s, %v\nwant %s", c.request, got, s.err, c.want)
			}
			for _, row := range s.rows {
				if want := slices.IndexFunc(w.rows.parts, func(part []*iqv1.Row) bool {
					return slices.ContainsFunc(part, func(r *iqv1.Row) bool { return string(r.GetKey()) == string(row.GetKey()) })
				}); int(row.GetPartition()) != want {
					t.Errorf("%s is of partition %d, want %d", row.GetKey(), row.GetPartition(), want)
				}
			}
		}
		before := len(b.streams.scans)
		w.scan(&iqv1.ScanRequest{Selection: &iqv1.Selection{Keys: &iqv1.Selection_Key{Key: []byte("k8")}}})
		if len(b.streams.scans) != before {
			t.Error("a scan of one key asked for a partition in which it cannot be")
		}
		a.kill()
		b.kill()
	})
}

// TestS27WindowsOfSeveralPartitions is the same for keys and times: a at 0 in one partition, b at 10 in another.
func TestS27WindowsOfSeveralPartitions(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		row := func(key string, p int32, start int64) *iqv1.Row {
			return &iqv1.Row{Key: []byte(key), Partition: p, StartMs: &start}
		}
		w.holding(query.Window, 3, row("a", 1, 0), row("b", 0, 10), row("b", 0, 11), row("a", 2, 0), row("a", 0, -1))
		a := w.join("a", of(active(9), 0, 1, 2)...)
		for reverse, want := range map[bool]string{false: "a@0/1 a@0/2 b@10/0", true: "b@10/0 a@0/1 a@0/2"} {
			s := w.scan(&iqv1.ScanRequest{Reverse: reverse, Selection: &iqv1.Selection{
				Keys:  &iqv1.Selection_Range{Range: &iqv1.KeyRange{From: []byte("a"), To: []byte("b")}},
				Times: &iqv1.TimeRange{FromMs: new(int64(0)), ToMs: new(int64(10))},
			}})
			var got []string
			for _, r := range s.rows {
				got = append(got, fmt.Sprintf("%s@%d/%d", r.GetKey(), r.GetStartMs(), r.GetPartition()))
			}
			if strings.Join(got, " ") != want || s.err != nil {
				t.Errorf("reverse=%t: %s, %v; want %s", reverse, got, s.err, want)
			}
		}
		a.kill()
	})
}

// TestPagesGoOnAcrossReplicasWithoutLossOrRepetition reads page after page, each at another replica than the one before.
func TestPagesGoOnAcrossReplicasWithoutLossOrRepetition(t *testing.T) {
	for _, order := range []iqv1.ScanRequest_Order{iqv1.ScanRequest_ORDER_KEY, iqv1.ScanRequest_ORDER_PARTITION} {
		for _, reverse := range []bool{false, true} {
			inBubble(t, Config{}, func(w *world) {
				w.holding(query.KeyValue, 3, keyRows(numbered("key-", 100)...)...)
				nodes := []*fakeNode{w.join("a", of(active(9), 0, 1, 2)...), w.join("b", of(standby(9, 9), 0, 1, 2)...)}
				whole := w.scan(&iqv1.ScanRequest{Policy: anyPolicy(), Order: order, Reverse: reverse}).keys()
				var paged []string
				var token []byte
				for page := 0; page == 0 || token != nil; page++ {
					if page > 20 {
						t.Fatal("pages do not end")
					}
					other := nodes[page%2]
					other.silence(true) // suspect: the reads go to the other one
					advance(500 * time.Millisecond)
					s := w.scan(&iqv1.ScanRequest{Policy: anyPolicy(), Order: order, Reverse: reverse, Limit: 7, PageToken: token})
					if s.err != nil {
						t.Fatal(s.err)
					}
					for _, m := range s.messages {
						for _, read := range m.GetReads() {
							if read.GetServed().GetNode() == other.id {
								t.Errorf("page %d was read at %s", page, other.id)
							}
						}
					}
					paged = append(paged, s.keys()...)
					token = nil
					if len(s.messages) > 0 {
						token = s.messages[len(s.messages)-1].GetPageToken()
					}
					other.silence(false)
					advance(200 * time.Millisecond)
				}
				if !slices.Equal(paged, whole) {
					t.Errorf("pages gave %q\nwant %q", paged, whole)
				}
				for _, n := range nodes {
					n.kill()
				}
			})
		}
	}
}

// TestPageTokenFailsClearlyWhenItsPromiseIsGone uses a token for another request, after the changelog was made anew, and
// damaged.
func TestPageTokenFailsClearlyWhenItsPromiseIsGone(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows(numbered("key-", 100)...)...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		first := w.scan(&iqv1.ScanRequest{Limit: 7})
		token := first.messages[len(first.messages)-1].GetPageToken()
		for what, m := range map[string]*iqv1.ScanRequest{
			"reverse":   {Reverse: true},
			"order":     {Order: iqv1.ScanRequest_ORDER_PARTITION},
			"keys only": {KeysOnly: true},
			"fields":    {Fields: []string{"a"}},
			"selection": {Selection: &iqv1.Selection{Keys: &iqv1.Selection_Prefix{Prefix: []byte("key-")}}},
			"filter":    {Selection: &iqv1.Selection{Filter: "true"}},
			"damaged":   {},
		} {
			m.PageToken = slices.Clone(token)
			if what == "damaged" {
				m.PageToken[20]++
			}
			if s := w.scan(m); !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrInvalid) || !strings.Contains(s.err.Error(), "page_token") {
				t.Errorf("%s: %v, want INVALID for page_token", what, s.err)
			}
		}
		if s := w.scan(&iqv1.ScanRequest{Limit: 1000, Policy: anyPolicy(), PageToken: token}); s.err != nil || len(s.rows) != 93 {
			t.Errorf("with another limit and policy: %d rows, %v", len(s.rows), s.err)
		}
		a.change(func(m *iqv1.HeartbeatRequest) { m.Stores[0].ChangelogId = "log-2" })
		advance(2 * heartbeatEvery)
		s := w.scan(&iqv1.ScanRequest{PageToken: token})
		if !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrPageLost) || status.Code(s.err) != codes.Aborted || len(s.rows) > 0 {
			t.Errorf("after the changelog was made anew: %v, want PAGE_LOST", s.err)
		}
		a.kill()
	})
}

// TestChangelogMadeAnewUnderAScanEndsIt breaks a scan after its node's changelog has become another one, before the router
// knows.
func TestChangelogMadeAnewUnderAScanEndsIt(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1, keyRows(numbered("key-", 100)...)...)
		a := w.join("a", of(active(9), 0)...)
		a.streams.batch = 10
		a.streams.scanned = func(_ context.Context, _ int32, sent int) error {
			if sent < 50 {
				return nil
			}
			a.behave(func(s *fakeStreams) { s.scanned = nil })
			a.change(func(m *iqv1.HeartbeatRequest) { m.Stores[0].ChangelogId = "log-2" })
			return &iqerr.SlowReaderError{Node: "a"}
		}
		s := w.scan(&iqv1.ScanRequest{})
		if !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrPageLost) || len(s.rows) != 50 {
			t.Errorf("%d rows, %v; want 50 and PAGE_LOST", len(s.rows), s.err)
		}
		a.kill()
	})
}

// TestNodeThatEndsAStreamForASlowReaderIsAskedAgain has partition 1 come last in the order of keys, and its node lose
// patience, twice.
func TestNodeThatEndsAStreamForASlowReaderIsAskedAgain(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		var rows []*iqv1.Row
		for i := range 100 {
			rows = append(rows, &iqv1.Row{Key: fmt.Appendf(nil, "%03d", i), Partition: int32(i / 50)})
		}
		w.holding(query.KeyValue, 2, rows...)
		a := w.join("a", of(active(9), 0, 1)...)
		a.streams.batch = 5
		ends := 0
		a.streams.scanned = func(_ context.Context, p int32, sent int) error {
			if p == 1 && sent == 15 && ends < 2 {
				ends++
				return &iqerr.SlowReaderError{Node: "a", Waited: time.Second}
			}
			return nil
		}
		s := w.scan(&iqv1.ScanRequest{})
		if len(s.rows) != 100 || s.err != nil || !slices.IsSorted(s.keys()) {
			t.Errorf("%d rows, %v", len(s.rows), s.err)
		}
		a.kill()
	})
}

// TestSlowReaderLosesItsStreamAndHoldsNothing reads one message and then nothing.
func TestSlowReaderLosesItsStreamAndHoldsNothing(t *testing.T) {
	inBubble(t, Config{ScanIdle: 3 * time.Second}, func(w *world) {
		rows := keyRows(numbered("key-", 1500)...)
		for _, r := range rows {
			r.Value = make([]byte, 10<<10)
		}
		w.holding(query.KeyValue, 3, rows...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		stream, err := w.client.Scan(w.t.Context(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w.router.scans.Load() != 1 {
			t.Errorf("%d scans", w.router.scans.Load())
		}
		advance(2900 * time.Millisecond)
		if w.router.scans.Load() != 1 {
			t.Error("the scan ended before its lease")
		}
		advance(200 * time.Millisecond)
		if w.router.scans.Load() != 0 || w.router.peers.outstanding("a") != 0 {
			t.Errorf("%d scans, %d at the node after the lease", w.router.scans.Load(), w.router.peers.outstanding("a"))
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrSlowReader) || status.Code(err) != codes.Aborted {
			t.Errorf("%v, want SLOW_READER", err)
		}
		a.kill()
	})
}

// TestVanishedClientLeavesNothingRunning cancels scans and watches in the middle, many at once.
func TestVanishedClientLeavesNothingRunning(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		rows := keyRows(numbered("key-", 1500)...)
		for _, r := range rows {
			r.Value = make([]byte, 10<<10)
		}
		w.holding(query.KeyValue, 3, rows...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		a.streams.watch = func(_ *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
			_ = stream.Send(&iqv1.WatchResponse{Current: []int32{0, 1, 2}})
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		w.scan(&iqv1.ScanRequest{Limit: 1}) // the connection is there
		synctest.Wait()
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(w.t.Context())
		for range 5 {
			scan, err := w.client.Scan(ctx, &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}})
			if err == nil {
				_, err = scan.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			watch, err := w.client.Watch(ctx, &iqv1.WatchRequest{Selection: &iqv1.Selection{Store: "s"}})
			if err == nil {
				_, err = watch.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := w.router.peers.outstanding("a"); got != 30 {
			t.Errorf("%d streams at the node, want 30", got)
		}
		cancel()
		synctest.Wait()
		if got := w.router.peers.outstanding("a"); got != 0 || w.router.scans.Load() != 0 || w.router.watches.Load() != 0 {
			t.Errorf("%d streams at the node, %d scans, %d watches", got, w.router.scans.Load(), w.router.watches.Load())
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, %d before", after, before)
		}
		a.kill()
	})
}

// TestS31LargeRowsPassOneByOne scans values up to 20 MiB and 200 of 100 KB. The router's messages stay within the batch
// bound, but for a row that alone is larger.
func TestS31LargeRowsPassOneByOne(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		rows := keyRows(numbered("key-", 200)...)
		for _, r := range rows {
			r.Value = make([]byte, 100_000)
		}
		for i, size := range []int{4_194_304 - 100, 4_561_623, 20 << 20} {
			rows = append(rows, &iqv1.Row{Key: fmt.Appendf(nil, "large-%d", i), Value: make([]byte, size), Partition: -1})
		}
		w.holding(query.KeyValue, 3, rows...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		s := w.scan(&iqv1.ScanRequest{})
		if len(s.rows) != 203 || s.err != nil {
			t.Fatalf("%d rows, %v", len(s.rows), s.err)
		}
		for _, m := range s.messages {
			size := 0
			for _, r := range m.GetRows() {
				size += len(r.GetValue())
			}
			if size > query.MaxBatchBytes && len(m.GetRows()) > 1 {
				t.Errorf("a message of %d rows has %d bytes", len(m.GetRows()), size)
			}
		}
		if got := len(s.rows[202].GetValue()); got != 20<<20 {
			t.Errorf("the last value has %d bytes", got)
		}
		a.kill()
	})
}

// TestS31LargeRowsAreHeldOneByOne scans rows of 2 MiB in 3 partitions with a client that reads one message. The router holds
// one row of each partition, and on its way out one that is gathered, one that is sent and one in gRPC; the client has one.
// gRPC holds one of each partition at the node, which has begun to send the next.
func TestS31LargeRowsAreHeldOneByOne(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		rows := keyRows(numbered("key-", 40)...)
		for _, r := range rows {
			r.Value = make([]byte, 2<<20)
		}
		w.holding(query.KeyValue, 3, rows...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		stream, err := w.client.Scan(w.t.Context(), &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: "s"}})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		a.mu.Lock()
		begun := a.streams.large
		a.mu.Unlock()
		if begun > 3*(1+2)+4 {
			t.Errorf("the node has begun to send %d rows", begun)
		}
		for !errors.Is(err, io.EOF) {
			if _, err = stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		a.kill()
	})
}

// TestS33StoreClosedUnderAScanIsNotItsEnd has a node close its store in the middle of a scan.
func TestS33StoreClosedUnderAScanIsNotItsEnd(t *testing.T) {
	for _, withStandby := range []bool{false, true} {
		inBubble(t, Config{}, func(w *world) {
			w.holding(query.KeyValue, 1, keyRows(numbered("key-", 100)...)...)
			nodes := []*fakeNode{w.join("a", of(active(9), 0)...)}
			if withStandby {
				nodes = append(nodes, w.join("b", of(standby(9, 9), 0)...))
			}
			nodes[0].streams.scanned = func(_ context.Context, _ int32, sent int) error {
				if sent == 40 {
					return &iqerr.ClosingError{Node: "a", Store: "s"}
				}
				return nil
			}
			s := w.scan(&iqv1.ScanRequest{Policy: anyPolicy()})
			if withStandby && (s.err != nil || len(s.rows) != 100 || !slices.IsSorted(s.keys())) {
				t.Errorf("%d rows, %v; want all and OK", len(s.rows), s.err)
			}
			if !withStandby {
				if !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrClosing) || !strings.Contains(s.err.Error(), "s/0: ") || len(s.rows) != 40 {
					t.Errorf("%d rows, %v; want 40 and CLOSING for s/0", len(s.rows), s.err)
				}
				nodes[0].behave(func(s *fakeStreams) { s.scanned = nil })
				rest := w.scan(&iqv1.ScanRequest{Policy: anyPolicy(), PageToken: s.messages[len(s.messages)-1].GetPageToken()})
				if keys := append(s.keys(), rest.keys()...); rest.err != nil || len(keys) != 100 || !slices.IsSorted(keys) {
					t.Errorf("the rest by the page token: %d rows in all, %v", len(keys), rest.err)
				}
			}
			for _, n := range nodes {
				n.kill()
			}
		})
	}
}

// TestFilterThatFailsIsTheCallersError has a node find an entry that the filter cannot be evaluated for: no other replica
// is asked.
func TestFilterThatFailsIsTheCallersError(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1, keyRows("k")...)
		a, b := w.join("a", of(active(9), 0)...), w.join("b", of(standby(9, 9), 0)...)
		a.streams.scanned = func(context.Context, int32, int) error {
			return iqerr.Invalid("selection.filter", "value.a", `cannot be evaluated for key "k" in partition 0: no such key: a`)
		}
		s := w.scan(&iqv1.ScanRequest{Policy: anyPolicy(), Selection: &iqv1.Selection{Filter: "value.a"}})
		if !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrInvalid) || !strings.Contains(iqerr.FromStatus(s.err).Error(), `key "k"`) {
			t.Errorf("%v", s.err)
		}
		if len(b.streams.scans) != 0 {
			t.Error("another replica was asked")
		}
		a.kill()
		b.kill()
	})
}

// TestNodeThatHangsCostsATryAndNotTheScan has the active take a scan and say nothing, and another one become silent in the
// middle of a scan.
func TestNodeThatHangsCostsATryAndNotTheScan(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1, keyRows(numbered("key-", 100)...)...)
		a, b := w.join("a", of(active(9), 0)...), w.join("b", of(standby(9, 9), 0)...)
		a.streams.hangs = true
		start := time.Now()
		s := w.scan(&iqv1.ScanRequest{Policy: anyPolicy()})
		if took := time.Since(start); len(s.rows) != 100 || s.err != nil || took > 1200*time.Millisecond {
			t.Errorf("%d rows, %v, after %s", len(s.rows), s.err, took)
		}
		a.behave(func(s *fakeStreams) {
			s.hangs, s.batch = false, 10
			s.scanned = func(ctx context.Context, _ int32, sent int) error {
				if sent == 40 {
					a.silence(true)
					<-ctx.Done()
					return errCut
				}
				return nil
			}
		})
		start = time.Now()
		s = w.scan(&iqv1.ScanRequest{Policy: anyPolicy()})
		if took := time.Since(start); len(s.rows) != 100 || s.err != nil || took > time.Second {
			t.Errorf("stopped in the middle: %d rows, %v, after %s", len(s.rows), s.err, took)
		}
		a.kill()
		b.kill()
	})
}

// TestScansAreAdmittedUpToTheirBound opens one scan more than MaxScans.
func TestScansAreAdmittedUpToTheirBound(t *testing.T) {
	inBubble(t, Config{MaxScans: 1, MaxWatches: 1}, func(w *world) {
		w.holding(query.KeyValue, 1, keyRows("a")...)
		a := w.join("a", of(active(9), 0)...)
		a.streams.scanned = func(ctx context.Context, _ int32, _ int) error {
			<-ctx.Done()
			return errCut
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		held := make(chan *scanned)
		go func() { held <- collect(t, ctx, w.client, &iqv1.ScanRequest{}) }()
		synctest.Wait()
		if s := w.scan(&iqv1.ScanRequest{}); !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrOverloaded) {
			t.Errorf("%v, want OVERLOADED", s.err)
		}
		cancel()
		if s := <-held; status.Code(s.err) != codes.Canceled {
			t.Errorf("%v", s.err)
		}
		a.kill()
	})
}

// TestScanWaitsForAReplicaAsItsPolicyAllows loses its only replica in the middle, and another comes within the wait.
func TestScanWaitsForAReplicaAsItsPolicyAllows(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1, keyRows(numbered("key-", 100)...)...)
		a := w.join("a", of(active(9), 0)...)
		a.streams.batch = 10
		dying := make(chan struct{})
		a.streams.scanned = func(ctx context.Context, _ int32, sent int) error {
			if sent == 35 {
				close(dying)
				<-ctx.Done()
				return errCut
			}
			return nil
		}
		ended := make(chan *scanned)
		policy := get(iqv1.ReadPolicy_MODE_ACTIVE).GetPolicy()
		policy.Wait = durationpb.New(5 * time.Second)
		go func() { ended <- w.scan(&iqv1.ScanRequest{Policy: policy}) }()
		<-dying
		synctest.Wait() // what was sent has come
		a.kill()
		advance(time.Second)
		later := of(active(9), 0)
		later[0].Generation = 2
		b := w.join("b", later...)
		if s := <-ended; s.err != nil || len(s.rows) != 100 || !slices.IsSorted(s.keys()) {
			t.Errorf("%d rows, %v", len(s.rows), s.err)
		}
		b.kill()
	})
}

// TestRequestsThatAreWrongAreRefusedByField sends one wrong request of each kind.
func TestRequestsThatAreWrongAreRefusedByField(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3, keyRows("a")...)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		for field, m := range map[string]*iqv1.ScanRequest{
			"limit":                   {Limit: -1},
			"selection.partitions[0]": {Selection: &iqv1.Selection{Partitions: []int32{3}}},
			"selection.application":   {Selection: &iqv1.Selection{Application: "other"}},
			"policy.mode":             {Policy: &iqv1.ReadPolicy{Mode: 99}},
		} {
			if s := w.scan(m); !errors.Is(iqerr.FromStatus(s.err), iqerr.ErrInvalid) || !strings.Contains(s.err.Error(), field) {
				t.Errorf("%s: %v", field, s.err)
			}
		}
		stream, err := w.client.Scan(w.t.Context(), &iqv1.ScanRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrInvalid) || !strings.Contains(err.Error(), "selection.store") {
			t.Errorf("no store: %v", err)
		}
		a.kill()
	})
}
