package assign

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// A Lost is a process that the group lost while it may have run tasks, and which may not know yet: until its lease has
// run out it may answer for them as their active. Whoever has one of these tasks next waits for that before it runs it
// (I8), unless the address refuses connections, for then the process is gone.
type Lost struct {
	// Node and Address are the process's. Both are empty when nobody knows who it was.
	Node    metadata.NodeID
	Address string
	// Tasks are those that it may have run, sorted.
	Tasks []metadata.TaskID
	// Left is how long its lease may still hold, from the moment when a member learns of it; in whole milliseconds.
	Left time.Duration
}

// Losses are the processes that the group has lost by the plan of hosts and whose lease may hold. previous is the map of
// the generation right before, received so long ago as age tells. What it lost stays lost until its time is over; and the
// hosts that it has and the plan has not, or has in a newer incarnation, are lost now, with a whole lease left: their own,
// or lease where they did not tell.
func Losses(previous *Map, age time.Duration, hosts []MapHost, lease time.Duration) []Lost {
	var lost []Lost
	for _, l := range previous.Lost {
		if l.Left -= max(0, age); l.Left > 0 {
			lost = append(lost, l)
		}
	}
	for _, h := range previous.Hosts {
		same := func(o MapHost) bool { return o.Node == h.Node && o.Incarnation == h.Incarnation }
		if slices.ContainsFunc(hosts, same) {
			continue
		}
		// Any of those withheld may have been its own still.
		tasks := slices.Concat(h.Active, previous.Withheld)
		slices.SortFunc(tasks, metadata.TaskID.Compare)
		if tasks = slices.Compact(tasks); len(tasks) > 0 {
			lost = append(lost, Lost{Node: h.Node, Address: h.Address, Tasks: tasks, Left: cmp.Or(h.Lease, lease)})
		}
	}
	return lost
}

// UnknownLoss is what a leader that does not know the generation before has to assume: any task may have been run by
// somebody who was lost.
func UnknownLoss(tasks []Task, lease time.Duration) []Lost {
	l := Lost{Left: lease}
	for _, t := range tasks {
		l.Tasks = append(l.Tasks, t.ID)
	}
	if len(l.Tasks) == 0 {
		return nil
	}
	slices.SortFunc(l.Tasks, metadata.TaskID.Compare)
	return []Lost{l}
}

// LostFrom are the processes that may still believe to run the task.
func (m Map) LostFrom(task metadata.TaskID) []Lost {
	var from []Lost
	for _, l := range m.Lost {
		if _, found := slices.BinarySearchFunc(l.Tasks, task, metadata.TaskID.Compare); found {
			from = append(from, l)
		}
	}
	return from
}

// maxLease bounds what a decoder takes for a lease, in milliseconds.
const maxLease = 24 * 60 * 60 * 1000

// appendMillis writes a lease in whole milliseconds, never shorter than it is.
func appendMillis(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, min(uint64((max(0, d)+time.Millisecond-1)/time.Millisecond), maxLease))
}

func (r *reader) millis(field string) time.Duration {
	return time.Duration(r.uvarint(field, maxLease)) * time.Millisecond
}

func appendLost(b []byte, lost []Lost) []byte {
	b = binary.AppendUvarint(b, uint64(len(lost)))
	var one []byte
	for _, l := range lost {
		one = appendString(one[:0], string(l.Node))
		one = appendString(one, l.Address)
		one = appendTasks(one, l.Tasks)
		one = appendMillis(one, l.Left)
		b = binary.AppendUvarint(b, uint64(len(one)))
		b = append(b, one...)
	}
	return b
}

func (r *reader) lost() []Lost {
	if r.err != nil || len(r.rest) == 0 {
		return nil // of a release that did not tell
	}
	var lost []Lost
	for n := r.uvarint("lost", uint64(len(r.rest))); n > 0 && r.err == nil; n-- {
		outer := r.inside("lost")
		l := Lost{
			Node:    metadata.NodeID(r.string("lost node")),
			Address: r.string("lost address"),
			Tasks:   r.tasks("lost tasks"),
			Left:    r.millis("lease left"),
		}
		r.rest = outer
		lost = append(lost, l)
	}
	return lost
}
