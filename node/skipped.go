package node

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// skipLogEvery is the shortest time between two lines of the log about the skipped records of one task.
const skipLogEvery = 10 * time.Second

// A carry is what a task keeps over its runs on this node: how many records it skipped, by reason, and its stream times.
type carry struct {
	skipped  map[string]int64
	told     map[string]int64 // to the tally, by reason
	counted  int64            // the total that the tally was told last
	times    streamTimes
	logged   int64 // the total that the log told last
	loggedAt time.Time
}

// keep remembers what the run that ends had committed.
func (w *worker) keep(t *activeTask) {
	if t.task == nil || t.task.Reset() != nil { // back to the last commit
		return
	}
	c := w.carried(t)
	for reason, n := range t.task.Skipped() {
		c.skipped[reason] += n
	}
	c.times = c.times.later(timesOf(t.task))
}

func (w *worker) carried(t *activeTask) *carry {
	c := w.carries[t.info.id]
	if c == nil {
		c = &carry{skipped: make(map[string]int64), told: make(map[string]int64), times: noTimes()}
		w.carries[t.info.id] = c
	}
	return c
}

// tellSkipped is called when a task's transaction was committed. It logs the records that the task could not use, when
// there are new ones, and counts those that were misplaced or dropped (misplaced.go).
func (w *worker) tellSkipped(t *activeTask) {
	w.tasks.met.commit(t.counts, time.Now(), w.log)
	c, now := w.carried(t), t.task.Skipped()
	var total int64
	for _, n := range c.skipped {
		total += n
	}
	for _, n := range now {
		total += n
	}
	if total != c.counted {
		c.counted = total
		w.countSkipped(c, now)
	}
	if total == c.logged || time.Since(c.loggedAt) < skipLogEvery {
		return
	}
	c.logged, c.loggedAt = total, time.Now()
	attrs := []any{slog.String("task", t.info.id.String()), slog.Int64("total", total)}
	for _, reason := range slices.Sorted(maps.Keys(now)) {
		attrs = append(attrs, slog.Int64(reason, c.skipped[reason]+now[reason]))
	}
	w.log.Warn("records skipped", attrs...)
}

// countSkipped tells the tally what a task has skipped since it was told last; now is what its run has.
func (w *worker) countSkipped(c *carry, now map[string]int64) {
	count := func(reason string) {
		total := c.skipped[reason] + now[reason]
		w.cfg.work.Skipped.Add(total-c.told[reason], reason)
		c.told[reason] = total
	}
	for reason := range c.skipped {
		count(reason)
	}
	for reason := range now {
		count(reason)
	}
}
