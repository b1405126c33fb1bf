package follow

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is a committed record of a topic.
type Record struct {
	Key, Value []byte // nil is null
	Timestamp  int64  // milliseconds since the epoch
	Headers    int
}

// Topic is what Kafka says of one topic.
type Topic struct {
	Name       string
	Partitions int32
	// Configs are the entries of its configuration, by Kafka's names; nil when they may not be read.
	Configs map[string]string
	// Offsets is how many offsets lie between its starts and its ends, all partitions together.
	Offsets int64
	// Records are some of the newest committed ones, those of a partition in order.
	Records []Record
}

// Facts are what Kafka says of an application, at one moment.
type Facts struct {
	Application string
	// Topics are all that Kafka has, by name. Configs and Records are known of those that Wanted names.
	Topics map[string]Topic
	// Committed are the topics of which the application's group has committed offsets, sorted.
	Committed []string
	// GroupState is the state of the application's group, such as Stable or Empty; empty when there is no such group.
	GroupState string
}

// Wanted are the topics that Resolve has to know more of than that they exist.
func Wanted(c Config, names []string) []string {
	wanted := make(map[string]bool)
	for _, s := range c.Stores {
		wanted[c.TopicOf(s)] = true
	}
	for _, name := range names {
		if _, ok := StoreOf(c.Application, name); ok && c.Discover {
			wanted[name] = true
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// policies are the words of cleanup.policy, in alphabetical order.
func (t Topic) policies() []string {
	words := strings.Split(t.Configs["cleanup.policy"], ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	slices.Sort(words)
	return words
}

// compacted and deleted are what the broker does to old records.
func (t Topic) compacted() bool { return slices.Contains(t.policies(), "compact") }
func (t Topic) deleted() bool   { return slices.Contains(t.policies(), "delete") }

// millis is a configuration entry in milliseconds; ok is false when it is not there, or says that there is no bound.
func (t Topic) millis(key string) (d time.Duration, ok bool) {
	n, err := strconv.ParseInt(t.Configs[key], 10, 64)
	if err != nil || n < 0 || n > int64(1<<63-1)/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}
