package topology

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/iqgate/iqgate/partitioner"
)

// Bytes that a window adds to its key.
const (
	windowKeySuffix  = 8  // start
	sessionKeySuffix = 16 // end, start
)

// WindowKey returns the key under which a window goes to a topic: the key, and the start as 8 bytes, big endian (Kafka
// Streams' TimeWindowedSerializer). In a changelog 4 bytes of zero follow.
func WindowKey(key []byte, start int64) []byte {
	data := make([]byte, 0, len(key)+windowKeySuffix)
	return binary.BigEndian.AppendUint64(append(data, key...), uint64(start))
}

// ParseWindowKey takes a [WindowKey] apart. The key shares its bytes.
func ParseWindowKey(data []byte) (key []byte, start int64, err error) {
	n := len(data) - windowKeySuffix
	if n < 0 {
		return nil, 0, fmt.Errorf("window key %x has %d bytes, want %d or more", data, len(data), windowKeySuffix)
	}
	return data[:n:n], toInt64(data[n:]), nil
}

// SessionKey returns the key under which a session goes to a topic and to its changelog: the key, the end and then the
// start as 8 bytes each, big endian (Kafka Streams' SessionWindowedSerializer).
func SessionKey(key []byte, start, end int64) []byte {
	data := make([]byte, 0, len(key)+sessionKeySuffix)
	data = binary.BigEndian.AppendUint64(append(data, key...), uint64(end))
	return binary.BigEndian.AppendUint64(data, uint64(start))
}

// ParseSessionKey takes a [SessionKey] apart. The key shares its bytes.
func ParseSessionKey(data []byte) (key []byte, start, end int64, err error) {
	n := len(data) - sessionKeySuffix
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("session key %x has %d bytes, want %d or more", data, len(data), sessionKeySuffix)
	}
	return data[:n:n], toInt64(data[n+8:]), toInt64(data[n:]), nil
}

// KeyForm is how the key of a windowed aggregate is written to its output topic.
type KeyForm uint8

// The forms.
const (
	// KeyBinary is what Kafka Streams writes and its windowed deserialisers read: [WindowKey] or [SessionKey]. The record
	// goes to the partition of the key without its window (Kafka Streams' WindowedStreamPartitioner).
	KeyBinary KeyForm = iota
	// KeyText is text as Kafka Streams' Windowed.toString prints it: [alice@1700000040000/1700000100000].
	KeyText
	// KeyJSON is a JSON object: {"key":"alice","start":1700000040000,"end":1700000100000}. Keys of a number format are
	// numbers, those of json are themselves, all others their text.
	KeyJSON
)

// String returns the form's name in YAML.
func (f KeyForm) String() string {
	switch f {
	case KeyBinary:
		return "binary"
	case KeyText:
		return "text"
	case KeyJSON:
		return "json"
	}
	return "form(" + strconv.Itoa(int(f)) + ")"
}

// windowedPartitioner is the partitioner of binary windowed keys: base on the key without its window.
func windowedPartitioner(base partitioner.Partitioner, suffix int) partitioner.Partitioner {
	return innerKeyPartitioner{base, suffix}
}

type innerKeyPartitioner struct {
	base   partitioner.Partitioner
	suffix int
}

func (p innerKeyPartitioner) inner(key []byte) []byte {
	if key == nil || len(key) < p.suffix {
		return key
	}
	return key[:len(key)-p.suffix]
}

// Name implements partitioner.Partitioner.
func (p innerKeyPartitioner) Name() string { return p.base.Name() }

// Partition implements partitioner.Partitioner.
func (p innerKeyPartitioner) Partition(key []byte, n int32) int32 {
	return p.base.Partition(p.inner(key), n)
}

// Choose implements partitioner.Partitioner.
func (p innerKeyPartitioner) Choose(topic string, key, value []byte, n int32) partitioner.Choice {
	return p.base.Choose(topic, p.inner(key), value, n)
}

// Keys implements partitioner.Partitioner.
func (p innerKeyPartitioner) Keys(key []byte, n int32) []int32 {
	return p.base.Keys(p.inner(key), n)
}

// Spreads implements partitioner.Spreader.
func (p innerKeyPartitioner) Spreads(key []byte) bool {
	s, ok := p.base.(partitioner.Spreader)
	return ok && s.Spreads(p.inner(key))
}

// windowFormatter rewrites the keys of a windowed aggregate for its output topic.
type windowFormatter struct {
	form     KeyForm
	windows  Windows
	keySerde Serde
}

// Process implements Processor.
func (f *windowFormatter) Process(ctx Context, r Record) error {
	if key, err := f.format(r.Key); err != nil {
		ctx.Skip(SkipMalformed)
	} else {
		r.Key = key
		ctx.Forward(r)
	}
	return nil
}

// format returns the key in text or JSON. A sliding window or a session ends with its last millisecond, the others with the
// first one after them, as in Kafka Streams.
func (f *windowFormatter) format(data []byte) ([]byte, error) {
	var key []byte
	var start, end int64
	var err error
	if f.windows.Kind == SessionWindows {
		key, start, end, err = ParseSessionKey(data)
	} else {
		key, start, err = ParseWindowKey(data)
		end = start + f.windows.Size.Milliseconds()
	}
	if err != nil {
		return nil, err
	}
	text, err := f.keySerde.Format(key)
	if err != nil {
		return nil, err
	}
	if f.form == KeyText {
		return fmt.Appendf(nil, "[%s@%d/%d]", text, start, end), nil
	}
	member := json.RawMessage(text)
	switch f.keySerde.Name() {
	case NameInt32, NameInt64, NameDouble, NameJSON:
	default:
		member = nil
	}
	if !json.Valid(member) { // text, or a double that is no JSON number
		if member, err = json.Marshal(text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(struct {
		Key   json.RawMessage `json:"key"`
		Start int64           `json:"start"`
		End   int64           `json:"end"`
	}{member, start, end})
}
