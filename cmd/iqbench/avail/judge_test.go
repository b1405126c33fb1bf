package avail

import (
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// judgeProbe is a probe of one partition to which replies can be given by hand.
func judgeProbe(t *testing.T) (p *probe, key string) {
	t.Helper()
	f, err := newFeed(1)
	if err != nil {
		t.Fatal(err)
	}
	return newProbe(policies(scenarioBroker, true), nil, f, func() time.Duration { return 0 }), f.keys[0][0]
}

func byName(t *testing.T, p *probe, name string) policy {
	t.Helper()
	for _, pol := range p.policies {
		if pol.name == name {
			return pol
		}
	}
	t.Fatalf("no policy %s", name)
	return policy{}
}

func TestRepliesThatShowLessThanBeforeAreOlder(t *testing.T) {
	for _, c := range []struct {
		policy string
		begun  time.Duration
		count  int64
		older  int
	}{
		{"strong", 300 * msec, 9, 0},
		{"strong", 300 * msec, 8, 1}, // a standby had shown 9
		{"strong", 150 * msec, 8, 0}, // which came after this read began
		{"strong wait=5s", 300 * msec, 8, 1},
		{"active", 300 * msec, 8, 0}, // the active itself had not shown 9 yet
		{"active", 300 * msec, 6, 1},
		{"any", 300 * msec, 1, 0},
	} {
		p, key := judgeProbe(t)
		p.mu.seen[key].add(100*msec, 7)
		p.mu.current[key].add(100*msec, 7)
		p.mu.seen[key].add(200*msec, 9)
		a := p.judge(byName(t, p, c.policy), key, c.begun, c.begun+msec, c.count, client.Result{TimeLag: time.Hour})
		if a.older != c.older || (a.wrong != "") != (a.older+a.beyond+a.untrue > 0) {
			t.Errorf("%s begun at %s that shows %d: older %d, want %d; it says %q", c.policy, c.begun, c.count, a.older, c.older, a.wrong)
		}
	}
}

func TestLagsThatAreTooSmallAreUntrue(t *testing.T) {
	const standby, active = iqv1.Role_ROLE_STANDBY, iqv1.Role_ROLE_ACTIVE
	for _, c := range []struct {
		why    string
		role   iqv1.Role
		begun  time.Duration
		count  int64
		lag    time.Duration
		untrue int
	}{
		{"a larger count was known for 400ms", standby, time.Second, 7, 399 * msec, 1},
		{"and the lag says so", standby, time.Second, 7, 400 * msec, 0},
		{"it is unknown", standby, time.Second, 7, client.UnknownTimeLag, 0},
		{"it shows the newest count", standby, time.Second, 9, 0, 0},
		{"Kafka has been away for 3s", standby, 13 * time.Second, 9, 2999 * msec, 1},
		{"and the lag says so", standby, 13 * time.Second, 9, 3 * time.Second, 0},
		{"the active's lease held for 2s of them", active, 13 * time.Second, 9, time.Second, 0},
		{"and no longer", active, 13 * time.Second, 9, 999 * msec, 1},
		{"Kafka is back", standby, 40 * time.Second, 9, 0, 0},
	} {
		p, key := judgeProbe(t)
		p.mu.seen[key].add(600*msec, 9)
		p.mu.away = outage{was: true, from: 10 * time.Second, until: 30 * time.Second}
		a := p.judge(byName(t, p, "any"), key, c.begun, c.begun+msec, c.count, client.Result{Role: c.role, TimeLag: c.lag})
		if a.untrue != c.untrue {
			t.Errorf("%s: a lag of %s in a reply to a read at %s is untrue %d times, want %d: %s", c.why, c.lag, c.begun, a.untrue, c.untrue, a.wrong)
		}
		if away := c.begun >= 10*time.Second && c.begun < 30*time.Second; (a.away > 0) != away {
			t.Errorf("%s: Kafka away for %s", c.why, a.away)
		}
	}
}

func TestLagsBeyondTheBoundAreCounted(t *testing.T) {
	p, key := judgeProbe(t)
	for _, c := range []struct {
		policy string
		lag    time.Duration
		beyond int
	}{{"max_staleness=1m", time.Minute, 0}, {"max_staleness=1m", time.Minute + 1, 1}, {"any", time.Hour, 0}} {
		if a := p.judge(byName(t, p, c.policy), key, 0, 0, 0, client.Result{TimeLag: c.lag}); a.beyond != c.beyond {
			t.Errorf("%s, %s: beyond %d, want %d", c.policy, c.lag, a.beyond, c.beyond)
		}
	}
}

func TestKeysBelongToTheirPartitionsAndAreAllUsed(t *testing.T) {
	f, err := newFeed(3)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for n := range 2 * 3 * keysPerPartition {
		key, partition := f.key(n)
		if partition != n%3 {
			t.Fatalf("the %d-th key is of partition %d", n, partition)
		}
		used[key]++
	}
	for key, n := range used {
		if n != 2 {
			t.Errorf("%s is used %d times, want 2", key, n)
		}
	}
	if len(used) != 3*keysPerPartition {
		t.Errorf("%d keys are used", len(used))
	}
}

// instance makes a live one of a line such as "a: 0 standby running, 1 active restoring 7", where 7 is a generation.
func instance(t *testing.T, line string) *iqv1.Instance {
	t.Helper()
	name, rest, _ := strings.Cut(line, ":")
	in := &iqv1.Instance{Node: name, Alive: true}
	for one := range strings.SplitSeq(rest, ",") {
		f := strings.Fields(one)
		if len(f) == 0 {
			continue
		}
		role, ok1 := iqv1.Role_value["ROLE_"+strings.ToUpper(f[1])]
		state, ok2 := iqv1.ReplicaState_value["REPLICA_STATE_"+strings.ToUpper(f[2])]
		if !ok1 || !ok2 {
			t.Fatalf("replica %q", one)
		}
		s := &iqv1.ReplicaStatus{Partition: int32(f[0][0] - '0'), Role: iqv1.Role(role), State: iqv1.ReplicaState(state), Generation: 1}
		if len(f) > 3 {
			s.Generation = int64(f[3][0] - '0')
		}
		in.Replicas = append(in.Replicas, s)
	}
	return in
}

func instances(t *testing.T, lines ...string) (all []*iqv1.Instance) {
	t.Helper()
	for _, line := range lines {
		all = append(all, instance(t, line))
	}
	return all
}

func TestColdTakeoversAreThoseThatAWarmCopyCouldHaveDone(t *testing.T) {
	for _, c := range []struct {
		why   string
		looks [][]string // the first is at the time of an active c of generation 1
		cold  int
	}{
		{"the standby that had caught up", [][]string{{"b: 0 standby running"}, {"b: 0 active restoring 2"}}, 0},
		{"one that restored, and another had caught up", [][]string{{"a: 0 standby running", "b: 0 standby restoring"}, {"a: 0 standby running", "b: 0 active restoring 2"}}, 1},
		{"one that held nothing, and another had caught up", [][]string{{"a: 0 standby running", "b:"}, {"a: 0 standby running", "b: 0 active restoring 2"}}, 1},
		{"a warm-up could have, too", [][]string{{"a: 0 warmup running", "b:"}, {"a: 0 warmup running", "b: 0 active restoring 2"}}, 1},
		{"nobody could have", [][]string{{"a: 0 standby restoring", "b:"}, {"b: 0 active restoring 2"}}, 0},
		{"it was active already", [][]string{{"a: 0 active suspended", "b: 0 standby running"}, {"a: 0 active restoring 2", "b: 0 standby running"}}, 0},
		{"nothing was known of it", [][]string{{"b: 0 standby running"}, {"a: 0 active running 2", "b: 0 standby running"}}, 0},
		{"it claims an old role when it is heard of again", [][]string{{"a: 0 standby running", "b: 0 active running 2"}, {"a: 0 standby running", "b:"}, {"a: 0 standby running", "b: 0 active suspended 2"}}, 0},
	} {
		var r roles
		r.look(instances(t, "c: 0 active running 1"))
		var cold []string
		for _, look := range c.looks {
			cold = append(cold, r.look(instances(t, look...))...)
		}
		if len(cold) != c.cold {
			t.Errorf("%s: %q, want %d", c.why, cold, c.cold)
		}
	}
	var r roles
	gone := instances(t, "a: 0 standby running", "b:")
	gone[0].Suspect = true
	r.look(gone)
	if cold := r.look(instances(t, "b: 0 active restoring 2")); len(cold) > 0 {
		t.Errorf("the only warm copy was on a node that did not answer: %q", cold)
	}
}

func TestTasksAreSpreadWhenNoNodeHasTwoMoreThanAnother(t *testing.T) {
	for _, c := range []struct {
		nodes  []string
		uneven bool
	}{
		{[]string{"a: 0 active running, 1 active running", "b: 2 active running"}, false},
		{[]string{"a: 0 active running, 1 active running", "b: 0 standby running"}, true},
		{[]string{"a: 0 active running", "b: 1 active running, 0 warmup running"}, true},
	} {
		if text := unevenness(instances(t, c.nodes...), 3); (text != "") != c.uneven {
			t.Errorf("%q: %q", c.nodes, text)
		}
	}
}

func TestDurationsOfPoliciesAreBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", time.Minute: "1m", 90 * time.Second: "1m30s", 2 * time.Minute: "2m"} {
		if got := brief(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestBadOptionsAreAllNamed(t *testing.T) {
	err := Options{
		Kafka: "here", Scenario: "rain", Rounds: 0, Records: -1, Reads: 30_000, Nodes: 1, Partitions: 0, Standbys: 1, Away: 1, BrokerAway: "gone",
	}.check()
	if err == nil {
		t.Fatal("no error")
	}
	for _, flag := range []string{"kafka", "scenario", "rounds", "records", "reads", "nodes", "partitions", "standbys", "away", "broker-away"} {
		if !strings.Contains(err.Error(), "--"+flag+" ") {
			t.Errorf("%q does not name --%s", err, flag)
		}
	}
	good := Options{Kafka: "real", Scenario: "kill", Rounds: 1, Records: 1, Reads: 1, Nodes: 2, Partitions: 1, Standbys: 1, BrokerAway: "kill"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	good.Kafka = "embedded"
	if err := good.check(); err == nil {
		t.Error("the embedded Kafka may be killed")
	}
}

func TestDifferencesNameEveryKeyOfEither(t *testing.T) {
	got := differences(map[string]int64{"a": 1, "b": 2, "c": 3}, map[string]int64{"a": 1, "b": 3, "d": 1, "e": 0})
	if text := strings.Join(got, "; "); text != "b is 3, must be 2; c is 0, must be 3; d is 1, must be 0" {
		t.Errorf("differences %q", text)
	}
}
