package assign

import (
	"reflect"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

func task(partition int32) metadata.TaskID { return metadata.TaskID{Partition: partition} }

func TestLossesKeepEachLeaseUntilItIsOver(t *testing.T) {
	const lease = 2 * time.Second
	before := &Map{
		Hosts: []MapHost{
			{Node: "a", Address: "a:1", Incarnation: 1, Active: []metadata.TaskID{task(0), task(1)}},
			{Node: "b", Address: "b:1", Incarnation: 1, Active: []metadata.TaskID{task(2)}, Lease: 5 * time.Second},
			{Node: "c", Address: "c:1", Incarnation: 1, Active: []metadata.TaskID{task(4)}},
			{Node: "idle", Address: "i:1", Incarnation: 1},
		},
	}
	// b vanished; c was started anew, and its earlier process may be alive; idle had nothing to answer for.
	hosts := []MapHost{{Node: "a", Incarnation: 1}, {Node: "c", Incarnation: 2}}
	lost := Losses(before, 0, hosts, lease)
	want := []Lost{
		{Node: "b", Address: "b:1", Tasks: []metadata.TaskID{task(2)}, Left: 5 * time.Second}, // its own
		{Node: "c", Address: "c:1", Tasks: []metadata.TaskID{task(4)}, Left: lease},
	}
	if !reflect.DeepEqual(lost, want) {
		t.Fatalf("Losses = %+v, want %+v", lost, want)
	}
	// 1.5 s later a vanishes too, while task 3 was withheld from somebody: it may have been a.
	next := &Map{Hosts: []MapHost{{Node: "a", Address: "a:1", Incarnation: 1, Active: []metadata.TaskID{task(0)}}, {Node: "c", Incarnation: 2}}, Withheld: []metadata.TaskID{task(3)}, Lost: lost}
	lost = Losses(next, 1500*time.Millisecond, []MapHost{{Node: "c", Incarnation: 2}}, lease)
	want = []Lost{
		{Node: "b", Address: "b:1", Tasks: []metadata.TaskID{task(2)}, Left: 3500 * time.Millisecond},
		{Node: "c", Address: "c:1", Tasks: []metadata.TaskID{task(4)}, Left: 500 * time.Millisecond},
		{Node: "a", Address: "a:1", Tasks: []metadata.TaskID{task(0), task(3)}, Left: lease},
	}
	if !reflect.DeepEqual(lost, want) {
		t.Fatalf("Losses = %+v, want %+v", lost, want)
	}
	if got := (Map{Lost: lost}).LostFrom(task(3)); len(got) != 1 || got[0].Node != "a" {
		t.Errorf("LostFrom(0_3) = %+v, want a", got)
	}
	if got := Losses(&Map{Lost: lost}, 5*time.Second, nil, lease); len(got) != 0 {
		t.Errorf("after the longest lease %+v are still lost", got)
	}
}

func TestUnknownLossIsOfEveryTask(t *testing.T) {
	lost := UnknownLoss([]Task{{ID: task(1)}, {ID: task(0)}}, time.Second)
	for _, p := range []int32{0, 1} {
		if got := (Map{Lost: lost}).LostFrom(task(p)); len(got) != 1 || got[0].Left != time.Second {
			t.Errorf("LostFrom(%v) = %+v, want one of a second", task(p), got)
		}
	}
	if UnknownLoss(nil, time.Second) != nil {
		t.Error("without tasks nothing is lost")
	}
}

func TestLostTravelsWithTheAssignment(t *testing.T) {
	m := Map{
		AcceptableLag: 1,
		Hosts:         []MapHost{{Node: "a", Address: "a:1", Active: []metadata.TaskID{task(0)}}},
		Lost:          []Lost{{Node: "b", Address: "b:1", Tasks: []metadata.TaskID{task(0), task(1)}, Left: 1500*time.Millisecond + 1}, {Tasks: []metadata.TaskID{task(7)}}},
	}
	got, err := DecodeAssignment(EncodeAssignment(m))
	if err != nil {
		t.Fatal(err)
	}
	m.Lost[0].Left = 1501 * time.Millisecond // rounded up: a lease never looks shorter than it is
	if !reflect.DeepEqual(got, m) {
		t.Errorf("decoded %+v, want %+v", got, m)
	}
}
