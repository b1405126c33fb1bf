package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// MaxFirstKeyBytes bounds the example key of a Misplaced. A node cuts a longer one.
const MaxFirstKeyBytes = 1 << 10

// Misplaced says that an input partition of a store has records whose key the store's partitioner puts elsewhere: they
// were written with another partitioner, and a lookup by key does not find them. It is never written after it was
// told.
type Misplaced struct {
	Store string
	TopicPartition
	// Records is how many there were since the node started.
	Records int64
	// FirstOffset and FirstKey are those of the first such record. FirstKey has at most MaxFirstKeyBytes.
	FirstOffset int64
	FirstKey    []byte
	// Expected are the partitions where the store's partitioner puts that key.
	Expected []int32
}

func (m Misplaced) equal(o Misplaced) bool {
	return m.Store == o.Store && m.TopicPartition == o.TopicPartition && m.Records == o.Records &&
		m.FirstOffset == o.FirstOffset && bytes.Equal(m.FirstKey, o.FirstKey) && slices.Equal(m.Expected, o.Expected)
}

// Dropped counts the records that a sink's partitioner sent to no partition (KIP-837) in committed transactions.
type Dropped struct {
	Sink, Topic string
	// Records is how many there were since the node started.
	Records int64
}

// validCounts reports what no node may say of misplaced and dropped records.
func (r *Report) validCounts() error {
	var errs []error
	type place struct {
		store string
		TopicPartition
	}
	places := make(map[place]bool, len(r.Misplaced))
	for i, m := range r.Misplaced {
		bad := func(field string, value any, want string) {
			errs = append(errs, fmt.Errorf("misplaced[%d] (%s, %s).%s: %v is not %s", i, m.Store, m.TopicPartition, field, value, want))
		}
		if m.Store == "" {
			bad("store", `""`, "a store's name")
		}
		if m.Topic == "" {
			bad("topic", `""`, "a topic's name")
		}
		if m.Partition < 0 {
			bad("partition", m.Partition, "0 or more")
		}
		if m.Records < 0 {
			bad("records", m.Records, "0 or more")
		}
		if m.FirstOffset < 0 {
			bad("first_offset", m.FirstOffset, "0 or more")
		}
		if len(m.FirstKey) > MaxFirstKeyBytes {
			bad("first_key", fmt.Sprintf("a key of %d bytes", len(m.FirstKey)), fmt.Sprintf("cut to %d", MaxFirstKeyBytes))
		}
		for _, p := range m.Expected {
			if p < 0 || p >= MaxPartitions {
				bad("expected", p, fmt.Sprintf("between 0 and %d", MaxPartitions-1))
			}
		}
		at := place{m.Store, m.TopicPartition}
		if places[at] {
			bad("partition", m.TopicPartition, "named once for its store")
		}
		places[at] = true
	}
	sinks := make(map[[2]string]bool, len(r.Dropped))
	for i, d := range r.Dropped {
		bad := func(field string, value any, want string) {
			errs = append(errs, fmt.Errorf("dropped[%d] (%s).%s: %v is not %s", i, d.Sink, field, value, want))
		}
		if d.Sink == "" {
			bad("sink", `""`, "a sink's name")
		}
		if d.Records < 0 {
			bad("records", d.Records, "0 or more")
		}
		into := [2]string{d.Sink, d.Topic}
		if sinks[into] {
			bad("sink", d.Sink, "named once for its topic")
		}
		sinks[into] = true
	}
	return errors.Join(errs...)
}
