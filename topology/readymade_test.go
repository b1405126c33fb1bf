package topology

import "testing"

// emptyStore holds an empty value, which it gives as nil, and remembers what is put.
type emptyStore struct {
	oneStore
	puts int
}

func (s *emptyStore) Get([]byte) (value []byte, timestamp int64, found bool, err error) {
	return nil, 5, true, nil
}

func (s *emptyStore) Put(_, _ []byte, _ int64) error {
	s.puts++
	return nil
}

type emptyOutput struct {
	sinkhole
	store emptyStore
}

func (o *emptyOutput) Store(string) KeyValueStore { return &o.store }

// A store may give an empty value as nil; it was there all the same, and a later record is not the first.
func TestFirstIsKeptWhenItIsEmpty(t *testing.T) {
	c := &Config{
		Application: "a",
		Sources:     []SourceConfig{{Topic: "t", Format: FormatRaw}},
		Aggregates:  []AggregateConfig{{Store: "s", Source: "t", Op: OpFirst}},
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	out := &emptyOutput{}
	task, err := topo.Subtopologies()[0].NewTask(0, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Process(Record{Topic: "t", Key: []byte("k"), Value: []byte("later"), Timestamp: 9}); err != nil {
		t.Fatal(err)
	}
	if out.store.puts != 0 {
		t.Error("the first value was replaced")
	}
	if err := task.Process(Record{Topic: "t", Key: []byte("k"), Value: []byte("earlier"), Timestamp: 4}); err != nil {
		t.Fatal(err)
	}
	if out.store.puts != 1 {
		t.Error("an earlier value was not taken")
	}
}
