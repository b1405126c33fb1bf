package node

import (
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// readsLinger is how long after a read the worker leaves room for the next.
const readsLinger = 100 * time.Millisecond

// A readRoom says how many tasks work at a time. A goroutine that processes runs until it is done or 10 ms have passed, and while
// all processors have one, nobody looks at the network: a read that comes waits that long, and again for a processor. So
// while there are reads, the tasks leave one processor free, if there is more than one. Without reads they take them all.
type readRoom struct {
	reads uint64 // so many there had been at the last look
	until time.Time
}

// width is how many tasks may work at a time on so many processors, after so many reads.
func (p *readRoom) width(processors int, reads uint64, now time.Time) int {
	if reads != p.reads {
		p.reads, p.until = reads, now.Add(readsLinger)
	}
	if now.Before(p.until) {
		processors--
	}
	return max(1, processors)
}

// each calls f for each task, as many at a time as there is room for, and returns the first error.
func (w *worker) each(tasks []*activeTask, f func(*activeTask) error) error {
	var reads uint64
	for _, r := range w.replicas.list() {
		reads += uint64(r.reads.Load())
	}
	var g errgroup.Group
	g.SetLimit(w.room.width(runtime.GOMAXPROCS(0), reads, time.Now()))
	for _, t := range tasks {
		g.Go(func() error { return f(t) })
	}
	return g.Wait()
}
