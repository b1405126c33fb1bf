//go:build synctests

package group

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A survivor knows the node id of a dead node, not the member id that the group gave it.
func TestEvictNamesTheDeadNodeByItsInstanceAlone(t *testing.T) {
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
		var asked []kmsg.LeaveGroupRequestMember
		k.ControlKey(int16(kmsg.LeaveGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			asked = req.(*kmsg.LeaveGroupRequest).Members
			return req.ResponseKind(), nil, true
		})
		m := New(Config{Group: "app", NodeID: "a", Client: cl})
		if err := m.Evict(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if len(asked) != 1 || asked[0].MemberID != "" || asked[0].InstanceID == nil || *asked[0].InstanceID != "b" {
			t.Errorf("asked to remove %+v", asked)
		}
		k.ControlKey(int16(kmsg.LeaveGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
			rm := kmsg.NewLeaveGroupResponseMember()
			rm.ErrorCode = kerr.UnknownMemberID.Code
			resp.Members = append(resp.Members, rm)
			return resp, nil, true
		})
		if err := m.Evict(t.Context(), "c"); err == nil {
			t.Error("a node that the group does not know was evicted")
		}
	})
}
