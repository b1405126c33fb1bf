package topologytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// maxHops is how many records one record may cause in repartition topics before the driver calls it a loop.
const maxHops = 1_000_000

// Driver runs one topology. It is not safe for concurrent use.
type Driver struct {
	topo    *topology.Topology
	counts  map[string]int32 // partitions of every topic
	sub     map[string]*topology.Subtopology
	tasks   map[topology.TaskID]*topology.Task
	stores  map[storePartition]*Store
	windows map[storePartition]*WindowStore
	session map[storePartition]*SessionStore
	version map[storePartition]*VersionedStore
	offsets map[topicPartition]int64
	spread  map[string]int32 // next partition of records without a key
	outputs map[string][]topology.Record
	queue   []topology.Record // records in repartition topics, not processed yet
}

type storePartition struct {
	store     string
	partition int32
}

type topicPartition struct {
	topic     string
	partition int32
}

// New returns a driver. partitions says how many partitions external topics have; those not named have one.
func New(t *topology.Topology, partitions map[string]int32) (*Driver, error) {
	d := &Driver{
		topo: t, counts: map[string]int32{}, sub: map[string]*topology.Subtopology{},
		tasks: map[topology.TaskID]*topology.Task{}, stores: map[storePartition]*Store{},
		windows: map[storePartition]*WindowStore{}, session: map[storePartition]*SessionStore{}, version: map[storePartition]*VersionedStore{},
		offsets: map[topicPartition]int64{}, spread: map[string]int32{}, outputs: map[string][]topology.Record{},
	}
	for _, topic := range t.ExternalTopics() {
		d.counts[topic] = max(1, partitions[topic])
	}
	for topic := range partitions {
		if _, known := d.counts[topic]; !known {
			return nil, fmt.Errorf("partitions of %q: the topology has no such external topic; it has %q", topic, t.ExternalTopics())
		}
	}
	count := func(topic string) (int32, bool) {
		n, ok := d.counts[topic]
		return n, ok
	}
	internal, err := t.InternalTopics(count)
	if err != nil {
		return nil, err
	}
	tasks, err := t.Tasks(count)
	if err != nil {
		return nil, err
	}
	for _, topic := range internal {
		d.counts[topic.Name] = topic.Partitions
	}
	for _, s := range t.Subtopologies() {
		for _, topic := range s.SourceTopics {
			d.sub[topic] = s
		}
	}
	for _, id := range tasks {
		s := t.Subtopologies()[id.Subtopology]
		if d.tasks[id], err = s.NewTask(id.Partition, output{d, id.Partition}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// output is what the driver gives to a task.
type output struct {
	driver    *Driver
	partition int32
}

// Store implements topology.Output.
func (o output) Store(name string) topology.KeyValueStore { return o.driver.store(name, o.partition) }

func (d *Driver) store(name string, partition int32) *Store {
	return opened(d.stores, storePartition{name, partition}, NewStore)
}

// opened returns the store of a partition, which is made when it is first asked for.
func opened[S any](all map[storePartition]*S, at storePartition, open func() *S) *S {
	if all[at] == nil {
		all[at] = open()
	}
	return all[at]
}

// retention is how long a store keeps things; 0 for a store that the topology has not.
func (d *Driver) retention(name string) time.Duration {
	spec, _ := d.topo.Store(name)
	return spec.Retention
}

// WindowStore implements topology.WindowedOutput.
func (o output) WindowStore(name string) topology.WindowStore {
	return o.driver.WindowStore(name, o.partition)
}

// SessionStore implements topology.WindowedOutput.
func (o output) SessionStore(name string) topology.SessionStore {
	return o.driver.SessionStore(name, o.partition)
}

// VersionedStore implements topology.WindowedOutput.
func (o output) VersionedStore(name string) topology.VersionedStore {
	return o.driver.VersionedStore(name, o.partition)
}

// WindowStore returns one partition of a window store of the topology.
func (d *Driver) WindowStore(name string, partition int32) *WindowStore {
	return opened(d.windows, storePartition{name, partition}, func() *WindowStore { return NewWindowStore(d.retention(name)) })
}

// SessionStore returns one partition of a session store of the topology.
func (d *Driver) SessionStore(name string, partition int32) *SessionStore {
	return opened(d.session, storePartition{name, partition}, func() *SessionStore { return NewSessionStore(d.retention(name)) })
}

// VersionedStore returns one partition of a versioned store of the topology.
func (d *Driver) VersionedStore(name string, partition int32) *VersionedStore {
	return opened(d.version, storePartition{name, partition}, func() *VersionedStore { return NewVersionedStore(d.retention(name)) })
}

// Changelog returns what one partition of a store of any kind would have written to its changelog topic, in Kafka Streams'
// format: every write, in order. (A node writes the last one of each key in a transaction.)
func (d *Driver) Changelog(store string, partition int32) ([]topology.Record, error) {
	spec, ok := d.topo.Store(store)
	if !ok {
		return nil, fmt.Errorf("the topology has no store %q", store)
	}
	switch spec.Kind {
	case topology.KeyValue:
		return d.store(store, partition).Changelog(), nil
	case topology.Window:
		return d.WindowStore(store, partition).Changelog(), nil
	case topology.Session:
		return d.SessionStore(store, partition).Changelog(), nil
	case topology.Versioned:
		return d.VersionedStore(store, partition).Changelog(), nil
	}
	return nil, fmt.Errorf("store %q is of kind %s, which has no fake", store, spec.Kind)
}

// Task returns a task, nil if there is none of that id.
func (d *Driver) Task(id topology.TaskID) *topology.Task { return d.tasks[id] }

// Send implements topology.Output.
func (o output) Send(sink *topology.Sink, r topology.Record) error {
	d := o.driver
	to, err := d.route(sink.Partitioner, sink.Topic, r)
	if err != nil {
		return err
	}
	for _, p := range to {
		r.Partition = p
		r.Offset = d.next(sink.Topic, p)
		if sink.Internal {
			d.queue = append(d.queue, r)
		} else {
			d.outputs[sink.Topic] = append(d.outputs[sink.Topic], r)
		}
	}
	return nil
}

// route is partitioner.Route with records without a key spread in turn.
func (d *Driver) route(p partitioner.Partitioner, topic string, r topology.Record) ([]int32, error) {
	n := d.counts[topic]
	to, err := partitioner.Route(p, topic, r.Key, r.Value, n)
	if errors.Is(err, partitioner.ErrNoKey) {
		next := d.spread[topic]
		d.spread[topic] = (next + 1) % n
		return []int32{next}, nil
	}
	return to, err
}

func (d *Driver) next(topic string, partition int32) int64 {
	at := topicPartition{topic, partition}
	d.offsets[at]++
	return d.offsets[at] - 1
}

// Put writes a record to a source topic, in the partition that murmur2 gives its key (records without a key in turn), and
// processes it with everything that follows from it. r's partition and offset are ignored.
func (d *Driver) Put(r topology.Record) error {
	if d.sub[r.Topic] == nil {
		return fmt.Errorf("topic %q is not read by the topology; it reads %q", r.Topic, d.topo.SourceTopics())
	}
	to, err := d.route(partitioner.Murmur2(), r.Topic, r)
	if err != nil {
		return err
	}
	r.Partition = to[0]
	return d.PutAt(r)
}

// PutAt is Put into the partition that r names.
func (d *Driver) PutAt(r topology.Record) error {
	if n, ok := d.counts[r.Topic]; !ok || r.Partition < 0 || r.Partition >= n {
		return fmt.Errorf("topic %q has no partition %d; it has %d", r.Topic, r.Partition, n)
	}
	r.Offset = d.next(r.Topic, r.Partition)
	d.queue = append(d.queue, r)
	for hops := 0; len(d.queue) > 0; hops++ {
		if hops > maxHops {
			return fmt.Errorf("one record caused more than %d others", maxHops)
		}
		r, d.queue = d.queue[0], d.queue[1:]
		s := d.sub[r.Topic]
		if s == nil {
			return fmt.Errorf("topic %q is not read by the topology; it reads %q", r.Topic, d.topo.SourceTopics())
		}
		task := d.tasks[topology.TaskID{Subtopology: s.ID, Partition: r.Partition}]
		if err := task.Process(r); err != nil {
			d.queue = nil
			return err
		}
	}
	return nil
}

// Output returns what was written to an external topic since the last call, in order of writing. A record that goes to
// several partitions is there once for each.
func (d *Driver) Output(topic string) []topology.Record {
	out := d.outputs[topic]
	delete(d.outputs, topic)
	return out
}

// Get looks a key of a key-value store up as a router would: in the first partition that the store's partitioner names. Custom partitioners are
// looked up in r; nil knows the built-in ones.
func (d *Driver) Get(store string, key []byte, r *partitioner.Registry) (value []byte, found bool, err error) {
	spec, err := d.keyValue(store)
	if err != nil {
		return nil, false, err
	}
	p, err := r.Get(spec.Partitioner)
	if err != nil {
		return nil, false, err
	}
	in, err := partitioner.Lookup(p, key, d.counts[spec.Changelog])
	if err != nil || len(in) == 0 {
		return nil, false, err
	}
	value, _, found, err = d.store(store, in[0]).Get(key)
	return value, found, err
}

// keyValue returns the spec of a key-value store.
func (d *Driver) keyValue(store string) (topology.StoreSpec, error) {
	spec, ok := d.topo.Store(store)
	switch {
	case !ok:
		return spec, fmt.Errorf("the topology has no store %q", store)
	case spec.Kind != topology.KeyValue:
		return spec, fmt.Errorf("store %q is a %s store; ask the driver for it", store, spec.Kind)
	}
	return spec, nil
}

// All returns a whole key-value store, by ascending partition and key.
func (d *Driver) All(store string) ([]topology.Entry, error) {
	spec, err := d.keyValue(store)
	if err != nil {
		return nil, err
	}
	var all []topology.Entry
	for p := range d.counts[spec.Changelog] {
		for e, err := range d.store(store, p).Range(nil, nil, false) {
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// Partitions is how many partitions a topic has, 0 if the topology has no such topic.
func (d *Driver) Partitions(topic string) int32 { return d.counts[topic] }

// Tasks returns the tasks' ids in ascending order.
func (d *Driver) Tasks() []topology.TaskID {
	return slices.SortedFunc(maps.Keys(d.tasks), func(a, b topology.TaskID) int {
		if a.Subtopology != b.Subtopology {
			return int(a.Subtopology - b.Subtopology)
		}
		return int(a.Partition - b.Partition)
	})
}

// Skipped returns how many records all tasks have skipped, by reason.
func (d *Driver) Skipped() map[string]int64 {
	all := map[string]int64{}
	for _, t := range d.tasks {
		for reason, n := range t.Skipped() {
			all[reason] += n
		}
	}
	return all
}
