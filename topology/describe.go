package topology

import (
	"fmt"
	"strings"
)

// Describe returns the topology as text for people: its sub-topologies with their nodes, in the order added, and stores.
func (t *Topology) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "application %s\n", t.application)
	for _, s := range t.subs {
		fmt.Fprintf(&b, "sub-topology %d\n", s.ID)
		topics := make(map[int]string, len(s.sources))
		for topic, i := range s.sources {
			topics[i] = topic
		}
		for i, n := range s.nodes {
			fmt.Fprintf(&b, "  %s %s", n.kind, n.name)
			switch n.kind {
			case sourceNode:
				fmt.Fprintf(&b, " reads %s", topics[i])
			case sinkNode:
				fmt.Fprintf(&b, " writes %s by %s", n.sink.Topic, n.sink.Partitioner.Name())
			case processorNode, repartitionNode:
			}
			if len(n.stores) > 0 {
				fmt.Fprintf(&b, " uses %s", strings.Join(n.stores, ", "))
			}
			for k, c := range n.children {
				if k == 0 {
					b.WriteString(" ->")
				}
				b.WriteString(" " + s.nodes[c].name)
			}
			b.WriteByte('\n')
		}
		for _, spec := range s.Stores {
			fmt.Fprintf(&b, "  store %s %s %s -> %s by %s, changelog %s",
				spec.Name, spec.Kind, spec.KeySerde, spec.ValueSerde, spec.Partitioner, spec.Changelog)
			if spec.WindowSize > 0 {
				fmt.Fprintf(&b, ", windows of %s", spec.WindowSize)
			}
			if spec.Retention > 0 {
				fmt.Fprintf(&b, ", kept for %s", spec.Retention)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
