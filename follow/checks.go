package follow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// defaultPartitioner is how a Kafka Streams application puts keys into partitions.
const defaultPartitioner = partitioner.NameMurmur2

// kind settles the store's kind and says whether it could.
func (r *resolver) kind(f *Found, s Store, t Topic) bool {
	detected, err := kindOfTopic(t)
	if f.Own && s.Kind == "" { // a topic of anybody's is a table
		f.Spec.Kind, f.KindKnown = topology.KeyValue, true
		return true
	}
	if s.Kind == "" {
		if err != nil {
			f.Buffer = errors.Is(err, errDuplicates)
			f.add(Refusal, "%s", because(err))
			return false
		}
		f.Spec.Kind, f.KindKnown, f.KindDetected = detected, true, true
		return true
	}
	f.Spec.Kind, f.KindKnown = kindOf(s.Kind)
	switch {
	case errors.Is(err, errDuplicates) && f.Spec.Kind == topology.Window:
		f.add(Refusal, "%v", err)
		return false
	case err == nil && detected != f.Spec.Kind && !f.Own:
		f.add(Warning, "is configured as %s, but the topic looks like that of a %s store", f.Spec.Kind, detected)
	}
	return true
}

// because tells what to do about a kind that is not known.
func because(err error) string {
	if errors.Is(err, errDuplicates) {
		return err.Error()
	}
	return err.Error() + "; say its kind in the file"
}

// policy looks at what the broker does to old records.
func (r *resolver) policy(f *Found, t Topic) {
	if t.Configs == nil {
		f.add(Note, "the topic's configuration may not be read, so cleanup.policy is not checked")
		return
	}
	policy := strings.Join(t.policies(), ",")
	kept, bounded := t.millis("retention.ms")
	switch {
	case f.Spec.Kind == topology.Window || f.Spec.Kind == topology.Session:
		if !t.compacted() {
			f.add(Warning, "cleanup.policy is %q, not compact,delete: every change is kept and read", policy)
		}
	case t.deleted() && bounded:
		f.add(Warning, "cleanup.policy is %q with a retention of %s: what was not written since then is missing from a copy that is made anew", policy, kept)
	case !t.compacted():
		f.add(Warning, "cleanup.policy is %q, not compact: every change is kept and read", policy)
	}
}

// times settles window size and retention.
func (r *resolver) times(f *Found, t Topic) {
	spec := &f.Spec
	if spec.Kind != topology.Window {
		if spec.WindowSize != 0 {
			f.add(Refusal, "window_size %s is of no use for a %s store", spec.WindowSize, spec.Kind)
		}
	} else if spec.WindowSize == 0 {
		hint := ""
		if step := stepOf(t.Records); step > 0 {
			hint = "; the windows seen begin at multiples of " + step.String()
		}
		f.add(Refusal, "window_size is missing: no topic tells it, so it has to be in the file%s", hint)
	}
	told, known := retentionOf(spec.Kind, t)
	switch {
	case spec.Kind == topology.KeyValue && spec.Retention != 0:
		f.add(Refusal, "retention %s is of no use for a keyvalue store", spec.Retention)
	case spec.Kind == topology.KeyValue:
	case spec.Retention == 0 && !known:
		f.add(Refusal, "retention is missing: the topic's configuration does not tell it, so it has to be in the file")
	case spec.Retention == 0:
		spec.Retention = told
	case known && spec.Retention > told+changelogSlack:
		f.add(Warning, "retention %s is more than the topic keeps, %s", spec.Retention, told+changelogSlack)
	}
	if spec.WindowSize > 0 && spec.Retention > 0 && spec.Retention < spec.WindowSize {
		f.add(Refusal, "retention %s is less than the window size, %s", spec.Retention, spec.WindowSize)
	}
}

// Schema is what a store of this spec is on disk and in its changelog.
func Schema(spec topology.StoreSpec) store.Schema {
	s := store.Schema{WindowSize: spec.WindowSize, Retention: spec.Retention}
	switch spec.Kind {
	case topology.KeyValue:
		s.Kind = store.KindKeyValue
	case topology.Window:
		s.Kind = store.KindWindow
	case topology.Session:
		s.Kind = store.KindSession
	case topology.Versioned:
		s.Kind = store.KindVersioned
	}
	return s
}

