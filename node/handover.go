package node

import (
	"context"
	"slices"
	"time"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// assigned is called by the member with what the group gave.
func (w *worker) assigned(a *group.Membership) {
	w.mail.Lock()
	w.mail.assignment, w.mail.newest = a, a
	w.mail.Unlock()
	kafka.Poke(w.wake)
}

// claims are the active tasks that the node tells as owned when it joins: those that the worker has not given up, and
// those of an assignment that it has not looked at yet. Untold, such a task would be given to another at once, while the
// worker begins it, and commits it under the generation that the node has joined meanwhile.
func (w *worker) claims() []metadata.TaskID {
	w.mail.Lock()
	defer w.mail.Unlock()
	ids := slices.Clone(*w.owned.Load())
	if w.mail.newest != nil {
		ids = append(ids, w.mail.newest.Given.Active...)
	}
	slices.SortFunc(ids, metadata.TaskID.Compare)
	return slices.Compact(ids)
}

// lost is called by the member when the group does not know it any more. It returns when nothing is owned.
func (w *worker) lost(ctx context.Context) {
	done := make(chan struct{})
	w.mail.Lock()
	w.mail.assignment, w.mail.newest = nil, nil
	w.mail.lost = append(w.mail.lost, done)
	w.mail.abort()
	w.mail.Unlock()
	kafka.Poke(w.wake)
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// takeMail does what the group said since the last look.
func (w *worker) takeMail(ctx context.Context) {
	w.mail.Lock()
	lost, a := w.mail.lost, w.mail.assignment
	w.mail.lost, w.mail.assignment = nil, nil
	w.mail.Unlock()
	if len(lost) > 0 {
		w.abandon(ctx)
		for _, done := range lost {
			close(done)
		}
	}
	if a != nil {
		w.reassign(a) //nolint:contextcheck // a transaction has a context of its own, see newTxnContext
	}
}

// abandon drops everything: the node may have been replaced already.
func (w *worker) abandon(ctx context.Context) {
	if w.producer != nil {
		w.producer.Close()
		w.producer = nil
	}
	for _, t := range w.sorted() {
		w.stop(t)
		delete(w.active, t.info.id)
	}
	w.publish()
	w.replicas.assign(nil, w.generation, time.Now())
	w.newTxnContext(ctx)
	w.resumeAt = time.Time{}
}

// reassign gives up the tasks that the assignment does not name, after a last commit, and begins to promote new ones.
func (w *worker) reassign(a *group.Membership) {
	w.generation = a.Generation
	if w.holdUntil.IsZero() {
		w.holdUntil = a.Received
		if a.TookPlace {
			w.holdUntil = a.Received.Add(w.holdOff)
		}
	}
	keep := make(map[metadata.TaskID]bool, len(a.Given.Active))
	for _, id := range a.Given.Active {
		keep[id] = w.tasks.task(id) != nil
	}
	var revoked []*activeTask
	for _, t := range w.sorted() {
		if !keep[t.info.id] {
			revoked = append(revoked, t)
		}
	}
	if err := w.finish(revoked); err != nil {
		w.reset(err)
	}
	for _, t := range revoked {
		w.stop(t)
		delete(w.active, t.info.id)
	}
	if len(revoked) > 0 {
		if err := w.cfg.step(stepReleased); err != nil {
			w.reset(err)
		}
	}
	w.replicas.assign(w.tasks.roles(a.Given), a.Generation, time.Now())
	vanished := vanishedHosts(a)
	for _, id := range a.Given.Active {
		if t := w.active[id]; t != nil { // who has come back must not be fenced
			t.vanished = slices.DeleteFunc(t.vanished, func(node string) bool { return hasHost(&a.Assignment, node) })
			continue
		}
		if !keep[id] {
			continue
		}
		t := &activeTask{info: w.tasks.task(id), vanished: vanished[id], lost: w.lossesOf(id, a)}
		w.active[id] = t
		if w.producer != nil { // else with the producer, whose initialisation ends what an earlier one left open
			w.beginPromotion(t)
		}
	}
	w.publish()
	w.mail.Lock()
	if w.mail.newest == a {
		w.mail.newest = nil
	}
	w.mail.Unlock()
	w.news.announce()
	// A task may be claimed and never begun: its assignment was followed by one without it before the worker looked.
	if len(revoked) > 0 || slices.ContainsFunc(a.Claimed, func(id metadata.TaskID) bool { return !keep[id] }) {
		w.member.Rejoin() // join again without them, so that others get them
	}
}

// finish makes the last commit of tasks that are revoked.
func (w *worker) finish(revoked []*activeTask) error {
	if len(revoked) == 0 {
		return nil
	}
	if err := w.cfg.step(stepRevoke); err != nil {
		return err
	}
	if w.producer == nil || !w.producer.InTxn() {
		return nil
	}
	return w.commit()
}

func hasHost(m *assign.Map, node string) bool {
	return slices.ContainsFunc(m.Hosts, func(h assign.MapHost) bool { return string(h.Node) == node })
}

// vanishedHosts are, by task, the nodes that had the task as active before and have left, as far as this node or the
// leader knows.
func vanishedHosts(a *group.Membership) map[metadata.TaskID][]string {
	vanished := make(map[metadata.TaskID][]string)
	add := func(node metadata.NodeID, tasks []metadata.TaskID) {
		if node == "" || hasHost(&a.Assignment, string(node)) {
			return
		}
		for _, id := range tasks {
			if !slices.Contains(vanished[id], string(node)) {
				vanished[id] = append(vanished[id], string(node))
			}
		}
	}
	if a.Before != nil {
		for _, h := range a.Before.Hosts {
			add(h.Node, h.Active)
		}
	}
	for _, l := range a.Assignment.Lost {
		add(l.Node, l.Tasks)
	}
	return vanished
}

// publish tells the member what is owned and the fetcher what to fetch.
func (w *worker) publish() {
	ids := make([]metadata.TaskID, 0, len(w.active))
	var inputs []*input
	for _, t := range w.sorted() {
		ids = append(ids, t.info.id)
		if t.stage == stageRunning {
			inputs = append(inputs, t.inputs...)
		}
	}
	w.owned.Store(&ids)
	w.inputs.set(inputs)
	w.fetch()
}
