package assign

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/iqgate/iqgate/metadata"
)

// The user data of JoinGroup and SyncGroup: one byte of version, then fields in a fixed order. Numbers are uvarints,
// signed ones zigzag varints, strings and lists led by their length. A task list is sorted and written as runs of
// partitions (sub-topology, first partition, how many), since neighbours are often together.
//
// A later release adds fields at the end of a message, or at the end of a host, which carries its own length, and keeps
// the version: an older reader skips the bytes that it does not know. What an older reader would misunderstand gets a
// new version, which it refuses.
const userdataVersion = 1

// The largest things that a decoder accepts. They bound its memory, whatever the bytes claim: a run of tasks is
// short on the wire but long in memory.
const (
	MaxTasks       = 1 << 20 // in one message, all lists together
	MaxStringBytes = 1 << 16
)

// EncodeMember is a member's user data for JoinGroup. Member.ID is not in it: the group tells it.
func EncodeMember(m Member) []byte {
	b := []byte{userdataVersion}
	b = appendString(b, string(m.Node))
	b = appendString(b, m.Address)
	b = appendString(b, m.Rack)
	b = binary.AppendVarint(b, int64(m.Incarnation))
	b = binary.AppendUvarint(b, uint64(max(0, m.Capacity)))
	b = binary.AppendVarint(b, int64(m.OwnedGeneration))
	b = appendTasks(b, m.Owned)
	tasks := slices.SortedFunc(maps.Keys(m.Lags), metadata.TaskID.Compare)
	b = appendTasks(b, tasks)
	for _, t := range tasks {
		b = binary.AppendVarint(b, m.Lags[t])
	}
	b = appendBool(b, m.Draining)
	return appendMillis(b, m.Lease)
}

// DecodeMember reads what EncodeMember wrote; the caller sets the ID. Lists come back sorted, without duplicates. It
// refuses a version that it does not know, and whatever is not well-formed, by naming the field.
func DecodeMember(data []byte) (Member, error) {
	r := newReader(data)
	m := Member{
		Node:            metadata.NodeID(r.string("node")),
		Address:         r.string("address"),
		Rack:            r.string("rack"),
		Incarnation:     metadata.Incarnation(r.varint("incarnation")),
		Capacity:        int(r.uvarint("capacity", MaxCapacity)),
		OwnedGeneration: metadata.Generation(r.varint("owned generation")),
		Owned:           r.tasks("owned"),
	}
	if tasks := r.tasks("lags"); len(tasks) > 0 && r.err == nil {
		if len(tasks) > len(r.rest) { // a lag takes a byte at least
			r.fail("lags", "%d tasks with %d bytes left", len(tasks), len(r.rest))
		} else {
			m.Lags = make(map[metadata.TaskID]int64, len(tasks))
		}
		for _, t := range tasks {
			if r.err != nil {
				break
			}
			m.Lags[t] = r.varint("lags")
		}
	}
	if len(r.rest) > 0 { // an earlier release ends here
		m.Draining = r.bool("draining")
	}
	if len(r.rest) > 0 {
		m.Lease = r.millis("lease")
	}
	if r.err != nil {
		return Member{}, fmt.Errorf("member user data: %w", r.err)
	}
	return m, nil
}

// EncodeAssignment is the user data of SyncGroup, the same for every member.
func EncodeAssignment(m Map) []byte {
	b := []byte{userdataVersion}
	b = binary.AppendUvarint(b, uint64(max(0, m.AcceptableLag)))
	b = appendTasks(b, m.Withheld)
	b = binary.AppendUvarint(b, uint64(len(m.Hosts)))
	var host []byte
	for _, h := range m.Hosts {
		host = appendString(host[:0], string(h.Node))
		host = appendString(host, h.Address)
		host = appendString(host, h.Rack)
		host = binary.AppendVarint(host, int64(h.Incarnation))
		for _, list := range [][]metadata.TaskID{h.Active, h.Standby, h.Warmup, h.Awaited} {
			host = appendTasks(host, list)
		}
		host = appendMillis(appendBool(host, h.Draining), h.Lease)
		b = binary.AppendUvarint(b, uint64(len(host)))
		b = append(b, host...)
	}
	return appendLost(b, m.Lost)
}

