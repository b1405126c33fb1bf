package assign

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// normal is a member as the other side sees it: no id, sorted sets, nothing rather than empty.
func normal(m Member) Member {
	m.ID = ""
	m.Owned = sortedSet(m.Owned)
	if len(m.Lags) == 0 {
		m.Lags = nil
	}
	return m
}

func sortedSet(tasks []metadata.TaskID) []metadata.TaskID {
	in := make(map[metadata.TaskID]bool)
	for _, t := range tasks {
		in[t] = true
	}
	var sorted []metadata.TaskID
	for sub := range int32(20) {
		for p := range int32(20) {
			if id := (metadata.TaskID{Subtopology: sub, Partition: p}); in[id] {
				sorted = append(sorted, id)
			}
		}
	}
	return sorted
}

func TestUserDataSurviveTheWire(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		c := randomCluster(r)
		for _, m := range c.members {
			m.Incarnation -= 1
			m.Draining = r.IntN(2) == 0
			got, err := DecodeMember(EncodeMember(m))
			if want := normal(m); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v\nbecame\n%+v, %v", want, got, err)
			}
		}
		a := c.plan(t)
		got, err := DecodeAssignment(EncodeAssignment(a.Map))
		if err != nil || !reflect.DeepEqual(got, a.Map) {
			t.Fatalf("%+v\nbecame\n%+v, %v", a.Map, got, err)
		}
	}
}

func TestUserDataOfALargeGroupAreSmall(t *testing.T) {
	members, _, m := large(t, 50, 10_000, 100, Options{Standbys: 1})
	if n := len(EncodeAssignment(m)); n > 100_000 { // 20,000 replicas
		t.Errorf("the map takes %d bytes", n)
	}
	for _, member := range members {
		if n := len(EncodeMember(member)); n > 3_000 { // 400 tasks
			t.Errorf("the user data of %s take %d bytes", member.ID, n)
		}
	}
}

// wire is a member and a map whose every field is set.
func wire() (Member, Map) {
	tasks := []metadata.TaskID{{Subtopology: 0, Partition: 3}, {Subtopology: 0, Partition: 4}, {Subtopology: 7, Partition: 1}}
	m := Member{
		Node: "node-a", Address: "a:7070", Rack: "r1", Incarnation: 1_790_000_000_000, Capacity: 3, OwnedGeneration: 41,
		Owned: tasks[:2], Lags: map[metadata.TaskID]int64{tasks[0]: 0, tasks[1]: metadata.LagUnknown, tasks[2]: 1 << 40}, Draining: true, Lease: 2 * time.Second,
	}
	h := MapHost{
		Node: m.Node, Address: m.Address, Rack: m.Rack, Incarnation: m.Incarnation,
		Active: tasks[:1], Standby: tasks[1:2], Warmup: tasks[2:], Awaited: tasks[1:], Draining: true, Lease: 3 * time.Second,
	}
	return m, Map{AcceptableLag: 10_000, Hosts: []MapHost{h, {Node: "node-b", Address: "b:7070"}}, Withheld: tasks}
}

func TestUserDataWithBytesOfALaterReleaseAreRead(t *testing.T) {
	member, m := wire()
	got, err := DecodeMember(append(EncodeMember(member), "later"...))
	if err != nil || !reflect.DeepEqual(got, member) {
		t.Errorf("member: %+v, %v", got, err)
	}
	again, err := DecodeAssignment(append(EncodeAssignment(m), "later"...))
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("assignment: %+v, %v", again, err)
	}

	// And inside a host, here the only one.
	m = Map{Hosts: []MapHost{{Node: "n"}}}
	b := EncodeAssignment(m)
	lengthAt := 4 // after version, acceptable lag, withheld, hosts
	b[lengthAt] += 5
	host, lost := b[:len(b)-1], b[len(b)-1:]
	again, err = DecodeAssignment(slices.Concat(host, []byte("later"), lost))
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("host: %+v, %v", again, err)
	}
}

// earlier is what a release that knew nothing of draining wrote of wire's member.
const earlier = "\x01\x06node-a\x06a:7070\x02r1\x80\xb0\x83\xc5\x98\x68\x03\x52\x01\x00\x03\x02\x02\x00\x03\x02\x07\x01\x01\x00\x01\x80\x80\x80\x80\x80\x40"

