package mux

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// MaxIdle is how many goroutines of a server wait for the next call, and how many of a stream for the next lookup. One that
// has run before has a stack that is large enough: growing it takes a sixth of the CPU of a call by a fresh goroutine.
const MaxIdle = 64

// Handler answers a lookup: a GetRequest as bytes with a GetResponse as bytes, or with an error as a call ends with one. The
// request belongs to the handler, and the reply to the caller from then on. ctx ends with the lookup's time, when it is given
// up, and with the stream.
type Handler func(ctx context.Context, request []byte) (reply []byte, err error)

// Server answers streams of lookups. The zero value of a field but Handler means its default.
type Server struct {
	// Handler answers. Required.
	Handler Handler
	// Stopping ends streams in order when it is closed: what was read is answered, nothing is read any more. Default: never.
	Stopping <-chan struct{}
	// MaxInFlight bounds the lookups of one stream that were read and whose answers have not been sent. Default: MaxInFlight.
	MaxInFlight int
	// Readers counts the goroutines that read from streams and write to them; they may outlive Serve by a moment. Default: nobody
	// counts.
	Readers *sync.WaitGroup
}

// serving is one stream at its server.
//
//  1. One goroutine reads. Each lookup goes to a goroutine of its own (next), so that one that waits holds up no other.
//  2. Whoever has answered a lookup adds the answer to the outbox and frees its id.
//  3. The place of a lookup is free when its answer has been sent: a caller that does not read is not read from either.
type serving struct {
	*Server
	ctx  context.Context //nolint:containedctx // that of the stream
	work chan *task
	over chan struct{} // closed at the end
	runs sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // of inFlight and ended
	tasks   map[uint32]*task
	out     outbox
	// inFlight is lookups that were read and whose answers have not been sent.
	inFlight int
	ended    bool // nothing is read any more
	idle     int  // goroutines that wait for a lookup, or are about to
}

// task is one lookup at the server.
type task struct {
	lookupContext
	id      uint32
	request []byte
}

// Serve answers the lookups of one stream until it ends. The server must use Codec. It is nil after an end in order, when the client has ended it or the server stops; what has been
// read is answered before. When it returns no handler of the stream runs any more.
func (s *Server) Serve(stream grpc.ServerStream) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil { // tells the client that the stream is known here
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	v := &serving{Server: s, ctx: ctx, work: make(chan *task, MaxIdle), over: make(chan struct{}), tasks: map[uint32]*task{}, out: newOutbox()}
	v.changed.L = &v.mu
	read, sent := make(chan error, 1), make(chan error, 1)
	v.readers().Go(func() { read <- v.read(stream) })
	v.readers().Go(func() {
		sent <- v.out.run(ctx, &v.mu, stream.SendMsg, v.sent)
		v.wakeAll()
	})

	err := v.wait(read, sent)
	v.mu.Lock()
	v.ended = true
	v.mu.Unlock()
	v.wakeAll()
	if err == nil {
		err = v.finish(sent)
	}
	cancel()
	close(v.over)
	v.runs.Wait()
	return err
}

func (v *serving) readers() *sync.WaitGroup {
	if v.Readers == nil {
		return new(sync.WaitGroup)
	}
	return v.Readers
}

// wait returns when there is nothing more to read. The error is why the stream cannot go on.
func (v *serving) wait(read, sent chan error) error {
	select {
	case err := <-read:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case err := <-sent:
		return err
	case <-v.Stopping:
		return nil
	}
}

// finish waits until all that was read is answered and sent.
func (v *serving) finish(sent chan error) error {
	stop := context.AfterFunc(v.ctx, v.wakeAll)
	defer stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.inFlight > 0 {
		select {
		case err := <-sent:
			return err
		default:
		}
		if v.ctx.Err() != nil {
			return status.FromContextError(v.ctx.Err()).Err()
		}
		v.changed.Wait()
	}
	return nil
}

// wakeAll has all who wait look again.
func (v *serving) wakeAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changed.Broadcast()
}

// sent frees the places of answers that have been sent.
func (v *serving) sent(items int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inFlight -= items
	v.changed.Broadcast()
}

// read reads until the stream ends or nothing is to be read any more.
func (v *serving) read(stream grpc.ServerStream) error {
	for {
		var f Frame
		if err := stream.RecvMsg(&f); err != nil {
			return err
		}
		now := time.Now()
		err := walk(f.Bytes, func(item []byte) error {
			a, err := parseAsking(item)
			if err != nil {
				return err
			}
			if a.cancel {
				v.giveUp(a.id)
				return nil
			}
			return v.begin(a, now)
		})
		switch {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			return status.Errorf(codes.InvalidArgument, "a message of the lookups stream makes no sense: %s", status.Convert(err).Message())
		}
	}
}

// errEnded ends reading: the server stops.
var errEnded = errors.New("the stream has ended")

// begin has a lookup answered, once there is a place for it.
func (v *serving) begin(a asking, now time.Time) error {
	t := &task{id: a.id, request: a.request}
	t.stream = v.ctx
	if a.timeout > 0 {
		t.deadline = now.Add(a.timeout)
	}
	v.mu.Lock()
	for v.inFlight >= v.limit() && !v.ended {
		v.changed.Wait()
	}
	if v.ended {
		v.mu.Unlock()
		return errEnded
	}
	if v.tasks[a.id] != nil {
		v.mu.Unlock()
		return status.Errorf(codes.InvalidArgument, "lookup %d is in flight already", a.id)
	}
	v.tasks[a.id] = t
	v.inFlight++
	idle := v.idle > 0
	if idle {
		v.idle--
	} else {
		v.runs.Add(1)
	}
	v.mu.Unlock()
	if idle {
		v.work <- t // there is room for as many as may be idle
	} else {
		go v.run(t)
	}
	return nil
}

func (v *serving) limit() int {
	if v.MaxInFlight > 0 {
		return v.MaxInFlight
	}
	return MaxInFlight
}

// giveUp ends the context of a lookup, if it is not answered yet.
func (v *serving) giveUp(id uint32) {
	v.mu.Lock()
	t := v.tasks[id]
	v.mu.Unlock()
	if t != nil {
		t.end()
	}
}

// run answers a lookup and those after it, until enough others are idle.
func (v *serving) run(t *task) {
	defer v.runs.Done()
	for t != nil {
		reply, err := v.Handler(t, t.request)
		idle := v.answered(t, reply, err)
		t.end()
		if !idle {
			return
		}
		t = v.next()
	}
}

// answered sends an answer, frees its id, and says whether the goroutine may wait for another lookup.
func (v *serving) answered(t *task, reply []byte, err error) bool {
	var st *spb.Status
	if err != nil {
		st = statusOf(err).Proto()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tasks, t.id)
	b := v.out.open()
	switch {
	case st != nil:
		b = appendError(b, t.id, st)
	case len(reply) > MaxItemBytes:
		b = appendTooLarge(b, t.id)
	default:
		b = appendReply(b, t.id, reply)
	}
	v.out.close(b)
	if v.idle >= MaxIdle {
		return false
	}
	v.idle++
	return true
}

// statusOf is an error as a call would end with it.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err) // UNKNOWN for all else
}

// next waits for the next lookup; nil at the end.
func (v *serving) next() *task {
	select {
	case t := <-v.work:
		return t
	case <-v.over:
		return nil
	}
}