// records reads the records as a node does, and looks whether keys and values are what the serdes say.
func (r *resolver) records(f *Found, t Topic) {
	schema := Schema(f.Spec)
	var nulls, foreign, keys, values, read int
	var firstForeign, firstKey, firstValue error
	keySerde, keyErr := topology.SerdeByName(f.Spec.KeySerde)
	valueSerde, valueErr := topology.SerdeByName(f.Spec.ValueSerde)
	if err := errors.Join(keyErr, valueErr); err != nil {
		f.add(Refusal, "%v", err)
		return
	}
	for _, rec := range t.Records {
		if rec.Key == nil {
			nulls++
			continue
		}
		change, err := schema.FromChangelog(rec.Key, rec.Value, rec.Timestamp)
		if err != nil {
			foreign++
			firstForeign = first(firstForeign, err)
			continue
		}
		read++
		key, _, err := schema.Decode(change.Key)
		if err == nil {
			_, err = keySerde.Format(key)
		}
		if err != nil {
			keys++
			firstKey = first(firstKey, err)
		}
		if rec.Value != nil {
			if _, err := valueSerde.Format(rec.Value); err != nil {
				values++
				firstValue = first(firstValue, err)
			}
		}
	}
	switch {
	case foreign > 0 && read == 0:
		f.add(Refusal, "none of %d records is one of a %s store: %v", foreign, f.Spec.Kind, firstForeign)
	case foreign > 0:
		f.add(Warning, "%d of %d records are none of a %s store and are skipped: %v", foreign, foreign+read, f.Spec.Kind, firstForeign)
	}
	if nulls > 0 {
		f.add(Warning, "%d of %d records have no key and are skipped", nulls, len(t.Records))
	}
	if keys > 0 {
		f.add(Warning, "%d of %d keys are no %s: %v", keys, read, f.Spec.KeySerde, firstKey)
	}
	if values > 0 {
		f.add(Warning, "%d of %d values are no %s: %v", values, read, f.Spec.ValueSerde, firstValue)
	}
}

func first(have, err error) error {
	if have != nil {
		return have
	}
	return err
}

// inputs settles of which topics at_least may ask, and compares partition counts.
//
// A changelog does not tell what feeds its store. That the application's group has read an input topic up to an offset says
// something of a store only if the store's own sub-topology reads that topic: what goes through a repartition topic may be
// on its way still. So a topic is taken for granted only when the application reads no other.
func (r *resolver) inputs(f *Found, s Store) {
	switch {
	case len(s.Inputs) > 0:
		f.Inputs = slices.Compact(slices.Sorted(slices.Values(s.Inputs)))
	case f.Own:
		f.Inputs = []string{f.Spec.Changelog}
	case len(r.facts.Committed) == 1:
		f.Inputs = slices.Clone(r.facts.Committed)
	case f.Served() && len(r.facts.Committed) > 1:
		f.add(Note, "at_least is refused unless the file names inputs, the topics that the store's sub-topology reads, of %s", strings.Join(r.facts.Committed, ", "))
	}
	for _, name := range f.Inputs {
		t, exists := r.facts.Topics[name]
		switch {
		case !exists:
			f.Problems = append(f.Problems, Problem{Severity: Refusal, Text: "input topic " + name + " does not exist", Absent: true})
		case t.Partitions != f.Partitions:
			f.add(Refusal, "has %d partitions, but its input %s has %d: a key may be elsewhere than where it is looked for", f.Partitions, name, t.Partitions)
		case !f.Own && !slices.Contains(r.facts.Committed, name):
			f.add(Warning, "the application's group has no committed offsets of input %s: does the application read it?", name)
		}
	}
	if len(f.Inputs) > 0 || f.Partitions == 0 || len(r.facts.Committed) == 0 {
		return
	}
	if !slices.ContainsFunc(r.facts.Committed, func(name string) bool { return r.facts.Topics[name].Partitions == f.Partitions }) {
		f.add(Warning, "has %d partitions, and no topic that the application reads has as many (%s)", f.Partitions, r.counts())
	}
}

// counts are the partition counts of what the application reads.
func (r *resolver) counts() string {
	var parts []string
	for _, name := range r.facts.Committed {
		parts = append(parts, fmt.Sprintf("%s: %d", name, r.facts.Topics[name].Partitions))
	}
	return strings.Join(parts, ", ")
}
