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

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
)

// TestTheJournalKeepsRefusalsAndFailoversAlways, with who answered, who failed and why nobody did; and of the others one a second.
func TestTheJournalKeepsRefusalsAndFailoversAlways(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(90, 100))
		defer b.kill()
		for range 5 {
			if _, err, _ := w.ask(get(modeAny)); err != nil {
				t.Fatal(err)
			}
		}
		kept := w.router.RecentReads()
		if len(kept) != 1 || !kept[0].Sampled || kept[0].Node != "a" || kept[0].Role != metadata.RoleActive || !kept[0].Found || kept[0].Partition != 0 || kept[0].OffsetLag != 0 {
			t.Fatalf("of five reads at once: %+v", kept)
		}
		a.fails(status.Error(codes.Unavailable, "broken"))
		b.fails(status.Error(codes.Unavailable, "broken too"))
		if _, err, _ := w.ask(get(modeAny)); err == nil {
			t.Fatal("answered by nobody")
		}
		b.answers(func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			return &iqv1.GetResponse{Served: b.status(m)}, nil
		})
		if _, err, _ := w.ask(get(modeAny)); err != nil {
			t.Fatal(err)
		}
		a.kill()
		if _, err, _ := w.ask(get(iqv1.ReadPolicy_MODE_ACTIVE)); err == nil {
			t.Fatal("answered by no active")
		}
		advance(2 * time.Second)
		if _, err, _ := w.ask(get(modeAny)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range w.router.RecentReads() {
			var failed []string
			for _, at := range r.Attempts {
				failed = append(failed, at.GetNode())
			}
			got = append(got, fmt.Sprintf("%d %s/%d %s: %s found=%t lag=%d,%s %s failed=%v sampled=%t", r.Sequence, r.Store, r.Partition, r.Policy, r.Node, r.Found, r.OffsetLag, r.TimeLag, r.Reason, failed, r.Sampled))
		}
		want := []string{
			"1 s/0 any: a found=true lag=0,0s  failed=[] sampled=true",
			"2 s/0 any:  found=false lag=-1,-1ns NO_REPLICA failed=[a b] sampled=false",
			"3 s/0 any: b found=false lag=10,100ms  failed=[a] sampled=false",
			"4 s/0 active:  found=false lag=-1,-1ns NO_ACTIVE failed=[] sampled=false",
			"5 s/0 any: b found=false lag=10,100ms  failed=[] sampled=true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// noteOf is a read of a store that ends with err.
func noteOf(store string, began time.Time) *read {
	return &read{request: query.Get{Store: store, Key: []byte("secret")}, policy: routing.Unbounded(routing.ModeActive), began: began, served: served{partition: routing.NoPartition}}
}

// TestTheJournalIsBounded in reads and in the length of what a caller says, and samples do not push refusals out.
func TestTheJournalIsBounded(t *testing.T) {
	var j journal
	now := time.Now()
	for i := range 500 {
		j.note(noteOf(strings.Repeat("ä", 5000), now), errors.New(strings.Repeat("x", 5000)))
		j.note(noteOf("s", now.Add(time.Duration(i)*sampleEvery)), nil)
	}
	kept := j.reads()
	if len(kept) != maxTroubled+maxSampled || kept[len(kept)-1].Sequence != 1000 {
		t.Errorf("%d are kept, the last is %d", len(kept), kept[len(kept)-1].Sequence)
	}
	for i, r := range kept {
		if len(r.Store) > maxJournalText+3 || len(r.Message) > maxJournalText+3 || i > 0 && kept[i-1].Sequence >= r.Sequence {
			t.Errorf("%d of %d: %d and %d bytes", i, r.Sequence, len(r.Store), len(r.Message))
		}
	}
}

// TestTheJournalHasNoKeys: an error about a key has it in its text.
func TestTheJournalHasNoKeys(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		a := w.join("a", active(100))
		defer a.kill()
		m := get(modeAny)
		m.Key = []byte("secret")
		a.fails(status.Error(codes.NotFound, "whatever"))
		_, _, _ = w.ask(m)
		m.Partition = new(int32(77))
		_, _, _ = w.ask(m)
		kept := w.router.RecentReads()
		if len(kept) != 2 || strings.Contains(fmt.Sprintf("%+v", kept), "secret") {
			w.t.Errorf("%+v", kept)
		}
	})
}

// TestAReadWithoutTroubleCostsTheJournalNoAllocation.
func TestAReadWithoutTroubleCostsTheJournalNoAllocation(t *testing.T) {
	var j journal
	rd := noteOf("s", time.Now())
	j.note(rd, nil)
	if n := testing.AllocsPerRun(1000, func() { j.note(rd, nil) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkJournal(b *testing.B) {
	b.Run("end=answered", func(b *testing.B) {
		var j journal
		b.RunParallel(func(pb *testing.PB) {
			rd := noteOf("s", time.Now())
			for pb.Next() {
				j.note(rd, nil)
			}
		})
	})
	b.Run("end=refused", func(b *testing.B) {
		var j journal
		b.RunParallel(func(pb *testing.PB) {
			rd := noteOf("s", time.Now())
			for pb.Next() {
				j.note(rd, errors.New("refused"))
			}
		})
	})
}
