package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/partitioner"
)

// Topology is a checked topology under an application's name. It is immutable and safe for concurrent use.
type Topology struct {
	application string
	subs        []*Subtopology
	producers   map[string]int32 // repartition topic -> the sub-topology that writes it
}

// Subtopology is a part of the topology that is connected without passing a repartition topic. Each partition of its
// source topics is one task.
type Subtopology struct {
	// ID numbers the sub-topologies by their first source name in ascending order, as Kafka Streams does.
	ID int32
	// SourceTopics are the topics it reads, in ascending order; repartition topics by their full name.
	SourceTopics []string
	// Stores it owns, in the order added.
	Stores []StoreSpec
	// Sinks it writes to, repartition topics included, in the order added.
	Sinks []*Sink

	policy  ErrorPolicy
	nodes   []runNode         // in the order added
	sources map[string]int    // topic -> index in nodes
	pinned  map[string]int32  // repartition topics it reads -> count wanted, 0 if it follows upstream
	writers map[string]string // repartition topics it reads -> name of the partitioner that writes them
}

// Internal says whether one of the source topics is a repartition topic of the application, whose records nobody needs
// once their transaction is committed.
func (s *Subtopology) Internal(topic string) bool {
	_, internal := s.pinned[topic]
	return internal
}

// runNode is a node as tasks run it.
type runNode struct {
	kind     nodeKind
	name     string
	supplier func() Processor
	sink     *Sink
	children []int
	stores   []string
}

// Application is the application's name.
func (t *Topology) Application() string { return t.application }

// Subtopologies returns the sub-topologies by ascending id. Do not change them.
func (t *Topology) Subtopologies() []*Subtopology { return t.subs }

// Stores returns all stores, by ascending sub-topology and in the order added.
func (t *Topology) Stores() []StoreSpec {
	var all []StoreSpec
	for _, s := range t.subs {
		all = append(all, s.Stores...)
	}
	return all
}

// Store returns the store of that name.
func (t *Topology) Store(name string) (StoreSpec, bool) {
	for _, s := range t.subs {
		for _, spec := range s.Stores {
			if spec.Name == name {
				return spec, true
			}
		}
	}
	return StoreSpec{}, false
}

// SourceTopics returns every topic that is read, in ascending order, repartition topics by their full name.
func (t *Topology) SourceTopics() []string {
	var all []string
	for _, s := range t.subs {
		all = append(all, s.SourceTopics...)
	}
	slices.Sort(all)
	return all
}

// ExternalTopics returns the topics that must exist before nodes can work, in ascending order and without duplicates: the
// sources and sinks that are not internal.
func (t *Topology) ExternalTopics() []string {
	var all []string
	for _, s := range t.subs {
		for _, topic := range s.SourceTopics {
			if !s.Internal(topic) {
				all = append(all, topic)
			}
		}
		for _, sink := range s.Sinks {
			if !sink.Internal {
				all = append(all, sink.Topic)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// split turns a checked graph into sub-topologies.
func (g *graph) split() (*Topology, error) {
	group := g.groups()
	ids := g.numbers(group)
	t := &Topology{application: g.application, producers: map[string]int32{}}
	for id := range int32(len(ids)) {
		t.subs = append(t.subs, &Subtopology{
			ID: id, policy: g.policy, sources: map[string]int{}, pinned: map[string]int32{}, writers: map[string]string{},
		})
	}
	at := make(map[half]int, len(g.nodes)) // where a node lies in its sub-topology
	for _, h := range g.halves() {
		s := t.subs[ids[group[h]]]
		at[h] = len(s.nodes)
		s.add(h, g.nodes[h.node])
		if n := g.nodes[h.node]; n.kind == repartitionNode && !h.reads {
			t.producers[n.topic] = s.ID
		}
	}
	for _, h := range g.halves() {
		s := t.subs[ids[group[h]]]
		if g.nodes[h.node].kind == repartitionNode && !h.reads {
			continue // what reads it is in another sub-topology
		}
		for _, c := range g.children[h.node] {
			n := &s.nodes[at[h]]
			n.children = append(n.children, at[g.into(c)])
		}
	}
	for _, u := range g.stores {
		s := t.subs[ids[group[g.into(g.byName[u.processors[0]])]]]
		for _, p := range u.processors {
			n := &s.nodes[at[g.into(g.byName[p])]]
			n.stores = append(n.stores, u.spec.Name)
		}
		s.Stores = append(s.Stores, finish(u.spec, g.application, s.ID))
	}
	return t, errors.Join(settlePartitioners(t)...)
}

// finish fills in a store's defaults and what Build knows.
func finish(spec StoreSpec, application string, sub int32) StoreSpec {
	if spec.KeySerde == "" {
		spec.KeySerde = NameBytes
	}
	if spec.ValueSerde == "" {
		spec.ValueSerde = NameBytes
	}
	if spec.Retention == 0 {
		spec.Retention = spec.WindowSize
	}
	spec.ChangelogConfig = maps.Clone(spec.ChangelogConfig)
	spec.Changelog = changelogTopic(application, spec.Name)
	spec.Subtopology = sub
	return spec
}

func (s *Subtopology) add(h half, n nodeSpec) {
	run := runNode{kind: n.kind, name: n.name, supplier: n.supplier}
	p := n.partitioner
	if p == nil {
		p = partitioner.Murmur2()
	}
	switch {
	case n.kind == sourceNode || h.reads:
		run.kind = sourceNode
		s.sources[n.topic] = len(s.nodes)
		s.SourceTopics = append(s.SourceTopics, n.topic)
		slices.Sort(s.SourceTopics)
		if h.reads {
			s.pinned[n.topic] = n.partitions
			s.writers[n.topic] = p.Name()
		}
	case n.kind != processorNode:
		run.kind = sinkNode
		run.sink = &Sink{Name: n.name, Topic: n.topic, Partitioner: p, Internal: n.kind == repartitionNode}
		s.Sinks = append(s.Sinks, run.sink)
	}
	s.nodes = append(s.nodes, run)
}

// settlePartitioners fills in the partitioners of stores. All topics of a sub-topology must be written by one partitioner,
// or the records of a key do not meet; only those that the application writes itself can be checked.
func settlePartitioners(t *Topology) []error {
	var errs []error
	for _, s := range t.subs {
		names := slices.Compact(slices.Sorted(maps.Values(s.writers)))
		if len(names) > 1 && len(s.Stores) > 0 {
			errs = append(errs, fmt.Errorf("sub-topology %d reads repartition topics written by different partitioners: %s", s.ID, strings.Join(names, ", ")))
			continue
		}
		for i := range s.Stores {
			spec := &s.Stores[i]
			switch {
			case spec.Partitioner == "" && len(names) == 1:
				spec.Partitioner = names[0]
			case spec.Partitioner == "":
				spec.Partitioner = partitioner.NameMurmur2
			case len(names) == 1 && names[0] != spec.Partitioner:
				errs = append(errs, fmt.Errorf("store %q: its partitioner is %q but its repartition topic is written by %q", spec.Name, spec.Partitioner, names[0]))
			}
		}
	}
	return errs
}
