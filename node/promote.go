package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// A promotion makes a task ready to run as active here. Its steps, in order:
//
//  1. Fence the nodes that held the task before and are not in the group any more: their open transactions end.
//  2. Ask for the committed input offsets until no transaction that commits some is open (KIP-447). From then on no
//     earlier owner can commit: the group refuses its generation.
//  3. Only then ask for each changelog's end. Everything that belongs to those offsets lies below it.
//  4. Wait until the tail has applied everything below the ends. It reads committed, so a transaction that is open
//     below them is waited for, not skipped (S06).
//  5. Wait until whom the group has lost cannot believe any more to be the active (lost.go): until then it may answer,
//     and would not know of what is committed here.
//  6. Take the writer tokens, so that nobody but the task writes.
//
// The other order, or the last stable offset in place of the end, gives wrong results in rare races.
type promotion struct {
	began time.Time // when the worker began it, for the tally
	task  *taskInfo
	life  uint64
	fence []string // transactional ids
	lost  []loss   // who may still answer for the task
	// generation that gave the task
	generation metadata.Generation
	notBefore  time.Time

	committed map[metadata.TopicPartition]int64
	times     streamTimes // as of what is committed
}

// pauses and limits of a promotion.
const (
	unstableRetry   = 20 * time.Millisecond
	promoteLogAfter = 5 * time.Second // between two lines that say what a promotion waits for
	// askAgainAfter is when a promotion that waits for a store begins anew: the end it waits for may have been lost with
	// its broker, or belong to a topic that is gone.
	askAgainAfter = 30 * time.Second
)

// promote runs the promotion until it is done or ctx ends; failures are tried again. It hands the result to the worker,
// which gives the tokens back if it has no use for it any more.
func (w *worker) promote(ctx context.Context, p *promotion) {
	if wait := time.Until(p.notBefore); wait > 0 && !kafka.Sleep(ctx, wait) {
		return
	}
	for tries := 1; ; tries++ {
		err := w.tryPromote(ctx, p)
		if ctx.Err() != nil {
			if err == nil {
				w.giveTokens(p.task)
			}
			return
		}
		if err == nil {
			break
		}
		if tries%10 == 1 || !errors.Is(err, kafka.ErrUnstable) {
			w.log.Info("restoring a task", slog.String("task", p.task.id.String()), slog.Any("waiting", err))
		}
		pause := kafka.Backoff(tries)
		if errors.Is(err, kafka.ErrUnstable) {
			pause = unstableRetry
		}
		if !kafka.Sleep(ctx, pause) {
			return
		}
	}
	select {
	case w.promoted <- p:
	case <-ctx.Done():
		w.giveTokens(p.task)
	}
}

func (w *worker) giveTokens(t *taskInfo) {
	for _, s := range t.stores {
		if r := w.replicas.get(s.id); r != nil {
			r.give()
		}
	}
}

