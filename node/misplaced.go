package node

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// What is judged. A record is misplaced for a store when the task that processes it reads or writes the store under the
// record's own key, and the store's partitioner does not put that key into the task's partition: whoever looks the key up
// asks another partition, and does not find what the task has written.
//
// So a record is judged by what its processors do with it, not by the topology's form. Not judged are records without a
// key, those that no processor uses a store for (skipped ones, for example), and those whose processors use another key
// than the record's own: where a record belongs then is the processor's secret. A topology that takes another key by
// passing through a repartition topic is judged there, by the key that the repartition topic has.

// firstKeyBytes is how much of the first misplaced key is kept.
const firstKeyBytes = 64

// A placement says where the partitioner of some of a task's stores puts keys. One goroutine at a time may use it.
type placement struct {
	by partitioner.Partitioner
	// hashed says that by is a built-in one, which puts a key into one partition, where Partition says, or, if it
	// spreads the key, anywhere.
	hashed    bool
	partition int32 // the task's
	count     int32 // the stores' partitions

	number uint64 // of the record that held is about
	held   bool
}

// newPlacement returns nil when the partitioner is not known here, and then nothing is judged.
func newPlacement(known *partitioner.Registry, name string, partition, count int32) *placement {
	by, err := known.Get(name)
	if err != nil {
		return nil
	}
	_, err = (*partitioner.Registry)(nil).Get(name) // which knows the built-in ones alone, and nobody else has their names
	return &placement{by: by, hashed: err == nil, partition: partition, count: count}
}

// holds says whether a lookup of key asks the task's partition. It hashes once for each record, by its number from 1 on,
// and does not allocate where the partitioner is a built-in one.
func (p *placement) holds(number uint64, key []byte) bool {
	if p.number != number {
		p.number, p.held = number, p.look(key)
	}
	return p.held
}

func (p *placement) look(key []byte) bool {
	if p.hashed {
		if p.by.Partition(key, p.count) == p.partition {
			return true
		}
		s, ok := p.by.(partitioner.Spreader)
		return ok && s.Spreads(key)
	}
	return slices.Contains(p.expected(key), p.partition)
}

// expected are the partitions in which a lookup of key looks; none when it fails.
func (p *placement) expected(key []byte) []int32 {
	in, err := partitioner.Lookup(p.by, key, p.count)
	if err != nil {
		return nil
	}
	return in
}

// A keyCheck judges the records by which a task uses one of its stores.
type keyCheck struct {
	store  string
	place  *placement
	run    *runCounts
	number uint64 // of the newest record judged
}

// uses is called with each key under which the task reads or writes the store.
func (c *keyCheck) uses(key []byte) {
	if c == nil || c.number == c.run.number || c.run.record.Key == nil || !bytes.Equal(key, c.run.record.Key) {
		return
	}
	c.number = c.run.number
	if !c.place.holds(c.number, key) {
		c.run.misplace(c)
	}
}

// runCounts are the records of one run of a task that were misplaced, dropped or sent since its last commit; committedCounts
// takes the first two over. One goroutine at a time uses it.
type runCounts struct {
	number    uint64      // of the record in process, from 1
	record    *kgo.Record // in process
	misplaced map[misplacedAt]*metadata.Misplaced
	dropped   map[droppedBy]int64
	sent      map[string]int64 // to sinks, by topic; countWork takes them over
}

// misplacedAt is what misplaced records are counted by.
type misplacedAt struct {
	store string
	tp    metadata.TopicPartition
}

// droppedBy is what dropped records are counted by.
type droppedBy struct{ sink, topic string }

// begin says that rec is processed from here on.
func (c *runCounts) begin(rec *kgo.Record) {
	c.number++
	c.record = rec
}

func (c *runCounts) misplace(by *keyCheck) {
	rec := c.record
	at := misplacedAt{by.store, metadata.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}}
	m := c.misplaced[at]
	if m == nil {
		m = &metadata.Misplaced{
			Store: at.store, TopicPartition: at.tp, FirstOffset: rec.Offset,
			FirstKey: bytes.Clone(rec.Key[:min(len(rec.Key), firstKeyBytes)]), Expected: by.place.expected(rec.Key),
		}
		if c.misplaced == nil {
			c.misplaced = make(map[misplacedAt]*metadata.Misplaced)
		}
		c.misplaced[at] = m
	}
	m.Records++
}

// drop counts a record that the sink's partitioner sent nowhere.
func (c *runCounts) drop(sink *topology.Sink) {
	if c.dropped == nil {
		c.dropped = make(map[droppedBy]int64)
	}
	c.dropped[droppedBy{sink.Name, sink.Topic}]++
}

// send counts the records that went to a sink's topic.
func (c *runCounts) send(sink *topology.Sink, n int) {
	if c.sent == nil {
		c.sent = make(map[string]int64)
	}
	c.sent[sink.Topic] += int64(n)
}