// DecodeAssignment reads what EncodeAssignment wrote, on the same terms as DecodeMember.
func DecodeAssignment(data []byte) (Map, error) {
	r := newReader(data)
	m := Map{
		AcceptableLag: int64(r.uvarint("acceptable lag", 1<<62)),
		Withheld:      r.tasks("withheld"),
	}
	for n := r.uvarint("hosts", uint64(len(data))); n > 0 && r.err == nil; n-- {
		outer := r.inside("host")
		h := MapHost{
			Node:        metadata.NodeID(r.string("node")),
			Address:     r.string("address"),
			Rack:        r.string("rack"),
			Incarnation: metadata.Incarnation(r.varint("incarnation")),
			Active:      r.tasks("active"),
			Standby:     r.tasks("standby"),
			Warmup:      r.tasks("warmup"),
			Awaited:     r.tasks("awaited"),
		}
		if len(r.rest) > 0 { // an earlier release ends here
			h.Draining, h.Lease = r.bool("draining"), r.millis("lease")
		}
		r.rest = outer
		m.Hosts = append(m.Hosts, h)
	}
	m.Lost = r.lost()
	if r.err != nil {
		return Map{}, fmt.Errorf("assignment user data: %w", r.err)
	}
	return m, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendTasks writes a set of tasks as runs. Each run is the step in sub-topologies from the run before it, its first
// partition and its length.
func appendTasks(b []byte, tasks []metadata.TaskID) []byte {
	if !slices.IsSortedFunc(tasks, metadata.TaskID.Compare) {
		tasks = slices.SortedFunc(slices.Values(tasks), metadata.TaskID.Compare)
	}
	type run struct {
		first metadata.TaskID
		n     int32
	}
	var runs []run
	for _, t := range tasks {
		if last := len(runs) - 1; last >= 0 && runs[last].first.Subtopology == t.Subtopology {
			switch next := runs[last].first.Partition + runs[last].n; t.Partition {
			case next - 1: // a duplicate
				continue
			case next:
				runs[last].n++
				continue
			}
		}
		runs = append(runs, run{t, 1})
	}
	b = binary.AppendUvarint(b, uint64(len(runs)))
	sub := int32(0)
	for _, r := range runs {
		b = binary.AppendUvarint(b, uint64(r.first.Subtopology-sub))
		b = binary.AppendUvarint(b, uint64(r.first.Partition))
		b = binary.AppendUvarint(b, uint64(r.n))
		sub = r.first.Subtopology
	}
	return b
}

// reader takes fields off the front of rest. After the first error it returns zero values only.
type reader struct {
	rest []byte
	left int // how many tasks may still be decoded
	err  error
}

func newReader(data []byte) *reader {
	r := &reader{left: MaxTasks}
	switch {
	case len(data) == 0:
		r.fail("version", "the data are empty")
	case data[0] == 0 || data[0] > userdataVersion:
		r.fail("version", "%d is not known here, the newest known is %d: a newer release runs in the group", data[0], userdataVersion)
	default:
		r.rest = data[1:]
	}
	return r
}

func (r *reader) fail(field, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

func (r *reader) uvarint(field string, limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.fail(field, "no number in the %d bytes left", len(r.rest))
		return 0
	case v > limit:
		r.fail(field, "%d is more than %d", v, limit)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint(field string) int64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail(field, "no number in the %d bytes left", len(r.rest))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bool(field string) bool { return r.uvarint(field, 1) == 1 }

func (r *reader) string(field string) string {
	n := r.uvarint(field, MaxStringBytes)
	if n > uint64(len(r.rest)) {
		r.fail(field, "length %d with %d bytes left", n, len(r.rest))
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// inside narrows rest to the message that its length leads, and returns what follows that.
func (r *reader) inside(field string) []byte {
	n := r.uvarint(field, 1<<62)
	if n > uint64(len(r.rest)) {
		r.fail(field, "length %d with %d bytes left", n, len(r.rest))
		return nil
	}
	after := r.rest[n:]
	r.rest = r.rest[:n]
	return after
}

// tasks reads what appendTasks wrote. Runs that go back, overlap or touch beyond the last possible partition are
// refused, so the result is sorted and has no duplicates.
func (r *reader) tasks(field string) []metadata.TaskID {
	const bytesPerRun, lastPartition = 3, 1<<31 - 1
	runs := r.uvarint(field, uint64(len(r.rest)/bytesPerRun))
	var tasks []metadata.TaskID
	var sub, next uint64
	for ; runs > 0 && r.err == nil; runs-- {
		step := r.uvarint(field, lastPartition)
		if step > 0 {
			next = 0
		}
		sub += step
		first := r.uvarint(field, lastPartition)
		n := r.uvarint(field, uint64(r.left))
		switch {
		case r.err != nil:
			return nil
		case n == 0 || sub > lastPartition || first < next || first+n-1 > lastPartition:
			r.fail(field, "%d tasks from %d_%d on do not follow what was before them", n, sub, first)
			return nil
		}
		r.left -= int(n)
		next = first + n
		for p := first; p < next; p++ {
			tasks = append(tasks, metadata.TaskID{Subtopology: int32(sub), Partition: int32(p)})
		}
	}
	if r.err != nil {
		return nil
	}
	return tasks
}