func (w *worker) tryPromote(ctx context.Context, p *promotion) error {
	rctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	if err := w.cfg.step(stepFence); err != nil {
		return err
	}
	for len(p.fence) > 0 {
		if err := w.fenceOnce(rctx, p.fence[0], p.generation); err != nil {
			return err
		}
		p.fence = p.fence[1:]
	}
	if err := w.cfg.step(stepCommitted); err != nil {
		return err
	}
	commits, err := kafka.Committed(rctx, w.cl, w.group, p.task.inputs, true)
	if err != nil {
		return err
	}
	committed := kafka.OffsetsOf(commits)
	p.times = committedTimes(commits)
	if err := w.cfg.step(stepEnds); err != nil {
		return err
	}
	var starts, ends map[metadata.TopicPartition]int64
	g, gctx := errgroup.WithContext(rctx)
	g.Go(func() (err error) {
		starts, err = kafka.ListOffsets(gctx, w.cl, p.task.inputs, kafka.AtStart)
		return err
	})
	g.Go(func() (err error) {
		ends, err = kafka.ListOffsets(gctx, w.cl, p.task.logs(), kafka.AtEnd)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if p.committed, err = w.startOffsets(p.task, committed, starts, ends); err != nil {
		return err
	}
	for _, s := range p.task.stores {
		if _, ok := ends[s.changelog]; !ok {
			return fmt.Errorf("the end of changelog %s is not known", s.changelog)
		}
	}
	if len(p.task.stores) == 0 {
		return nil
	}
	w.warnOfForgottenOffsets(p.task, committed, ends)
	for _, l := range p.lost {
		if err := w.awaitEnd(ctx, l); err != nil {
			return err
		}
	}
	if err := w.cfg.step(stepTake); err != nil {
		return err
	}
	return w.takeAt(ctx, p.task, ends)
}

// logs are the task's input partitions and changelogs, sorted.
func (t *taskInfo) logs() []metadata.TopicPartition {
	all := slices.Clone(t.inputs)
	for _, s := range t.stores {
		all = append(all, s.changelog)
	}
	slices.SortFunc(all, metadata.TopicPartition.Compare)
	return slices.Compact(all)
}

// warnOfForgottenOffsets says that an input begins at its start although the task has worked before: the group was
// deleted, or its offsets have expired. What was counted then is counted again.
func (w *worker) warnOfForgottenOffsets(t *taskInfo, committed, ends map[metadata.TopicPartition]int64) {
	for _, s := range t.stores {
		for _, tp := range t.inputs {
			if committed[tp] >= 0 || ends[s.changelog] == 0 {
				continue
			}
			if _, said := w.warned.LoadOrStore(tp, true); !said {
				w.log.Warn("the group has no offset of an input, but the changelog is not empty: the input is processed from its start, again if it was before",
					slog.String("input", tp.String()), slog.String("changelog", s.changelog.String()), slog.Int64("end", ends[s.changelog]))
			}
		}
	}
}

// fenceOnce fences a transactional id once for each generation, however many tasks its node had.
func (w *worker) fenceOnce(ctx context.Context, id string, generation metadata.Generation) error {
	_, err, _ := w.fencing.Do(id, func() (any, error) {
		if last, ok := w.fenced.Load(id); ok && last == generation {
			return nil, nil //nolint:nilnil // there is no value
		}
		if err := kafka.Fence(ctx, w.cl, id, w.cfg.TransactionTimeout); err != nil {
			return nil, err
		}
		w.fenced.Store(id, generation)
		w.log.Info("fenced", slog.String("transactional_id", id))
		return nil, nil //nolint:nilnil // there is no value
	})
	return err
}

// startOffsets is where each input begins: at the committed offset, at the start of the log when none is committed
// (Kafka Streams' default), or at the start when retention has deleted what was committed last.
func (w *worker) startOffsets(t *taskInfo, committed, starts, ends map[metadata.TopicPartition]int64) (map[metadata.TopicPartition]int64, error) {
	at := make(map[metadata.TopicPartition]int64, len(t.inputs))
	for _, tp := range t.inputs {
		start, okStart := starts[tp]
		end, okEnd := ends[tp]
		offset, okOffset := committed[tp]
		switch {
		case !okStart || !okEnd || !okOffset:
			return nil, fmt.Errorf("offsets of input %s are not known", tp)
		case offset < 0:
			at[tp] = start
		case offset < start:
			w.log.Error("input records were deleted before they were processed", slog.String("input", tp.String()),
				slog.Int64("committed", offset), slog.Int64("start", start))
			at[tp] = start
		case offset > end:
			return nil, fmt.Errorf("committed offset %d of input %s is beyond its end %d: was the topic made anew?", offset, tp, end)
		default:
			at[tp] = offset
		}
	}
	return at, nil
}

// takeAt waits until every store of the task has applied everything below its changelog's end and takes all writer tokens,
// or none.
func (w *worker) takeAt(ctx context.Context, t *taskInfo, ends map[metadata.TopicPartition]int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askAgainAfter, errBehind)
	defer cancel()
	var taken []*replica
	for _, s := range t.stores {
		r, err := w.takeReached(ctx, s, ends[s.changelog])
		if err != nil {
			for _, r := range taken {
				r.give()
			}
			return err
		}
		taken = append(taken, r)
	}
	return nil
}

// errBehind says that a promotion should ask again what it waits for.
var errBehind = errors.New("the store has not reached the end of its changelog yet")

// takeReached waits until the store has applied everything below end, and takes its writer token.
func (w *worker) takeReached(ctx context.Context, s storeInfo, end int64) (*replica, error) {
	tick := time.NewTicker(promoteLogAfter)
	defer tick.Stop()
	for {
		changed := w.news.wait()
		r := w.replicas.get(s.id)
		if r != nil && r.reached(end) && r.take(ctx) == nil {
			if r.reached(end) {
				return r, nil
			}
			r.give() // rebuilt in between
		}
		select {
		case <-changed:
		case <-tick.C:
			if r != nil {
				w.log.Info("restoring", slog.String("store", s.id.String()), slog.Int64("position", r.position()), slog.Int64("end", end))
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("store %s: %w", s.id, context.Cause(ctx))
		}
	}
}

// reached says whether the replica's store is open, sound, and has applied everything below end.
func (r *replica) reached(end int64) bool {
	return r.kv.Load() != nil && r.broken.Load() == nil && r.position() >= end
}
