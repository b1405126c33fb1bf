//go:build synctests

package group

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/metadata"
)

// The group was empty when this process looked, then had a generation that another led and of which this process never
// got the assignment. Leading the next one, it cannot know who had tasks.
func TestLeaderThatMissedItsFirstAssignmentKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vn := &kfake.VirtualNetwork{}
		k, err := kfake.NewCluster(kfake.ListenFn(vn.Listen), kfake.Ports(9092), kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.Dialer(vn.DialContext))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		task := metadata.TaskID{}
		m := New(Config{
			Group: "app", NodeID: "a", Incarnation: 7, Address: "a:1", Client: cl, Log: slog.New(slog.DiscardHandler), Lease: NewLease(2*time.Second, time.Now()),
			SessionTimeout: 10 * time.Second, RebalanceTimeout: 6 * time.Second, Memory: forgetful{},
			Owned:    func() []metadata.TaskID { return nil },
			Lags:     func() map[metadata.TaskID]int64 { return nil },
			Tasks:    func() []assign.Task { return []assign.Task{{ID: task}} },
			Inputs:   func(metadata.TaskID) []metadata.TopicPartition { return nil },
			Assigned: func(*Membership) {}, Announce: func() {}, Lost: func(context.Context) {},
		})
		join := func(leader string, generation int32) {
			k.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r := req.(*kmsg.JoinGroupRequest)
				resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
				resp.MemberID, resp.LeaderID, resp.Generation = "m", leader, generation
				jm := kmsg.NewJoinGroupResponseMember()
				jm.MemberID, jm.ProtocolMetadata = "m", r.Protocols[0].Metadata
				resp.Members = append(resp.Members, jm)
				return resp, nil, true
			})
		}
		// Generation 1 is led by another, which runs the task from then on; this one's SyncGroup comes too late.
		join("another", 1)
		k.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
			resp.ErrorCode = kerr.RebalanceInProgress.Code
			return resp, nil, true
		})
		if err := m.join(t.Context()); err == nil {
			t.Fatal("no error")
		}
		// The other one has been evicted: this one leads generation 2.
		join("m", 2)
		var lost []assign.Lost
		k.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			var ca kmsg.ConsumerMemberAssignment
			data := req.(*kmsg.SyncGroupRequest).GroupAssignment[0].MemberAssignment
			if err := ca.ReadFrom(data); err != nil {
				t.Error(err)
			}
			am, err := assign.DecodeAssignment(ca.UserData)
			if err != nil {
				t.Error(err)
			}
			lost = am.Lost
			resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
			resp.MemberAssignment = data
			return resp, nil, true
		})
		if err := m.join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(lost) == 0 {
			t.Error("the plan tells of nobody who may have run the task in generation 1")
		}
	})
}

// A memory whose time is in the future: the clock was set back since.
type futureMemory struct {
	forgetful
	told []byte
}

func (f futureMemory) Recall() ([]byte, time.Time) { return f.told, time.Now().Add(time.Hour) }

func TestMembershipFromTheFutureIsNotRecalled(t *testing.T) {
	self := assign.Member{Node: "a", Address: "a:1", Incarnation: 7}
	old := self
	old.Incarnation, old.Owned, old.OwnedGeneration = 3, []metadata.TaskID{{}}, 50
	m := New(Config{SessionTimeout: 10 * time.Second, Memory: futureMemory{told: assign.EncodeMember(old)}})
	if got := m.before(self); got != nil {
		t.Errorf("recalled %+v", *got)
	}
}

// A node that ends while its JoinGroup is on its way leaves nothing behind: the group may have taken it in already, and
// would keep its place until the session ends. One that was refused leaves nobody: the place is another process's.
func TestLeaveDuringAJoinNamesTheNodeUnlessItWasRefused(t *testing.T) {
	for name, test := range map[string]struct {
		code  int16
		leave bool
	}{"never answered": {0, true}, "replaced": {kerr.FencedInstanceID.Code, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vn := &kfake.VirtualNetwork{}
				k, err := kfake.NewCluster(kfake.ListenFn(vn.Listen), kfake.Ports(9092), kfake.NumBrokers(1))
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.Dialer(vn.DialContext))
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				m := New(Config{
					Group: "app", NodeID: "a", Client: cl, Log: slog.New(slog.DiscardHandler), Lease: NewLease(2*time.Second, time.Now()),
					SessionTimeout: 10 * time.Second, RebalanceTimeout: 6 * time.Second, Memory: forgetful{},
					Owned: func() []metadata.TaskID { return nil }, Lags: func() map[metadata.TaskID]int64 { return nil },
					Announce: func() {}, Lost: func(context.Context) {},
				})
				k.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
					resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
					resp.ErrorCode = test.code
					return resp, nil, true
				})
				left := false
				k.ControlKey(int16(kmsg.LeaveGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
					left = *req.(*kmsg.LeaveGroupRequest).Members[0].InstanceID == "a"
					return req.ResponseKind(), nil, true
				})
				if test.code == 0 {
					m.asks(true) // as join does before its request
				} else if err := m.join(t.Context()); err == nil {
					t.Fatal("no error")
				}
				if err := m.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				if left != test.leave {
					t.Errorf("it left: %v, want %v", left, test.leave)
				}
			})
		})
	}
}
