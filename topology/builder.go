package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/partitioner"
)

// Builder collects the nodes and stores of a topology, in any order; a node may name parents that are added later. It
// reports nothing before [Builder.Build], which reports everything.
type Builder struct {
	nodes  []nodeSpec
	stores []storeUse
	policy ErrorPolicy
	faults []error // of windows
}

type nodeKind uint8

const (
	sourceNode nodeKind = iota
	processorNode
	sinkNode
	repartitionNode
)

func (k nodeKind) String() string {
	switch k {
	case sourceNode:
		return "source"
	case processorNode:
		return "processor"
	case sinkNode:
		return "sink"
	case repartitionNode:
		return "repartition"
	}
	return "node"
}

// nodeSpec is one node as the user gave it.
type nodeSpec struct {
	kind        nodeKind
	name        string
	topic       string // of a repartition node: the base of the topic's name
	supplier    func() Processor
	partitioner partitioner.Partitioner
	partitions  int32 // of a repartition topic; 0: as many as upstream
	parents     []string
}

type storeUse struct {
	spec       StoreSpec
	processors []string
}

// New returns an empty builder.
func New() *Builder { return &Builder{} }

// Source adds a node that reads a topic of that name. A topic has at most one source; several nodes may have it as parent.
func (b *Builder) Source(name, topic string) *Builder {
	b.nodes = append(b.nodes, nodeSpec{kind: sourceNode, name: name, topic: topic})
	return b
}

// Processor adds a node that handles what its parents forward. supplier is called once for every task and must return a
// new instance each time, or one without state.
func (b *Builder) Processor(name string, supplier func() Processor, parents ...string) *Builder {
	b.nodes = append(b.nodes, nodeSpec{kind: processorNode, name: name, supplier: supplier, parents: slices.Clone(parents)})
	return b
}

// Store adds a store and connects it to the processors that may use it. Processors that share a store are in one
// sub-topology.
func (b *Builder) Store(spec StoreSpec, processors ...string) *Builder {
	b.stores = append(b.stores, storeUse{spec, slices.Clone(processors)})
	return b
}

// WindowedAggregate adds a processor that keeps one aggregate for each key and window, in a store of its own, and forwards
// each change under the key of its window: [WindowKey] or [SessionKey]; a session that was merged into another is
// forwarded with a nil value. The kind, window size and retention of the store follow from w; a retention in spec replaces
// that of w. Records without a key or a value are skipped, those that come too late counted under [SkipLate]. Whoever reads
// a topic with such keys must know that they are not hashed as they stand; see [KeyBinary].
func (b *Builder) WindowedAggregate(name string, spec StoreSpec, w Windows, a Aggregator, parents ...string) *Builder {
	faults := w.faults()
	for _, f := range faults {
		b.faults = append(b.faults, fmt.Errorf("processor %q: windows: %s", name, strings.TrimPrefix(f.field+": "+f.text, ": ")))
	}
	if text := w.tooShort(spec.Retention); len(faults) == 0 && spec.Retention != 0 && text != "" {
		b.faults = append(b.faults, fmt.Errorf("processor %q: the store's retention: %s", name, text))
	}
	if a.Add == nil {
		b.faults = append(b.faults, fmt.Errorf("processor %q: the aggregator has no Add", name))
	}
	if a.Merge == nil && w.Kind == SessionWindows {
		b.faults = append(b.faults, fmt.Errorf("processor %q: the aggregator has no Merge, which sessions need", name))
	}
	if len(faults) == 0 {
		spec = w.in(spec)
	}
	b.Processor(name, windowedSupplier(spec.Name, w, spec.Retention, a), parents...)
	return b.Store(spec, name)
}

// Sink adds a node that writes what its parents forward to a topic, which must exist. A nil partitioner is murmur2.
func (b *Builder) Sink(name, topic string, p partitioner.Partitioner, parents ...string) *Builder {
	b.nodes = append(b.nodes, nodeSpec{kind: sinkNode, name: name, topic: topic, partitioner: p, parents: slices.Clone(parents)})
	return b
}

// Repartition adds a node through which records pass to the partition of their key: its parents write the internal topic
// <application>-<topicBase>-repartition, and nodes that name it as parent read it, in another sub-topology.
func (b *Builder) Repartition(name, topicBase string, o RepartitionOptions, parents ...string) *Builder {
	b.nodes = append(b.nodes, nodeSpec{
		kind: repartitionNode, name: name, topic: topicBase, partitioner: o.Partitioner, partitions: o.Partitions,
		parents: slices.Clone(parents),
	})
	return b
}

// OnError sets what becomes of records whose processor fails. Default StopOnError.
func (b *Builder) OnError(p ErrorPolicy) *Builder {
	b.policy = p
	return b
}

// Build checks the whole topology and returns it for an application of that name. The error joins every fault found. The
// builder may be built again under another name.
func (b *Builder) Build(application string) (*Topology, error) {
	g := newGraph(application, b)
	if errs := g.check(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return g.split()
}
