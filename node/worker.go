package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/singleflight"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// A worker runs the active tasks of this node in one transaction at a time. Its loop:
//
//  1. Take what the group said: a new assignment, or that the membership is lost.
//  2. Start the tasks whose promotion is done.
//  3. Process some records of each running task, the tasks in parallel.
//  4. Commit when the interval has passed or enough has been written (txn.go).
//
// Whatever fails in a transaction ends the same way, in reset: the overlays are dropped, the client is closed, and every
// task is promoted again, from its position to the decided end. It never guesses whether a commit went through.
//
// Invariants: I9, offsets, outputs and changelog are in one transaction; I3, a running task holds the writer tokens of its
// replicas; I8, a task that was lost or revoked is not active any more before anybody else can be.
type worker struct {
	cfg      Config
	group    string
	cl       *kgo.Client
	catalog  *kafka.Catalog
	replicas *replicaSet
	tasks    *taskTable
	member   *group.Member
	news     *news
	log      *slog.Logger

	inputs   *inputSet
	fetch    func()        // wakes the input fetcher
	signal   chan struct{} // holds a token when an input has something
	wake     chan struct{} // holds a token when the mailbox has something
	promoted chan *promotion
	peeks    chan *peek

	mail struct {
		sync.Mutex
		assignment *group.Membership
		newest     *group.Membership // assigned, and not taken over by reassign yet
		lost       []chan struct{}
		abort      context.CancelFunc // ends the transaction in progress
	}
	owned atomic.Pointer[[]metadata.TaskID]

	// The loop's own.
	active     map[metadata.TaskID]*activeTask
	generation metadata.Generation
	producer   *kafka.Producer
	limits     kafka.BatchLimits
	room       readRoom
	ctx        context.Context // of the transaction in progress; replaced by reset
	failures   int             // resets since the last good commit
	resumeAt   time.Time       // when a producer may be made again
	due        time.Time       // when the transaction in progress is to end
	committing time.Time       // when the last commit began; at first when the worker did
	took       time.Duration   // the last commit, with applying
	idled      bool            // the input has run dry since the last transaction began
	lives      uint64
	carries    map[metadata.TaskID]*carry

	commitTimeout time.Duration
	// holdOff is how long after its first assignment this process begins no task: the lease of a process with the same
	// node id and another state directory, whose place in the group it may have taken, and which may not know yet (I8).
	holdOff    time.Duration
	holdUntil  time.Time
	promotions sync.WaitGroup
	fencing    singleflight.Group
	probing    singleflight.Group
	fenced     sync.Map // transactional id -> generation for which it was fenced
	warned     sync.Map // inputs of which warnOfForgottenOffsets has spoken
}

// run works until ctx ends, then commits what is done and gives everything back.
func (w *worker) run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer w.promotions.Wait()
	defer cancel()
	w.newTxnContext(runCtx)
	w.committing = time.Now()
	for ctx.Err() == nil {
		w.takeMail(runCtx)
		if err := w.ensureProducer(); err != nil { //nolint:contextcheck // a transaction has a context of its own, see newTxnContext
			w.log.Warn("cannot begin transactions", slog.Any("error", err))
			w.failed()
		}
		w.retryFailed() //nolint:contextcheck // a transaction has a context of its own, see newTxnContext
		w.startPromoted()
		w.answerPeeks()
		if err := w.damaged(); err != nil {
			w.reset(err)
			continue
		}
		n, err := w.processSome()
		if err == nil && w.commitDue() {
			err = w.commit() //nolint:contextcheck // a transaction has a context of its own, see newTxnContext
		}
		if err != nil {
			w.reset(err)
			continue
		}
		if n == 0 {
			w.idle(ctx)
		}
	}
	w.shutDown() //nolint:contextcheck // a transaction has a context of its own, see newTxnContext
	return nil
}

