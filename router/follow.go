package router

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// The time between two messages of a stream of metadata that tell of figures alone: lags change with each heartbeat of
// each node.
const (
	defaultLagInterval = 100 * time.Millisecond
	minLagInterval     = 10 * time.Millisecond
)

// follower is one stream of metadata.
//
//  1. The first message is a snapshot.
//  2. Each edition of the view is looked at as it comes. If it tells more than figures otherwise than what was told, it is
//     told at once, with all else that has changed.
//  3. Figures alone are told when lagInterval has passed since the message before.
//
// What a slow reader has not heard is no queue: it is the difference between the view that was told last and the newest.
type follower struct {
	router      *Router
	send        func(*iqv1.WatchMetadataResponse) error
	store       string // empty for all
	lagInterval time.Duration

	version int64
	told    *metadata.View // what the messages so far make; nil before the first
	looked  *metadata.View // the newest looked at: against told it has no more than figures
	quiet   time.Time      // until when figures alone are not told
}

// WatchMetadata tells what ListInstances and ListStores tell, and then each change of it.
func (s *metadataService) WatchMetadata(m *iqv1.WatchMetadataRequest, stream iqv1.MetadataService_WatchMetadataServer) error {
	r, ctx := s.router, stream.Context()
	interval, err := lagIntervalFromProto(m.GetLagInterval())
	if err != nil {
		return r.status(ctx, err)
	}
	limit := int64(r.config.MaxWatchers)
	if n := r.watchers.Add(1); n > limit {
		r.watchers.Add(-1)
		return r.status(ctx, &iqerr.OverloadedError{Node: r.name(), InFlight: n - 1, Limit: limit, RetryAfter: routing.RetryAfter})
	}
	defer r.watchers.Add(-1)
	f := &follower{router: r, send: stream.Send, store: m.GetStore(), lagInterval: interval}
	return r.status(ctx, f.run(ctx.Done()))
}

func lagIntervalFromProto(m *durationpb.Duration) (time.Duration, error) {
	d, err := routing.DurationFromProto("lag_interval", m)
	switch {
	case err != nil:
		return 0, err
	case d == routing.NoBound:
		return defaultLagInterval, nil
	case d < minLagInterval:
		return 0, iqerr.Invalid("lag_interval", d, "must be at least "+minLagInterval.String())
	}
	return d, nil
}

// run tells until the caller is done, the router stops, or nobody knows the store any more.
func (f *follower) run(done <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e := f.router.board.load()
		now := time.Now()
		if err := f.look(e, now); err != nil {
			return err
		}
		var due <-chan time.Time
		if f.told != e.view {
			timer.Reset(f.quiet.Sub(now))
			due = timer.C
		}
		select {
		case <-e.superseded:
		case <-due:
		case <-done:
			return nil
		case <-f.router.stopping:
			return &iqerr.ClosingError{Node: f.router.name()}
		}
	}
}

// look tells what an edition asks to be told of at now.
func (f *follower) look(e *edition, now time.Time) error {
	if f.store != "" {
		if _, err := e.view.Store(f.store); err != nil {
			return routing.LookupError(err)
		}
	}
	switch {
	case f.told == nil:
		return f.snapshot(e.view, now)
	case e.view == f.told:
		return nil
	case now.Before(f.quiet) && (e.view == f.looked || (e.before == f.looked && !e.urgent())):
		f.looked = e.view // figures alone, and not yet
		return nil
	}
	f.looked = e.view
	c := metadata.Diff(f.told, e.view, f.store)
	switch {
	case c.Empty():
		f.told = e.view
		return nil
	case !c.Urgent() && now.Before(f.quiet):
		return nil
	case c.Stores && len(f.stores(e.view)) == 0:
		return f.snapshot(e.view, now) // an empty list of stores would say that none changed
	}
	m := &iqv1.WatchMetadataResponse{Instances: instancesToProto(e.view.Changed(c, f.store, now), f.store)}
	for _, id := range c.Gone {
		m.Gone = append(m.Gone, string(id))
	}
	if c.Stores {
		m.Stores = storesToProto(f.stores(e.view))
	}
	return f.tell(m, e.view, now)
}

// snapshot tells everything.
func (f *follower) snapshot(v *metadata.View, now time.Time) error {
	list, err := instances(v, &iqv1.ListInstancesRequest{Store: f.store}, now)
	if err != nil {
		return err
	}
	return f.tell(&iqv1.WatchMetadataResponse{
		Snapshot: true, Instances: instancesToProto(list, f.store), Stores: storesToProto(f.stores(v)),
	}, v, now)
}

func (f *follower) stores(v *metadata.View) []metadata.StoreInfo {
	if f.store == "" {
		return v.Stores()
	}
	if info, err := v.Store(f.store); err == nil {
		return []metadata.StoreInfo{info}
	}
	return nil
}

// tell sends a message, after which the caller knows v. It blocks while a slow reader's connection is full.
func (f *follower) tell(m *iqv1.WatchMetadataResponse, v *metadata.View, now time.Time) error {
	f.version++
	m.Version = f.version
	f.told, f.looked, f.quiet = v, v, now.Add(f.lagInterval)
	return f.send(m)
}
