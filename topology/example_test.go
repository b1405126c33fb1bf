package topology_test

import (
	"fmt"
	"time"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// count keeps how often each word occurred and forwards the new number.
func count(ctx topology.Context, r topology.Record) error {
	if r.Key == nil {
		ctx.Skip(topology.SkipNullKey)
		return nil
	}
	counts := topology.Typed(ctx.Store("counts"), topology.String, topology.Int64)
	n, _, err := counts.Get(string(r.Key))
	if err != nil {
		return err
	}
	if err := counts.Put(string(r.Key), n+1, r.Timestamp); err != nil {
		return err
	}
	value, err := topology.Int64.Encode(n + 1)
	if err != nil {
		return err
	}
	ctx.Forward(topology.Record{Key: r.Key, Value: value, Timestamp: r.Timestamp})
	return nil
}

// A topology in Go, run without Kafka.
func Example() {
	t, err := topology.New().
		Source("words", "words").
		Processor("count", func() topology.Processor { return topology.ProcessorFunc(count) }, "words").
		Store(topology.StoreSpec{Name: "counts", KeySerde: topology.NameString, ValueSerde: topology.NameInt64}, "count").
		Sink("changes", "word-counts", nil, "count").
		Build("word-count")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t, map[string]int32{"words": 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"to", "be", "or", "not", "to", "be"} {
		if err := d.Put(topology.Record{Topic: "words", Key: []byte(word), Value: []byte{}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, r := range d.Output("word-counts") {
		n, err := topology.Int64.Decode(r.Value)
		fmt.Println(string(r.Key), n, err)
	}
	// Output:
	// to 1 <nil>
	// be 1 <nil>
	// or 1 <nil>
	// not 1 <nil>
	// to 2 <nil>
	// be 2 <nil>
}

// Windows in Go: the longest word of each minute, and what a late record does.
func ExampleBuilder_WindowedAggregate() {
	longest := topology.TypedAggregator(topology.String, topology.String, func(longest, word string) (string, error) {
		if len(word) > len(longest) {
			return word, nil
		}
		return longest, nil
	}, nil)
	spec := topology.StoreSpec{Name: "longest", KeySerde: topology.NameString, ValueSerde: topology.NameString}
	t, err := topology.New().
		Source("words", "words").
		WindowedAggregate("longest", spec, topology.Tumbling(time.Minute).WithGrace(10*time.Second), longest, "words").
		Sink("changes", "longest-words", nil, "longest").
		Build("longest-words")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, word := range []string{"to", "be", "question", "that", "is"} {
		r := topology.Record{Topic: "words", Key: []byte("hamlet"), Value: []byte(word), Timestamp: []int64{0, 61_000, 59_000, 70_000, 1000}[i]}
		if err := d.Put(r); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, r := range d.Output("longest-words") {
		key, start, err := topology.ParseWindowKey(r.Key)
		fmt.Println(string(key), start, string(r.Value), err)
	}
	fmt.Println(d.Skipped())
	// Output:
	// hamlet 0 to <nil>
	// hamlet 60000 be <nil>
	// hamlet 0 question <nil>
	// hamlet 60000 that <nil>
	// map[late:1]
}
