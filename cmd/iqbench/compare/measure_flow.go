package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	flowTopic = "flow"
	// flowRate is the input, a second. Of it, markEvery-th records are marks, of each partition in turn.
	flowRate  = 20_000
	markEvery = 50
	// markPoll is the time between two looks at a standby's copy of a mark. It is part of the lag measured.
	markPoll = 4 * time.Millisecond
	// flowLead is how long the input flows before marks count: Kafka, too, compiles first.
	flowLead = 3 * time.Second
	// markSlack is how long after the last mark it may show.
	markSlack   = 10 * time.Second
	standbyWait = time.Minute
	maxKeyTries = 1 << 16
)

// standbyLag measures how long a record that Kafka has acknowledged takes until a lookup at a standby shows it.
type standbyLag struct{}

func (standbyLag) gives() []string { return []string{fStandbyP99} }

func (standbyLag) take(ctx context.Context, r *run) error {
	f, err := subject(r, "flow", func() (*flow, error) { return r.newFlow(ctx) })
	if err != nil {
		return err
	}
	lags, err := f.measure(ctx, r)
	if err != nil {
		return err
	}
	slices.Sort(lags)
	p50, p99 := quantile(lags, 0.5), quantile(lags, 0.99)
	r.say(fmt.Sprintf("a standby shows a record after %dms (p50), %dms (p99 of %d)", p50.Milliseconds(), p99.Milliseconds(), len(lags)))
	r.give(fStandbyP99, micros(p99)/1000)
	return nil
}

// A flow is an input with a mark in each partition: a key that is counted.
type flow struct {
	marks    []string // by partition
	standbys []*grpc.ClientConn

	mu struct {
		sync.Mutex
		acked [][]time.Time // by partition: when the n-th mark was acknowledged
	}
}

// Close ends the connections.
func (f *flow) Close() error {
	var err error
	for _, cc := range f.standbys {
		err = errors.Join(err, cc.Close())
	}
	return err
}

// newFlow starts a router and two nodes that are standbys of each other, and finds the standby of each partition.
func (r *run) newFlow(ctx context.Context) (*flow, error) {
	r.say("starting two nodes with a standby of each partition")
	if err := r.createTopic(ctx, flowTopic); err != nil {
		return nil, err
	}
	router, err := r.router()
	if err != nil {
		return nil, err
	}
	app := r.app("flow")
	for _, name := range []string{"node-1", "node-2"} {
		m, err := r.node(app, name, flowTopic, 1, router.address)
		if err != nil {
			return nil, err
		}
		if err := r.start(m); err != nil {
			return nil, err
		}
	}
	f := &flow{marks: make([]string, r.size.partitions)}
	f.mu.acked = make([][]time.Time, r.size.partitions)
	for i, missing := 0, r.size.partitions; missing > 0; i++ {
		if i == maxKeyTries {
			return nil, fmt.Errorf("no key for each of %d partitions in %d tries", r.size.partitions, maxKeyTries)
		}
		key := fmt.Sprintf("mark-%d", i)
		if p := partitioner.Murmur2().Partition([]byte(key), int32(r.size.partitions)); f.marks[p] == "" {
			f.marks[p] = key
			missing--
		}
	}
	addresses, err := r.awaitStandbys(ctx, router)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		cc, err := dialFor(address)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.standbys = append(f.standbys, cc)
	}
	return f, nil
}

// awaitStandbys waits until each partition has a standby that runs, and returns their addresses by partition.
func (r *run) awaitStandbys(ctx context.Context, router *member) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, standbyWait, fmt.Errorf("no standbys after %s", standbyWait))
	defer cancel()
	cc, err := dialFor(router.address)
	if err != nil {
		return nil, err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	ask := iqv1.NewMetadataServiceClient(cc)
	for {
		actx, cancel := context.WithTimeout(ctx, tryTimeout)
		reply, err := ask.ListInstances(actx, &iqv1.ListInstancesRequest{}, grpc.WaitForReady(true))
		cancel()
		if err == nil && cluster.Of(reply.GetInstances()).Missing(2, r.size.partitions, 1) == "" {
			addresses := make([]string, r.size.partitions)
			for _, in := range reply.GetInstances() {
				for _, s := range in.GetReplicas() {
					if s.GetRole() == iqv1.Role_ROLE_STANDBY && s.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING {
						addresses[s.GetPartition()] = in.GetAddress()
					}
				}
			}
			if !slices.Contains(addresses, "") {
				return addresses, nil
			}
		}
		if !sleep(ctx, poll) {
			return nil, context.Cause(ctx)
		}
	}
}

