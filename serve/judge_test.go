package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Each case gives a policy and the facts of a replica: `judge mode=bounded staleness=2s role=standby time=1.5s`.
func TestJudgeSituations(t *testing.T) {
	datadriven.RunTest(t, "testdata/judge.txt", func(t *testing.T, d *datadriven.TestData) string {
		p := policy{mode: iqv1.ReadPolicy_MODE_ANY}
		r := metadata.Replica{
			Role: metadata.RoleStandby, State: metadata.StateRunning,
			Lag: metadata.LagInfo{Offsets: metadata.LagUnknown, Time: metadata.LagUnknown},
		}
		for _, arg := range d.CmdArgs {
			v := ""
			if len(arg.Vals) > 0 {
				v = arg.Vals[0]
			}
			switch arg.Key {
			case "mode":
				p.mode = iqv1.ReadPolicy_Mode(iqv1.ReadPolicy_Mode_value["MODE_"+strings.ToUpper(v)])
			case "staleness":
				b := parseDuration(t, v)
				p.staleness = &b
			case "offsets":
				b := parseInt(t, v)
				p.offsets = &b
			case "at_least":
				p.atLeast = metadata.Position{{Topic: "in"}: parseInt(t, v)}
			case "role":
				r.Role = map[string]metadata.Role{"active": metadata.RoleActive, "standby": metadata.RoleStandby, "warmup": metadata.RoleWarmup}[v]
			case "state":
				r.State = map[string]metadata.State{"restoring": metadata.StateRestoring, "running": metadata.StateRunning, "suspended": metadata.StateSuspended}[v]
			case "lease":
				r.LeaseValid = v == "valid"
			case "time":
				r.Lag.Time = parseDuration(t, v)
			case "lag":
				r.Lag.Offsets = parseInt(t, v)
			case "age":
				r.Lag.SampleAge = parseDuration(t, v)
			case "input":
				r.Input = metadata.Position{{Topic: "in"}: parseInt(t, v)}
			default:
				d.Fatalf(t, "unknown argument %s", arg.Key)
			}
		}
		reason, why := judge(p, r, 5*time.Second)
		if reason == iqv1.Reason_REASON_UNSPECIFIED {
			return "answers\n"
		}
		return iqerr.Name(reason) + ": " + why + "\n"
	})
}

func parseDuration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func parseInt(t *testing.T, s string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
