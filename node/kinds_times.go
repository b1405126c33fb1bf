package node

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/topology"
)

// Stream times are how far a task has come in the time of its records: windows close by them. They travel with the
// committed input offsets, as the metadata that Kafka keeps beside each offset (as Kafka Streams' partition time does), so
// that whoever runs the task next closes exactly the windows that an uninterrupted run would have closed. All are in
// milliseconds.
type streamTimes struct {
	Task       int64            `json:"task"`       // the task's own, -1 before the first record
	Processors map[string]int64 `json:"processors"` // what each processor has observed, by name
}

const (
	// timesFormat begins the metadata that is ours; what begins otherwise is somebody else's and ignored.
	timesFormat = "iqgate-times-1:"
	// maxTimesBytes bounds the metadata: Kafka's default of offset.metadata.max.bytes is 4096 bytes, and a commit with more
	// is refused. It has room for about 80 windowed processors with names of 30 letters in one sub-topology; the times
	// of more than that do not travel.
	maxTimesBytes = 4000
)

func noTimes() streamTimes { return streamTimes{Task: -1} }

// timesOf are the stream times that a task has reached.
func timesOf(t *topology.Task) streamTimes {
	return streamTimes{Task: t.StreamTime(), Processors: t.StreamTimes()}
}

// advance raises the task's stream times to those of an earlier run.
func (s streamTimes) advance(t *topology.Task) {
	t.AdvanceStreamTime(s.Task)
	t.AdvanceStreamTimes(s.Processors)
}

// later is the larger of each time.
func (s streamTimes) later(o streamTimes) streamTimes {
	out := streamTimes{Task: max(s.Task, o.Task), Processors: maps.Clone(s.Processors)}
	if out.Processors == nil {
		out.Processors = make(map[string]int64, len(o.Processors))
	}
	for name, ms := range o.Processors {
		if old, ok := out.Processors[name]; !ok || ms > old {
			out.Processors[name] = ms
		}
	}
	return out
}

// encode is the metadata of a commit. What does not fit is left out, processors that come later by name first.
func (s streamTimes) encode() string {
	for {
		b, err := json.Marshal(s)
		if err == nil && len(timesFormat)+len(b) <= maxTimesBytes {
			return timesFormat + string(b)
		}
		if err != nil || len(s.Processors) == 0 {
			return ""
		}
		names := slices.Sorted(maps.Keys(s.Processors))
		kept := make(map[string]int64, len(names)/2)
		for _, name := range names[:len(names)/2] {
			kept[name] = s.Processors[name]
		}
		s.Processors = kept
	}
}

// decodeTimes reads the metadata of a commit. What somebody else wrote says nothing.
func decodeTimes(text string) streamTimes {
	s := noTimes()
	body, ours := strings.CutPrefix(text, timesFormat)
	if !ours || json.Unmarshal([]byte(body), &s) != nil {
		return noTimes()
	}
	return s
}

// committedTimes are the latest times in the commits of a task's inputs. Each commit has those of its own moment.
func committedTimes(commits map[metadata.TopicPartition]kafka.Commit) streamTimes {
	s := noTimes()
	for _, c := range commits {
		s = s.later(decodeTimes(c.Metadata))
	}
	return s
}

// commits adds what the transaction commits of the task's inputs.
func (t *activeTask) commits(to map[metadata.TopicPartition]kafka.Commit) {
	times := timesOf(t.task).encode()
	for tp, offset := range t.dirty {
		to[tp] = kafka.Commit{Offset: offset, Metadata: times}
	}
}