// idle waits until there is something to do.
func (w *worker) idle(ctx context.Context) {
	w.idled = true
	wait := time.Second
	if w.producer != nil && w.producer.InTxn() {
		wait = min(wait, time.Until(w.due))
	}
	if w.producer == nil {
		wait = min(wait, max(time.Until(w.resumeAt), time.Millisecond))
	}
	t := time.NewTimer(max(wait, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-w.signal:
	case <-w.wake:
	case p := <-w.promoted:
		w.start(p)
	case p := <-w.peeks:
		w.answer(p)
	}
}

// newTxnContext makes the context of the transactions to come. It ends when the membership is lost, so that nothing
// waits for Kafka then.
func (w *worker) newTxnContext(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	w.mail.Lock()
	w.mail.abort = cancel
	w.mail.Unlock()
	w.ctx = ctx
}

func (w *worker) sorted() []*activeTask {
	ts := make([]*activeTask, 0, len(w.active))
	for _, t := range w.active {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(a, b *activeTask) int { return a.info.id.Compare(b.info.id) })
	return ts
}

// beginPromotion starts to make the task ready.
func (w *worker) beginPromotion(t *activeTask) {
	w.lives++
	t.life, t.stage = w.lives, stagePromoting
	ctx, cancel := context.WithCancel(w.ctx)
	t.cancel = cancel
	p := &promotion{began: time.Now(), task: t.info, life: t.life, generation: w.generation, notBefore: w.holdUntil, lost: t.lost}
	for _, node := range t.vanished {
		p.fence = append(p.fence, kafka.TransactionalID(w.group, metadata.NodeID(node), 0))
	}
	w.promotions.Go(func() { w.promote(ctx, p) })
}

// startPromoted starts the tasks whose promotion is done.
func (w *worker) startPromoted() {
	for {
		select {
		case p := <-w.promoted:
			w.start(p)
		default:
			return
		}
	}
}

func (w *worker) start(p *promotion) {
	t := w.active[p.task.id]
	if t == nil || t.life != p.life || t.stage != stagePromoting || t.cancel == nil {
		w.giveTokens(p.task) // revoked, reset or begun again meanwhile
		return
	}
	t.cancel()
	if err := w.newRun(t, p); err != nil {
		w.giveTokens(p.task)
		w.fail(t, err)
		return
	}
	t.stage, t.vanished, t.lost = stageRunning, nil, nil
	w.cfg.work.PromotionTook.Observe(time.Since(p.began))
	for _, s := range t.stores {
		input := maps.Clone(t.position)
		s.replica.input.Store(&input)
		s.replica.stand(func(st standing) standing {
			st.role, st.state, st.generation = metadata.RoleActive, metadata.StateRunning, w.generation
			return st
		})
	}
	w.publish()
}

// stop ends a task's run: nothing of its uncommitted writes stays, and its replicas go back to the tail.
func (w *worker) stop(t *activeTask) {
	if t.cancel != nil {
		t.cancel()
	}
	if t.stage != stageRunning {
		t.stage = stagePromoting
		return
	}
	w.keep(t)
	for _, in := range t.inputs {
		in.close()
	}
	for _, s := range t.stores {
		s.replica.input.Store(nil)
		s.replica.next.Store(s.replica.position())
		s.replica.stand(func(st standing) standing {
			st.state = s.replica.stateOutsideTask(st.role)
			return st
		})
		s.replica.land()
		s.replica.give()
	}
	t.stores, t.inputs, t.task = nil, nil, nil
	t.stage = stagePromoting
	w.replicas.fetch()
}

// fail lets the task rest: the record that it failed on would fail again.
func (w *worker) fail(t *activeTask, err error) {
	w.cfg.work.TaskFailures.Add(1)
	w.log.Error("task stopped", slog.String("task", t.info.id.String()), slog.Any("error", err), slog.Duration("retry_in", w.cfg.TaskRetry))
	w.stop(t)
	t.stage, t.retryAt = stageFailed, time.Now().Add(w.cfg.TaskRetry)
	for _, s := range t.info.stores {
		if r := w.replicas.get(s.id); r != nil {
			r.stand(func(st standing) standing {
				st.state = metadata.StateSuspended
				return st
			})
		}
	}
}

// retryFailed tries tasks again that have rested.
func (w *worker) retryFailed() {
	if w.producer == nil {
		return
	}
	now := time.Now()
	for _, t := range w.active {
		if t.stage == stageFailed && now.After(t.retryAt) {
			w.beginPromotion(t)
		}
	}
}

// ensureProducer makes the transactional client if there is none and the pause after the last failure is over. Tasks are
// promoted only after it was initialised, for that ends what an earlier client left open.
func (w *worker) ensureProducer() error {
	if w.producer != nil || w.cfg.Replica != nil || time.Now().Before(w.resumeAt) { // who follows writes nothing
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, kafka.RequestTimeout) // it ends when the membership is lost
	defer cancel()
	p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{
		Options:            w.cfg.kafkaOptions(),
		TransactionalID:    kafka.TransactionalID(w.group, metadata.NodeID(w.cfg.NodeID), 0),
		TransactionTimeout: w.cfg.TransactionTimeout,
		Limits:             w.limits,
	})
	if err != nil {
		return err
	}
	w.producer = p
	for _, t := range w.sorted() {
		if t.stage == stagePromoting && t.cancel == nil {
			w.beginPromotion(t)
		}
	}
	return nil
}

