package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/wire"
)

// Bounds of pinned states. A pinned state keeps old versions on disk.
const (
	pinFor         = 30 * time.Second
	maxPins        = 64
	maxPinDistance = 1_000_000 // changelog offsets between states that are compared
	maxChangedKeys = 64 << 20  // bytes of keys that change in between
	maxDigests     = 4         // digests made at a time, each with so many keys
)

// pinnedStates are the states that wait for their DigestState.
type pinnedStates struct {
	mu   sync.Mutex
	next uint64
	all  map[uint64]*pinnedState
}

type pinnedState struct {
	r     *replica
	kv    *store.KV
	sn    *store.Snapshot
	timer *time.Timer
}

func newPinnedStates() pinnedStates { return pinnedStates{all: make(map[uint64]*pinnedState)} }

// add keeps a state for a while.
func (p *pinnedStates) add(s *pinnedState) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxPins {
		return 0, false
	}
	p.next++
	id := p.next
	p.all[id] = s
	s.timer = time.AfterFunc(pinFor, func() {
		if s := p.take(id); s != nil {
			s.sn.Release()
		}
	})
	return id, true
}

// take gives a state to the one caller that releases it, or nil.
func (p *pinnedStates) take(id uint64) *pinnedState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.all[id]
	delete(p.all, id)
	if s != nil {
		s.timer.Stop()
	}
	return s
}

// PinState implements VerifyService.
func (s *verifyServer) PinState(ctx context.Context, req *iqv1.PinStateRequest) (*iqv1.PinStateResponse, error) {
	resp, err := s.pin(ctx, req)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	return resp, nil
}

func (s *verifyServer) pin(ctx context.Context, req *iqv1.PinStateRequest) (*iqv1.PinStateResponse, error) {
	r, kv, err := s.n.hosted(req.GetStore(), req.GetPartition())
	if err != nil {
		return nil, err
	}
	sn, err := kv.Snapshot()
	if err != nil {
		return nil, &iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: r.id.String()}
	}
	ends, err := kafka.ListOffsets(ctx, s.n.admin, []metadata.TopicPartition{r.changelog}, kafka.AtEnd)
	if err != nil {
		sn.Release()
		return nil, err
	}
	id, ok := s.pins.add(&pinnedState{r: r, kv: kv, sn: sn})
	if !ok {
		sn.Release()
		return nil, &iqerr.OverloadedError{Node: s.n.cfg.NodeID, InFlight: maxPins, Limit: maxPins, RetryAfter: time.Second}
	}
	topic := kv.ID().TopicID
	return &iqv1.PinStateResponse{
		Pin: id, Status: wire.Status(s.n.cfg.NodeID, s.n.address, r.Report(time.Now())), Position: max(sn.Position(), 0),
		End: max(ends[r.changelog], sn.Position()), StreamTimeMs: sn.StreamTime(), ChangelogId: topic[:],
	}, nil
}

// DigestState implements VerifyService.
func (s *verifyServer) DigestState(ctx context.Context, req *iqv1.DigestStateRequest) (*iqv1.DigestStateResponse, error) {
	select {
	case s.sums <- struct{}{}:
		defer func() { <-s.sums }()
	default:
		return nil, iqerr.Status(&iqerr.OverloadedError{Node: s.n.cfg.NodeID, InFlight: maxDigests, Limit: maxDigests, RetryAfter: time.Second})
	}
	p := s.pins.take(req.GetPin())
	if p == nil {
		return nil, iqerr.Status(iqerr.Invalid("pin", strconv.FormatUint(req.GetPin(), 10), fmt.Sprintf("is no pinned state, or one of more than %s ago", pinFor)))
	}
	defer p.sn.Release()
	resp, err := s.digest(ctx, p, req)
	if err != nil {
		return nil, iqerr.Status((&verification{n: s.n, r: p.r}).failed(err))
	}
	return resp, nil
}

func (s *verifyServer) digest(ctx context.Context, p *pinnedState, req *iqv1.DigestStateRequest) (*iqv1.DigestStateResponse, error) {
	switch distance := req.GetTo() - req.GetFrom(); {
	case req.GetFrom() < 0:
		return nil, iqerr.Invalid("from", req.GetFrom(), "must be 0 or more")
	case distance < 0 || distance > maxPinDistance:
		return nil, iqerr.Invalid("to", req.GetTo(), fmt.Sprintf("must be from %d to %d: states that are further apart are not compared", req.GetFrom(), req.GetFrom()+maxPinDistance))
	case req.GetStreamTimeMs() < p.sn.StreamTime():
		return nil, iqerr.Invalid("stream_time_ms", req.GetStreamTimeMs(), fmt.Sprintf("must be %d or more, which is that of the state", p.sn.StreamTime()))
	}
	schema := p.kv.ID().Schema
	changed, size := make(map[string]bool), 0
	log := logPart{tp: p.r.changelog, topicID: p.kv.ID().TopicID, from: req.GetFrom(), to: req.GetTo()}
	err := s.n.readLog(ctx, log, &logPace{perSecond: verifyBytesPerSecond, begun: time.Now()}, func(b kafka.Batch) error {
		for _, rec := range b.Records {
			if c, err := changeOf(schema, rec); err == nil {
				if group := string(schema.KeyGroup(c.Key)); !changed[group] {
					changed[group] = true
					size += len(group) + sinceCost
				}
			}
		}
		if size > maxChangedKeys {
			return errTooMuch
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var d store.Digest
	resp := &iqv1.DigestStateResponse{}
	for e, err := range store.Visible(p.sn, req.GetStreamTimeMs()) {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, store.ErrClosed) {
			return nil, &iqerr.ClosingError{Node: s.n.cfg.NodeID, Store: p.r.id.String()}
		}
		if err != nil {
			return nil, err
		}
		if changed[string(schema.KeyGroup(e.Key))] {
			resp.LeftOut++
			continue
		}
		d.Add(e.Key, e.Value)
	}
	resp.Digest, resp.Entries = d.Bytes(), d.Entries()
	return resp, nil
}
