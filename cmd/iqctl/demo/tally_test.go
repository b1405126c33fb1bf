package demo

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const ms = time.Millisecond

func TestLongestGapIsTheLongestTimeWithoutASuccess(t *testing.T) {
	for _, c := range []struct {
		name      string
		successes []time.Duration
		failures  int
		end       time.Duration
		want      time.Duration
	}{
		{"never", nil, 0, 500 * ms, 500 * ms},
		{"only failures", nil, 7, 500 * ms, 500 * ms},
		{"from the start to the first", []time.Duration{300 * ms, 310 * ms}, 0, 320 * ms, 300 * ms},
		{"between two", []time.Duration{10 * ms, 20 * ms, 260 * ms, 270 * ms}, 3, 280 * ms, 240 * ms},
		{"from the last to the end", []time.Duration{10 * ms, 20 * ms}, 3, 400 * ms, 380 * ms},
		{"out of order", []time.Duration{10 * ms, 100 * ms, 60 * ms, 110 * ms}, 0, 110 * ms, 90 * ms},
	} {
		var tl tally
		for _, at := range c.successes {
			tl.success(at, iqv1.Role_ROLE_ACTIVE, 0, true)
		}
		for range c.failures {
			tl.failure("STALE", "too old")
		}
		got := tl.at(c.end)
		if got.longestGap != c.want || got.served != len(c.successes) || got.failed != c.failures {
			t.Errorf("%s: longest gap %s, served %d, failed %d; want %s, %d, %d", c.name, got.longestGap, got.served, got.failed, c.want, len(c.successes), c.failures)
		}
	}
}

// The slow obvious way: all moments of success in a list, with start and end.
func TestLongestGapMatchesTheListOfAllSuccesses(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var tl tally
		list := []time.Duration{0}
		now := time.Duration(0)
		for range r.IntN(30) {
			now += time.Duration(r.IntN(500)) * ms
			if r.IntN(4) == 0 {
				tl.failure("x", "")
				continue
			}
			tl.success(now, iqv1.Role_ROLE_STANDBY, 0, true)
			list = append(list, now)
		}
		list = append(list, now+time.Duration(r.IntN(500))*ms)
		want := time.Duration(0)
		for i := 1; i < len(list); i++ {
			want = max(want, list[i]-list[i-1])
		}
		if got := tl.at(list[len(list)-1]).longestGap; got != want {
			t.Fatalf("seed %d: longest gap %s, want %s of %v", seed, got, want, list)
		}
	}
}

func TestTallyCountsRolesReasonsAndBrokenBounds(t *testing.T) {
	var tl tally
	tl.success(1*ms, iqv1.Role_ROLE_ACTIVE, 0, true)
	tl.success(2*ms, iqv1.Role_ROLE_STANDBY, 70*ms, true)
	tl.success(3*ms, iqv1.Role_ROLE_STANDBY, 50*ms, false)
	tl.success(4*ms, iqv1.Role_ROLE_WARMUP, 10*ms, true)
	tl.failure("STALE", "first")
	tl.failure("NO_ACTIVE", "other")
	tl.failure("STALE", "second")
	got := tl.at(4 * ms)
	if got.active != 1 || got.standby != 2 || got.warmup != 1 || got.stalest != 70*ms || got.broken != 1 || got.served != 4 || got.failed != 3 {
		t.Errorf("tally %+v", got)
	}
	if text := fmt.Sprint(got.reasons); text != "map[NO_ACTIVE:{1 other} STALE:{2 first}]" {
		t.Errorf("reasons %s", text)
	}
	tl.failure("STALE", "third")
	if got.reasons["STALE"].count != 2 {
		t.Error("what at has given changed afterwards")
	}
}

func TestStampIsSetOnce(t *testing.T) {
	var s stamp
	if _, ok := s.get(); ok || s.since(0) != -1 {
		t.Error("set before it was")
	}
	if !s.set(300*ms) || s.set(400*ms) {
		t.Error("want the first set to succeed and the second not to")
	}
	if at, ok := s.get(); !ok || at != 300*ms || s.since(100*ms) != 200 {
		t.Errorf("at %s, %t, %d ms since 100 ms", at, ok, s.since(100*ms))
	}
}

func TestBarShowsWhatIsDone(t *testing.T) {
	if got := bar(27004, 27004) + bar(0, 27004); got != "["+"========================================"+"]"+"["+"                                        "+"]" {
		t.Errorf("bars %s", got)
	}
}