// measure has the input flow and watches the marks.
func (f *flow) measure(ctx context.Context, r *run) ([]time.Duration, error) {
	watched := make([][]time.Duration, len(f.marks))
	begin := time.Now()
	feeding, stop := context.WithTimeout(ctx, flowLead+r.size.flow)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.feed(feeding, r) })
	for p := range f.marks {
		g.Go(func() (err error) {
			watched[p], err = f.watch(gctx, feeding, p, begin.Add(flowLead))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(watched...), nil
}

// feed writes the input until ctx ends, and returns when all of it is acknowledged.
func (f *flow) feed(ctx context.Context, r *run) error {
	value := make([]byte, r.size.valueBytes)
	mark := func(n int) (partition int, ok bool) { return n / markEvery % len(f.marks), n%markEvery == 0 }
	failed := make(chan error, 1)
	r.feed(ctx, flowRate, func(n int) *kgo.Record {
		key := r.keys[n*7919%len(r.keys)] // all of them, not in order
		if p, ok := mark(n); ok {
			key = f.marks[p]
		}
		return &kgo.Record{Topic: flowTopic, Key: []byte(key), Value: value}
	}, func(n int, err error) {
		if err != nil {
			select {
			case failed <- fmt.Errorf("write to %s: %w", flowTopic, err):
			default:
			}
			return
		}
		if p, ok := mark(n); ok {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.mu.acked[p] = append(f.mu.acked[p], time.Now())
		}
	})
	fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := r.kafka.Flush(fctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// watch looks at a standby's count of its mark until the input has ended and all marks show, and returns how long each took
// that was acknowledged after from.
func (f *flow) watch(ctx, feeding context.Context, p int, from time.Time) ([]time.Duration, error) {
	number := int32(p)
	req := &iqv1.GetRequest{
		Store: store, Key: []byte(f.marks[p]), Partition: &number, Policy: &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY},
	}
	ask := iqv1.NewQueryServiceClient(f.standbys[p])
	var lags []time.Duration
	seen := -1 // so many marks had shown before
	var over time.Time
	for {
		rctx, cancel := context.WithTimeout(ctx, tryTimeout)
		reply, err := ask.Get(rctx, req)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("read at the standby of partition %d: %w", p, err)
		}
		if reply.GetServed().GetRole() != iqv1.Role_ROLE_STANDBY {
			return nil, fmt.Errorf("partition %d is read at a %v, not at a standby", p, reply.GetServed().GetRole())
		}
		now, count := time.Now(), 0
		if v := reply.GetValue(); len(v) == 8 {
			count = int(binary.BigEndian.Uint64(v))
		}
		f.mu.Lock()
		acked := f.mu.acked[p]
		f.mu.Unlock()
		if seen < 0 {
			seen = count
		}
		for ; seen < min(count, len(acked)); seen++ {
			if acked[seen].After(from) {
				lags = append(lags, now.Sub(acked[seen]))
			}
		}
		if feeding.Err() != nil {
			if over.IsZero() {
				over = now
			}
			if seen == len(acked) {
				return lags, nil
			}
			if now.Sub(over) > markSlack {
				return nil, fmt.Errorf("partition %d: the standby shows %d of %d marks %s after the input's end", p, seen, len(acked), markSlack)
			}
		}
		if !sleep(ctx, markPoll) {
			return nil, context.Cause(ctx)
		}
	}
}

// busyReads measures lookups at a node while it processes everything that is there, and then while it does nothing.
type busyReads struct{}

func (busyReads) gives() []string { return []string{fBusyP99, fIdleP99} }

func (busyReads) take(ctx context.Context, r *run) error {
	app := r.app("busy")
	m, err := r.node(app, "node-1", events, 0)
	if err != nil {
		return err
	}
	if err := r.start(m); err != nil {
		return err
	}
	defer m.kill()
	done := make(chan struct{})
	var busy loadResult
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(done)
		_, err := r.awaitProcessed(gctx, m, app)
		return err
	})
	g.Go(func() (err error) {
		if err = r.awaitServing(gctx, m, r.sample); err != nil {
			return err
		}
		l := load{conns: 1, inFlight: 1, length: processedTimeout, absentOK: true, until: done}
		busy, err = l.run(gctx, m.address, r.requests)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	idle, err := load{conns: 1, inFlight: 1, warm: r.size.warm, length: r.size.oneLength}.run(ctx, m.address, r.requests)
	if err != nil {
		return err
	}
	r.sayLatency("a node that processes", busy)
	r.sayLatency("the same, idle", idle)
	r.give(fBusyP99, micros(busy.p99))
	r.give(fIdleP99, micros(idle.p99))
	return nil
}
