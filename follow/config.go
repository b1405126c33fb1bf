package follow

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/iqgate/iqgate/topology"
)

// Defaults and limits of a Config.
const (
	DefaultReplicas = 2
	MaxReplicas     = 100
	MaxStores       = 1000
	// GroupSuffix is added to the application's name where no group is given.
	GroupSuffix = "-iqgate"
)

// Config is what a node in replica mode follows. The zero value of a field means its default.
type Config struct {
	// Application is the application.id of the Kafka Streams application: its topics begin with it, and its consumer group
	// has that name. For topics of no application it is any name that routers and callers are to know them by. Required.
	Application string
	// Group is the consumer group by which the nodes share the work. Default: the application's name and "-iqgate". It must
	// not be the application's own.
	Group string
	// Replicas is the number of copies of each store partition, on as many nodes. Default 2; at most 100.
	Replicas int
	// Discover follows every changelog of the application that Stores does not name and that can be understood without
	// being told more.
	Discover bool
	// Stores are those to follow, by name. At least one, unless Discover is set.
	Stores []Store
}

// Store is one store to follow.
type Store struct {
	// Name by which callers ask for it: of a Kafka Streams store its own. Required.
	Name string
	// Topic to follow. Default: <application>-<name>-changelog. Another one is a compacted topic followed as a table, or the
	// source topic that the application uses as the changelog (topology.optimization).
	Topic string
	// Kind of the store: keyvalue, window, session or versioned. Default: what the topic's configuration and records tell.
	Kind string
	// WindowSize is the length of a window store's windows, in whole milliseconds. Required for window stores: no topic
	// tells it.
	WindowSize time.Duration
	// Retention is how long windows, sessions or old versions are visible, by stream time. Default: what the topic's
	// configuration tells, less the day that Kafka Streams adds.
	Retention time.Duration
	// KeySerde and ValueSerde name the formats of keys and values, so that tools can show them. Default bytes.
	KeySerde, ValueSerde string
	// Partitioner names the partitioner by which the application put keys into partitions. Default murmur2, which is Kafka
	// Streams' own.
	Partitioner string
	// Inputs are the topics that the store's sub-topology reads, of which at_least may ask. Default: the topic that the
	// application's group has committed offsets of, if it is the only one; the topic itself where it is no changelog.
	Inputs []string
}

// legal is what Kafka allows in the names of topics and groups, and what stores are named with.
var legal = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

const illegalName = "must be 1 to 249 letters, digits, '.', '_' or '-'"

// withDefaults returns c with what follows from its other fields.
func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = c.Application + GroupSuffix
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultReplicas
	}
	return c
}

// GroupID is the consumer group of the nodes.
func (c Config) GroupID() string { return c.withDefaults().Group }

// Copies is the number of copies of each store partition.
func (c Config) Copies() int { return c.withDefaults().Replicas }

// TopicOf is the topic that a store is followed from.
func (c Config) TopicOf(s Store) string {
	if s.Topic != "" {
		return s.Topic
	}
	return ChangelogOf(c.Application, s.Name)
}

// Validate reports every bad field at once and names it.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("%s %q: %s", field, fmt.Sprint(value), why))
	}
	if !legal.MatchString(c.Application) {
		bad("application", c.Application, illegalName)
	}
	if !legal.MatchString(c.Group) {
		bad("group", c.Group, illegalName)
	}
	if c.Group == c.Application {
		bad("group", c.Group, "is the application's own group, which a follower must not touch")
	}
	if c.Replicas < 1 || c.Replicas > MaxReplicas {
		bad("replicas", c.Replicas, fmt.Sprintf("must be 1 to %d", MaxReplicas))
	}
	switch {
	case len(c.Stores) == 0 && !c.Discover:
		bad("stores", "", "there are none; name some, or set discover: true")
	case len(c.Stores) > MaxStores:
		bad("stores", len(c.Stores), fmt.Sprintf("are more than %d", MaxStores))
	}
	names, topics := map[string]bool{}, map[string]string{}
	ids := map[int32]string{}
	for i, s := range c.Stores {
		field := fmt.Sprintf("stores[%d]", i)
		for _, err := range s.faults() {
			errs = append(errs, fmt.Errorf("%s (%s): %w", field, s.Name, err))
		}
		if names[s.Name] {
			bad(field+".store", s.Name, "is there twice")
		}
		names[s.Name] = true
		topic := c.TopicOf(s)
		if other, taken := topics[topic]; taken {
			bad(field+".topic", topic, "is followed as "+other+" already")
		}
		topics[topic] = s.Name
		if other, taken := ids[SubtopologyOf(s.Name)]; taken && other != s.Name {
			bad(field+".store", s.Name, "has the same number as "+other+"; name one of the two otherwise, with its topic")
		}
		ids[SubtopologyOf(s.Name)] = s.Name
	}
	return errors.Join(errs...)
}

// faults is what is wrong with a store by itself.
func (s Store) faults() []error {
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("%s %q: %s", field, fmt.Sprint(value), why))
	}
	if !legal.MatchString(s.Name) {
		bad("store", s.Name, illegalName)
	}
	if s.Topic != "" && !legal.MatchString(s.Topic) {
		bad("topic", s.Topic, illegalName)
	}
	kind, known := kindOf(s.Kind)
	if s.Kind != "" && !known {
		bad("kind", s.Kind, "must be keyvalue, window, session or versioned")
	}
	span := func(field string, d time.Duration, wanted bool) {
		switch {
		case d < 0 || d%time.Millisecond != 0:
			bad(field, d, "must be whole milliseconds, more than 0")
		case d != 0 && known && !wanted:
			bad(field, d, "is of no use for a "+s.Kind+" store")
		}
	}
	span("window_size", s.WindowSize, kind == topology.Window)
	span("retention", s.Retention, kind != topology.KeyValue)
	if s.WindowSize > 0 && s.Retention > 0 && s.Retention < s.WindowSize {
		bad("retention", s.Retention, "is less than the window size, "+s.WindowSize.String())
	}
	for field, name := range map[string]string{"key_serde": s.KeySerde, "value_serde": s.ValueSerde} {
		if name == "" {
			continue
		}
		if _, err := topology.SerdeByName(name); err != nil {
			bad(field, name, err.Error())
		}
	}
	for _, topic := range s.Inputs {
		if !legal.MatchString(topic) {
			bad("inputs", topic, illegalName)
		}
	}
	return errs
}

// kindOf is the kind of that name.
func kindOf(name string) (topology.StoreKind, bool) {
	for kind := topology.KeyValue; kind <= topology.Versioned; kind++ {
		if kind.String() == name {
			return kind, true
		}
	}
	return topology.KeyValue, false
}
