package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// taken are the keys that a loop over a scan's rows gives, at most some, and its error.
func taken(s *client.Scanner, most int) (string, error) {
	var keys []string
	for row, err := range s.Rows() {
		if err != nil {
			return strings.Join(keys, " "), err
		}
		keys = append(keys, string(row.Key))
		if len(keys) == most {
			break
		}
	}
	return strings.Join(keys, " "), nil
}

func TestEachScanOptionReachesTheServer(t *testing.T) {
	at := time.UnixMilli(1700000040123)
	for _, c := range []struct {
		name string
		opts []client.ReadOption
		want string
	}{
		{name: "none"},
		{name: "policy", opts: o(client.MaxStaleness(time.Second)), want: `policy:{mode:MODE_BOUNDED max_staleness:{seconds:1}}`},
		{name: "range", opts: o(client.Range([]byte("a"), []byte("b"))), want: `selection:{range:{from:"a" to:"b"}}`},
		{name: "half a range", opts: o(client.Range(nil, []byte("b"))), want: `selection:{range:{to:"b"}}`},
		{name: "open ends", opts: o(client.After([]byte("a")), client.Before([]byte("b"))), want: `selection:{range:{from:"a" from_exclusive:true to:"b" to_exclusive:true}}`},
		{name: "closed ends", opts: o(client.From([]byte("a")), client.To(nil)), want: `selection:{range:{from:"a" to:""}}`},
		{name: "prefix", opts: o(client.Prefix([]byte("a"))), want: `selection:{prefix:"a"}`},
		{name: "key", opts: o(client.Key([]byte("a"))), want: `selection:{key:"a"}`},
		{name: "empty key", opts: o(client.Key(nil)), want: `selection:{key:""}`},
		{name: "times", opts: o(client.Times(at, time.Time{})), want: `selection:{times:{from_ms:1700000040123}}`},
		{name: "all times", opts: o(client.Times(time.Time{}, time.Time{})), want: `selection:{times:{}}`},
		{name: "as of", opts: o(client.AsOf(at)), want: `selection:{as_of_ms:1700000040123}`},
		{name: "partitions", opts: o(client.Partitions(2, 0), client.Partition(1)), want: `selection:{partitions:[2,0,1]}`},
		{name: "filter", opts: o(client.Filter("value.n > 1")), want: `selection:{filter:"value.n > 1"}`},
		{
			name: "what only a scan has", opts: o(client.Reverse(), client.Limit(7), client.KeysOnly(), client.OrderByPartition(), client.Fields("a", "b")),
			want: `reverse:true limit:7 keys_only:true order:ORDER_PARTITION fields:"a" fields:"b"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelf := newShelf(0, 1)
			cl := newNetwork(t, map[string]*router{"r1": shelf.router()}).client(t, "r1", client.WithApplication("app"))
			if keys, err := taken(cl.Scan(t.Context(), "orders", c.opts...), -1); keys != "" || err != nil {
				t.Fatalf("got %s, %v", keys, err)
			}
			want := &iqv1.ScanRequest{}
			if err := prototext.Unmarshal([]byte(c.want), want); err != nil {
				t.Fatal(err)
			}
			if want.GetSelection() == nil {
				want.Selection = &iqv1.Selection{}
			}
			want.Selection.Store, want.Selection.Application = "orders", "app"
			if got := shelf.requests()[0]; !proto.Equal(got, want) {
				t.Errorf("sent %v\nwant %v", got, want)
			}
		})
	}
}

func TestOptionsThatAreNotForACallNameIt(t *testing.T) {
	c := newNetwork(t, nil).client(t, "r1", client.WithReadOptions(client.Explain(), client.Limit(5)))
	ctx := t.Context()
	for _, x := range []struct {
		err  error
		want string
	}{
		{second(c.Get(ctx, "s", nil, client.Limit(3))), "limit 3: is not for Get"},
		{second(c.Get(ctx, "s", nil, client.Prefix(nil))), "prefix: is not for Get"},
		{second(c.MultiGet(ctx, "s", [][]byte{nil}, client.Partition(3))), "partition 3: is not for MultiGet"},
		{second(taken(c.Scan(ctx, "s", client.Explain()), 1)), "explain true: is not for Scan"},
		{second(taken(c.Scan(ctx, "s", client.InWindow(time.UnixMilli(0))), 1)), "is not for Scan"},
		{second(taken(c.Scan(ctx, "s", client.Limit(0)), 1)), "limit 0: must be at least 1"},
		{second(taken(c.Scan(ctx, "s", client.Key(nil), client.Prefix(nil)), 1)), "prefix: contradicts key"},
		{second(taken(c.Scan(ctx, "s", client.AsOf(time.UnixMilli(1)), client.Times(time.Time{}, time.Time{})), 1)), "is not allowed with times"},
		{second(taken(c.Scan(ctx, "s", client.Times(time.UnixMilli(2), time.UnixMilli(1))), 1)), "ends before it begins"},
		{second(taken(c.Scan(ctx, "", client.Partitions(1, -1)), 1)), "partition -1: must not be negative"},
		{second(c.Count(ctx, "s", client.Reverse())), "reverse true: is not for Count"},
		{second(c.MultiGet(ctx, "s", make([][]byte, client.MaxKeys+1))), "keys 10001: at most 10000"},
	} {
		if !errors.Is(x.err, iqerr.ErrInvalid) || !strings.Contains(x.err.Error(), x.want) {
			t.Errorf("got %v, want %s", x.err, x.want)
		}
	}
	if _, err := taken(c.Scan(ctx, "s"), 1); errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("an option of the client's that is not for a scan is passed over; got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestS17AScanIsWholeWhateverFails: routers fail at random, before, between and after messages. The rows are those of the store,
// each once and in order, or the loop ends with an error.
func TestS17AScanIsWholeWhateverFails(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 6))
		shelf := newShelf(rng.IntN(40), 1+rng.IntN(5))
		often := rng.Float64() * 0.7
		shelf.failing(func(int, int) error {
			switch x := rng.Float64(); {
			case x < often/3:
				return slowReader()
			case x < often/2:
				return iqerr.ErrClosing
			case x < often:
				return status.Error(codes.Unavailable, "broken")
			}
			return nil
		})
		c := newNetwork(t, map[string]*router{"r1": shelf.router(), "r2": shelf.router()}).client(t, "r1 r2")
		want := names(shelf.rows)
		s := c.Scan(t.Context(), "orders")
		got, err := taken(s, -1)
		if err == nil && (got != want || s.More() || s.Token() != nil) {
			t.Fatalf("seed %d: got %s\nwant %s\nmore %t", seed, got, want, s.More())
		}
		if err != nil && !strings.HasPrefix(want, got) {
			t.Fatalf("seed %d: got %s before %v\nwant %s", seed, got, err, want)
		}
		for n := 0; err != nil; n++ { // a loop after an error goes on where it was
			var rest string
			rest, err = taken(s, -1)
			if got = strings.TrimSpace(got + " " + rest); err == nil && got != want || n > 1000 {
				t.Fatalf("seed %d: got %s, %v\nwant %s", seed, got, err, want)
			}
		}
	}
}

func TestS17AScanGoesOnAtAnotherRouterWithTheLastToken(t *testing.T) {
	shelf := newShelf(10, 3)
	n := newNetwork(t, map[string]*router{"r1": shelf.router(), "r2": shelf.router()})
	shelf.failing(func(stream, message int) error {
		if stream == 0 && message == 2 {
			return status.Error(codes.Unavailable, "killed")
		}
		return nil
	})
	s := n.client(t, "r1 r2").Scan(t.Context(), "orders", client.Limit(9), client.Strong())
	if got, err := taken(s, -1); err != nil || got != names(shelf.rows[:9]) {
		t.Fatalf("got %s, %v", got, err)
	}
	reqs := shelf.requests()
	if len(reqs) != 2 || reqs[1].GetLimit() != 3 || len(reqs[1].GetPageToken()) == 0 || reqs[1].GetPolicy().GetMode() != iqv1.ReadPolicy_MODE_STRONG {
		t.Errorf("asked %v", reqs)
	}
	if !s.More() || len(s.Token()) == 0 {
		t.Errorf("one row is left: more %t, token %v", s.More(), s.Token())
	}
	if reads := s.Reads(); len(reads) != 3 || reads[0].GetServed().GetNode() != "n1" {
		t.Errorf("reads %v", reads)
	}
}

func TestPagesAreTheWholeScan(t *testing.T) {
	shelf := newShelf(11, 2)
	c := newNetwork(t, map[string]*router{"r1": shelf.router()}).client(t, "r1")
	var pages []string
	var token []byte
	for more := true; more; {
		s := c.Scan(t.Context(), "orders", client.Reverse(), client.Limit(3), client.PageToken(token))
		page, err := taken(s, -1)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
		token, more = s.Token(), s.More()
	}
	want := names(shelf.matching(&iqv1.ScanRequest{Reverse: true}))
	if got := strings.Join(pages, " "); got != want || len(pages) != 4 {
		t.Errorf("got %d pages: %s\nwant %s", len(pages), got, want)
	}
}

// TestALoopThatIsLeftCanBeGoneOnWith: by another loop exactly, and by the token at the latest from the message it was in.
func TestALoopThatIsLeftCanBeGoneOnWith(t *testing.T) {
	for most := 1; most <= 10; most++ {
		shelf := newShelf(10, 4)
		c := newNetwork(t, map[string]*router{"r1": shelf.router()}).client(t, "r1")
		s := c.Scan(t.Context(), "orders")
		first, err := taken(s, most)
		if err != nil || first != names(shelf.rows[:most]) {
			t.Fatalf("got %s, %v", first, err)
		}
		if token := s.Token(); s.More() {
			again, err := taken(c.Scan(t.Context(), "orders", client.PageToken(token)), -1)
			if err != nil || again != names(shelf.rows[most/4*4:]) {
				t.Errorf("after %d rows the token gives %s, %v", most, again, err)
			}
		}
		rest, err := taken(s, -1)
		if err != nil || rest != names(shelf.rows[most:]) || s.More() {
			t.Errorf("after %d rows: got %s, %v", most, rest, err)
		}
	}
}

func TestALostPageIsToldAtOnce(t *testing.T) {
	shelf := newShelf(10, 3)
	shelf.failing(func(_, message int) error {
		if message == 1 {
			return pageLost()
		}
		return nil
	})
	c := newNetwork(t, map[string]*router{"r1": shelf.router(), "r2": shelf.router()}).client(t, "r1 r2")
	got, err := taken(c.Scan(t.Context(), "orders"), -1)
	if got != names(shelf.rows[:3]) || !errors.Is(err, iqerr.ErrPageLost) || len(shelf.requests()) != 1 {
		t.Errorf("got %s, %v, %d requests", got, err, len(shelf.requests()))
	}
}

// TestAStreamThatEndsTooSoonIsNoEnd: a proxy that answers for a router may end in order what the router has not ended.
func TestAStreamThatEndsTooSoonIsNoEnd(t *testing.T) {
	shelf := newShelf(5, 2)
	short := &router{scan: func(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
		req.Limit = 2
		return shelf.scan(req, out)
	}}
	c := newNetwork(t, map[string]*router{"r1": short}).client(t, "r1")
	if got, err := taken(c.Scan(t.Context(), "orders"), -1); err != nil || got != names(shelf.rows) {
		t.Errorf("got %s, %v", got, err)
	}
	stuck := &router{scan: func(_ *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
		return out.Send(&iqv1.ScanResponse{PageToken: []byte("same")})
	}}
	c = newNetwork(t, map[string]*router{"r1": stuck}).client(t, "r1")
	if _, err := taken(c.Scan(t.Context(), "orders"), -1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestS18ARouterThatHangsInAScanIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf(10, 3)
		hung := &router{scan: func(req *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
			if len(req.GetPageToken()) == 0 {
				if err := shelf.scan(&iqv1.ScanRequest{Limit: 3}, out); err != nil {
					return err
				}
			}
			<-out.Context().Done()
			return nil
		}}
		n := newNetwork(t, map[string]*router{"r1": hung, "r2": shelf.router()})
		began := time.Now()
		if got, err := taken(n.client(t, "r1 r2").Scan(t.Context(), "orders"), -1); err != nil || got != names(shelf.rows) {
			t.Errorf("got %s, %v", got, err)
		}
		if took := time.Since(began); took != client.MaxSilence {
			t.Errorf("took %v", took)
		}
		// What the caller takes to look at a row is not the router's silence.
		count := 0
		for _, err := range n.client(t, "r2").Scan(t.Context(), "orders").Rows() {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * client.MaxSilence)
			count++
		}
		if count != 10 {
			t.Errorf("got %d rows", count)
		}
		// One that says nothing at all costs an attempt's time where there is another.
		n.start("r3", &router{scan: func(_ *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
			<-out.Context().Done()
			return nil
		}})
		began = time.Now()
		if got, err := taken(n.client(t, "r3 r2").Scan(t.Context(), "orders"), -1); err != nil || got != names(shelf.rows) || time.Since(began) != client.DefaultAttemptTimeout {
			t.Errorf("got %s, %v after %v", got, err, time.Since(began))
		}
		// Where there is a filter, that may be a router that has found nothing yet.
		began = time.Now()
		got, err := taken(n.client(t, "r3 r2").Scan(t.Context(), "orders", client.Filter("true")), -1)
		if err != nil || got != names(shelf.rows) || time.Since(began) != client.DefaultAttemptTimeout+client.CountTime {
			t.Errorf("got %s, %v after %v", got, err, time.Since(began))
		}
		_, err = taken(n.client(t, "r1").Scan(t.Context(), "orders"), -1)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAScanEndsWithItsContext(t *testing.T) {
	shelf := newShelf(10, 3)
	shelf.failing(func(_, message int) error {
		if message == 1 {
			<-t.Context().Done() // the router is still at it
		}
		return nil
	})
	c := newNetwork(t, map[string]*router{"r1": shelf.router(), "r2": shelf.router()}).client(t, "r1 r2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	var failed error
	for row, err := range c.Scan(ctx, "orders").Rows() {
		if err != nil {
			failed = err
			continue
		}
		if got = append(got, string(row.Key)); len(got) == 3 {
			cancel()
		}
	}
	if !errors.Is(failed, context.Canceled) || len(got) != 3 || len(shelf.requests()) != 1 {
		t.Errorf("got %s, %v, %d requests", got, failed, len(shelf.requests()))
	}
}

func TestRowsHaveEveryFactOfTheReply(t *testing.T) {
	r := &router{scan: func(_ *iqv1.ScanRequest, out iqv1.QueryService_ScanServer) error {
		return out.Send(&iqv1.ScanResponse{Rows: []*iqv1.Row{
			{Key: []byte("k"), Value: []byte("v"), TimestampMs: 5, Partition: 2, StartMs: new(int64(0)), EndMs: new(int64(10)), Deleted: true}, {},
		}})
	}}
	var rows []client.Row
	for row, err := range newNetwork(t, map[string]*router{"r1": r}).client(t, "r1").Scan(t.Context(), "orders").Rows() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	want := client.Row{
		Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(5), Partition: 2, Start: time.UnixMilli(0), End: time.UnixMilli(10), Deleted: true,
	}
	if len(rows) != 2 || fmt.Sprint(rows[0]) != fmt.Sprint(want) || !rows[1].Start.IsZero() || !rows[1].End.IsZero() {
		t.Errorf("got %+v", rows)
	}
}
