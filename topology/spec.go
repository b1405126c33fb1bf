package topology

import (
	"strconv"
	"time"

	"github.com/iqgate/iqgate/partitioner"
)

// StoreKind is the kind of a store.
type StoreKind uint8

// The kinds of store.
const (
	KeyValue  StoreKind = iota // the last value of each key: [KeyValueStore]
	Window                     // values by key and window: [WindowStore]
	Session                    // values by key and session: [SessionStore]
	Versioned                  // values by key and time: [VersionedStore]
)

// String returns the kind's name in metadata.
func (k StoreKind) String() string {
	switch k {
	case KeyValue:
		return "keyvalue"
	case Window:
		return "window"
	case Session:
		return "session"
	case Versioned:
		return "versioned"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// StoreSpec describes a store. The builder's user fills in the first part, Build the second.
type StoreSpec struct {
	// Name of the store: letters, digits, '.', '_' and '-', since it is part of the changelog topic's name.
	Name string
	// Kind of the store. Default KeyValue.
	Kind StoreKind
	// WindowSize is the length of a window store's windows, in whole milliseconds; the end of a window follows from it.
	// Required for Window, not allowed for others.
	WindowSize time.Duration
	// Retention is how long windows, sessions or old versions are kept, by the store's stream time and in whole
	// milliseconds. Default for Window: the window size, which is the least. Required for Session and Versioned, not
	// allowed for KeyValue.
	Retention time.Duration
	// KeySerde names the format of keys, so that tools can read and show them. Default bytes.
	KeySerde string
	// ValueSerde names the format of values. Default bytes.
	ValueSerde string
	// Partitioner names the partitioner by which a key's partition is found. Default: the one by which the repartition
	// topic that feeds the store is written, else murmur2. It must be the one by which the store's source topic is
	// written, or lookups ask the wrong partition.
	Partitioner string
	// ChangelogConfig is added to the changelog topic's configuration. cleanup.policy cannot be changed. retention.ms of a
	// window or session store, and min.compaction.lag.ms of a versioned one, replace what follows from Retention.
	ChangelogConfig map[string]string

	// Changelog is the full name of the store's changelog topic, set by Build: <application>-<store>-changelog.
	Changelog string
	// Subtopology is the id of the sub-topology that owns the store, set by Build.
	Subtopology int32
}

// Sink is a topic that a sub-topology writes to.
type Sink struct {
	// Name of the node.
	Name string
	// Topic is the full name of the topic.
	Topic string
	// Partitioner decides where a record goes. Never nil in a built topology.
	Partitioner partitioner.Partitioner
	// Internal says that the topic is a repartition topic of the application.
	Internal bool
}

// RepartitionOptions are the choices of a repartition topic. The zero value is good.
type RepartitionOptions struct {
	// Partitions of the topic. Default 0: as many as the largest source topic upstream has, or the source topics that
	// are read together with it.
	Partitions int32
	// Partitioner decides where a record goes. Default murmur2.
	Partitioner partitioner.Partitioner
}

// InternalTopic is a topic that nodes create for the application.
type InternalTopic struct {
	// Name is the full name.
	Name string
	// Partitions the topic has, or must be created with.
	Partitions int32
	// Configs are the topic's configuration entries, by Kafka's names.
	Configs map[string]string
	// Store is the name of the store whose changelog it is; empty for a repartition topic.
	Store string
}

// ErrorPolicy says what becomes of a record whose processor returned an error (or panicked).
type ErrorPolicy uint8

// The error policies.
const (
	// StopOnError stops the task with a [*RecordError]. It is the default: nothing is lost, and someone has to look.
	StopOnError ErrorPolicy = iota
	// SkipOnError counts the record under [SkipProcessorError] and goes on. What the record wrote before it failed stays
	// written (as with Kafka Streams' LogAndContinueProcessingExceptionHandler).
	SkipOnError
)

// String returns the policy's name in YAML.
func (p ErrorPolicy) String() string {
	switch p {
	case StopOnError:
		return "stop"
	case SkipOnError:
		return "skip"
	}
	return "policy(" + strconv.Itoa(int(p)) + ")"
}
