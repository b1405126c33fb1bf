package avail

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	readTimeout = 2 * time.Second // of a read, beyond its wait
	readTick    = time.Millisecond
	// maxInFlight bounds the reads that wait for an answer. At the default rate it is reached when nothing at all is answered
	// for longer than any read may take.
	maxInFlight = 1 << 13
	// nodeLease is how long a node that has lost Kafka may go on as active: the default of iqnode.
	nodeLease = 2 * time.Second
)

// A probe reads every partition under every policy at a steady rate and judges the replies.
type probe struct {
	policies []policy
	clients  []*client.Client
	feed     *feed
	now      func() time.Duration

	mu struct {
		sync.Mutex
		inFlight  int
		window    *window               // reads that begin now belong to it
		seen      map[string]*sightings // by key, of all replies
		current   map[string]*sightings // by key, of replies of the active
		processed [][]step              // by partition: the input position in replies
		away      outage
	}
}

// outage is the latest time during which Kafka was away. until is 0 while it is.
type outage struct {
	was         bool
	from, until time.Duration
}

// A window holds what the reads have met that began in it.
type window struct {
	begin   time.Duration
	reads   sync.WaitGroup
	tallies []tally       // by policy; under the probe's lock
	late    time.Duration // the most that a read was sent too late
	lag     lagTally
}

// A tally counts the reads of one policy.
type tally struct {
	reads, failed int
	reasons       map[string]failure
	good          [][]time.Duration // by partition: when reads were answered
	older         int
	beyond        int
	untrue        int
	firstWrong    string // the first reply that must not be
}

// failure is how many reads failed for a reason, and what the first of them said.
type failure struct {
	count int
	first string
}

// lagTally is what tolerant reads told while Kafka was away.
type lagTally struct {
	reads int
	most  time.Duration // largest time lag told
	above time.Duration // the most by which a lag was larger than the time for which Kafka had been away
}

func newProbe(policies []policy, clients []*client.Client, f *feed, now func() time.Duration) *probe {
	p := &probe{policies: policies, clients: clients, feed: f, now: now}
	p.mu.seen, p.mu.current = make(map[string]*sightings), make(map[string]*sightings)
	p.mu.processed = make([][]step, len(f.keys))
	for _, keys := range f.keys {
		for _, key := range keys {
			p.mu.seen[key], p.mu.current[key] = new(sightings), new(sightings)
		}
	}
	p.mu.window = p.newWindow()
	return p
}

func (p *probe) newWindow() *window {
	w := &window{begin: p.now(), tallies: make([]tally, len(p.policies))}
	for i := range w.tallies {
		w.tallies[i].good = make([][]time.Duration, len(p.feed.keys))
		w.tallies[i].reasons = make(map[string]failure)
	}
	return w
}

// cut begins a new window, and gives the one before with its end when all its reads have ended.
func (p *probe) cut() (w *window, end time.Duration) {
	p.mu.Lock()
	w = p.mu.window
	p.mu.window = p.newWindow()
	end = p.mu.window.begin
	p.mu.Unlock()
	w.reads.Wait()
	return w, end
}

// run sends reads until ctx ends and returns when they have ended too. One that takes long delays no other.
func (p *probe) run(ctx context.Context, rate int) error {
	tick := time.NewTicker(readTick)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for begin, sent := p.now(), 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for ; ctx.Err() == nil; sent++ {
			due := begin + time.Duration(float64(sent)*float64(time.Second)/float64(rate))
			now := p.now()
			if due > now {
				break
			}
			p.send(ctx, &all, sent, now-due)
		}
	}
}

// send begins the n-th read: policies follow one another, then partitions, then keys, and routers take turns.
func (p *probe) send(ctx context.Context, all *sync.WaitGroup, n int, late time.Duration) {
	partitions := len(p.feed.keys)
	at, round := n%len(p.policies), n/(len(p.policies)*partitions)
	partition := n / len(p.policies) % partitions
	key := p.feed.keys[partition][round%keysPerPartition]
	c := p.clients[(n+round)%len(p.clients)]

	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.mu.window
	w.tallies[at].reads++
	w.late = max(w.late, late)
	if p.mu.inFlight >= maxInFlight {
		w.tallies[at].fail("NOT_SENT", fmt.Sprintf("%d reads are waiting for an answer", maxInFlight))
		return
	}
	p.mu.inFlight++
	w.reads.Add(1)
	all.Go(func() {
		defer w.reads.Done()
		a := p.ask(ctx, c, p.policies[at], key)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.inFlight--
		w.take(at, partition, a)
	})
}

