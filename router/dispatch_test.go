package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

const (
	modeAny    = iqv1.ReadPolicy_MODE_ANY
	modeActive = iqv1.ReadPolicy_MODE_ACTIVE
	modeStrong = iqv1.ReadPolicy_MODE_STRONG
)

// TestS18FailureOfOneReplicaLeadsToTheNext has the active fail in each way: a read that tolerates staleness gets the
// standby's value with the failure attached, one that does not gets the active's own code.
func TestS18FailureOfOneReplicaLeadsToTheNext(t *testing.T) {
	for name, failure := range map[string]error{
		"unavailable":        status.Error(codes.Unavailable, "broken"),
		"internal":           status.Error(codes.Internal, "broken"),
		"resource_exhausted": status.Error(codes.ResourceExhausted, "full"),
		"data_loss":          iqerr.Status(&iqerr.CorruptError{Node: "a", Store: "s"}),
		"wrong_partition":    iqerr.Status(&iqerr.NotHostedError{Node: "a", Store: "s", Named: []string{"b"}}),
		"deadline":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(w *world) {
				t := w.t
				a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
				defer a.kill()
				defer b.kill()
				code := codes.DeadlineExceeded
				if failure == nil {
					a.hangs()
				} else {
					a.fails(failure)
					code = status.Code(failure)
				}
				resp, err, took := w.ask(get(modeAny))
				if err != nil || string(resp.GetValue()) != "from b" || resp.GetServed().GetRole() != iqv1.Role_ROLE_STANDBY {
					t.Fatalf("got %v, %v after %s", resp, err, took)
				}
				if at := resp.GetAttempts(); len(at) != 1 || at[0].GetNode() != "a" || at[0].GetCode() != code.String() {
					t.Errorf("attempts %v, want one at a with %s", at, code)
				}
				if took > 1100*time.Millisecond {
					t.Errorf("took %s", took)
				}
				_, err, _ = w.ask(get(modeActive))
				if status.Code(err) != code {
					t.Errorf("active only: %v, want %s", err, code)
				}
				if a.count() != 2 || b.count() != 1 {
					t.Errorf("a was asked %d times and b %d, want 2 and 1", a.count(), b.count())
				}
			})
		})
	}
}

func TestS18AbsentKeyIsAnAnswerAndNotRetried(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return &iqv1.GetResponse{}, nil })
		resp, err, _ := w.ask(get(modeAny))
		if err != nil || resp.GetFound() || len(resp.GetAttempts()) != 0 || b.count() != 0 {
			t.Errorf("got %v, %v, and b was asked %d times", resp, err, b.count())
		}
	})
}

// TestWrongRequestIsNotRetried: no other replica can answer it either.
func TestWrongRequestIsNotRetried(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.fails(iqerr.Status(iqerr.Invalid("key", "k0", "is too long")))
		if _, err, _ := w.ask(get(modeAny)); !errors.Is(iqerr.FromStatus(err), iqerr.ErrInvalid) || b.count() != 0 {
			t.Errorf("got %v, and b was asked %d times", err, b.count())
		}
	})
}

// TestAllFailuresAreAttached: the caller gets the first failure's code and reads what each replica said.
func TestAllFailuresAreAttached(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.fails(status.Error(codes.Internal, "first"))
		b.fails(iqerr.Status(iqerr.ErrClosing))
		_, err, _ := w.ask(get(modeAny))
		var attempts []*iqv1.Attempt
		for _, d := range status.Convert(err).Details() {
			if r, ok := d.(*iqv1.ReplicaRefusals); ok {
				attempts = r.GetAttempts()
			}
		}
		if status.Code(err) != codes.Internal || len(attempts) != 2 || attempts[1].GetReason() != "CLOSING" {
			t.Errorf("got %v with attempts %v", err, attempts)
		}
	})
}

// TestBrokenConnectionNamesThePartitionAndItsReplicas: nobody else may answer, and "connection refused" alone says
// nothing of what was asked for.
func TestBrokenConnectionNamesThePartitionAndItsReplicas(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		broken := status.Error(codes.Unavailable, "dial tcp 10.0.0.1:7001: connection refused")
		a.fails(broken)
		b.fails(broken)
		for _, mode := range []iqv1.ReadPolicy_Mode{modeActive, modeStrong} {
			_, err, _ := w.ask(get(mode))
			e, ok := errors.AsType[*iqerr.NoActiveError](iqerr.FromStatus(err))
			if !ok || status.Code(err) != codes.Unavailable || e.RetryAfter != routing.RetryAfter {
				t.Fatalf("%s: got %v", mode, err)
			}
			checkUnanswered(t, &e.Refusals, "a")
		}
		for _, m := range []*iqv1.GetRequest{get(modeAny), maxOffsetLag(5)} {
			_, err, _ := w.ask(m)
			e, ok := errors.AsType[*iqerr.NoReplicaError](iqerr.FromStatus(err))
			if !ok || status.Code(err) != codes.Unavailable {
				t.Fatalf("%s: got %v", m.GetPolicy(), err)
			}
			checkUnanswered(t, &e.Refusals, "a", "b")
		}
	})
}

