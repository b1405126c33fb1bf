package topology

import (
	"errors"
	"slices"

	"github.com/iqgate/iqgate/partitioner"
)

// Builder collects the nodes and stores of a topology, in any order; a node may name parents that are added later. It
// reports nothing before [Builder.Build], which reports everything.
type Builder struct {
	nodes  []nodeSpec
	stores []storeUse
	policy ErrorPolicy
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
