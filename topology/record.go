package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a topic. Nobody changes its bytes once it is made, so everyone may keep them.
type Record struct {
	Topic     string // where it was read from; of a record sent, where it goes
	Partition int32  // where it was read from; of a record sent, not decided yet (-1)
	Offset    int64  // where it was read from; of a record sent, -1
	Key       []byte // nil is no key, which differs from an empty one
	Value     []byte // nil is a tombstone, which differs from an empty one
	Timestamp int64  // milliseconds since 1970
	Headers   []Header
}

// TaskID names a task: one partition of one sub-topology.
type TaskID struct {
	Subtopology int32
	Partition   int32
}

// String returns the form of Kafka Streams, such as 0_3.
func (id TaskID) String() string {
	return strconv.Itoa(int(id.Subtopology)) + "_" + strconv.Itoa(int(id.Partition))
}

// ParseTaskID reads the form of [TaskID.String].
func ParseTaskID(s string) (TaskID, error) {
	left, right, _ := strings.Cut(s, "_")
	sub, err := parseSmall(left)
	if err == nil {
		var part int32
		if part, err = parseSmall(right); err == nil {
			return TaskID{Subtopology: sub, Partition: part}, nil
		}
	}
	return TaskID{}, fmt.Errorf("task id %q: want <sub-topology>_<partition>, such as 0_3", s)
}

// parseSmall reads a number from 0 to 2^31-1 in its shortest form.
func parseSmall(s string) (int32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = strconv.ErrSyntax
	}
	return int32(n), err
}
