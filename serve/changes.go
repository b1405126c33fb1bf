package serve

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/store"
)

// Bounds of what is kept of a replica's changes for one subscriber that has not taken them.
const (
	// maxPendingSteps is how many applied steps may wait; a step is a commit of the active or a batch of the tail.
	maxPendingSteps = 1024
	// maxPendingBytes is how many bytes of keys and values may wait. A single step may be larger. The steps that wait for
	// several subscribers of a replica are the same ones in memory.
	maxPendingBytes = 32 << 20
	// changeCost is what a change is counted as besides its bytes.
	changeCost = 64
)

// Changes hands the applied steps of a replica to who subscribed to them. Its steps:
//
//  1. Whoever applies to the store (the holder of the writer token) publishes the step right after it is visible.
//  2. A subscriber subscribes before it looks at the store's position. So each step is in what it sees or is published to
//     it, or both; those that it has seen it knows by their positions.
//
// Invariants: each subscriber gets each step once, in the order in which they were applied; publishing waits for no
// reader; while nobody watches it is one atomic load. The zero value is ready.
type Changes struct {
	subs atomic.Pointer[[]*subscriber] // nil while there are none; replaced, never written
	mu   sync.Mutex                    // guards the replacing
}

// A step is what one Apply has made visible. It is shared by all subscribers and not written after it was published, but
// for the events, which the first reader decodes.
type step struct {
	kv         *store.KV      // that it was applied to
	from, next int64          // the positions before and after
	changes    []store.Change // of a commit of the active
	first      int64          // the offset of changes[0], the others' following it; unknownOffset when they do not
	records    []*kgo.Record  // in place of changes, where the tail has brought them
	bytes      int

	decode sync.Once
	events []event
}

// unknownOffset stands for an offset or position that is not known.
const unknownOffset = -1

// An event is one committed record of a changelog.
type event struct {
	offset    int64 // unknownOffset where the step does not know its changes' offsets
	key       []byte
	value     []byte
	timestamp int64 // of the record, in milliseconds
	span      store.Span
	removed   bool // a tombstone, or a version from which on the key is absent
}

// Committed publishes what the active has committed, in the order of the changelog: the first of changed got the offset
// first, the last one next-1; from and next are the store's positions before and after. The caller holds the replica's writer
// token and has applied changed to kv.
func (c *Changes) Committed(kv *store.KV, from, next, first int64, changed []store.Change) {
	subs := c.subs.Load()
	if subs == nil {
		return
	}
	st := &step{kv: kv, from: from, next: next, changes: changed, first: first}
	if next-first != int64(len(changed)) {
		st.first = unknownOffset // something of another writer lies between them
	}
	for i := range changed {
		st.bytes += len(changed[i].Key) + len(changed[i].Value) + changeCost
	}
	publish(*subs, st)
}

// Tailed publishes a batch of the tail with all of its records, also those of which only the last of a key was applied. The
// caller holds the replica's writer token and has applied the batch to kv.
func (c *Changes) Tailed(kv *store.KV, b kafka.Batch) {
	subs := c.subs.Load()
	if subs == nil {
		return
	}
	st := &step{kv: kv, from: b.From, next: b.Next, records: b.Records}
	for _, rec := range b.Records {
		st.bytes += len(rec.Key) + len(rec.Value) + changeCost
	}
	publish(*subs, st)
}

func publish(subs []*subscriber, st *step) {
	for _, s := range subs {
		s.offer(st)
	}
}

// subscribe begins a subscription to what is applied to kv from now on. It must be ended by unsubscribe.
func (c *Changes) subscribe(kv *store.KV) *subscriber {
	s := &subscriber{kv: kv, wake: make(chan struct{}, 1), full: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	var next []*subscriber
	if old := c.subs.Load(); old != nil {
		next = append(next, *old...)
	}
	next = append(next, s)
	c.subs.Store(&next)
	return s
}

// unsubscribe ends a subscription; a second time it does nothing.
func (c *Changes) unsubscribe(s *subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.subs.Load()
	if old == nil {
		return
	}
	var next []*subscriber
	for _, other := range *old {
		if other != s {
			next = append(next, other)
		}
	}
	if next == nil {
		c.subs.Store(nil)
		return
	}
	c.subs.Store(&next)
}

// A subscriber is the queue between who applies and one who watches. When it is full it is given up: what waited is
// dropped and nothing more is taken.
type subscriber struct {
	kv   *store.KV
	wake chan struct{} // holds a token when there is something to take
	full chan struct{} // closed when it was given up

	mu struct {
		sync.Mutex
		steps []*step
		bytes int
		lost  bool
	}
}

// offer adds a step, unless it is of another store or life of the store.
func (s *subscriber) offer(st *step) {
	if st.kv != s.kv {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lost {
		return
	}
	if n := len(s.mu.steps); n >= maxPendingSteps || n > 0 && s.mu.bytes+st.bytes > maxPendingBytes {
		s.mu.steps, s.mu.bytes, s.mu.lost = nil, 0, true
		close(s.full)
		return
	}
	s.mu.steps = append(s.mu.steps, st)
	s.mu.bytes += st.bytes
	kafka.Poke(s.wake)
}

// take returns the steps that wait, and false when the subscription was given up. What was taken before is without gaps.
func (s *subscriber) take() ([]*step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := s.mu.steps
	s.mu.steps, s.mu.bytes = nil, 0
	return steps, !s.mu.lost
}

// placed says whether the events' offsets are known.
func (st *step) placed() bool { return st.changes == nil || st.first != unknownOffset }

// all are the step's events, in the order of the changelog.
func (st *step) all() []event {
	st.decode.Do(func() {
		schema := st.kv.ID().Schema
		if st.records != nil {
			st.events = eventsOf(schema, st.records)
			return
		}
		st.events = make([]event, 0, len(st.changes))
		for i := range st.changes {
			offset := int64(unknownOffset)
			if st.placed() {
				offset = st.first + int64(i)
			}
			if e, err := eventOf(schema, &st.changes[i], offset); err == nil { // the store has taken it
				st.events = append(st.events, e)
			}
		}
	})
	return st.events
}

// eventsOf are the events of changelog records. Records that are none of the store's kind are not in the store either.
func eventsOf(schema store.Schema, records []*kgo.Record) []event {
	events := make([]event, 0, len(records))
	for _, rec := range records {
		if rec.Key == nil {
			continue
		}
		c, err := schema.FromChangelog(rec.Key, rec.Value, rec.Timestamp.UnixMilli())
		if err != nil {
			continue
		}
		if e, err := eventOf(schema, &c, rec.Offset); err == nil {
			events = append(events, e)
		}
	}
	return events
}

func eventOf(schema store.Schema, c *store.Change, offset int64) (event, error) {
	e := event{offset: offset, key: c.Key, value: c.Value, timestamp: c.Timestamp, removed: c.Delete}
	if schema.Kind == store.KindKeyValue {
		return e, nil
	}
	var err error
	if e.key, e.span, err = schema.Decode(c.Key); err != nil {
		return event{}, err
	}
	if _, e.value, _, err = schema.ToChangelog(*c); err != nil {
		return event{}, err
	}
	e.removed = e.value == nil
	return e, nil
}
