//go:build synctests

package group

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/metadata"
)

// A static member that does not rejoin in time stays in the group with what it told last, and what it was given since goes
// to others. When it is back it owns nothing before it has a membership, hence a lease, of the new generation.
func TestMissedGenerationDropsWhatIsOwnedBeforeTheNewOneCounts(t *testing.T) {
	for name, test := range map[string]struct {
		generations []int32
		lost        int
	}{
		"next":        {[]int32{5, 6, 7}, 0},
		"same":        {[]int32{5, 5}, 0},
		"one missed":  {[]int32{5, 7, 8}, 1},
		"many missed": {[]int32{5, 6, 9}, 1},
	} {
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
				lost := 0
				held := NewLease(time.Second, time.Now())
				var m *Member
				m = New(Config{
					Group: "app", NodeID: "a", Client: cl, Log: slog.New(slog.DiscardHandler), Lease: held,
					SessionTimeout: 10 * time.Second, RebalanceTimeout: 6 * time.Second, Memory: forgetful{},
					Owned:    func() []metadata.TaskID { return nil },
					Lags:     func() map[metadata.TaskID]int64 { return nil },
					Assigned: func(*Membership) {},
					Announce: func() {},
					Lost: func(context.Context) {
						lost++
						if _, _, ok := m.Current(); ok {
							t.Error("a commit would find a membership while the worker still owns something")
						}
						if held.Valid(time.Now()) {
							t.Error("the lease holds while the worker still owns something")
						}
					},
				})
				for _, generation := range test.generations {
					k.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
						resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
						resp.MemberID, resp.LeaderID, resp.Generation = "m", "another", generation
						return resp, nil, true
					})
					k.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
						resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
						ca := kmsg.NewConsumerMemberAssignment()
						ca.UserData = assign.EncodeAssignment(assign.Map{})
						resp.MemberAssignment = ca.AppendTo(nil)
						return resp, nil, true
					})
					if err := m.join(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, now, ok := m.Current(); !ok || now != generation {
						t.Errorf("generation is %d, %v, want %d", now, ok, generation)
					}
					held.Renew(time.Now())
				}
				if lost != test.lost {
					t.Errorf("lost %d times, want %d", lost, test.lost)
				}
			})
		})
	}
}

// forgetful is the memory of a node that starts for the first time.
type forgetful struct{}

func (forgetful) Recall() ([]byte, time.Time) { return nil, time.Time{} }

func (forgetful) Remember([]byte) {}

func (forgetful) Alive(time.Time) {}
