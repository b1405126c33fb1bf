package serve

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// hostOf is an instance with a replica in each state that a figure or a fact of it can have.
func hostOf(node string) *iqv1.Instance {
	return &iqv1.Instance{
		Node: node, Address: node + ":1", Alive: true, Generation: 1, ActiveStores: []string{"s"},
		Replicas: []*iqv1.ReplicaStatus{{Node: node, Store: "s", Role: iqv1.Role_ROLE_ACTIVE, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING}},
	}
}

// What is told at once and what may wait.
func TestFiguresAreNotUrgentAndAllElseIs(t *testing.T) {
	t.Parallel()
	figures := map[string]func(*iqv1.Instance){
		"sequence":    func(in *iqv1.Instance) { in.Sequence++ },
		"in_flight":   func(in *iqv1.Instance) { in.InFlight++ },
		"last_heard":  func(in *iqv1.Instance) { in.LastHeard = durationpb.New(time.Second) },
		"inputs":      func(in *iqv1.Instance) { in.Inputs = append(in.Inputs, &iqv1.ReplicaInput{Store: "s"}) },
		"misplaced":   func(in *iqv1.Instance) { in.Misplaced = append(in.Misplaced, &iqv1.Misplaced{Store: "s"}) },
		"dropped":     func(in *iqv1.Instance) { in.Dropped = append(in.Dropped, &iqv1.Dropped{Sink: "s"}) },
		"position":    func(in *iqv1.Instance) { in.Replicas[0].Position++ },
		"end":         func(in *iqv1.Instance) { in.Replicas[0].EndPosition++ },
		"offset_lag":  func(in *iqv1.Instance) { in.Replicas[0].OffsetLag = new(int64) },
		"time_lag":    func(in *iqv1.Instance) { in.Replicas[0].TimeLag = durationpb.New(1) },
		"sample_age":  func(in *iqv1.Instance) { in.Replicas[0].SampleAge = durationpb.New(1) },
		"nothing new": func(*iqv1.Instance) {},
	}
	facts := map[string]func(*iqv1.Instance){
		"address":     func(in *iqv1.Instance) { in.Address = "b:2" },
		"rack":        func(in *iqv1.Instance) { in.Rack = "r" },
		"generation":  func(in *iqv1.Instance) { in.Generation++ },
		"incarnation": func(in *iqv1.Instance) { in.Incarnation++ },
		"draining":    func(in *iqv1.Instance) { in.Draining = true },
		"role":        func(in *iqv1.Instance) { in.Replicas[0].Role = iqv1.Role_ROLE_STANDBY },
		"state":       func(in *iqv1.Instance) { in.Replicas[0].State = iqv1.ReplicaState_REPLICA_STATE_SUSPENDED },
		"lease":       func(in *iqv1.Instance) { in.Replicas[0].LeaseValid = true },
		"a replica":   func(in *iqv1.Instance) { in.Replicas = nil },
		"stores":      func(in *iqv1.Instance) { in.StandbyStores = []string{"t"} },
		"partitions":  func(in *iqv1.Instance) { in.ActivePartitions = []*iqv1.TopicPartition{{Topic: "in"}} },
	}
	check := func(what string, edit func(*iqv1.Instance), wantUrgent bool) {
		other, old := hostOf("a"), hostOf("b")
		in := proto.CloneOf(old)
		edit(in)
		told := map[string]*iqv1.Instance{"a": other, "b": old}
		changed, gone, urgent := compareInstances(told, []*iqv1.Instance{other, in})
		if urgent != wantUrgent || len(gone) > 0 {
			t.Errorf("%s: urgent=%v gone=%v", what, urgent, gone)
		}
		if want := what != "nothing new"; (len(changed) == 1) != want {
			t.Errorf("%s: changed are %v", what, changed)
		}
	}
	for what, edit := range figures {
		check(what, edit, false)
	}
	for what, edit := range facts {
		check(what, edit, true)
	}
}

// Every field of an instance is a fact unless somebody has decided otherwise, so a new one is told at once.
func TestUnknownFieldsAreFacts(t *testing.T) {
	t.Parallel()
	figures := []protoreflect.Name{"sequence", "in_flight"}
	fields := (&iqv1.Instance{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.IsList() || fd.Message() != nil || fd.Name() == "node" {
			continue
		}
		in := hostOf("a")
		in.ProtoReflect().Set(fd, sampleOf(fd))
		_, _, urgent := compareInstances(map[string]*iqv1.Instance{"a": hostOf("a")}, []*iqv1.Instance{in})
		if want := !slices.Contains(figures, fd.Name()); urgent != want {
			t.Errorf("%s: urgent=%v", fd.Name(), urgent)
		}
	}
}

func sampleOf(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() { //nolint:exhaustive // an instance has fields of no other kind
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(fd.Name() != "alive")
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(77)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(77)
	default:
		return protoreflect.ValueOfString("other")
	}
}

// Whatever happens, the messages applied one after another give the table as it is.
func TestChangesAppliedGiveTheInstances(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	told, table := map[string]*iqv1.Instance(nil), map[string]*iqv1.Instance{}
	for step := range 2_000 {
		var now []*iqv1.Instance
		for i := range 4 {
			if random.IntN(8) > 0 {
				in := hostOf(fmt.Sprint("n", i))
				in.Generation, in.InFlight = random.Int64N(2), random.Int32N(2)
				in.Replicas[0].Position, in.Replicas[0].LeaseValid = random.Int64N(2), random.IntN(2) == 0
				now = append(now, in)
			}
		}
		changed, gone, _ := compareInstances(told, now)
		for _, node := range gone {
			delete(table, node)
		}
		for _, in := range changed {
			table[in.GetNode()] = in
		}
		told = map[string]*iqv1.Instance{}
		for _, in := range now {
			told[in.GetNode()] = in
		}
		if !maps.EqualFunc(table, told, func(a, b *iqv1.Instance) bool { return proto.Equal(a, b) }) {
			t.Fatalf("step %d: the table is %v, want %v", step, table, told)
		}
	}
}
