package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counts says how many partitions a topic has, or false if it does not exist.
type Counts func(topic string) (partitions int32, exists bool)

// InternalTopics returns the topics that nodes create, with their partitions and configuration, in ascending order of
// names: a changelog per store, with as many partitions as its sub-topology has tasks, and the repartition topics.
// Changelogs are compacted; those of window and session stores are deleted a day after the retention too, and those of
// versioned stores are not compacted for that long (Kafka Streams' WindowedChangelogTopicConfig and
// VersionedChangelogTopicConfig).
//
// A repartition topic has as many partitions as its options say; without, as many as it has if it exists, else as many as
// the topics that are read together with it, else as many as the sub-topology that writes it has tasks (the most of them,
// if several such topics are read together). Topics that are read by one sub-topology must have equal counts
// (co-partitioning); where they have not, or a source topic does not exist, the error says so for each.
func (t *Topology) InternalTopics(counts Counts) ([]InternalTopic, error) {
	tasks, err := t.tasks(counts)
	if err != nil {
		return nil, err
	}
	var all []InternalTopic
	for _, s := range t.subs {
		for _, spec := range s.Stores {
			config := spec.changelogConfig()
			all = append(all, InternalTopic{Name: spec.Changelog, Partitions: tasks[s.ID], Configs: config, Store: spec.Name})
		}
		for topic := range s.pinned {
			all = append(all, InternalTopic{Name: topic, Partitions: tasks[s.ID], Configs: map[string]string{
				"cleanup.policy":         "delete",
				"retention.ms":           "-1",
				"segment.bytes":          "52428800", // Kafka Streams' value: small segments, so that what was read goes soon
				"message.timestamp.type": "CreateTime",
			}})
		}
	}
	slices.SortFunc(all, func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Tasks returns all tasks, by ascending id: for each sub-topology one for each partition of its source topics. The rules
// and errors are those of InternalTopics.
func (t *Topology) Tasks(counts Counts) ([]TaskID, error) {
	tasks, err := t.tasks(counts)
	if err != nil {
		return nil, err
	}
	var all []TaskID
	for _, s := range t.subs {
		for p := range tasks[s.ID] {
			all = append(all, TaskID{Subtopology: s.ID, Partition: p})
		}
	}
	return all, nil
}

// tasks returns how many tasks each sub-topology has. A count that only follows upstream is found by going round until
// nothing changes, since sub-topologies that share stores may feed each other both ways.
func (t *Topology) tasks(counts Counts) ([]int32, error) {
	var errs []error
	known := make([]map[string]int32, len(t.subs)) // by sub-topology: the counts that do not follow upstream
	n := make([]int32, len(t.subs))
	for i, s := range t.subs {
		known[i] = map[string]int32{}
		for _, topic := range s.SourceTopics {
			want, internal := s.pinned[topic]
			switch have, exists := counts(topic); {
			case internal && want > 0:
				known[i][topic] = want
			case exists && have > 0:
				known[i][topic] = have
			case !internal:
				errs = append(errs, fmt.Errorf("source topic %q does not exist", topic))
			}
		}
		for _, have := range known[i] {
			n[i] = max(n[i], have)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for changed := true; changed; {
		changed = false
		for i, s := range t.subs {
			if len(known[i]) > 0 {
				continue
			}
			for topic := range s.pinned {
				if upstream := n[t.producers[topic]]; upstream > n[i] {
					n[i], changed = upstream, true
				}
			}
		}
	}
	for i, s := range t.subs {
		if err := coPartitioned(s, known[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// coPartitioned returns an error unless all counts are equal.
func coPartitioned(s *Subtopology, counts map[string]int32) error {
	topics := slices.Sorted(maps.Keys(counts))
	var list []string
	differ := false
	for _, topic := range topics {
		differ = differ || counts[topic] != counts[topics[0]]
		list = append(list, fmt.Sprintf("%s has %d", topic, counts[topic]))
	}
	if !differ {
		return nil
	}
	return fmt.Errorf("sub-topology %d reads topics with different partition counts, so records of one key would not meet: %s", s.ID, strings.Join(list, ", "))
}