// checkUnanswered wants both replicas of s/0 named, and those of asked as asked.
func checkUnanswered(t *testing.T, r *iqerr.Refusals, asked ...string) {
	t.Helper()
	if r.Store != "s" || r.Partition != 0 || len(r.Candidates) != 2 || len(r.Attempts) != len(asked) {
		t.Fatalf("refusals %+v", r)
	}
	for _, c := range r.Candidates {
		said := c.GetWhy() == "was asked and gave no answer"
		if was := slices.Contains(asked, c.GetReplica().GetNode()); said != was || c.GetEligible() {
			t.Errorf("%s: eligible %t, %q", c.GetReplica().GetNode(), c.GetEligible(), c.GetWhy())
		}
	}
	for _, a := range r.Attempts {
		if !slices.Contains(asked, a.GetNode()) || a.GetCode() != codes.Unavailable.String() || !strings.Contains(a.GetMessage(), "connection refused") {
			t.Errorf("attempt %s", a)
		}
	}
}

// TestLostNodeNamesThePartitionAndItsReplicas: the read could wait, so it gave up the node that became suspect.
func TestLostNodeNamesThePartitionAndItsReplicas(t *testing.T) {
	d := routing.Decision{Query: routing.Query{Policy: routing.Unbounded(routing.ModeStrong)}}
	d.Query.Store, d.Query.Partition.Partition = "s", 3
	for _, cause := range []error{errLost, errGone} {
		p := routing.Plan{Decisions: []routing.Decision{d}}
		run := dispatch{plan: p, attempts: []*iqv1.Attempt{{Node: "a"}}}
		err := run.refuse(failure{routing.Target{Candidate: &routing.Candidate{}}, fmt.Errorf("node a: %w: %w", cause, iqerr.ErrNoReplica)})
		e, ok := errors.AsType[*iqerr.NoActiveError](err)
		if !ok || e.Store != "s" || e.Partition != 3 || len(e.Attempts) != 1 {
			t.Errorf("%v: got %v", cause, err)
		}
	}
}

// TestS18StaleAtTheNodeKeepsItsNumbers: the node is the authority, and its refusal crosses the router whole.
func TestS18StaleAtTheNodeKeepsItsNumbers(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		b := w.join("b", standby(99, 100))
		defer b.kill()
		bound := int64(5)
		b.fails(iqerr.Status(&iqerr.StaleError{MaxOffsetLag: &bound, Refusals: iqerr.Refusals{Store: "s"}}))
		_, err, _ := w.ask(maxOffsetLag(5))
		stale, ok := errors.AsType[*iqerr.StaleError](iqerr.FromStatus(err))
		if !ok || *stale.MaxOffsetLag != 5 || len(stale.Attempts) != 1 {
			t.Errorf("got %v", err)
		}
	})
}

// TestRetriesStayWithinTheBudget has every first try fail: once the burst is spent, a tenth of the reads are retried.
func TestRetriesStayWithinTheBudget(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.fails(status.Error(codes.Internal, "broken"))
		const reads = retryBurst + 500
		for range reads {
			_, _, _ = w.ask(get(modeAny))
		}
		if got := b.count(); got < retryBurst || got > retryBurst+reads*retryPercent/100+1 {
			t.Errorf("%d of %d reads were retried, want the burst of %d and at most %d%% more", got, reads, retryBurst, retryPercent)
		}
	})
}

// TestS30HangingNodeIsGivenUpOnceSuspect stops a node as SIGSTOP does: it neither answers nor reports, and no connection
// breaks. Reads that tolerate staleness wait for it no longer than until it is suspect, then not at all; it is
// back with its first report.
func TestS30HangingNodeIsGivenUpOnceSuspect(t *testing.T) {
	inBubble(t, Config{TryTimeout: time.Hour}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		if resp, err, _ := w.ask(get(modeAny)); err != nil || string(resp.GetValue()) != "from a" {
			t.Fatalf("before: %v, %v", resp, err)
		}
		a.silence(true)
		a.hangs()
		m := get(modeAny)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a share of which would be far too long
		defer cancel()
		start := time.Now()
		resp, err := w.client.Get(ctx, m)
		if took := time.Since(start); err != nil || string(resp.GetValue()) != "from b" || took > 460*time.Millisecond {
			t.Fatalf("first read: %v, %v after %s", resp, err, took)
		}
		if at := resp.GetAttempts(); len(at) != 1 || !strings.Contains(at[0].GetMessage(), "became suspect") {
			t.Errorf("attempts %v", at)
		}
		for range 50 {
			advance(100 * time.Millisecond)
			if resp, err, took := w.ask(m); err != nil || string(resp.GetValue()) != "from b" || took > time.Millisecond {
				t.Fatalf("while suspect: %v, %v after %s", resp, err, took)
			}
		}
		if got := b.suspects(); got != "a refused=false " {
			t.Errorf("b was told of %q", got)
		}
		a.silence(false)
		a.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			return &iqv1.GetResponse{Found: true, Value: []byte("from a")}, nil
		})
		advance(200 * time.Millisecond)
		if resp, err, _ := w.ask(m); err != nil || string(resp.GetValue()) != "from a" {
			t.Errorf("after: %v, %v", resp, err)
		}
	})
}

