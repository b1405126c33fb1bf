package node

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// misplacedLogEvery is the shortest time between two lines of the log about the misplaced records of one store and topic,
// or the dropped ones of one sink.
const misplacedLogEvery = 10 * time.Second

// committedCounts are the misplaced and the dropped records of all committed transactions since the node started, whoever
// has the tasks now. Those of a transaction whose outcome was not known when its tasks were stopped are missing. Any
// goroutine may use it.
type committedCounts struct {
	mu struct {
		sync.Mutex
		misplaced map[misplacedAt]*metadata.Misplaced
		dropped   map[droppedBy]int64
		said      map[string]time.Time // when the log told of what, by store and topic, or sink
	}
}

// commit takes over what a run has counted since its last commit, and tells the log when there is something new.
func (c *committedCounts) commit(run *runCounts, now time.Time, log *slog.Logger) {
	if len(run.misplaced) == 0 && len(run.dropped) == 0 {
		return
	}
	for _, tell := range c.add(run, now) {
		tell(log)
	}
	run.misplaced, run.dropped = nil, nil
}

// add counts and returns what to log.
func (c *committedCounts) add(run *runCounts, now time.Time) []func(*slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.said == nil {
		c.mu.misplaced, c.mu.dropped = make(map[misplacedAt]*metadata.Misplaced), make(map[droppedBy]int64)
		c.mu.said = make(map[string]time.Time)
	}
	var tell []func(*slog.Logger)
	due := func(kind, of, topic string) bool {
		what := strings.Join([]string{kind, of, topic}, "\x00")
		if last, said := c.mu.said[what]; said && now.Sub(last) < misplacedLogEvery {
			return false
		}
		c.mu.said[what] = now
		return true
	}
	for at, m := range run.misplaced {
		all := c.mu.misplaced[at]
		if all == nil {
			all = m
			c.mu.misplaced[at] = all
		} else {
			all.Records += m.Records
		}
		if due("misplaced", at.store, at.tp.Topic) {
			tell = append(tell, tellMisplaced(*m, c.total(at.store, at.tp.Topic)))
		}
	}
	for by, n := range run.dropped {
		c.mu.dropped[by] += n
		if total := c.mu.dropped[by]; due("dropped", by.sink, by.topic) {
			tell = append(tell, func(log *slog.Logger) {
				log.Warn("a sink's partitioner sends records to no partition", slog.String("sink", by.sink), slog.String("topic", by.topic), slog.Int64("total", total))
			})
		}
	}
	return tell
}

// total is the count of all partitions of a topic. The caller holds the lock.
func (c *committedCounts) total(store, topic string) int64 {
	var n int64
	for at, m := range c.mu.misplaced {
		if at.store == store && at.tp.Topic == topic {
			n += m.Records
		}
	}
	return n
}

// tellMisplaced logs a store's total in a topic, with the first of the newest records.
func tellMisplaced(m metadata.Misplaced, total int64) func(*slog.Logger) {
	return func(log *slog.Logger) {
		log.Warn("records are in another partition than the store's partitioner puts their key; lookups do not find them",
			slog.String("store", m.Store), slog.String("topic", m.Topic), slog.Int64("total", total), slog.Int("partition", int(m.Partition)),
			slog.Int64("offset", m.FirstOffset), slog.String("key", fmt.Sprintf("%q", m.FirstKey)), slog.Any("expected_partitions", m.Expected))
	}
}

// misplaced are the counts as they are now, by store, topic and partition.
func (c *committedCounts) misplaced() []metadata.Misplaced {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]metadata.Misplaced, 0, len(c.mu.misplaced))
	for _, m := range c.mu.misplaced {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b metadata.Misplaced) int {
		if by := strings.Compare(a.Store, b.Store); by != 0 {
			return by
		}
		return a.Compare(b.TopicPartition)
	})
	return list
}

// dropped are the counts as they are now, by sink.
func (c *committedCounts) dropped() []metadata.Dropped {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]metadata.Dropped, 0, len(c.mu.dropped))
	for by, n := range c.mu.dropped {
		list = append(list, metadata.Dropped{Sink: by.sink, Topic: by.topic, Records: n})
	}
	slices.SortFunc(list, func(a, b metadata.Dropped) int { return strings.Compare(a.Sink, b.Sink) })
	return list
}
