package iqerr

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestS14S19EachCauseHasItsOwnTextWithAllNumbers: one line for "all nodes are dead or exceed the lag" sent people looking
// in the wrong place; a lag refused must be shown beside its bound.
func TestS14S19EachCauseHasItsOwnTextWithAllNumbers(t *testing.T) {
	tail := ": b (standby, running): 910 offsets behind, more than 50; a (active, suspended): suspect: silent for 600ms; " +
		"asked c: Unavailable CLOSING after 12ms: c is closing"
	for _, c := range []struct {
		err  error
		want string
	}{
		{&StaleError{Refusals: refusals(), MaxOffsetLag: new(int64(50))}, "orders/3: no replica within max_offset_lag 50" + tail},
		{
			&StaleError{Refusals: refusals(), MaxOffsetLag: new(int64(50)), MaxStaleness: new(10 * time.Second)},
			"orders/3: no replica within max_staleness 10s and max_offset_lag 50" + tail,
		},
		{&StaleError{Refusals: Refusals{Store: "orders", Partition: 3}}, "orders/3: no replica within the read policy"},
		{&NoReplicaError{Refusals: Refusals{Store: "orders", Partition: 3}}, "orders/3: no replica is alive"},
		{&NoActiveError{Refusals: refusals()}, "orders/3: no replica is active, running and under a valid lease" + tail},
		{
			&PositionError{Refusals: Refusals{Store: "s"}, AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "t", Partition: 1, Offset: 7}}}},
			"s/0: no replica has reached at_least t/1@7",
		},
		{&StoreUnknownError{Store: "ordrs", Known: []string{"flights", "orders"}}, `store "ordrs" is unknown; known are flights, orders`},
		{&StoreUnknownError{Store: "orders"}, `store "orders" is unknown; no store is known yet`},
		{&NotReadyError{Node: "r1", Waiting: "a report of any node"}, "r1 is not ready: waiting for a report of any node"},
		{&NotHostedError{Node: "a", Store: "s", Partition: 2, Named: []string{"b", "c"}}, "s/2 is not hosted by a; its newest host map names b, c"},
		{&NotHostedError{Node: "a", Store: "s"}, "s/0 is not hosted by a; its newest host map names nobody"},
		{&OverloadedError{Node: "a", InFlight: 65, Limit: 64}, "a is overloaded: 65 requests in flight, limit 64"},
		{
			&PartitionsChangedError{Store: "s", Topic: "t", Want: 3, Have: 6},
			"store s: partition count of topic t changed: expected 3, actual 6; the store must be rebuilt",
		},
		{&CorruptError{Node: "a", Store: "s", Partition: 1, Problem: "checksum"}, "s/1 on a is damaged and being rebuilt: checksum"},
		{Invalid("key", []byte("a\x00b"), "is bad"), `key "a\x00b": is bad`},
		{Invalid("partition", 7, "is not one of 0 to 2"), "partition 7: is not one of 0 to 2"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%T\ngot  %s\nwant %s", c.err, got, c.want)
		}
	}
}

func TestRoundNeverShowsALagSmallerThanItIs(t *testing.T) {
	for _, c := range []struct{ in, want time.Duration }{
		{0, 0},
		{1, 1},
		{1001, 2 * time.Microsecond},
		{84*time.Millisecond + 1, 85 * time.Millisecond},
		{1234567891, 1240 * time.Millisecond},
		{61*time.Second + 10*time.Millisecond, 61*time.Second + 100*time.Millisecond},
	} {
		if got := Round(c.in); got != c.want || got < c.in {
			t.Errorf("Round(%d) = %d, want %d", c.in, got, c.want)
		}
	}
}

func TestLagIsSilentAboutWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		r    *iqv1.ReplicaStatus
		want string
	}{
		{nil, ""},
		{&iqv1.ReplicaStatus{}, ""},
		{&iqv1.ReplicaStatus{OffsetLag: new(int64(1))}, "1 offset"},
		{&iqv1.ReplicaStatus{OffsetLag: new(int64(0)), TimeLag: durationpb.New(0)}, "0 offsets / 0s"},
		{&iqv1.ReplicaStatus{TimeLag: durationpb.New(84 * time.Millisecond)}, "84ms"},
	} {
		if got := Lag(c.r); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRefusalsOfGivesTheHeadlineAndTheReplicasApart(t *testing.T) {
	err := fmt.Errorf("get: %w", &StaleError{Refusals: refusals(), MaxOffsetLag: new(int64(50))})
	r, headline := RefusalsOf(err)
	if r == nil || len(r.Candidates) != 2 || len(r.Attempts) != 1 || headline != "orders/3: no replica within max_offset_lag 50" {
		t.Errorf("got %v, %q", r, headline)
	}
	if r, text := RefusalsOf(&ClosingError{Node: "a"}); r != nil || text != "a is closing" {
		t.Errorf("got %v, %q", r, text)
	}
}
