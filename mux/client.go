package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Pauses of a Client that has lost its stream.
const (
	// firstPause is that after a stream that worked; the next ones are longer, up to mostPause.
	firstPause  = 50 * time.Millisecond
	mostPause   = time.Second
	pauseGrowth = 2
	// pauseSpread of a pause is random, so that not all clients of a server that was started again come at once.
	pauseSpread = 0.2
	// unknownPause is that after a server that does not know the stream. Another version may be behind its name later.
	unknownPause = time.Minute
)

// ErrByCall says that a lookup is to be asked by a call of its own (Invoke): there is no stream, request or reply are too
// large for it, or the context carries metadata. The server has not answered it.
var ErrByCall = errors.New("not over the stream: ask by a call")

// Client asks one server over one stream. It is safe for concurrent use.
type Client struct {
	conn  grpc.ClientConnInterface
	name  string
	limit int
	up    atomic.Pointer[slots] // nil without a stream
	pool  sync.Pool             // of lookups that nobody knows of
}

// NewClient makes a client of the server that is behind conn; name is for errors. It starts nothing: Run does.
func NewClient(conn grpc.ClientConnInterface, name string) *Client {
	return &Client{conn: conn, name: name, limit: MaxInFlight, pool: sync.Pool{New: newLookup}}
}

// Ask is one lookup.
type Ask struct {
	// Request is a GetRequest as bytes. It is copied.
	Request []byte
	// Deadline ends the lookup as that of its context does. Zero: that one alone.
	Deadline time.Time
	// Yields lets GiveUp end the lookup.
	Yields bool
}

// Do asks and waits for the answer: a GetResponse as bytes, which are the caller's, or the status that the call would have ended with. The error is
// ErrByCall itself when it was not asked, an *iqerr.OverloadedError as a status when MaxInFlight lookups are without an
// answer, DEADLINE_EXCEEDED or CANCELED when the caller's time is over, what GiveUp was given, and UNAVAILABLE when the
// stream broke.
func (c *Client) Do(ctx context.Context, a Ask) ([]byte, error) {
	s := c.up.Load()
	if s == nil || len(a.Request) > MaxItemBytes {
		return nil, ErrByCall
	}
	if _, ok := metadata.FromOutgoingContext(ctx); ok {
		return nil, ErrByCall // the stream has metadata of its own, which might say another caller's name
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	left, own := timeLeft(ctx, a.Deadline)
	if left < 0 {
		return nil, status.FromContextError(context.DeadlineExceeded).Err()
	}
	l, _ := c.pool.Get().(*lookup)
	l.yields = a.Yields
	if err := s.begin(l, left, a.Request); err != nil {
		return c.done(l, nil, err)
	}
	var expired <-chan time.Time
	if own {
		t := time.NewTimer(left)
		defer t.Stop()
		expired = t.C
	}
	var why error
	select {
	case <-l.done:
		return c.done(l, l.reply, l.err)
	case <-ctx.Done():
		why = ctx.Err()
	case <-expired:
		why = context.DeadlineExceeded
	}
	if s.leave(l, !errors.Is(why, context.DeadlineExceeded)) { // the server knows deadlines itself
		return c.done(l, nil, status.FromContextError(why).Err())
	}
	<-l.done // it has just been answered
	return c.done(l, l.reply, l.err)
}

// done gives a lookup that nobody knows of any more back to the pool.
func (c *Client) done(l *lookup, reply []byte, err error) ([]byte, error) {
	l.reply, l.err = nil, nil
	c.pool.Put(l)
	return reply, err
}

// timeLeft is what is left until the earlier one of two deadlines, 0 when there is none and negative when it is over. own says
// that it is the second one's, which ctx knows nothing of.
func timeLeft(ctx context.Context, deadline time.Time) (left time.Duration, own bool) {
	until, ok := ctx.Deadline()
	own = !deadline.IsZero() && (!ok || deadline.Before(until))
	if own {
		until = deadline
	}
	if until.IsZero() {
		return 0, false
	}
	if left = time.Until(until); left == 0 {
		left = -1
	}
	return left, own
}

// GiveUp ends the lookups that yield with an error.
func (c *Client) GiveUp(err error) {
	if s := c.up.Load(); s != nil {
		s.giveUp(err)
	}
}

// Run keeps a stream open until ctx ends, and returns when nothing is left running. The lookups that are in flight then fail
// with the cause of ctx's end.
func (c *Client) Run(ctx context.Context) {
	pause := firstPause
	for {
		worked, err := c.hold(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case worked:
			pause = firstPause
		case status.Code(err) == codes.Unimplemented:
			pause = unknownPause
		}
		timer := time.NewTimer(time.Duration(float64(pause) * (1 - pauseSpread + 2*pauseSpread*rand.Float64()))) //nolint:gosec // guards nothing
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(pauseGrowth*pause, mostPause)
	}
}

var streamDesc = &grpc.StreamDesc{StreamName: "Lookups", ClientStreams: true, ServerStreams: true}

// hold opens a stream and carries lookups until it ends. worked says that the server had taken it.
func (c *Client) hold(ctx context.Context) (worked bool, err error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.conn.NewStream(inner, streamDesc, iqv1.QueryService_Lookups_FullMethodName, grpc.ForceCodecV2(Codec{}), grpc.WaitForReady(true))
	if err != nil {
		return false, err
	}
	if header, _ := stream.Header(); header == nil { // no header came before the end: it was refused
		return false, stream.RecvMsg(&Frame{})
	}
	s := newSlots(c.name, c.limit)
	c.up.Store(s)
	sender := make(chan struct{})
	go func() {
		defer close(sender)
		_ = s.out.run(inner, &s.mu, stream.SendMsg, func(int) {}) // the reader learns why it failed
	}()
	err = receive(stream, s)
	c.up.Store(nil)
	s.breakOff(c.ended(ctx, err))
	cancel()
	<-sender
	return true, err
}

// receive hands out answers until the stream ends.
func receive(stream grpc.ClientStream, s *slots) error {
	for {
		var f Frame
		if err := stream.RecvMsg(&f); err != nil {
			return err
		}
		if err := s.answered(f.Bytes); err != nil {
			return err
		}
	}
}

// ended is what the end of the stream means to the lookups that are without an answer.
func (c *Client) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return ErrByCall // in order: the server answered what it had read
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("the stream of lookups to %s broke: %s", c.name, status.Convert(err).Message()))
}

// Invoke asks by a call of its own.
func Invoke(ctx context.Context, conn grpc.ClientConnInterface, request []byte) ([]byte, error) {
	var reply Frame
	err := conn.Invoke(ctx, iqv1.QueryService_Get_FullMethodName, &Frame{Bytes: request}, &reply, grpc.ForceCodecV2(Codec{}))
	return reply.Bytes, err
}