func TestUserDataOfAnEarlierReleaseAreRead(t *testing.T) {
	want, _ := wire()
	want.Draining, want.Lease = false, 0
	got, err := DecodeMember([]byte(earlier))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUserDataCutShortAreRefused(t *testing.T) {
	member, m := wire()
	data := EncodeMember(member)
	const lease, draining = 2, 1 // bytes at the end; without them the data are an earlier release's
	earlier := []int{len(data) - lease, len(data) - lease - draining}
	for len(data) > 0 {
		data = data[:len(data)-1]
		if got, err := DecodeMember(data); err == nil && !slices.Contains(earlier, len(data)) {
			t.Errorf("%d bytes are a member: %+v", len(data), got)
		}
	}
	m.Lost = nil
	whole := len(EncodeAssignment(m)) - 1 // of a release that knew of no lost processes
	m.Lost = []Lost{{Node: "x", Address: "x:7070", Tasks: m.Withheld, Left: time.Second}}
	for data := EncodeAssignment(m); len(data) > 0; {
		data = data[:len(data)-1]
		if got, err := DecodeAssignment(data); err == nil && len(data) != whole {
			t.Errorf("%d bytes are an assignment: %+v", len(data), got)
		}
	}
}

func TestBadUserDataAreRefusedByNameOfTheField(t *testing.T) {
	const head = "\x01\x01n\x00\x00\x00\x00\x00" // up to the owned tasks
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "version: the data are empty"},
		{"newer", "\x02whatever", "version: 2 is not known here, the newest known is 1: a newer release runs in the group"},
		{"no version", "\x00", "version: 0 is not known here"},
		{"long node", "\x01\xff\xff\x7f", "node: 2097151 is more than 65536"},
		{"node beyond the end", "\x01\x05ab", "node: length 5 with 2 bytes left"},
		{"endless number", "\x01\x01n" + strings.Repeat("\xff", 12), "address: no number in the 12 bytes left"},
		{"capacity", "\x01\x01n\x00\x00\x00\xff\xff\xff\x7f\x00", "capacity: 268435455 is more than 1000000"},
		{"more runs than bytes", head + "\x09\x00\x00\x01", "owned: 9 is more than 1"},
		{"empty run", head + "\x01\x00\x00\x00\x00", "owned: 0 tasks from 0_0 on do not follow"},
		{"overlap", head + "\x02\x00\x03\x02\x00\x04\x01\x00", "owned: 1 tasks from 0_4 on do not follow"},
		{"partition too high", head + "\x01\x00\xff\xff\xff\xff\x07\x02\x00", "owned: 2 tasks from 0_2147483647 on"},
		{"too many tasks", head + "\x01\x00\x00\xff\xff\xff\x7f\x00", "owned: 268435455 is more than 1048576"},
		{"draining", head + "\x00\x00\x02", "draining: 2 is more than 1"},
		{"tasks without lags", head + "\x00\x01\x00\x00\x05\x00", "lags: 5 tasks with 1 bytes left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := DecodeMember([]byte(c.data))
			if err == nil || !strings.Contains(err.Error(), "member user data: "+c.want) {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

// A few bytes can claim a million tasks. That is the most they get, in all lists together.
func TestDecodersBoundTheirMemory(t *testing.T) {
	run := "\x01\x00\x00\xff\xff\x3f" // 2^20-1 partitions
	data := []byte("\x01\x00" + run)  // withheld
	data = append(data, 100)
	for range 100 {
		host := "\x01n\x00\x00\x00" + run + run + run + run
		data = append(append(data, byte(len(host))), host...)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeAssignment(data)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "active: 1048575 is more than 1") {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func FuzzDecodeMember(f *testing.F) {
	member, _ := wire()
	f.Add(EncodeMember(member))
	f.Add([]byte(earlier))
	f.Add([]byte{userdataVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMember(data)
		if err != nil {
			return
		}
		if again, err := DecodeMember(EncodeMember(m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v\nbecame\n%+v, %v", m, again, err)
		}
	})
}

func FuzzDecodeAssignment(f *testing.F) {
	_, m := wire()
	f.Add(EncodeAssignment(m))
	f.Add([]byte{userdataVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeAssignment(data)
		if err != nil {
			return
		}
		if again, err := DecodeAssignment(EncodeAssignment(m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v\nbecame\n%+v, %v", m, again, err)
		}
	})
}
