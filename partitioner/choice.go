package partitioner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a [Choice].
type Kind uint8

// The kinds of choice.
const (
	KindDefault Kind = iota // the partitioner's hash decides
	KindDrop                // no partition: the record is not produced
	KindSome                // the partitions named
	KindAll                 // every partition of the topic
)

// String returns the kind in lower case.
func (k Kind) String() string {
	switch k {
	case KindDefault:
		return "default"
	case KindDrop:
		return "drop"
	case KindSome:
		return "some"
	case KindAll:
		return "all"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Choice is what a partitioner answers for a record: Kafka Streams' Optional<Set<Integer>> (KIP-837), with a kind of its
// own for "all". The zero value is [Default]. A Choice is immutable.
type Choice struct {
	kind       Kind
	partitions []int32 // of KindSome: ascending, no duplicates, never empty
}

// Default leaves the choice to the hash of the key (Java's Optional.empty()).
func Default() Choice { return Choice{} }

// Drop sends the record nowhere (Java's Optional of an empty set).
func Drop() Choice { return Choice{kind: KindDrop} }

// All sends the record to every partition.
func All() Choice { return Choice{kind: KindAll} }

// Partitions sends the record to each partition given, once; none given is [Drop]. Whether the numbers are partitions of
// the topic is checked by [Choice.Resolve].
func Partitions(p ...int32) Choice {
	if len(p) == 0 {
		return Drop()
	}
	sorted := slices.Clone(p)
	slices.Sort(sorted)
	return Choice{kind: KindSome, partitions: slices.Compact(sorted)}
}

// FromList reads a list in the form that KIP-837 proposed first (MultiCastStreamPartitioner): partitions, or the single
// element -1 for all of them, or nothing to drop the record. Use it to port such a partitioner.
func FromList(list []int32) Choice {
	if len(list) == 1 && list[0] == -1 {
		return All()
	}
	return Partitions(list...)
}

// Kind returns the kind of the choice.
func (c Choice) Kind() Kind { return c.kind }

// String returns the choice as text, for logs and tests.
func (c Choice) String() string {
	if c.kind != KindSome {
		return c.kind.String()
	}
	var b strings.Builder
	for i, p := range c.partitions {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(p)))
	}
	return b.String()
}

// Resolve returns the partitions that the choice means for a topic of n partitions whose default for the key is def:
// ascending and without duplicates, empty for [Drop]. A partition outside 0..n-1 is a [*RangeError], and nothing of the
// record may then be produced.
func (c Choice) Resolve(def, n int32) ([]int32, error) {
	if n <= 0 {
		return nil, &RangeError{Partition: def, Count: n}
	}
	switch c.kind {
	case KindDrop:
		return nil, nil
	case KindAll:
		return everywhere(n), nil
	case KindSome:
		for _, p := range c.partitions {
			if p < 0 || p >= n {
				return nil, &RangeError{Partition: p, Count: n}
			}
		}
		return slices.Clone(c.partitions), nil
	case KindDefault:
	}
	if def < 0 || def >= n {
		return nil, &RangeError{Partition: def, Count: n}
	}
	return []int32{def}, nil
}

// RangeError says that a partitioner answered a partition that the topic does not have.
type RangeError struct {
	Partitioner string // name of the partitioner, empty when not known
	Topic       string // the topic, empty when not known
	Partition   int32  // what was answered
	Count       int32  // how many partitions the topic has
}

// Error names the partition and the count, and what else is known.
func (e *RangeError) Error() string {
	var b strings.Builder
	if e.Partitioner != "" {
		fmt.Fprintf(&b, "partitioner %q: ", e.Partitioner)
	}
	fmt.Fprintf(&b, "partition %d is not one of the %d", e.Partition, e.Count)
	if e.Topic != "" {
		fmt.Fprintf(&b, " of topic %q", e.Topic)
	} else {
		b.WriteString(" partitions")
	}
	return b.String()
}
