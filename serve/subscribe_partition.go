package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// A watchedPart is one partition of a watch. Its steps:
//
//  1. Subscribe to the replica's steps, then look at its position, and take a snapshot there unless the watch goes on from
//     a position or wants changes only.
//  2. Tell what the snapshot has, and then that it was all.
//  3. Read what lies between the position that was told and the one at which the subscription began from the changelog.
//     Nothing does after a snapshot and at a quick return, which are the common cases.
//  4. If the subscription was given up meanwhile, because the caller takes its time over a large snapshot, subscribe again
//     and go on with 3.
//  5. Take the steps as they come. One that does not begin at the position that was told is skipped as far as it was told,
//     or, where the offsets of its changes are not known, read from the changelog.
//
// Invariant: every event below at was told once, and none at or above it.
type watchedPart struct {
	w    *watch
	id   metadata.Partition
	held atomic.Pointer[held] // nil before it has begun

	sub  *subscriber
	base int64 // the store's position after sub had begun: what lies above it is in sub
	at   int64 // everything below was told, or is pending

	pending struct {
		events []*iqv1.WatchEvent
		bytes  int
	}
	told   int64     // the position that the caller was told last
	toldAt time.Time // when
	// over ends a message that waits to be taken: the caller is too slow. It is nil while that is no reason to end.
	over <-chan struct{}
	// due is when the batch in hand must have been taken; zero while there is none.
	due time.Time
}

// held is the store that a watch of a partition began with.
type held struct {
	r  Replica
	kv *store.KV
}

func newWatchedPart(w *watch, id metadata.Partition) *watchedPart {
	return &watchedPart{w: w, id: id, told: unknownOffset}
}

// follow tells the partition's entries and changes until ctx ends or it cannot go on.
func (p *watchedPart) follow(ctx context.Context) error {
	first, sn, err := p.begin(ctx)
	if err != nil {
		return err
	}
	h := p.held.Load()
	defer func() { h.r.Changes().unsubscribe(p.sub) }()
	if sn == nil {
		err = p.resume(ctx, first)
	} else {
		err = p.tellAll(ctx, sn, first)
		sn.Release()
	}
	for err == nil {
		if err = p.readUp(ctx, p.base); err != nil {
			break
		}
		select {
		case <-p.sub.full:
			h.r.Changes().unsubscribe(p.sub)
			p.subscribe(h)
		default:
			err = p.live(ctx)
		}
	}
	if err != nil && ctx.Err() == nil {
		if gone := p.gone(h); gone != nil {
			return gone // the cause of it
		}
		if errors.Is(err, store.ErrClosed) {
			return &iqerr.ClosingError{Node: p.w.srv.cfg.NodeID, Store: p.id.String()}
		}
	}
	return err
}

// begin subscribes to the replica and judges the policy at the position at which the watch begins. The snapshot is nil when
// none is wanted.
func (p *watchedPart) begin(ctx context.Context) (first *iqv1.PartitionRead, sn *store.Snapshot, err error) {
	s := p.w.srv
	from, resumed := p.w.query.From[p.id.Partition]
	h := &held{}
	release := func() {
		if p.sub != nil {
			h.r.Changes().unsubscribe(p.sub)
		}
		if sn != nil {
			sn.Release()
		}
		p.sub, sn = nil, nil
	}
	var got reading
	err = s.await(ctx, p.w.policy, func() (err error) {
		got, err = s.read(ctx, p.w.policy, p.id, func(kv *store.KV) (store.Checkpoint, error) {
			*h = held{r: s.node().Replica(p.id), kv: kv}
			if h.r == nil || h.r.KV() != kv {
				return store.Checkpoint{}, store.ErrClosed
			}
			p.subscribe(h)
			if resumed || p.w.query.ChangesOnly {
				return kv.Checkpoint(), nil
			}
			if sn, err = kv.Snapshot(); err != nil {
				return store.Checkpoint{}, err
			}
			return sn.Checkpoint(), nil
		})
		if err != nil {
			release()
		}
		return err
	})
	s.counted(p.w.policy, p.id, &got, err)
	if err != nil {
		return nil, nil, err
	}
	p.at = got.status.GetPosition()
	if resumed {
		p.at = from
	}
	p.held.Store(h)
	return got.proto(), sn, nil
}

// subscribe begins a subscription. The position is looked at after it, so that no step is missed.
func (p *watchedPart) subscribe(h *held) {
	p.sub = h.r.Changes().subscribe(h.kv)
	p.base = h.kv.Position()
}

// resume begins at a position: one that was told before, or the newest.
func (p *watchedPart) resume(ctx context.Context, first *iqv1.PartitionRead) error {
	if p.at != p.base {
		if err := p.checkWithin(ctx); err != nil {
			return err
		}
	}
	return p.tell(ctx, &iqv1.WatchResponse{Reads: []*iqv1.PartitionRead{first}, Positions: p.position(p.at), Current: []int32{p.id.Partition}})
}

// checkWithin refuses a position that the changelog does not reach or does not reach back to.
func (p *watchedPart) checkWithin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	client, _ := p.w.srv.node().Kafka()
	tp := p.held.Load().r.Changelog()
	for _, edge := range []struct {
		which int64
		bad   func(offset int64) bool
		text  string
	}{
		{kafka.AtStart, func(start int64) bool { return p.at < start }, "position %d is below the changelog's start %d"},
		{kafka.AtEnd, func(end int64) bool { return p.at > end && p.at > p.base }, "position %d is beyond the changelog's end %d"},
	} {
		got, err := kafka.ListOffsets(ctx, client, []metadata.TopicPartition{tp}, edge.which)
		offset, known := got[tp]
		switch {
		case err != nil || !known:
			return p.unread(err)
		case edge.bad(offset):
			return p.lost(fmt.Sprintf(edge.text, p.at, offset))
		}
	}
	return nil
}

