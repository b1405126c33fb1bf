package routing

import (
	"strings"
	"testing"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func TestDomainAndWireNumberRolesAndStatesAlike(t *testing.T) {
	for r := metadata.RoleActive; r <= metadata.RoleWarmup; r++ {
		if got := iqv1.Role_name[int32(r)]; got != "ROLE_"+strings.ToUpper(r.String()) {
			t.Errorf("role %s is %s on the wire", r, got)
		}
	}
	for s := metadata.StateRestoring; s <= metadata.StateClosed; s++ {
		if got := iqv1.ReplicaState_name[int32(s)]; got != "REPLICA_STATE_"+strings.ToUpper(s.String()) {
			t.Errorf("state %s is %s on the wire", s, got)
		}
	}
	if _, more := iqv1.Role_name[int32(metadata.RoleWarmup)+1]; more {
		t.Error("the wire has a role that the domain lacks")
	}
	if _, more := iqv1.ReplicaState_name[int32(metadata.StateClosed)+1]; more {
		t.Error("the wire has a state that the domain lacks")
	}
}
