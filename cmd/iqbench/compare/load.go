package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/bench/bare"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	// window of each connection, so that flow control never is what is measured.
	window = 1 << 20
	// checkEvery is how often a worker looks into a reply; decoding all would cost the load generator more than asking.
	checkEvery = 64
	// maxFailedShare of the lookups may fail before a measurement is void.
	maxFailedShare = 0.001
	// loadSlack is how long a measurement may take beyond its own time.
	loadSlack = 20 * time.Second
	// maxLatencies bounds what one worker keeps.
	maxLatencies = 1 << 22

	redialFirst, redialMost = 10 * time.Millisecond, 20 * time.Millisecond
)

// A load is lookups in a closed loop: each worker asks for a random key, waits for the answer, and asks again.
type load struct {
	conns, inFlight int // inFlight is of each connection
	warm, length    time.Duration
	// stream asks over a Lookups stream of each connection in place of calls.
	stream bool
	// absentOK allows keys that are not there.
	absentOK bool
	// failuresOK keeps failures from making the measurement void.
	failuresOK bool
	// until ends the measurement early. Optional.
	until <-chan struct{}
	// method is called instead of Get, and check looks into its replies. Optional.
	method string
	check  func(reply []byte) error
}

// loadResult is what a load found.
type loadResult struct {
	rate     float64 // a second
	p50, p99 time.Duration
	answered int
	failed   int
	first    error // the first failure
	all      int   // lookups that ended, also those before the measurement
}

// dial connects to a server that may not be there yet.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bare.Codec{})),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialFirst, Multiplier: 1, MaxDelay: redialMost},
			MinConnectTimeout: time.Second,
		}))
}

// requests are the lookups of keys in a store as bytes.
func requests(of string, keys []string) ([][]byte, error) {
	return marshalled(len(keys), func(i int) proto.Message { return &iqv1.GetRequest{Store: of, Key: []byte(keys[i])} })
}

// marshalled are n messages as bytes.
func marshalled(n int, of func(i int) proto.Message) ([][]byte, error) {
	all := make([][]byte, 0, n)
	for i := range n {
		text, err := proto.Marshal(of(i))
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// The phases of a load.
const (
	phaseWarm int32 = iota
	phaseMeasure
	phaseEnd
)

// run asks one server.
func (l load) run(ctx context.Context, address string, requests [][]byte) (loadResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.warm+l.length+loadSlack, fmt.Errorf("%s does not answer", address))
	defer cancel()
	var phase atomic.Int32
	workers := make([]*worker, 0, l.conns*l.inFlight)
	g, gctx := errgroup.WithContext(ctx)
	for range l.conns {
		cc, err := dial(address)
		if err != nil {
			return loadResult{}, err
		}
		defer cc.Close() //nolint:errcheck,gocritic // a few connections, to the end of the measurement
		var over asker
		if l.stream {
			var end func()
			over, end = lookupsOver(ctx, cc, address)
			defer end() //nolint:gocritic // as with connections
		}
		for range l.inFlight {
			w := &worker{requests: requests, check: l.check, phase: &phase, random: rand.New(rand.NewPCG(rand.Uint64(), 0))} //nolint:gosec // chooses keys
			switch {
			case l.stream:
				w.ask, w.check = over, checkGet(l.absentOK)
			case l.method == "":
				w.ask, w.check = calls(cc, bare.Method), checkGet(l.absentOK)
			default:
				w.ask = calls(cc, l.method)
			}
			workers = append(workers, w)
			g.Go(func() error { return w.run(gctx) })
		}
	}
	var took time.Duration
	g.Go(func() error {
		defer phase.Store(phaseEnd)
		if !sleep(gctx, l.warm) {
			return nil
		}
		phase.Store(phaseMeasure)
		begin := time.Now()
		timer := time.NewTimer(l.length)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.until:
		case <-gctx.Done():
		}
		took = time.Since(begin)
		return nil
	})
	if err := g.Wait(); err != nil {
		return loadResult{}, err
	}
	if ctx.Err() != nil {
		return loadResult{}, context.Cause(ctx)
	}
	return l.sum(workers, took)
}

// sum puts the workers' counts together.
func (l load) sum(workers []*worker, took time.Duration) (loadResult, error) {
	var out loadResult
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.latencies...)
		out.answered += w.answered
		out.failed += w.failed
		out.all += w.all
		if out.first == nil {
			out.first = w.first
		}
	}
	void := out.answered == 0 || float64(out.failed) > maxFailedShare*float64(out.answered+out.failed)
	if void && !l.failuresOK {
		return out, fmt.Errorf("%d of %d lookups failed, the first: %w", out.failed, out.answered+out.failed, orNone(out.first))
	}
	slices.Sort(all)
	out.rate = float64(out.answered) / took.Seconds()
	out.p50, out.p99 = quantile(all, 0.5), quantile(all, 0.99)
	return out, nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("none; nothing was answered either")
	}
	return err
}

// An asker asks one lookup at a time.
type asker func(ctx context.Context, request []byte) (reply []byte, err error)

// calls asks by calls. Its reply is good until the next one.
func calls(cc *grpc.ClientConn, method string) asker {
	var in, out bare.Frame
	return func(ctx context.Context, request []byte) ([]byte, error) {
		in.Bytes = request
		err := cc.Invoke(ctx, method, &in, &out)
		return out.Bytes, err
	}
}

// streamRetry is the pause of a lookup that comes before its stream stands.
const streamRetry = 5 * time.Millisecond

// lookupsOver opens a stream of lookups, and has it closed by the function that it returns.
func lookupsOver(ctx context.Context, cc *grpc.ClientConn, address string) (ask asker, end func()) {
	client := mux.NewClient(cc, address)
	ctx, cancel := context.WithCancel(ctx)
	var runs sync.WaitGroup
	runs.Go(func() { client.Run(ctx) })
	ask = func(ctx context.Context, request []byte) ([]byte, error) {
		reply, err := client.Do(ctx, mux.Ask{Request: request})
		if errors.Is(err, mux.ErrByCall) {
			sleep(ctx, streamRetry)
		}
		return reply, err
	}
	return ask, func() {
		cancel()
		runs.Wait()
	}
}

// A worker has one lookup in flight.
type worker struct {
	ask      asker
	requests [][]byte
	check    func(reply []byte) error
	phase    *atomic.Int32
	random   *rand.Rand

	latencies             []time.Duration
	answered, failed, all int
	first                 error
}

func (w *worker) run(ctx context.Context) error {
	for n := 0; ; n++ {
		request := w.requests[w.random.IntN(len(w.requests))]
		before := w.phase.Load()
		begin := time.Now()
		reply, err := w.ask(ctx, request)
		took := time.Since(begin)
		after := w.phase.Load()
		w.all++
		if err == nil && n%checkEvery == 0 {
			err = w.check(reply)
		}
		switch {
		case after == phaseEnd || ctx.Err() != nil: // a lookup that was cut off is no failure
			return nil //nolint:nilerr // see above
		case before != phaseMeasure: // it began before the measurement
		case err != nil:
			w.failed++
			if w.first == nil {
				w.first = err
			}
		default:
			w.answered++
			if len(w.latencies) < maxLatencies {
				w.latencies = append(w.latencies, took)
			}
		}
	}
}

// checkGet looks into a reply to Get.
func checkGet(absentOK bool) func([]byte) error {
	return func(reply []byte) error {
		var r iqv1.GetResponse
		if err := proto.Unmarshal(reply, &r); err != nil {
			return err
		}
		if !r.GetFound() && !absentOK {
			return errors.New("a key that was written is not found")
		}
		return nil
	}
}