// tellAll tells what a snapshot has, a page at a time: between two nothing is held but the snapshot.
func (p *watchedPart) tellAll(ctx context.Context, sn *store.Snapshot, first *iqv1.PartitionRead) error {
	if err := p.tell(ctx, &iqv1.WatchResponse{Reads: []*iqv1.PartitionRead{first}}); err != nil {
		return err
	}
	var after []byte
	for {
		events, next, err := p.page(ctx, sn, after)
		if err != nil {
			return p.w.srv.readFailed(p.id, err)
		}
		m := &iqv1.WatchResponse{Events: events}
		if next == nil {
			m.Positions, m.Current = p.position(p.at), []int32{p.id.Partition}
			return p.tell(ctx, m)
		}
		if err := p.tell(ctx, m); err != nil {
			return err
		}
		after = next
	}
}

// page reads the next entries of a snapshot. next is where to go on, nil at the end.
func (p *watchedPart) page(ctx context.Context, sn *store.Snapshot, after []byte) (events []*iqv1.WatchEvent, next []byte, err error) {
	size := 0
	scan := rowScan{sel: &p.w.query.Selection, sn: sn, partition: p.id.Partition}
	for row, err := range scan.rows(ctx, after) {
		if err != nil {
			return nil, nil, err
		}
		if n := query.RowBytes(row); len(events) == query.MaxBatchRows || len(events) > 0 && size+n > query.MaxBatchBytes {
			return events, next, nil
		}
		next, row.Cursor = row.Cursor, nil
		size += query.RowBytes(row)
		events = append(events, &iqv1.WatchEvent{Row: row})
	}
	return events, nil, nil
}

// live takes the steps as they come.
func (p *watchedPart) live(ctx context.Context) error {
	p.over = p.sub.full
	tick := time.NewTicker(positionEvery)
	defer tick.Stop()
	for {
		steps, ok := p.sub.take()
		if !ok {
			return p.w.slow()
		}
		for _, st := range steps {
			if err := p.apply(ctx, st); err != nil {
				return err
			}
		}
		if len(p.pending.events) > 0 || p.told < p.at && time.Since(p.toldAt) >= positionEvery {
			if err := p.flush(ctx, p.at); err != nil {
				return err
			}
		}
		select {
		case <-p.sub.wake:
		case <-p.sub.full:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// apply adds the events of a step that were not told yet.
func (p *watchedPart) apply(ctx context.Context, st *step) error {
	switch {
	case st.next <= p.at:
		return nil
	case st.from > p.at || st.from < p.at && !st.placed():
		return p.readUp(ctx, st.next)
	}
	if !st.placed() && p.pending.bytes+st.bytes > query.MaxBatchBytes {
		// What follows has no positions before its end, so it begins a message.
		if err := p.flush(ctx, p.at); err != nil {
			return err
		}
	}
	if err := p.add(ctx, st.all(), st.next); err != nil {
		return err
	}
	p.at = st.next
	return nil
}

// add adds those of the events that lie from at to before end and are of the selection, and tells what no message has
// room for.
func (p *watchedPart) add(ctx context.Context, events []event, end int64) error {
	done := p.at // everything below it is pending or told; unknown when the offsets are not
	for i := range events {
		e := &events[i]
		if e.offset != unknownOffset && (e.offset < p.at || e.offset >= end) || !covers(p.w.query.Keys, e.key) {
			continue
		}
		size := len(e.key) + len(e.value) + changeCost
		if n := len(p.pending.events); n >= query.MaxBatchRows || n > 0 && p.pending.bytes+size > query.MaxBatchBytes {
			if e.offset != unknownOffset {
				done = e.offset
			}
			if err := p.flush(ctx, done); err != nil {
				return err
			}
		}
		if e.offset == unknownOffset {
			done = unknownOffset
		}
		p.pending.events = append(p.pending.events, p.proto(e))
		p.pending.bytes += size
	}
	return nil
}

// flush tells the events that are pending, and the position below which everything is told with them, if it is known.
func (p *watchedPart) flush(ctx context.Context, position int64) error {
	m := &iqv1.WatchResponse{Events: p.pending.events}
	if position != unknownOffset {
		m.Positions = p.position(position)
	}
	p.pending.events, p.pending.bytes = nil, 0
	if len(m.GetEvents()) == 0 && position <= p.told {
		return nil
	}
	return p.tell(ctx, m)
}

func (p *watchedPart) position(at int64) []*iqv1.PartitionPosition {
	return []*iqv1.PartitionPosition{{Partition: p.id.Partition, Position: at}}
}

// tell hands a message to the sender and waits until it is taken.
func (p *watchedPart) tell(ctx context.Context, m *iqv1.WatchResponse) error {
	var expired <-chan time.Time
	if !p.due.IsZero() {
		t := time.NewTimer(time.Until(p.due))
		defer t.Stop()
		expired = t.C
	}
	select {
	case p.w.out <- m:
	case <-p.over:
		return p.w.slow()
	case <-expired:
		return p.w.slow()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, at := range m.GetPositions() {
		p.told, p.toldAt = at.GetPosition(), time.Now()
	}
	return nil
}

// covers says whether a key is in a range.
func covers(k query.Keys, key []byte) bool {
	if k.From != nil {
		if c := bytes.Compare(key, k.From); c < 0 || c == 0 && k.FromOpen {
			return false
		}
	}
	if k.To != nil {
		if c := bytes.Compare(key, k.To); c > 0 || c == 0 && k.ToOpen {
			return false
		}
	}
	return bytes.HasPrefix(key, k.Prefix)
}