// TestS30NoPingIsTooMuch leaves everything idle but for heartbeats: neither side ends a connection for its pings.
func TestS30NoPingIsTooMuch(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		advance(20 * time.Minute)
		if got := w.dialed("a:7070"); got != 1 {
			t.Errorf("the router dialed a %d times, want once", got)
		}
	})
}

// TestKilledNodeIsReplacedWithinTheRequest kills the node while it is asked, and again before: no read fails.
func TestKilledNodeIsReplacedWithinTheRequest(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer b.kill()
		a.hangs()
		type reply struct {
			resp *iqv1.GetResponse
			err  error
			took time.Duration
		}
		replies := make(chan reply, 1)
		go func() {
			resp, err, took := w.ask(get(modeAny))
			replies <- reply{resp, err, took}
		}()
		advance(50 * time.Millisecond)
		a.kill()
		if r := <-replies; r.err != nil || string(r.resp.GetValue()) != "from b" || r.took > 100*time.Millisecond {
			t.Fatalf("got %v, %v after %s", r.resp, r.err, r.took)
		}
		advance(20 * time.Millisecond)
		if got := b.suspects(); got != "a refused=true " {
			t.Errorf("20ms after the kill b was told of %q", got)
		}
		for range 20 {
			resp, err, took := w.ask(get(modeAny))
			if err != nil || string(resp.GetValue()) != "from b" || len(resp.GetAttempts()) != 0 || took > time.Millisecond {
				t.Fatalf("later: %v, %v after %s", resp, err, took)
			}
			advance(37 * time.Millisecond)
		}
		if _, err, took := w.ask(get(modeActive)); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoActive) || took > time.Millisecond {
			t.Errorf("active: %v after %s", err, took)
		}
	})
}

// TestRestartedNodeIsAskedAtOnce: its old connection waits before the next attempt, and the new life must not.
func TestRestartedNodeIsAskedAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		a.kill()
		advance(900 * time.Millisecond)
		again := w.start("a", "a:7070", 2, active(101))
		defer again.kill()
		advance(10 * time.Millisecond)
		resp, err, took := w.ask(get(modeStrong))
		if err != nil || string(resp.GetValue()) != "from a" || took > time.Millisecond {
			t.Errorf("got %v, %v after %s", resp, err, took)
		}
	})
}

// TestWaitHoldsTheReadUntilAReplicaQualifies, or until its time is over, when the refusal is what it was.
func TestWaitHoldsTheReadUntilAReplicaQualifies(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		b := w.join("b", standby(90, 100))
		defer b.kill()
		m := maxOffsetLag(5)
		m.Policy.Wait = durationpb.New(time.Second)
		_, err, took := w.ask(m)
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrStale) || took != time.Second {
			t.Errorf("nobody qualifies: %v after %s", err, took)
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			b.change(func(m *iqv1.HeartbeatRequest) { m.Replicas = []*iqv1.ReplicaStatus{standby(98, 100)} })
		}()
		resp, err, took := w.ask(m)
		if err != nil || string(resp.GetValue()) != "from b" || took < 300*time.Millisecond || took > 420*time.Millisecond {
			t.Errorf("b catches up: %v, %v after %s", resp, err, took)
		}
	})
}

// TestWaitBeforeTheFirstReport holds a read that comes before any node.
func TestWaitBeforeTheFirstReport(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		var a *fakeNode
		started := make(chan struct{})
		go func() {
			defer close(started)
			time.Sleep(200 * time.Millisecond)
			a = w.start("a", "a:7070", 1, active(1))
		}()
		m := get(modeStrong)
		m.Policy.Wait = durationpb.New(time.Second)
		resp, err, took := w.ask(m)
		if err != nil || string(resp.GetValue()) != "from a" || took < 200*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("got %v, %v after %s", resp, err, took)
		}
		<-started
		a.kill()
	})
}

