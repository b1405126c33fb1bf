package topology

import (
	"fmt"
	"slices"
	"strings"
)

// maxTopicName is the longest topic name that Kafka accepts.
const maxTopicName = 249

// checkName returns what is wrong with a name that becomes a topic's, or part of one.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case name == "." || name == "..":
		return fmt.Errorf("%s %q is not allowed", what, name)
	case len(name) > maxTopicName:
		return fmt.Errorf("%s %q has %d characters, at most %d are allowed", what, name[:16]+"...", len(name), maxTopicName)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return fmt.Errorf("%s %q contains %q; allowed are letters, digits, '.', '_' and '-'", what, name, r)
		}
	}
	return nil
}

// changelogTopic and repartitionTopic name internal topics as Kafka Streams does.
func changelogTopic(application, store string) string {
	return application + "-" + store + "-changelog"
}

func repartitionTopic(application, base string) string {
	return application + "-" + base + "-repartition"
}

// graph is a builder's content under an application's name, with what is needed to check it.
type graph struct {
	application string
	nodes       []nodeSpec // topics by full name
	stores      []storeUse
	policy      ErrorPolicy
	faults      []error        // what the builder has found
	byName      map[string]int // first node of that name
	children    [][]int        // by node, in the order added
	errs        []error
}

func newGraph(application string, b *Builder) *graph {
	g := &graph{
		application: application,
		nodes:       slices.Clone(b.nodes),
		stores:      slices.Clone(b.stores),
		policy:      b.policy,
		faults:      b.faults,
		byName:      make(map[string]int, len(b.nodes)),
		children:    make([][]int, len(b.nodes)),
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.kind == repartitionNode && n.topic != "" {
			n.topic = repartitionTopic(application, n.topic)
		}
		if _, taken := g.byName[n.name]; !taken {
			g.byName[n.name] = i
		}
	}
	for i, n := range g.nodes {
		for _, parent := range n.parents {
			if p, ok := g.byName[parent]; ok && g.nodes[p].kind != sinkNode {
				g.children[p] = append(g.children[p], i)
			}
		}
	}
	return g
}

func (g *graph) fault(format string, args ...any) {
	g.errs = append(g.errs, fmt.Errorf(format, args...))
}

func (g *graph) faultErr(err error) {
	if err != nil {
		g.errs = append(g.errs, err)
	}
}

// check returns every fault, in the order in which nodes and stores were added.
func (g *graph) check() []error {
	g.faultErr(checkName("application", g.application))
	if g.policy > SkipOnError {
		g.fault("error policy %d is not known", g.policy)
	}
	if len(g.nodes) == 0 {
		g.fault("the topology has no nodes")
	}
	topics := map[string]string{} // topic read -> node that reads it
	for i, n := range g.nodes {
		g.checkNode(i, n, topics)
	}
	stores := map[string]bool{}
	for _, s := range g.stores {
		g.checkStore(s, stores)
	}
	g.errs = append(g.errs, g.faults...)
	g.checkCycles()
	return g.errs
}

func (g *graph) checkNode(i int, n nodeSpec, topics map[string]string) {
	what := fmt.Sprintf("%s %q", n.kind, n.name)
	if n.name == "" {
		g.fault("a %s has no name", n.kind)
	} else if g.byName[n.name] != i {
		g.fault("%s: the name is taken by a %s", what, g.nodes[g.byName[n.name]].kind)
	}
	if n.kind != processorNode {
		g.faultErr(checkName(what+": topic", n.topic))
	}
	if n.kind != sourceNode {
		g.checkParents(what, n)
	}
	switch n.kind {
	case processorNode:
		if n.supplier == nil {
			g.fault("%s: the function that makes it is nil", what)
		}
	case sinkNode:
		if g.isInternal(n.topic) {
			g.fault("%s: topic %q is internal to the application", what, n.topic)
		}
	case sourceNode, repartitionNode:
		if other, taken := topics[n.topic]; taken {
			g.fault("%s: topic %q is already read by %q", what, n.topic, other)
		}
		topics[n.topic] = n.name
		if g.byName[n.name] == i && len(g.children[i]) == 0 {
			g.fault("%s: no node has it as parent", what)
		}
		if n.partitions < 0 {
			g.fault("%s: partitions is %d, want 1 or more, or 0 for as many as upstream", what, n.partitions)
		}
	}
	if n.partitioner != nil && n.partitioner.Name() == "" {
		g.fault("%s: the partitioner has no name", what)
	}
}

