package tally

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func TestHistogramCountsABoundInItsOwnBucket(t *testing.T) {
	t.Parallel()
	h := newHistogram([]time.Duration{0, time.Second, time.Minute})
	for _, d := range []time.Duration{-5, 0, 1, time.Second, time.Second + 1, time.Hour} {
		h.Observe(d)
	}
	d := h.Load()
	if got := fmt.Sprint(d.Below); got != "[2 4 5]" || d.Count != 6 {
		t.Errorf("buckets %s of %d, want [2 4 5] of 6", got, d.Count)
	}
	if want := 1 + 2*time.Second + 1 + time.Hour; d.Sum != want {
		t.Errorf("sum %s, want %s", d.Sum, want)
	}
}

// Each reason has an outcome of its own, as an error, as the status that a handler returns, and as what a caller makes of it.
func TestOutcomeOfEachReason(t *testing.T) {
	t.Parallel()
	seen := map[string]iqv1.Reason{}
	check := func(reason iqv1.Reason, err error) {
		t.Helper()
		for _, form := range []error{err, iqerr.Status(err), fmt.Errorf("read s/1: %w", err)} {
			if got := OutcomeOf(form); got != Outcome(reason) {
				t.Errorf("%v: outcome %s", form, got)
			}
		}
		name := OutcomeOf(err).String()
		if other, ok := seen[name]; ok || name == "error" {
			t.Errorf("outcome %s is of %s and %s", name, reason, other)
		}
		seen[name] = reason
	}
	for reason, err := range map[iqv1.Reason]error{
		iqv1.Reason_REASON_STORE_UNKNOWN: iqerr.ErrStoreUnknown, iqv1.Reason_REASON_INVALID: iqerr.ErrInvalid, iqv1.Reason_REASON_NOT_READY: iqerr.ErrNotReady,
		iqv1.Reason_REASON_NOT_HOSTED: iqerr.ErrNotHosted, iqv1.Reason_REASON_NO_ACTIVE: iqerr.ErrNoActive, iqv1.Reason_REASON_NO_REPLICA: iqerr.ErrNoReplica,
		iqv1.Reason_REASON_STALE: iqerr.ErrStale, iqv1.Reason_REASON_POSITION_NOT_REACHED: iqerr.ErrPositionNotReached,
		iqv1.Reason_REASON_PARTITIONS_CHANGED: iqerr.ErrPartitionsChanged, iqv1.Reason_REASON_OVERLOADED: iqerr.ErrOverloaded,
		iqv1.Reason_REASON_CLOSING: iqerr.ErrClosing, iqv1.Reason_REASON_CORRUPT: iqerr.ErrCorrupt, iqv1.Reason_REASON_PAGE_LOST: iqerr.ErrPageLost,
		iqv1.Reason_REASON_SLOW_READER: iqerr.ErrSlowReader, iqv1.Reason_REASON_UNAUTHENTICATED: iqerr.ErrUnauthenticated,
		iqv1.Reason_REASON_PERMISSION_DENIED: iqerr.ErrPermissionDenied,
	} {
		check(reason, err)
	}
	if want := len(iqv1.Reason_name) - 1; len(seen) != want {
		t.Errorf("%d reasons, the wire has %d", len(seen), want)
	}
	if int(lastReason) != len(iqv1.Reason_name)-1 {
		t.Errorf("the last reason counted is %d of %d", lastReason, len(iqv1.Reason_name)-1)
	}
	for err, want := range map[error]string{
		nil: "ok", context.Canceled: "canceled", context.DeadlineExceeded: "deadline_exceeded", errors.New("disk on fire"): "error",
	} {
		for _, form := range []error{err, iqerr.Status(err)} {
			if got := OutcomeOf(form).String(); got != want {
				t.Errorf("%v: %s, want %s", form, got, want)
			}
		}
	}
}

