package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestManyLookupsShareMessagesAndEachGetsItsOwnAnswer has a thousand callers ask at once, some of which go early, at a server
// that answers in any order.
func TestManyLookupsShareMessagesAndEachGetsItsOwnAnswer(t *testing.T) {
	slow := func(ctx context.Context, request []byte) ([]byte, error) {
		select {
		case <-time.After(time.Duration(rand.IntN(5)) * time.Millisecond):
			return request, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	inBubble(t, slow, Server{}, func(w *world) {
		const callers, each = 1000, 5
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for n := range each {
					want := fmt.Sprintf("%d/%d", i, n)
					ctx, cancel := context.WithCancel(w.t.Context())
					if i%7 == 0 {
						time.AfterFunc(2500*time.Microsecond, cancel)
					}
					reply, err := w.client.Do(ctx, Ask{Request: []byte(want)})
					early := i%7 == 0 && status.Code(err) == codes.Canceled
					if !early && (err != nil || string(reply) != want) {
						w.t.Errorf("%s got %q, %v", want, reply, err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		asked, calls, messages, streams := w.server.count()
		if asked != callers*each || calls != 0 || streams != 1 || messages > asked/2 {
			w.t.Errorf("%d lookups and %d calls in %d messages of %d streams", asked, calls, messages, streams)
		}
	})
}

func TestErrorsAndDetailsAreThoseOfACall(t *testing.T) {
	want := &iqerr.NotHostedError{Node: "a", Store: "s", Partition: 3, Named: []string{"b"}}
	for name, err := range map[string]error{"status": iqerr.Status(want), "context": context.DeadlineExceeded, "plain": errors.New("x")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(context.Context, []byte) ([]byte, error) { return nil, err }, Server{}, func(w *world) {
				_, got := w.do("k", time.Second)
				_, called := Invoke(w.t.Context(), w.conn, []byte("k"))
				if got == nil || status.Convert(got).String() != status.Convert(called).String() {
					w.t.Errorf("got %v, a call gets %v", got, called)
				}
				if name == "status" {
					e, ok := errors.AsType[*iqerr.NotHostedError](iqerr.FromStatus(got))
					if !ok || e.Partition != 3 || e.Named[0] != "b" {
						w.t.Errorf("got %v", got)
					}
				}
			})
		})
	}
}

// TestSlotOfATimedOutLookupStaysTakenUntilItsAnswerComes has two slots and a server that hangs: it is asked no more than twice,
// and the late answers reach nobody.
func TestSlotOfATimedOutLookupStaysTakenUntilItsAnswerComes(t *testing.T) {
	var release chan struct{}
	stuck := func(_ context.Context, request []byte) ([]byte, error) {
		<-release
		return request, nil
	}
	inBubble(t, stuck, Server{}, func(w *world) {
		release = make(chan struct{}) // of the bubble
		w.client.up.Load().limit = 2
		start := time.Now()
		for _, key := range []string{"a", "b"} {
			if _, err := w.do(key, 100*time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
				w.t.Fatalf("%s: %v", key, err)
			}
		}
		if took := time.Since(start); took != 200*time.Millisecond {
			w.t.Errorf("two deadlines of 100ms took %s", took)
		}
		_, err := w.do("c", time.Second)
		e, ok := errors.AsType[*iqerr.OverloadedError](iqerr.FromStatus(err))
		if !ok || e.Limit != 2 || e.Node != "the server" || time.Since(start) != 200*time.Millisecond {
			w.t.Errorf("a third lookup: %v", err)
		}
		close(release)
		synctest.Wait()
		if reply, err := w.do("d", time.Second); err != nil || string(reply) != "d" {
			w.t.Errorf("after the answers: %q, %v", reply, err)
		}
		if asked, _, _, _ := w.server.count(); asked != 3 {
			w.t.Errorf("%d lookups were sent", asked)
		}
	})
}

// TestServerHearsOfDeadlinesAndOfWhoHasGone: what nobody waits for must not be worked at.
func TestServerHearsOfDeadlinesAndOfWhoHasGone(t *testing.T) {
	var mu sync.Mutex
	var left []time.Duration
	var ends []error
	inBubble(t, func(ctx context.Context, _ []byte) ([]byte, error) {
		until, ok := ctx.Deadline()
		if !ok {
			until = time.Now()
		}
		within := time.Until(until)
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		left, ends = append(left, within), append(ends, ctx.Err())
		return nil, status.FromContextError(ctx.Err()).Err()
	}, Server{}, func(w *world) {
		if _, err := w.do("k", 70*time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
			w.t.Errorf("deadline: %v", err)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(w.t.Context())
		out := w.start(ctx, Ask{Request: []byte("k")})
		synctest.Wait()
		cancel()
		if got := <-out; status.Code(got.err) != codes.Canceled {
			w.t.Errorf("cancel: %v", got.err)
		}
		synctest.Wait()
		_, err := w.client.Do(w.t.Context(), Ask{Request: []byte("k"), Deadline: time.Now().Add(30 * time.Millisecond)})
		if status.Code(err) != codes.DeadlineExceeded {
			w.t.Errorf("own deadline: %v", err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := "[70ms 0s 30ms] [context deadline exceeded context canceled context deadline exceeded]"
		if got := fmt.Sprint(left, ends); got != want {
			w.t.Errorf("the server saw %s, want %s", got, want)
		}
	})
}

// TestBrokenStreamFailsEveryLookupAndIsOpenedAgain kills the server under a hundred lookups, leaves it away for a minute and
// starts it again.
func TestBrokenStreamFailsEveryLookupAndIsOpenedAgain(t *testing.T) {
	inBubble(t, hang, Server{}, func(w *world) {
		var outs []chan outcome
		for range 100 {
			outs = append(outs, w.start(w.t.Context(), Ask{Request: []byte("k")}))
		}
		synctest.Wait()
		w.kill()
		for i, out := range outs {
			if got := <-out; status.Code(got.err) != codes.Unavailable || !iqerr.Retriable(iqerr.FromStatus(got.err)) || !strings.Contains(got.err.Error(), "the server") {
				w.t.Errorf("lookup %d: %v", i, got.err)
			}
		}
		if _, err := w.do("k", time.Second); !errors.Is(err, ErrByCall) {
			w.t.Errorf("without a server: %v", err)
		}
		time.Sleep(time.Minute)
		w.serve(echo, Server{})
		time.Sleep(3 * time.Minute) // gRPC's own pause between two connections is longer than ours
		if reply, err := w.do("k", time.Second); err != nil || string(reply) != "k" {
			w.t.Errorf("with a server again: %q, %v", reply, err)
		}
	})
}

// TestStreamsThatFailAtOnceAreOpenedAtGrowingPauses: the server takes the stream and ends it.
func TestStreamsThatFailAtOnceAreOpenedAtGrowingPauses(t *testing.T) {
	inBubble(t, echo, Server{}, func(w *world) {
		w.kill()
		w.serveOld()
		time.Sleep(5 * time.Second)
		if _, err := w.do("k", time.Second); !errors.Is(err, ErrByCall) {
			w.t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Minute)
		if _, _, _, streams := w.server.count(); streams < 5 || streams > 15 {
			w.t.Errorf("in ten minutes a server that does not know the stream was asked for it %d times", streams)
		}
		w.kill()
		w.serve(echo, Server{})
		time.Sleep(2 * time.Minute)
		if reply, err := w.do("k", time.Second); err != nil || string(reply) != "k" {
			w.t.Errorf("at a newer server: %q, %v", reply, err)
		}
	})
}

// TestServerThatStopsAnswersWhatItHasRead: and what comes later is for calls, as ErrByCall says.
func TestServerThatStopsAnswersWhatItHasRead(t *testing.T) {
	inBubble(t, func(_ context.Context, request []byte) ([]byte, error) {
		time.Sleep(100 * time.Millisecond)
		return request, nil
	}, Server{}, func(w *world) {
		var outs []chan outcome
		for range 20 {
			outs = append(outs, w.start(w.t.Context(), Ask{Request: []byte("k")}))
		}
		synctest.Wait()
		close(w.server.stopping)
		synctest.Wait()
		late := w.start(w.t.Context(), Ask{Request: []byte("late")})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.server.grpc.GracefulStop()
		}()
		for _, out := range outs {
			if got := <-out; got.err != nil || got.reply != "k" {
				w.t.Errorf("got %q, %v", got.reply, got.err)
			}
		}
		if got := <-late; !errors.Is(got.err, ErrByCall) {
			w.t.Errorf("the late one: %q, %v", got.reply, got.err)
		}
		<-stopped
		if asked, _, _, _ := w.server.count(); asked != 20 {
			w.t.Errorf("%d lookups were answered", asked)
		}
	})
}

// TestServerHoldsNoMoreThanItsBoundForWhoDoesNotRead: large answers fill the windows, and a caller that does not take them is not
// read from any more. When it does, everything is answered.
func TestServerHoldsNoMoreThanItsBoundForWhoDoesNotRead(t *testing.T) {
	const bound, lookups = 10, 100
	large := bytes.Repeat([]byte("x"), MaxItemBytes)
	inBubble(t, func(context.Context, []byte) ([]byte, error) { return large, nil }, Server{MaxInFlight: bound}, func(w *world) {
		stream, err := iqv1.NewQueryServiceClient(w.conn).Lookups(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for id := range uint32(lookups) {
			if err := stream.Send(&iqv1.LookupsRequest{Lookups: []*iqv1.Lookup{{Id: id, Get: &iqv1.GetRequest{}}}}); err != nil {
				w.t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		window := 64<<10/MaxItemBytes + 2 // what HTTP/2 and gRPC take from the server before anybody reads
		if asked, _, _, _ := w.server.count(); asked > bound+window {
			w.t.Errorf("%d lookups were answered for a caller that does not read", asked)
		}
		seen := map[uint32]bool{}
		for len(seen) < lookups {
			m, err := stream.Recv()
			if err != nil {
				w.t.Fatal(err)
			}
			for _, a := range m.GetAnswers() {
				seen[a.GetId()] = true
			}
		}
		_ = stream.CloseSend()
		if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
			w.t.Errorf("the end: %v", err)
		}
	})
}

// TestLargeOnesGoByCall: neither a large request nor a large answer may hold up the others.
func TestLargeOnesGoByCall(t *testing.T) {
	large := bytes.Repeat([]byte("x"), MaxItemBytes+1)
	inBubble(t, func(_ context.Context, request []byte) ([]byte, error) {
		if string(request) == "large" {
			return large, nil
		}
		return request, nil
	}, Server{}, func(w *world) {
		if _, err := w.do("large", time.Second); !errors.Is(err, ErrByCall) {
			w.t.Errorf("a large answer: %v", err)
		}
		if _, err := w.client.Do(w.t.Context(), Ask{Request: large}); !errors.Is(err, ErrByCall) {
			w.t.Errorf("a large request: %v", err)
		}
		if reply, err := Invoke(w.t.Context(), w.conn, []byte("large")); err != nil || !bytes.Equal(reply, large) {
			w.t.Errorf("by a call: %d bytes, %v", len(reply), err)
		}
		if reply, err := w.do(string(large[:MaxItemBytes]), time.Second); err != nil || len(reply) != MaxItemBytes {
			w.t.Errorf("the largest: %d bytes, %v", len(reply), err)
		}
		ctx := metadata.AppendToOutgoingContext(w.t.Context(), "who", "somebody")
		if _, err := w.client.Do(ctx, Ask{Request: []byte("k")}); !errors.Is(err, ErrByCall) {
			w.t.Errorf("with metadata of its own: %v", err)
		}
	})
}

var errSuspect = errors.New("suspect")

func TestOnlyLookupsThatYieldAreGivenUp(t *testing.T) {
	inBubble(t, hang, Server{}, func(w *world) {
		yields := w.start(w.t.Context(), Ask{Request: []byte("a"), Yields: true})
		stays := w.start(w.t.Context(), Ask{Request: []byte("b"), Deadline: time.Now().Add(time.Second)})
		synctest.Wait()
		start := time.Now()
		w.client.GiveUp(errSuspect)
		if got := <-yields; !errors.Is(got.err, errSuspect) || time.Since(start) != 0 {
			w.t.Errorf("got %v after %s", got.err, time.Since(start))
		}
		if got := <-stays; status.Code(got.err) != codes.DeadlineExceeded {
			w.t.Errorf("got %v", got.err)
		}
	})
}

// TestEndOfRunIsTheCauseOfWhatItCutsOff: a router that closes a dead node's connection says why.
func TestEndOfRunIsTheCauseOfWhatItCutsOff(t *testing.T) {
	var out chan outcome
	inBubble(t, hang, Server{}, func(w *world) {
		out = w.start(context.WithoutCancel(w.t.Context()), Ask{Request: []byte("k")})
		synctest.Wait()
		w.t.Cleanup(func() {
			if got := <-out; !errors.Is(got.err, errTestOver) {
				w.t.Errorf("got %v", got.err)
			}
		})
	})
}

// TestNonsenseEndsTheStream: a server is told apart from its caller's mistakes.
func TestNonsenseEndsTheStream(t *testing.T) {
	inBubble(t, hang, Server{}, func(w *world) {
		for name, c := range map[string]struct {
			message []byte
			want    string
		}{
			"id twice":  {appendAsking(appendAsking(nil, 7, 0, nil), 7, 0, nil), "lookup 7 is in flight already"},
			"cut off":   {[]byte{0x0a, 0x40}, "unexpected EOF"},
			"get twice": {append(appendHead(nil, 6), 0x08, 1, 0x1a, 0, 0x1a, 0), "twice"},
		} {
			stream, err := w.conn.NewStream(w.t.Context(), streamDesc, iqv1.QueryService_Lookups_FullMethodName, forceCodec)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := stream.SendMsg(&Frame{Bytes: c.message}); err != nil {
				w.t.Fatal(err)
			}
			var f Frame
			for err == nil {
				err = stream.RecvMsg(&f)
			}
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want) {
				w.t.Errorf("%s: %v", name, err)
			}
		}
		if asked, _, _, _ := w.server.count(); asked > 2 {
			w.t.Errorf("%d lookups were begun", asked)
		}
	})
}

// TestAnswerThatNobodyAskedForBreaksTheStream: an answer must never reach another's lookup.
func TestAnswerThatNobodyAskedForBreaksTheStream(t *testing.T) {
	s := newSlots("the server", 4)
	l := &lookup{done: make(chan struct{}, 1)}
	if err := s.begin(l, 0, []byte("k")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint32{1, 4, 1 << 31} {
		if err := s.answered(appendReply(nil, id, nil)); status.Code(err) != codes.Internal {
			t.Errorf("answer to %d: %v", id, err)
		}
	}
	if err := s.answered(appendReply(nil, 0, []byte("v"))); err != nil {
		t.Fatal(err)
	}
	if reply, err := l.reply, l.err; string(reply) != "v" || err != nil {
		t.Errorf("got %q, %v", reply, err)
	}
	if err := s.answered(appendReply(nil, 0, []byte("again"))); status.Code(err) != codes.Internal {
		t.Errorf("a second answer: %v", err)
	}
}

// TestAnswerThatSaysNothingIsNoEmptyReply: an empty reply says that there is no value. A server of a later version may answer in
// a way that this one does not know, and the lookup is asked by a call then.
func TestAnswerThatSaysNothingIsNoEmptyReply(t *testing.T) {
	for name, c := range map[string]struct {
		item []byte
		want error
	}{
		"nothing":             {[]byte{0x08, 0}, ErrByCall},
		"something unknown":   {[]byte{0x08, 0, 0x2a, 0}, ErrByCall},
		"an error that is OK": {[]byte{0x08, 0, 0x1a, 0}, ErrByCall},
		"an empty reply":      {[]byte{0x08, 0, 0x12, 0}, nil},
	} {
		s := newSlots("the server", 4)
		l := &lookup{done: make(chan struct{}, 1)}
		if err := s.begin(l, 0, []byte("k")); err != nil {
			t.Fatal(err)
		}
		if err := s.answered(append(appendHead(nil, len(c.item)), c.item...)); err != nil {
			t.Fatal(err)
		}
		if <-l.done; !errors.Is(l.err, c.want) {
			t.Errorf("%s: %q, %v, want %v", name, l.reply, l.err, c.want)
		}
	}
}
