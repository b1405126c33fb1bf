package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// errNoMember says that the node is between two memberships.
var errNoMember = errors.New("the node is no member of the group now")

// commitAt says when a transaction that begins at now is to end: an interval later, so that a backlog is worked off in large
// transactions. While the tasks keep up with their input it ends an interval after the last commit began, so that a
// record does not wait for the length of a commit on top; but not before half of the interval has passed, so that records
// that come together are seen together, nor before the time that the last commit took: where commits are slow, more of
// them would be slower.
func commitAt(now, last time.Time, took time.Duration, keepsUp bool, interval time.Duration) time.Time {
	latest := now.Add(interval)
	if !keepsUp {
		return latest
	}
	at, soonest := last.Add(interval), now.Add(max(took, interval/2))
	if at.Before(soonest) {
		at = soonest
	}
	if at.After(latest) {
		return latest
	}
	return at
}

// commitDue says whether the transaction should end now.
func (w *worker) commitDue() bool {
	if w.producer == nil || !w.producer.InTxn() {
		return false
	}
	if !time.Now().Before(w.due) {
		return true
	}
	var size int64
	for _, t := range w.active {
		for _, s := range t.stores {
			size += s.overlay.Bytes()
		}
	}
	return size >= w.cfg.MaxUncommittedBytes
}

// commit ends the transaction: the overlays become changelog records, the last value of each key, since a transaction is
// seen whole or not at all; every record's outcome is looked at; the input offsets join it; Kafka decides; and what
// it committed is applied to the stores. After any error the caller resets the worker.
func (w *worker) commit() (err error) {
	defer func() {
		if err != nil {
			w.cfg.work.CommitFailures.Add(1)
		}
	}()
	w.committing = time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, w.commitTimeout)
	defer cancel()
	offsets := make(map[metadata.TopicPartition]kafka.Commit)
	var dirty []*activeTask
	for _, t := range w.sorted() {
		if t.stage == stageRunning && len(t.dirty) > 0 {
			dirty = append(dirty, t)
			t.commits(offsets)
		}
	}
	if err := w.cfg.step(stepProduce); err != nil {
		return err
	}
	if err := w.each(dirty, func(t *activeTask) error { return w.produceChanges(ctx, t) }); err != nil {
		return err
	}
	if err := w.cfg.step(stepFlush); err != nil {
		return err
	}
	if err := w.producer.Flush(ctx); err != nil {
		return err
	}
	if err := w.cfg.step(stepOffsets); err != nil {
		return err
	}
	produced := w.producer.Produced()
	if err := w.commitOffsets(ctx, produced, offsets); err != nil {
		return err
	}
	if !produced {
		if err := w.producer.End(ctx); err != nil { // of nothing; the broker does not hear of it
			return err
		}
		return w.committed(dirty, nil)
	}
	if err := w.cfg.step(stepEnd); err != nil {
		return err
	}
	w.takeOff(dirty)
	if fault.ApplyBeforeCommit {
		if err := w.committed(dirty, w.cfg.step); err != nil {
			return err
		}
		dirty = nil
	}
	if err := w.producer.End(ctx); err != nil {
		return err
	}
	if err := w.cfg.step(stepSent); err != nil {
		return err
	}
	if err := w.cfg.step(stepApply); err != nil {
		return err
	}
	return w.committed(dirty, w.cfg.step)
}

// commitOffsets puts the offsets into the transaction, or commits them alone when nothing was produced. The group may
// have counted its generation up just now, with this node in it: then the new one is waited for and used, since what is
// in this transaction is still this node's until it has rejoined without it.
func (w *worker) commitOffsets(ctx context.Context, produced bool, offsets map[metadata.TopicPartition]kafka.Commit) error {
	if len(offsets) == 0 {
		return nil
	}
	for {
		changed := w.news.wait()
		id, generation, ok := w.member.Current()
		if !ok {
			return errNoMember
		}
		by := kafka.Committer{Group: w.group, MemberID: id, Generation: generation, Instance: w.cfg.NodeID}
		var err error
		if produced {
			err = w.producer.CommitOffsets(ctx, w.cl, by, offsets)
		} else {
			err = kafka.CommitOffsets(ctx, w.cl, by, offsets)
		}
		if !errors.Is(err, kerr.IllegalGeneration) && !errors.Is(err, kerr.RebalanceInProgress) {
			return err
		}
		for {
			nowID, now, ok := w.member.Current()
			if !ok || nowID != id {
				return errors.Join(err, errNoMember)
			}
			if now != generation {
				break
			}
			select {
			case <-changed:
				changed = w.news.wait()
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			}
		}
	}
}