func (g *graph) checkParents(what string, n nodeSpec) {
	if len(n.parents) == 0 {
		g.fault("%s has no parents", what)
	}
	for k, parent := range n.parents {
		p, ok := g.byName[parent]
		switch {
		case !ok:
			g.fault("%s: parent %q is not known", what, parent)
		case g.nodes[p].kind == sinkNode:
			g.fault("%s: parent %q is a sink", what, parent)
		case slices.Contains(n.parents[:k], parent):
			g.fault("%s: parent %q is named twice", what, parent)
		}
	}
}

// isInternal says whether a topic is one that nodes create for this application.
func (g *graph) isInternal(topic string) bool {
	for _, n := range g.nodes {
		if n.kind == repartitionNode && n.topic == topic {
			return true
		}
	}
	for _, s := range g.stores {
		if changelogTopic(g.application, s.spec.Name) == topic {
			return true
		}
	}
	return false
}

func (g *graph) checkStore(s storeUse, seen map[string]bool) {
	what := fmt.Sprintf("store %q", s.spec.Name)
	if err := checkName("store", s.spec.Name); err != nil {
		g.faultErr(err)
	} else if changelog := changelogTopic(g.application, s.spec.Name); len(changelog) > maxTopicName {
		g.faultErr(checkName(what+": changelog topic", changelog))
	}
	if seen[s.spec.Name] {
		g.fault("%s is added twice", what)
	}
	seen[s.spec.Name] = true
	for _, text := range s.spec.faults() {
		g.fault("%s: %s", what, text)
	}
	g.checkSerde(what+": key", s.spec.KeySerde)
	g.checkSerde(what+": value", s.spec.ValueSerde)
	if p, ok := s.spec.ChangelogConfig["cleanup.policy"]; ok {
		g.fault("%s: the changelog's cleanup.policy is %s and cannot be %q", what, s.spec.cleanupPolicy(), p)
	}
	if len(s.processors) == 0 {
		g.fault("%s: no processor uses it", what)
	}
	for k, name := range s.processors {
		p, ok := g.byName[name]
		switch {
		case !ok:
			g.fault("%s: processor %q is not known", what, name)
		case g.nodes[p].kind != processorNode:
			g.fault("%s: %q is a %s, not a processor", what, name, g.nodes[p].kind)
		case slices.Contains(s.processors[:k], name):
			g.fault("%s: processor %q is named twice", what, name)
		}
	}
}

func (g *graph) checkSerde(what, name string) {
	if name == "" {
		return
	}
	if _, err := SerdeByName(name); err != nil {
		g.fault("%s %w", what, err)
	}
}

// checkCycles reports each cycle once, by the nodes on it.
func (g *graph) checkCycles() {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(g.nodes))
	var path []int
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		path = append(path, i)
		for _, c := range g.children[i] {
			switch state[c] {
			case unseen:
				visit(c)
			case open:
				var names []string
				for _, on := range path[slices.Index(path, c):] {
					names = append(names, g.nodes[on].name)
				}
				g.fault("cycle: %s -> %s", strings.Join(names, " -> "), g.nodes[c].name)
			}
		}
		path = path[:len(path)-1]
		state[i] = done
	}
	for i := range g.nodes {
		if state[i] == unseen {
			visit(i)
		}
	}
}
