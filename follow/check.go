package follow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/topology"
)

// Severity says what a problem means for a store.
type Severity uint8

// The severities.
const (
	// Note is something to know.
	Note Severity = iota
	// Warning is something that may make answers incomplete or hard to read, or that looks like a mistake.
	Warning
	// Refusal is why the store is not served.
	Refusal
)

// String is the severity in words.
func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Refusal:
		return "refused"
	}
	return fmt.Sprintf("severity(%d)", uint8(s))
}

// Problem is one thing that is noteworthy or wrong with a store or the application.
type Problem struct {
	Severity Severity
	Text     string
	// Absent says that a topic does not exist: waiting may help.
	Absent bool
}

// Found is a store as Resolve judged it.
type Found struct {
	// Spec is what is served: name, kind, window size, retention, serdes, partitioner and the topic as Changelog. Of a store
	// that is refused it is as far as it is known.
	Spec topology.StoreSpec
	// Partitions of the topic; 0 when it does not exist.
	Partitions int32
	// Offsets is how many offsets there are to read, at most one a record.
	Offsets int64
	// Inputs are the topics that at_least may ask of; none when they are not known.
	Inputs []string
	// Own says that the topic itself is the store's input: it is no changelog of the application.
	Own bool
	// Configured says that Config.Stores names it.
	Configured bool
	// KindDetected says that the kind is what the topic tells.
	KindDetected bool
	// KindKnown is false where nothing is known of the kind.
	KindKnown bool
	// Buffer says that it is one of the DSL's own, which nobody asks.
	Buffer   bool
	Problems []Problem
}

// Served says whether the store can be served.
func (f Found) Served() bool { return f.Worst() != Refusal }

// Worst is the gravest of the problems; Note when there is none.
func (f Found) Worst() Severity {
	worst := Note
	for _, p := range f.Problems {
		worst = max(worst, p.Severity)
	}
	return worst
}

func (f *Found) add(s Severity, format string, args ...any) {
	f.Problems = append(f.Problems, Problem{Severity: s, Text: fmt.Sprintf(format, args...)})
}

// Plan is what can be followed of an application.
type Plan struct {
	// Stores are those of the config, and with Discover the others found, by name.
	Stores []Found
	// Problems are of the application as a whole.
	Problems []Problem
}

// Served are the stores that can be served.
func (p Plan) Served() []Found {
	return slices.DeleteFunc(slices.Clone(p.Stores), func(f Found) bool { return !f.Served() })
}

// Resolve says what a config means by what Kafka says: each store's kind, retention and inputs, or why it is not served.
// The same input gives the same plan.
func Resolve(c Config, f Facts) Plan {
	c = c.withDefaults()
	r := &resolver{config: c, facts: f}
	for _, s := range c.Stores {
		r.plan.Stores = append(r.plan.Stores, r.store(s, true))
	}
	if c.Discover {
		for _, name := range slices.Sorted(maps.Keys(f.Topics)) {
			if s, ok := r.discovered(name); ok {
				r.plan.Stores = append(r.plan.Stores, r.store(s, false))
			}
		}
	}
	slices.SortFunc(r.plan.Stores, func(a, b Found) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	r.numbers()
	r.application()
	return r.plan
}

type resolver struct {
	config Config
	facts  Facts
	plan   Plan
}

// discovered is the store of a topic that is a changelog and that the config does not name.
func (r *resolver) discovered(topic string) (Store, bool) {
	name, ok := StoreOf(r.config.Application, topic)
	if !ok {
		return Store{}, false
	}
	taken := slices.ContainsFunc(r.config.Stores, func(s Store) bool { return s.Name == name || r.config.TopicOf(s) == topic })
	return Store{Name: name}, !taken
}

// store judges one store.
func (r *resolver) store(s Store, configured bool) Found {
	topic := r.config.TopicOf(s)
	_, changelog := StoreOf(r.config.Application, topic)
	f := Found{Configured: configured, Own: !changelog, Spec: topology.StoreSpec{
		Name: s.Name, WindowSize: s.WindowSize, Retention: s.Retention, KeySerde: orBytes(s.KeySerde), ValueSerde: orBytes(s.ValueSerde),
		Partitioner: s.Partitioner, Changelog: topic, Subtopology: SubtopologyOf(s.Name),
	}}
	if f.Spec.Partitioner == "" {
		f.Spec.Partitioner = defaultPartitioner
	}
	t, exists := r.facts.Topics[topic]
	if !exists {
		f.Problems = append(f.Problems, Problem{Severity: Refusal, Text: "topic " + topic + " does not exist", Absent: true})
		f.Spec.Kind, f.KindKnown = kindOf(s.Kind)
		return f
	}
	f.Partitions, f.Offsets = t.Partitions, t.Offsets
	if what := bufferOf(s.Name); what != "" {
		f.Buffer = true
		if !configured {
			f.add(Refusal, "%s, which nobody can ask", what)
			return f
		}
	}
	if r.kind(&f, s, t) {
		r.policy(&f, t)
		r.times(&f, t)
		r.records(&f, t)
	}
	r.inputs(&f, s)
	return f
}

func orBytes(serde string) string {
	if serde == "" {
		return topology.NameBytes
	}
	return serde
}

// numbers refuses stores of one number, of which tasks could not be told apart. That a pair of names has one is as likely as
// one in two thousand million.
func (r *resolver) numbers() {
	taken := make(map[int32]string)
	for i := range r.plan.Stores {
		f := &r.plan.Stores[i]
		if !f.Served() {
			continue
		}
		if other, twice := taken[f.Spec.Subtopology]; twice {
			f.add(Refusal, "has the same number as store %s; name one of the two otherwise, with its topic", other)
			continue
		}
		taken[f.Spec.Subtopology] = f.Spec.Name
	}
}

// application looks at the application as a whole.
func (r *resolver) application() {
	add := func(s Severity, format string, args ...any) {
		r.plan.Problems = append(r.plan.Problems, Problem{Severity: s, Text: fmt.Sprintf(format, args...)})
	}
	if len(r.plan.Stores) == 0 {
		add(Refusal, "no topic %s is there: is %q the application.id?", ChangelogOf(r.config.Application, "*"), r.config.Application)
	}
	switch r.facts.GroupState {
	case "":
		add(Warning, "there is no consumer group %q: the application has never run under this id, or not for long, and at_least cannot be honoured", r.config.Application)
	case "Empty", "Dead":
		add(Note, "the application does not run: its group has no members")
	}
}