// produceChanges sends a task's overlays to their changelogs.
func (w *worker) produceChanges(ctx context.Context, t *activeTask) error {
	for _, s := range t.stores {
		s.changes, s.first, s.last = s.overlay.Changes(), unknownOffset, unknownOffset
		records := make([]kgo.Record, len(s.changes)) // at once: they live and end together
		done := w.producer.Outcome(t.info.id, s.placed)
		for i, c := range s.changes {
			if err := s.changelogRecord(c, &records[i]); err != nil {
				return err
			}
			w.producer.Produce(ctx, &records[i], done)
		}
	}
	return nil
}

// takeOff says that EndTxn is about to be sent: from here until land Kafka may have committed what is not applied.
func (w *worker) takeOff(dirty []*activeTask) {
	f := &flight{since: time.Now(), done: make(chan struct{})}
	for _, t := range dirty {
		for _, s := range t.stores {
			own := *f
			own.done = make(chan struct{})
			s.replica.flight.Store(&own)
		}
	}
}

// land says that the outcome of the transaction in flight is applied, or that the replica is not active any more.
func (r *replica) land() {
	if f := r.flight.Swap(nil); f != nil {
		close(f.done)
	}
}

// committed applies what Kafka has committed, the tasks in parallel.
func (w *worker) committed(dirty []*activeTask, step func(string) error) error {
	var one sync.Mutex
	err := w.each(dirty, func(t *activeTask) error {
		return t.apply(func() error {
			if step == nil {
				return nil
			}
			one.Lock()
			defer one.Unlock()
			return step(stepApplied)
		})
	})
	for _, t := range dirty {
		if len(t.dirty) == 0 { // applied
			w.tellSkipped(t)
			w.countWork(t)
		}
	}
	if err != nil {
		return err
	}
	w.failures, w.took = 0, time.Since(w.committing)
	w.cfg.work.Commits.Add(1)
	w.cfg.work.CommitTook.Observe(w.took)
	w.news.announce()
	return nil
}

// apply applies a task's committed changes to its stores, and calls applied after each.
func (t *activeTask) apply(applied func() error) error {
	input := maps.Clone(t.position)
	at := store.Checkpoint{Input: make(map[store.TopicPartition]int64, len(input))}
	for tp, offset := range input {
		at.Input[store.TopicPartition(tp)] = offset
	}
	for _, s := range t.stores {
		at.Position = s.kv.Position()
		if len(s.changes) > 0 {
			from := at.Position
			at.Position = s.last + 1
			if err := s.kv.Apply(s.changes, at); err != nil {
				s.replica.applyFailed(err)
				return fmt.Errorf("apply to store %s: %w", s.info.id, err)
			}
			s.replica.set.work.Applied.Add(int64(len(s.changes)), s.info.id.Store, tally.FromTask)
			s.replica.changes.Committed(s.kv, from, at.Position, s.first, s.changes)
		}
		s.overlay.Reset()
		s.changes = nil
		s.replica.input.Store(&input)
		s.replica.land()
		if err := applied(); err != nil {
			return err
		}
	}
	t.task.Commit()
	clear(t.dirty)
	return nil
}

// countWork counts the records of a task whose transaction was committed.
func (w *worker) countWork(t *activeTask) {
	for _, in := range t.inputs {
		w.cfg.work.RecordsIn.Add(in.processed, in.tp.Topic)
		in.processed = 0
	}
	for topic, n := range t.counts.sent {
		w.cfg.work.RecordsOut.Add(n, topic)
	}
	clear(t.counts.sent)
}

// A peek is a read_uncommitted lookup, answered by the worker between two batches, because only it may look at overlays.
type peek struct {
	partition metadata.Partition
	look      func(store.Reader) error
	reply     chan peeked // of capacity one
}

type peeked struct {
	running bool // the replica is a running active here, and look has seen it
	err     error
}

// answerPeeks answers what has been asked since the last batch.
func (w *worker) answerPeeks() {
	for {
		select {
		case p := <-w.peeks:
			w.answer(p)
		default:
			return
		}
	}
}

// answer looks a key up with the uncommitted writes.
func (w *worker) answer(p *peek) {
	if info := w.tasks.byStore[p.partition]; info != nil {
		if t := w.active[info.id]; t != nil && t.stage == stageRunning {
			for _, s := range t.stores {
				if s.info.id == p.partition {
					p.reply <- peeked{running: true, err: p.look(s.overlay)}
					return
				}
			}
		}
	}
	p.reply <- peeked{}
}