func TestWaitersAreBounded(t *testing.T) {
	inBubble(t, Config{MaxWaiters: 2}, func(w *world) {
		t := w.t
		m := get(modeStrong)
		m.Policy.Wait = durationpb.New(time.Second)
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err, _ := w.ask(m)
				errs <- err
			}()
		}
		if first := iqerr.FromStatus(<-errs); !errors.Is(first, iqerr.ErrOverloaded) {
			t.Errorf("the third: %v", first)
		}
		for range 2 {
			if err := iqerr.FromStatus(<-errs); !errors.Is(err, iqerr.ErrNotReady) {
				t.Errorf("got %v", err)
			}
		}
		if got := w.router.waiting.Load(); got != 0 {
			t.Errorf("%d places are still taken", got)
		}
	})
}

// TestHedgeAsksASecondReplicaWhenTheFirstIsSlow, and only for reads that tolerate staleness, and within its budget.
func TestHedgeAsksASecondReplicaWhenTheFirstIsSlow(t *testing.T) {
	inBubble(t, Config{Hedge: true}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.answers(func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			select {
			case <-time.After(300 * time.Millisecond):
				return &iqv1.GetResponse{Found: true, Value: []byte("from a")}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		resp, err, took := w.ask(get(modeAny))
		if err != nil || string(resp.GetValue()) != "from b" || took != hedgeAtMost {
			t.Errorf("any: %v, %v after %s", resp, err, took)
		}
		resp, err, took = w.ask(get(modeActive))
		if err != nil || string(resp.GetValue()) != "from a" || took != 300*time.Millisecond {
			t.Errorf("active: %v, %v after %s", resp, err, took)
		}
		before := b.count()
		for range 100 {
			_, _, _ = w.ask(get(modeAny))
		}
		if got := b.count() - before; got > hedgeBurst+5 {
			t.Errorf("%d of 100 reads were hedged", got)
		}
	})
}

// TestHedgedReadFailsOverAtOnce: a failure of the first does not wait for the hedge's time.
func TestHedgedReadFailsOverAtOnce(t *testing.T) {
	inBubble(t, Config{Hedge: true}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer a.kill()
		defer b.kill()
		a.fails(status.Error(codes.Internal, "broken"))
		resp, err, took := w.ask(get(modeAny))
		if err != nil || string(resp.GetValue()) != "from b" || took > time.Millisecond || len(resp.GetAttempts()) != 1 {
			t.Errorf("got %v, %v after %s", resp, err, took)
		}
	})
}

// TestPatientReadGoesToTheNewActiveAtOnce: the old one hangs, and the read neither waits for it nor asks it again.
func TestPatientReadGoesToTheNewActiveAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(100, 100))
		defer a.kill()
		defer b.kill()
		a.silence(true)
		a.hangs()
		go func() {
			time.Sleep(900 * time.Millisecond)
			b.change(func(m *iqv1.HeartbeatRequest) {
				m.Replicas = []*iqv1.ReplicaStatus{active(101)}
				m.Replicas[0].Generation, m.Generation = 2, 2
			})
		}()
		m := get(modeStrong)
		m.Policy.Wait = durationpb.New(2 * time.Second)
		resp, err, took := w.ask(m)
		if err != nil || string(resp.GetValue()) != "from b" || took < 900*time.Millisecond || took > 1050*time.Millisecond || a.count() != 1 {
			t.Errorf("got %v, %v after %s; a was asked %d times", resp, err, took, a.count())
		}
	})
}

// TestWaitOverAsksTheSuspectAfterAll: its heartbeats are lost, and it can answer.
func TestWaitOverAsksTheSuspectAfterAll(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		a.silence(true)
		advance(600 * time.Millisecond)
		m := get(modeStrong)
		m.Policy.Wait = durationpb.New(300 * time.Millisecond)
		if resp, err, took := w.ask(m); err != nil || string(resp.GetValue()) != "from a" || took != 300*time.Millisecond {
			t.Errorf("got %v, %v after %s", resp, err, took)
		}
	})
}

// TestPatientReadDoesNotHammerANodeThatRefuses: the view changes with every heartbeat, and says each time that the node
// may answer.
func TestPatientReadDoesNotHammerANodeThatRefuses(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		others := make([]*fakeNode, 10) // 100 views a second
		for i := range others {
			others[i] = w.join(string(rune('b'+i)), nil...)
			defer others[i].kill()
			advance(9 * time.Millisecond)
		}
		defer a.kill()
		a.fails(iqerr.Status(&iqerr.NoActiveError{Refusals: iqerr.Refusals{Store: "s"}}))
		m := get(modeStrong)
		m.Policy.Wait = durationpb.New(1900 * time.Millisecond)
		_, err, _ := w.ask(m)
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoActive) || a.count() < 8 || a.count() > 18 {
			t.Errorf("asked %d times, then %v", a.count(), err)
		}
	})
}
