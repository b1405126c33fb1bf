package partitioner

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNoKey says that a record has no partition of its own, because it has no key or one that its partitioner treats as
// none ([Spreader]): whoever produces it spreads such records as it likes. (The Java producer and librdkafka do too.)
// Nobody can look up a record without a key, and one whose key is spread may be in any partition.
var ErrNoKey = errors.New("partitioner: the record has no key, so no partition follows from it")

// Partitioner says where the records of a key go. All methods are pure functions, safe for concurrent use, and neither
// keep nor change the bytes they are given.
type Partitioner interface {
	// Name is what topologies, metadata and routers call it. Never empty.
	Name() string
	// Partition is where the hash puts the key: in 0..n-1 for every n > 0, and -1 for any other n.
	// A nil key is hashed like an empty one, and a key that is spread like any other; callers that must tell them apart
	// use Route.
	Partition(key []byte, n int32) int32
	// Choose says where a record of topic, which has n partitions, goes.
	// A nil value is a tombstone.
	Choose(topic string, key, value []byte, n int32) Choice
	// Keys returns every partition, of n, in which a value of the key may be found, whatever the value is. It must hold
	// all that Choose can answer for the key. Empty when no record of the key is ever kept. The caller owns the result.
	Keys(key []byte, n int32) []int32
}

// Spreader is a [Partitioner] that treats some keys as none when it leaves the choice to the hash: their records go to any
// partition, so that Keys must give all partitions for such a key. A Partitioner that is no Spreader hashes every key.
type Spreader interface {
	Partitioner
	// Spreads says whether records of the key are spread. A lookup's key is never nil, so nil means the empty key.
	Spreads(key []byte) bool
}

func spreads(p Partitioner, key []byte) bool {
	s, ok := p.(Spreader)
	return ok && s.Spreads(key)
}

// Route returns the partitions, of n, to which p sends a record: ascending, empty when it is dropped. A record without a
// key, or with one that p spreads, is [ErrNoKey] if the choice is left to the hash; a partition that does not exist is a
// [*RangeError].
func Route(p Partitioner, topic string, key, value []byte, n int32) ([]int32, error) {
	c := p.Choose(topic, key, value, n)
	var def int32
	if c.Kind() == KindDefault {
		if key == nil || spreads(p, key) {
			return nil, ErrNoKey
		}
		def = p.Partition(key, n)
	}
	to, err := c.Resolve(def, n)
	return to, located(err, p, topic)
}

// Lookup returns the partitions, of n, in which a value of the key may be: ascending and without duplicates, empty when
// the partitioner drops such keys. Any of them may be asked. A partition that does not exist is a [*RangeError]. A nil
// key stands for the empty one, because a lookup always has a key.
func Lookup(p Partitioner, key []byte, n int32) ([]int32, error) {
	if key == nil {
		key = []byte{}
	}
	in := p.Keys(key, n)
	slices.Sort(in)
	in = slices.Compact(in)
	for _, at := range in {
		if at < 0 || at >= n {
			return nil, located(&RangeError{Partition: at, Count: n}, p, "")
		}
	}
	return in, nil
}

// located completes a RangeError.
func located(err error, p Partitioner, topic string) error {
	if r, ok := errors.AsType[*RangeError](err); ok {
		r.Partitioner, r.Topic = p.Name(), topic
	}
	return err
}

// ChooseFunc chooses the partitions of a record of topic, which has n of them. A nil value is a tombstone.
type ChooseFunc func(topic string, key, value []byte, n int32) Choice

// Custom returns a partitioner that chooses by a function of the key, the topic and the number of partitions, and leaves
// the rest to the hash of base; a nil base is [Murmur2]. The function must not look at the value, because a lookup has
// none: Keys calls it with an empty topic and a nil value. A partitioner that does look at values implements
// [Partitioner] itself.
func Custom(name string, base Partitioner, choose ChooseFunc) Partitioner {
	if base == nil {
		base = Murmur2()
	}
	return custom{name, base, choose}
}

type custom struct {
	name   string
	base   Partitioner
	choose ChooseFunc
}

func (c custom) Name() string { return c.name }

func (c custom) Partition(key []byte, n int32) int32 { return c.base.Partition(key, n) }

func (c custom) Choose(topic string, key, value []byte, n int32) Choice {
	return c.choose(topic, key, value, n)
}

// Spreads implements [Spreader]: where the choice is left to the base, it is the base's.
func (c custom) Spreads(key []byte) bool { return spreads(c.base, key) }

func (c custom) Keys(key []byte, n int32) []int32 {
	choice := c.choose("", key, nil, n)
	switch choice.Kind() {
	case KindSome:
		return slices.Clone(choice.partitions) // unchecked: Lookup reports what is out of range
	case KindDefault:
		return c.base.Keys(key, n)
	case KindDrop, KindAll:
	}
	to, err := choice.Resolve(c.Partition(key, n), n)
	if err != nil {
		return []int32{-1}
	}
	return to
}

// Registry knows partitioners by name: those of this package and those of the application. It is immutable. The nil
// Registry knows those of this package alone.
type Registry struct {
	byName map[string]Partitioner
}

// NewRegistry returns a registry with the application's own partitioners added. An empty name, a name given twice and the
// name of a built-in one are errors, all reported at once.
func NewRegistry(own ...Partitioner) (*Registry, error) {
	r := &Registry{byName: map[string]Partitioner{}}
	for _, p := range builtIn() {
		r.byName[p.Name()] = p
	}
	var errs []error
	for i, p := range own {
		if p == nil || p.Name() == "" {
			errs = append(errs, fmt.Errorf("partitioner %d has no name", i))
			continue
		}
		if _, taken := r.byName[p.Name()]; taken {
			errs = append(errs, fmt.Errorf("partitioner %q is registered twice", p.Name()))
			continue
		}
		r.byName[p.Name()] = p
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return r, nil
}

// Get returns the partitioner of that name; the empty name means murmur2, Kafka's default. An unknown name is an error
// that lists the known ones.
func (r *Registry) Get(name string) (Partitioner, error) {
	if name == "" {
		return Murmur2(), nil
	}
	if r == nil {
		for _, p := range builtIn() {
			if p.Name() == name {
				return p, nil
			}
		}
	} else if p, ok := r.byName[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("partitioner %q is not known; known are %q", name, r.Names())
}

// Names returns the known names in ascending order.
func (r *Registry) Names() []string {
	var names []string
	if r == nil {
		for _, p := range builtIn() {
			names = append(names, p.Name())
		}
	} else {
		for name := range r.byName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
