package dashboard

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/metadata"
)

// TestPage reads testdata/page. view takes a view as readView has it; page and detail write what the page has of it.
func TestPage(t *testing.T) {
	datadriven.Walk(t, "testdata/page", func(t *testing.T, path string) {
		t.Helper()
		var v *metadata.View
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "view":
				v = readView(t, d.Input)
				return "ok\n"
			case "page":
				store := ""
				d.MaybeScanArgs(t, "store", &store)
				return pageText(MakePage(v, store, epoch))
			case "detail":
				var id metadata.Partition
				d.ScanArgs(t, "store", &id.Store)
				d.ScanArgs(t, "partition", &id.Partition)
				detail, err := MakeDetail(v, id, epoch)
				if err != nil {
					return err.Error()
				}
				return detailText(detail)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

func pageText(p *Page) string {
	var b strings.Builder
	s := p.Summary
	fmt.Fprintf(&b, "%d alive, %d suspect, %d dead; %d served, %d copies, %d nobody, %d unassigned; %d restoring; %d offsets, %dms behind\n",
		s.Alive, s.Suspect, s.Dead, s.Served, s.Copies, s.Nobody, s.Unassigned, s.Restoring, s.WorstOffsets, s.WorstMs)
	for _, n := range p.Nodes {
		fmt.Fprintf(&b, "%s %s", n.ID, n.State)
		flag := func(is bool, word string) {
			if is {
				b.WriteString(" " + word)
			}
		}
		flag(n.Draining, "draining")
		flag(n.Refused, "refused")
		fmt.Fprintf(&b, " heard=%dms lease=%s active=%d standby=%d", n.HeardMs, n.Lease, n.Active, n.Standby)
		flag(n.Warmup > 0, fmt.Sprintf("warmup=%d", n.Warmup))
		flag(n.Restoring > 0, fmt.Sprintf("restoring=%d", n.Restoring))
		flag(n.Suspended > 0, fmt.Sprintf("suspended=%d", n.Suspended))
		flag(n.Misplaced > 0, fmt.Sprintf("misplaced=%d", n.Misplaced))
		flag(n.Rack != "", "rack="+n.Rack)
		flag(n.Version != "", "version="+n.Version)
		fmt.Fprintf(&b, " behind=%d,%dms\n", n.WorstOffsets, n.WorstMs)
	}
	for _, s := range p.Stores {
		fmt.Fprintf(&b, "%s %s partitions=%d actual=%d followed=%t\n", s.Name, s.Kind, s.Partitions, s.ActualPartitions, s.Followed)
		for _, part := range p.Partitions {
			if part.Store != s.Name {
				continue
			}
			fmt.Fprintf(&b, "  %d %s:", part.Number, part.Status)
			for i := range part.Replicas {
				b.WriteString(" " + cellText(&part.Replicas[i]))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func cellText(r *Replica) string {
	text := fmt.Sprintf("[%s %s %s %s %d,%dms", r.Node, r.Role, r.State, r.Grade, r.Offsets, r.TimeMs)
	if r.Serves {
		text += " serves"
	}
	if r.Suspect {
		text += " suspect"
	}
	return text + "]"
}

func detailText(d *Detail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d %s end=%d generation=%d\n", d.Store, d.Number, d.Status, d.End, d.Generation)
	for _, r := range d.Replicas {
		fmt.Fprintf(&b, "%s pos=%d lag=%d,%gms sample=%gms heard=%gms lease=%t at %s\n",
			cellText(&r.Replica), r.Position, r.LagOffsets, r.LagMs, r.SampleMs, r.HeardMs, r.Lease, r.Address)
	}
	return b.String()
}

// TestRoundedFiguresAreNeverSmaller, in offsets and time, and one step of either is at most what is told of it.
func TestRoundedFiguresAreNeverSmaller(t *testing.T) {
	for _, n := range []int64{0, 1, 99, 100, 101, 109, 110, 999, 1000, 1001, 99_999, 1 << 40, math.MaxInt64 - 1, math.MaxInt64} {
		got := roundOffsets(n)
		if got < n || float64(got-n) > float64(n)/10 {
			t.Errorf("%d offsets are shown as %d", n, got)
		}
		if roundOffsets(got) != got {
			t.Errorf("%d is rounded again to %d", got, roundOffsets(got))
		}
	}
	if roundOffsets(unknown) != unknown || roundTime(unknown) != unknown {
		t.Error("what is not known is rounded to something")
	}
	for _, d := range []time.Duration{
		0, 1, time.Millisecond, 500 * time.Millisecond, 501 * time.Millisecond, 10 * time.Second, 10*time.Second + 1, time.Minute, time.Hour, time.Hour + 1,
		1000 * time.Hour, math.MaxInt64,
	} {
		got := time.Duration(roundTime(d)) * time.Millisecond
		if d < math.MaxInt64-time.Hour && (got < d || got-d > max(d/4, 500*time.Millisecond)) {
			t.Errorf("%s is shown as %s", d, got)
		}
	}
	if roundTime(0) != 0 || roundTime(1) != 500 {
		t.Error("only what is up to date is shown as 0")
	}
}

// TestDetailOfNoPartitionIsAnError that names it.
func TestDetailOfNoPartitionIsAnError(t *testing.T) {
	v := readView(t, "store s\na\n  s/0 active running pos=1 end=1 time=0s lease\n")
	if _, err := MakeDetail(v, metadata.Partition{Store: "s", Partition: 2}, epoch); err == nil || !strings.Contains(err.Error(), "2") {
		t.Errorf("partition 2 of 2: %v", err)
	}
	if _, err := MakeDetail(v, metadata.Partition{Store: "t"}, epoch); err == nil {
		t.Error("a store that nobody told of")
	}
	if _, err := MakeDetail(metadata.NewView(metadata.Limits{}), metadata.Partition{Store: "s"}, epoch); !errors.Is(err, metadata.ErrNotReady) {
		t.Errorf("of an empty view: %v", err)
	}
}

// TestAPageListsSoManyPartitions and counts all; a reader is told anew when others are listed.
func TestAPageListsSoManyPartitions(t *testing.T) {
	const text = "store a parts=6000\nstore b parts=6000\nn\n  a/0 active running pos=1 end=1 time=0s lease\n"
	p := MakePage(readView(t, text), "", epoch)
	if len(p.Partitions) != maxPartitions || p.Left != 2000 || p.Summary.Unassigned != 11_999 || p.Summary.Served != 1 {
		t.Errorf("%d are listed, %d left; %+v", len(p.Partitions), p.Left, p.Summary)
	}
	more := MakePage(readView(t, "store 0 parts=1\n"+text), "", epoch)
	if !listsOthers(p, more) || listsOthers(p, p) {
		t.Error("a store before them moves others out")
	}
	few := MakePage(readView(t, oneNode), "", epoch)
	if listsOthers(few, MakePage(readView(t, "store b\n"+oneNode), "", epoch)) {
		t.Error("of few partitions all are listed")
	}
}

func BenchmarkMakePage(b *testing.B) {
	for _, size := range [][3]int{{3, 2, 8}, {50, 10, 100}} {
		v := largeView(b, size[0], size[1], size[2])
		b.Run(fmt.Sprintf("nodes=%d/partitions=%d", size[0], size[1]*size[2]), func(b *testing.B) {
			for b.Loop() {
				MakePage(v, "", epoch)
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	v := largeView(b, 50, 10, 100)
	older, newer := MakePage(v, "", epoch), MakePage(v, "", epoch.Add(2*time.Second))
	b.Run("changed=all", func(b *testing.B) {
		for b.Loop() {
			c := Diff(older, newer)
			mustEncode(c)
		}
	})
	same := MakePage(v, "", epoch)
	b.Run("changed=none", func(b *testing.B) {
		for b.Loop() {
			Diff(older, same)
		}
	})
}