// take counts a read.
func (w *window) take(at, partition int, a answer) {
	t := &w.tallies[at]
	if a.err != nil {
		t.fail(reasonOf(a.err), a.err.Error())
		return
	}
	t.good[partition] = append(t.good[partition], a.done)
	t.older += a.older
	t.beyond += a.beyond
	t.untrue += a.untrue
	if t.firstWrong == "" {
		t.firstWrong = a.wrong
	}
	if a.away > 0 {
		w.lag.reads++
		w.lag.most = max(w.lag.most, a.lag)
		w.lag.above = max(w.lag.above, a.lag-a.away)
	}
}

func (t *tally) fail(reason, text string) {
	t.failed++
	f := t.reasons[reason]
	if f.count++; f.count == 1 {
		f.first = text
	}
	t.reasons[reason] = f
}

// An answer is what came of a read, and what is wrong with it.
type answer struct {
	err                   error
	done                  time.Duration
	older, beyond, untrue int
	wrong                 string
	lag                   time.Duration // as told
	away                  time.Duration // for how long Kafka had been away when the read ended, for tolerant ones
}

// ask reads one key once.
func (p *probe) ask(ctx context.Context, c *client.Client, pol policy, key string) answer {
	// A read that has begun may end.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pol.wait+readTimeout)
	defer cancel()
	begun := p.now()
	res, err := c.Get(rctx, store, []byte(key), pol.options...)
	done := p.now()
	if err != nil {
		return answer{err: err, done: done}
	}
	count, err := countOf(res)
	if err != nil {
		return answer{err: err, done: done}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.judge(pol, key, begun, done, count, res)
	p.mu.seen[key].add(done, count)
	if pol.current {
		p.mu.current[key].add(done, count)
	}
	for _, o := range res.InputPosition.GetOffsets() {
		if n := int(o.GetPartition()); o.GetTopic() == topic && n < len(p.mu.processed) {
			p.mu.processed[n] = addStep(p.mu.processed[n], step{done, o.GetOffset()})
		}
	}
	return a
}

// judge says what is wrong with a reply. Under the lock.
func (p *probe) judge(pol policy, key string, begun, done time.Duration, count int64, res client.Result) answer {
	a := answer{done: done, lag: res.TimeLag}
	wrong := func(n *int, format string, args ...any) {
		*n++
		a.wrong = fmt.Sprintf("%s of %s: ", pol.name, key) + fmt.Sprintf(format, args...) + ", " + res.ServedBy()
	}
	before := p.mu.current[key].known(begun)
	if pol.strong {
		before = p.mu.seen[key].known(begun)
	}
	if pol.current && count < before {
		wrong(&a.older, "shows %d, and %d had been shown before it began", count, before)
	}
	if pol.bound > 0 && res.TimeLag > pol.bound {
		wrong(&a.beyond, "tells of a time lag of %s", res.TimeLag)
	}
	if stale := p.mu.seen[key].staleness(count, begun); res.TimeLag < stale {
		wrong(&a.untrue, "tells of a time lag of %s, and a larger count than %d had been shown %s before it began", res.TimeLag, count, stale)
	}
	if o := p.mu.away; pol.tolerant && o.was && begun >= o.from && (o.until == 0 || done <= o.until) {
		least := begun - o.from
		if res.Role == iqv1.Role_ROLE_ACTIVE {
			least -= nodeLease
		}
		if res.TimeLag < least {
			wrong(&a.untrue, "tells of a time lag of %s when Kafka had been away for %s", res.TimeLag, begun-o.from)
		}
		if res.TimeLag != client.UnknownTimeLag {
			a.away = max(1, done-o.from)
		}
	}
	return a
}

// kafkaGone and kafkaBack say from when to when Kafka did nothing.
func (p *probe) kafkaGone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.away = outage{was: true, from: p.now()}
}

func (p *probe) kafkaBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.away.until = p.now()
}

// takeProcessed is feed.take for what was processed.
func (p *probe) takeProcessed(from time.Duration) [][]step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return takeSteps(p.mu.processed, from)
}

// countOf is the value of a count; an absent key has none.
func countOf(res client.Result) (int64, error) {
	if !res.Found {
		return 0, nil
	}
	if len(res.Value) != 8 {
		return 0, fmt.Errorf("the value is no count: %q", res.Value)
	}
	return int64(binary.BigEndian.Uint64(res.Value)), nil
}

// reasonOf is a failure in one word.
func reasonOf(err error) string {
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return iqerr.Name(reason)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "TIMEOUT"
	}
	return "UNREACHABLE"
}