// The numbers of the policies are those of the wire, which nodes and routers convert from.
func TestPoliciesAreTheWires(t *testing.T) {
	t.Parallel()
	for mode, p := range map[iqv1.ReadPolicy_Mode]Policy{
		iqv1.ReadPolicy_MODE_STRONG: Strong, iqv1.ReadPolicy_MODE_ACTIVE: Active, iqv1.ReadPolicy_MODE_BOUNDED: Bounded, iqv1.ReadPolicy_MODE_ANY: Any,
	} {
		if Policy(mode) != p {
			t.Errorf("%s is %d, the wire says %d", p, p, mode)
		}
	}
	if int(policies) != len(iqv1.ReadPolicy_Mode_name) {
		t.Errorf("%d policies, the wire has %d", policies, len(iqv1.ReadPolicy_Mode_name))
	}
	r := NewReads()
	r.Know("s")
	r.Of("s").Served(99, 99, 0, 0) // of a later version
	r.Of("s").Refused(-3, iqerr.ErrStale)
	r.Of("s").Nowhere(99)
	var got []string
	r.Of("s").Each(func(p Policy, role metadata.Role, o Outcome, n int64) {
		got = append(got, fmt.Sprint(p, " ", RoleName(role), " ", o, " ", n))
	})
	if want := "[none none ok 2 none none stale 1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Callers who ask for stores that do not exist make no counters, and a topology without end makes no end of them.
func TestStoresAreCountedByNameWithinABound(t *testing.T) {
	t.Parallel()
	r := NewReads()
	r.Of("nobody's").Refused(Active, iqerr.ErrStoreUnknown)
	if got := r.Stores(); len(got) != 1 || got[0].Store != Other {
		t.Fatalf("%d stores after a read of one that there is not", len(got))
	}
	r.Know("a", Other)
	kept := r.Of("a")
	for i := range 2 * maxStores {
		r.Know(fmt.Sprint("s", i))
	}
	if got := len(r.Stores()); got != maxStores+1 {
		t.Errorf("%d stores, want %d", got, maxStores+1)
	}
	if r.Of("a") != kept {
		t.Error("the counters of a store were replaced")
	}
	if r.Of(fmt.Sprint("s", 2*maxStores-1)).Store != Other {
		t.Error("a store past the bound has counters of its own")
	}
}

func TestStaleIsWhoIsBehindOrDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := newStoreReads("s")
	s.Served(Any, metadata.RoleStandby, 30*time.Millisecond, 0) // caught up: as fresh as its last sample
	s.Served(Any, metadata.RoleStandby, 2*time.Second, 7)
	s.Served(Any, metadata.RoleWarmup, metadata.LagUnknown, metadata.LagUnknown)
	if s.Stale() != 2 {
		t.Errorf("%d stale reads, want 2", s.Stale())
	}
	s.Staleness(func(role metadata.Role, d Distribution) {
		if role != metadata.RoleStandby || d.Count != 2 || d.Sum != 2030*time.Millisecond {
			t.Errorf("%s: %d reads, %s", role, d.Count, d.Sum)
		}
	})
}

// TestCountingAllocs holds what counting costs a read: nothing that has to be collected.
func TestCountingAllocs(t *testing.T) {
	requests, reads := NewRequests(), NewReads()
	reads.Know("counts")
	refused := &iqerr.OverloadedError{Node: "a"}
	if got := testing.AllocsPerRun(1000, func() {
		reads.Of("counts").Served(Active, metadata.RoleActive, 0, 0)
		requests.End(Get, time.Millisecond, nil)
		reads.Of("other's").Refused(Active, refused)
		requests.End(Get, time.Microsecond, refused)
	}); got > 0 {
		t.Errorf("%v allocations to count a read and a refusal, ceiling 0", got)
	}
}

func BenchmarkCount(b *testing.B) {
	requests, reads := NewRequests(), NewReads()
	reads.Know("counts")
	b.ReportAllocs()
	for b.Loop() {
		reads.Of("counts").Served(Active, metadata.RoleActive, 0, 0)
		requests.End(Get, 200*time.Microsecond, nil)
	}
}

func TestCountsOfManyGoroutinesAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 500
	requests, reads, work := NewRequests(), NewReads(), NewWork()
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for range each {
				reads.Know(fmt.Sprint("s", i))
				reads.Of(fmt.Sprint("s", i)).Served(Any, metadata.RoleActive, 0, 0)
				requests.End(Scan, time.Millisecond, nil)
				work.RecordsIn.Add(1, "in")
				_ = reads.Stores()
				work.RecordsIn.Load()
			}
		})
	}
	all.Wait()
	var served int64
	for _, s := range reads.Stores() {
		s.Each(func(_ Policy, _ metadata.Role, _ Outcome, n int64) { served += n })
	}
	var ended int64
	requests.Each(func(_ Call, _ Outcome, n int64) { ended += n })
	in := work.RecordsIn.Load()[[2]string{"in"}]
	if want := int64(goroutines * each); served != want || ended != want || in != want {
		t.Errorf("%d reads, %d requests, %d records, want %d of each", served, ended, in, want)
	}
}

func TestRestoreSaysWhatIsLeftAndWhen(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, c := range []struct {
		name      string
		r         Restore
		remaining int64
		applied   int64
		eta       time.Duration
		known     bool
	}{
		{"half done in ten seconds", Restore{Began: began, From: 100, At: 600, End: 1100}, 500, 500, 10 * time.Second, true},
		{"nothing passed yet", Restore{Began: began, From: 100, At: 100, End: 1100}, 1000, 0, 0, false},
		{"the end is not known", Restore{Began: began, From: 100, At: 600, End: -1}, -1, 500, 0, false},
		{"the store is not open", Restore{From: -1, At: -1, End: 50}, -1, 0, 0, false},
		{"past the end, which a task in flight moved", Restore{Began: began, From: 100, At: 1200, End: 1100}, 0, 1100, 0, true},
		{"done", Restore{Done: true, Began: began, From: 0, At: 5, End: 9}, 0, 5, 0, true},
	} {
		eta, known := c.r.ETA(began.Add(10 * time.Second))
		if c.r.Remaining() != c.remaining || c.r.Applied() != c.applied || eta != c.eta || known != c.known {
			t.Errorf("%s: %d left, %d passed, %s (%t); want %d, %d, %s (%t)",
				c.name, c.r.Remaining(), c.r.Applied(), eta, known, c.remaining, c.applied, c.eta, c.known)
		}
	}
}
