package topology_test

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

var (
	errDisk = errors.New("disk is full")
	errBad  = errors.New("bad record")
)

// recorder is an Output that keeps what is sent and fails on demand.
type recorder struct {
	store   topology.KeyValueStore
	sent    []string
	sendErr error
}

func (o *recorder) Store(string) topology.KeyValueStore { return o.store }

func (o *recorder) Send(sink *topology.Sink, r topology.Record) error {
	if o.sendErr != nil {
		return o.sendErr
	}
	o.sent = append(o.sent, sink.Name+"("+r.Topic+") "+string(r.Key)+"="+string(r.Value))
	if r.Partition != -1 || r.Offset != -1 {
		return errors.New("partition and offset are not -1")
	}
	return nil
}

// broken fails every call.
type broken struct{}

func (broken) Get([]byte) ([]byte, int64, bool, error) { return nil, 0, false, errDisk }
func (broken) Put(_, _ []byte, _ int64) error          { return errDisk }
func (broken) Delete([]byte, int64) error              { return errDisk }

func (broken) Range(_, _ []byte, _ bool) iter.Seq2[topology.Entry, error] {
	return func(yield func(topology.Entry, error) bool) { yield(topology.Entry{}, errDisk) }
}

// chain builds in -> p -> (q -> out, out2), with a store "s" of p, and returns its task 0.
func chain(t *testing.T, policy topology.ErrorPolicy, out topology.Output, p, q topology.ProcessorFunc) *topology.Task {
	t.Helper()
	b := topology.New().OnError(policy).
		Source("in", "t").
		Processor("p", func() topology.Processor { return p }, "in").
		Processor("q", func() topology.Processor { return q }, "p").
		Sink("out", "o", nil, "q").
		Sink("out2", "o2", nil, "p").
		Store(topology.StoreSpec{Name: "s"}, "p")
	topo, err := b.Build("app")
	if err != nil {
		t.Fatal(err)
	}
	task, err := topo.Subtopologies()[0].NewTask(0, out)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func pass(ctx topology.Context, r topology.Record) error {
	ctx.Forward(r)
	return nil
}

func in(key string, timestamp int64) topology.Record {
	return topology.Record{Topic: "t", Offset: 42, Key: []byte(key), Value: []byte("v"), Timestamp: timestamp}
}

func TestForwardReachesEveryChildInOrder(t *testing.T) {
	out := &recorder{store: topologytest.NewStore()}
	task := chain(t, topology.StopOnError, out, pass, func(ctx topology.Context, r topology.Record) error {
		ctx.Forward(r)
		ctx.ForwardTo("out", r)
		return nil
	})
	if err := task.Process(in("k", 5)); err != nil {
		t.Fatal(err)
	}
	want := []string{"out(o) k=v", "out(o) k=v", "out2(o2) k=v"}
	if !slices.Equal(out.sent, want) {
		t.Errorf("sent %q, want %q", out.sent, want)
	}
}

// A processor that drops an error of a store, an output or a child must not hide it.
func TestFailureReachesProcessWhateverTheProcessorReturns(t *testing.T) {
	for name, c := range map[string]struct {
		out  *recorder
		p, q topology.ProcessorFunc
		want error
		node string
	}{
		"put": {out: &recorder{store: broken{}}, want: errDisk, node: "p", p: func(ctx topology.Context, r topology.Record) error {
			_ = ctx.Store("s").Put(r.Key, r.Value, r.Timestamp)
			return nil
		}},
		"get": {out: &recorder{store: broken{}}, want: errDisk, node: "p", p: func(ctx topology.Context, r topology.Record) error {
			_, _, _, _ = ctx.Store("s").Get(r.Key)
			return nil
		}},
		"delete by a nil value": {out: &recorder{store: broken{}}, want: errDisk, node: "p", p: func(ctx topology.Context, r topology.Record) error {
			_ = ctx.Store("s").Put(r.Key, nil, r.Timestamp)
			return nil
		}},
		"range": {out: &recorder{store: broken{}}, want: errDisk, node: "p", p: func(ctx topology.Context, _ topology.Record) error {
			for _, err := range ctx.Store("s").Range(nil, nil, false) {
				_ = err
			}
			return nil
		}},
		"send": {out: &recorder{store: topologytest.NewStore(), sendErr: errDisk}, want: errDisk, node: "out", p: pass, q: pass},
		"child": {out: &recorder{store: topologytest.NewStore()}, want: errBad, node: "q", p: pass, q: func(topology.Context, topology.Record) error {
			return errBad
		}},
	} {
		t.Run(name, func(t *testing.T) {
			task := chain(t, topology.StopOnError, c.out, c.p, c.q)
			err := task.Process(in("k", 5))
			var r *topology.RecordError
			if !errors.Is(err, c.want) || !errors.As(err, &r) {
				t.Fatalf("%v, want a RecordError of %v", err, c.want)
			}
			if r.Topic != "t" || r.Partition != 0 || r.Offset != 42 || r.Node != c.node {
				t.Errorf("%+v, want topic t, partition 0, offset 42, node %q", *r, c.node)
			}
			if len(c.out.sent) > 0 {
				t.Errorf("sent %q after the failure", c.out.sent)
			}
		})
	}
}

func TestStoreFailureIsNeverSkipped(t *testing.T) {
	out := &recorder{store: broken{}}
	task := chain(t, topology.SkipOnError, out, func(ctx topology.Context, r topology.Record) error {
		return ctx.Store("s").Put(r.Key, r.Value, r.Timestamp)
	}, pass)
	if err := task.Process(in("k", 5)); !errors.Is(err, errDisk) {
		t.Errorf("%v, want %v", err, errDisk)
	}
}

func TestPoisonRecordIsSkippedAndCountedWhenAsked(t *testing.T) {
	out := &recorder{store: topologytest.NewStore()}
	task := chain(t, topology.SkipOnError, out, func(ctx topology.Context, r topology.Record) error {
		switch string(r.Key) {
		case "bad":
			return errBad
		case "panic":
			panic("at the record")
		}
		ctx.Forward(r)
		return nil
	}, pass)
	for _, key := range []string{"bad", "panic", "good"} {
		if err := task.Process(in(key, 5)); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	if got := task.Skipped(); got[topology.SkipProcessorError] != 2 || len(got) != 1 {
		t.Errorf("skipped %v, want 2 processor errors", got)
	}
	if want := []string{"out(o) good=v", "out2(o2) good=v"}; !slices.Equal(out.sent, want) {
		t.Errorf("sent %q, want %q", out.sent, want)
	}
}

func TestPanicStopsTheTaskWithTheRecordAndTheStack(t *testing.T) {
	task := chain(t, topology.StopOnError, &recorder{store: topologytest.NewStore()}, func(_ topology.Context, r topology.Record) error {
		_ = r.Value[7]
		return nil
	}, pass)
	err := task.Process(in("k", 5))
	if err == nil || !strings.Contains(err.Error(), `topic "t" partition 0 offset 42 at "p"`) || !strings.Contains(err.Error(), "task_test.go") {
		t.Errorf("%v, want the record and the stack", err)
	}
}

func TestStoreThatIsNotConnectedFailsWithItsName(t *testing.T) {
	for name, p := range map[string]topology.ProcessorFunc{
		"get": func(ctx topology.Context, r topology.Record) error {
			_, _, _, err := ctx.Store("other").Get(r.Key)
			return err
		},
		"put":    func(ctx topology.Context, r topology.Record) error { return ctx.Store("other").Put(r.Key, r.Value, 1) },
		"delete": func(ctx topology.Context, r topology.Record) error { return ctx.Store("other").Delete(r.Key, 1) },
		"range": func(ctx topology.Context, _ topology.Record) error {
			for _, err := range ctx.Store("other").Range(nil, nil, true) {
				return err
			}
			return nil
		},
		"child": func(ctx topology.Context, r topology.Record) error {
			ctx.ForwardTo("other", r)
			return ctx.Err()
		},
	} {
		task := chain(t, topology.SkipOnError, &recorder{store: topologytest.NewStore()}, p, pass)
		err := task.Process(in("k", 5))
		if err == nil || !strings.Contains(err.Error(), `"other"`) || !strings.Contains(err.Error(), `"p"`) {
			t.Errorf("%s: %v, want an error that names the store or child and the processor", name, err)
		}
	}
}

func TestRecordOfAnotherPartitionIsRefused(t *testing.T) {
	task := chain(t, topology.StopOnError, &recorder{store: topologytest.NewStore()}, pass, pass)
	for _, r := range []topology.Record{{Topic: "t", Partition: 1}, {Topic: "u"}} {
		if err := task.Process(r); err == nil || !strings.Contains(err.Error(), `it reads partition 0 of ["t"]`) {
			t.Errorf("%s/%d: %v", r.Topic, r.Partition, err)
		}
	}
}

func TestStreamTimeNeverGoesBackExceptByReset(t *testing.T) {
	var seen []int64
	task := chain(t, topology.StopOnError, &recorder{store: topologytest.NewStore()}, func(ctx topology.Context, _ topology.Record) error {
		seen = append(seen, ctx.StreamTime())
		return nil
	}, pass)
	if task.StreamTime() != -1 {
		t.Errorf("stream time is %d before the first record, want -1", task.StreamTime())
	}
	for _, ts := range []int64{10, 7, 30} {
		if err := task.Process(in("k", ts)); err != nil {
			t.Fatal(err)
		}
		if ts == 7 {
			task.Commit()
		}
	}
	if want := []int64{10, 10, 30}; !slices.Equal(seen, want) {
		t.Errorf("processors saw %v, want %v", seen, want)
	}
	if err := task.Reset(); err != nil {
		t.Fatal(err)
	}
	if task.StreamTime() != 10 {
		t.Errorf("stream time is %d after Reset, want that of the commit, 10", task.StreamTime())
	}
	task.AdvanceStreamTime(25)
	task.AdvanceStreamTime(3)
	if task.StreamTime() != 25 {
		t.Errorf("stream time is %d, want 25", task.StreamTime())
	}
}

// A record that is processed again after an abort must count once.
func TestResetTakesBackSkipsAndProcessorState(t *testing.T) {
	made := 0
	b := topology.New().Source("in", "t").Processor("p", func() topology.Processor {
		made++
		met := 0
		return topology.ProcessorFunc(func(ctx topology.Context, _ topology.Record) error {
			if met++; met > 1 {
				ctx.Skip("again")
			}
			ctx.Skip(topology.SkipMalformed)
			return nil
		})
	}, "in")
	topo, err := b.Build("app")
	if err != nil {
		t.Fatal(err)
	}
	task, err := topo.Subtopologies()[0].NewTask(0, &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	process := func() {
		t.Helper()
		if err := task.Process(in("k", 1)); err != nil {
			t.Fatal(err)
		}
	}
	process()
	task.Commit()
	process()
	if got := task.Skipped(); !maps.Equal(got, map[string]int64{"again": 1, topology.SkipMalformed: 2}) {
		t.Errorf("skipped %v before the abort", got)
	}
	if err := task.Reset(); err != nil {
		t.Fatal(err)
	}
	process()
	if got := task.Skipped(); !maps.Equal(got, map[string]int64{topology.SkipMalformed: 2}) {
		t.Errorf("skipped %v after the abort, want 2 malformed", got)
	}
	if made != 2 {
		t.Errorf("%d instances made, want 2", made)
	}
}

func TestNewTaskReportsAllThatIsMissing(t *testing.T) {
	b := topology.New().Source("in", "t").
		Processor("p", func() topology.Processor { return nil }, "in").
		Store(topology.StoreSpec{Name: "a"}, "p").
		Store(topology.StoreSpec{Name: "b"}, "p")
	topo, err := b.Build("app")
	if err != nil {
		t.Fatal(err)
	}
	_, err = topo.Subtopologies()[0].NewTask(2, &recorder{})
	want := "task 0_2: store \"a\" is missing\ntask 0_2: store \"b\" is missing\n" +
		"task 0_2: processor \"p\": the function that makes it returned nil"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
	if _, err := topo.Subtopologies()[0].NewTask(-1, &recorder{}); err == nil {
		t.Error("a task of partition -1 is made")
	}
}

func TestTypedStoreReadsAndWritesThroughItsCodecs(t *testing.T) {
	out := &recorder{store: topologytest.NewStore()}
	task := chain(t, topology.StopOnError, out, func(ctx topology.Context, r topology.Record) error {
		words := topology.Typed(ctx.Store("s"), topology.String, topology.Int64)
		n, _, err := words.Get(string(r.Key))
		if err != nil {
			return err
		}
		if string(r.Key) == "gone" {
			return words.Delete("a", r.Timestamp)
		}
		if err := words.Put(string(r.Key), n+1, r.Timestamp); err != nil {
			return err
		}
		for e, err := range words.All() {
			if err != nil {
				return err
			}
			ctx.ForwardTo("out2", topology.Record{Key: []byte(e.Key), Value: []byte{byte('0' + e.Value)}})
		}
		return nil
	}, pass)
	for _, key := range []string{"b", "a", "b", "gone", "b"} {
		if err := task.Process(in(key, 5)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"b=1", "a=1", "b=1", "a=1", "b=2", "b=3"}
	for i := range want {
		want[i] = "out2(o2) " + want[i]
	}
	if !slices.Equal(out.sent, want) {
		t.Errorf("sent %q, want %q", out.sent, want)
	}
	if err := out.store.Put([]byte("b"), []byte("short"), 1); err != nil {
		t.Fatal(err)
	}
	if err := task.Process(in("b", 5)); err == nil || !strings.Contains(err.Error(), `value of "b": 5 bytes, want 8`) {
		t.Errorf("a value of the wrong format gives %v", err)
	}
}