// processSome lets each running task process what is there, in parallel, and returns the number of records.
func (w *worker) processSome() (int, error) {
	if w.producer == nil {
		return 0, nil
	}
	var ready []*activeTask
	for _, t := range w.active {
		if t.stage == stageRunning && t.hasInput() {
			ready = append(ready, t)
		}
	}
	if len(ready) == 0 {
		return 0, nil
	}
	if !w.producer.InTxn() {
		if err := w.producer.Begin(); err != nil {
			return 0, err
		}
		w.due, w.idled = commitAt(time.Now(), w.committing, w.took, w.idled, w.cfg.CommitInterval), false
	}
	limit := max(1, w.cfg.MaxPollRecords/len(ready))
	var total atomic.Int64
	err := w.each(ready, func(t *activeTask) error {
		n, err := t.process(limit)
		total.Add(int64(n))
		return t.blame(err)
	})
	return int(total.Load()), err
}

// blame makes a failure to process the task's own, for which it rests, unless a promotion mends it: that finds out where to go
// on, and waits for a store that is rebuilt.
func (t *activeTask) blame(err error) error {
	var input *inputError
	if err == nil || errors.As(err, &input) && errors.Is(err, kerr.OffsetOutOfRange) || t.damaged() != nil {
		return err
	}
	return &taskError{task: t, err: err}
}

func (t *activeTask) hasInput() bool { return slices.ContainsFunc(t.inputs, (*input).ready) }

// taskError says which task failed to process.
type taskError struct {
	task *activeTask
	err  error
}

func (e *taskError) Error() string { return "task " + e.task.info.id.String() + ": " + e.err.Error() }

func (e *taskError) Unwrap() error { return e.err }

// reset ends a transaction that failed: overlays are dropped, the client is closed, and every task begins again from what
// Kafka says is committed. A task that failed on a record of its own rests meanwhile.
func (w *worker) reset(cause error) {
	w.cfg.work.Aborts.Add(1)
	w.log.Warn("transaction aborted, tasks begin again from what is committed", slog.Any("error", cause))
	if w.producer != nil {
		w.producer.Close()
		w.producer = nil
	}
	var te *taskError
	var pe *kafka.ProduceError
	for _, t := range w.sorted() {
		switch {
		case t.stage == stageFailed:
		case errors.As(cause, &te) && te.task == t:
			w.fail(t, te.err)
		case errors.As(cause, &pe) && pe.Poison() && pe.Task == t.info.id:
			w.fail(t, pe)
		default:
			w.stop(t)
			t.cancel = nil // promoted again with the next producer
		}
	}
	w.publish()
	w.failed()
}

// failed sets the pause before the next producer.
func (w *worker) failed() {
	w.failures++
	w.resumeAt = time.Now().Add(kafka.Backoff(w.failures))
}

// shutDown commits what is done and gives all tasks back.
func (w *worker) shutDown() {
	w.commitTimeout = min(w.commitTimeout, w.cfg.ShutdownTimeout/shutdownShare)
	if w.producer != nil && w.producer.InTxn() {
		if err := w.commit(); err != nil {
			w.log.Warn("last commit failed; what it had is processed again", slog.Any("error", err))
		}
	}
	if w.producer != nil {
		w.producer.Close()
		w.producer = nil
	}
	for _, t := range w.sorted() {
		w.stop(t)
	}
	w.mail.Lock()
	lost := w.mail.lost
	w.mail.lost = nil
	w.mail.Unlock()
	for _, done := range lost {
		close(done)
	}
}
