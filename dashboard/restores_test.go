package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// restoringAt is a view with one replica that restores.
func restoringAt(t *testing.T, position, end int64) *metadata.View {
	t.Helper()
	return readView(t, fmt.Sprintf("store s parts=1\na\n  s/0 standby restoring pos=%d end=%d time=1h\n", position, end))
}

// TestARestoreTellsWhenItIsOver by what it gains on its changelog, which grows meanwhile.
func TestARestoreTellsWhenItIsOver(t *testing.T) {
	var r restores
	for _, step := range []struct {
		at            time.Duration
		position, end int64
		want          string
	}{
		{0, 1000, 11_000, "0% left=10000 speed=-1 eta=-1"},
		{500 * time.Millisecond, 2000, 11_000, "10% left=9000 speed=-1 eta=-1"}, // too short to tell
		{2 * time.Second, 5000, 11_000, "40% left=6000 speed=2000 eta=3000"},    // 2,000 a second
		{4 * time.Second, 9000, 15_000, "57% left=6000 speed=2000 eta=6000"},    // the log grew by 4,000 in 4s
		{24 * time.Second, 10_000, 20_000, "47% left=10000 speed=50 eta=-1"},    // it grows faster
		{34 * time.Second, 15_000, 20_000, "73% left=5000 speed=500 eta=10000"}, // the window has moved on
		{35 * time.Second, 500, 20_000, "0% left=20000 speed=-1 eta=-1"},        // begun anew: it was rebuilt
		{36 * time.Second, 20_500, 20_000, "100% left=0 speed=20000 eta=0"},     // as good as over
	} {
		got := r.observe(restoringAt(t, step.position, step.end), epoch.Add(step.at))
		if len(got) != 1 {
			t.Fatalf("at %s: %+v", step.at, got)
		}
		text := fmt.Sprintf("%d%% left=%d speed=%d eta=%d", got[0].Percent, got[0].Left, got[0].PerSecond, got[0].EtaMs)
		if text != step.want {
			t.Errorf("at %s, position %d of %d: %s, want %s", step.at, step.position, step.end, text, step.want)
		}
	}
	running := readView(t, "store s parts=1\na\n  s/0 standby running pos=20000 end=20000 time=0s\n")
	if got := r.observe(running, epoch.Add(37*time.Second)); len(got) != 0 || len(r.seen) != 0 {
		t.Errorf("one that runs: %+v, %d kept", got, len(r.seen))
	}
}

// TestOfManyRestoresTheLastIsFirst, those of unknown end before it, and only so many are listed.
func TestOfManyRestoresTheLastIsFirst(t *testing.T) {
	view := func(step int) *metadata.View {
		text := "store s parts=300\na\n"
		for p := range 300 {
			text += fmt.Sprintf("  s/%d standby restoring pos=%d end=100000\n", p, step*p*10)
		}
		return readView(t, text)
	}
	var r restores
	r.observe(view(0), epoch)
	got := r.observe(view(1), epoch.Add(2*time.Second))
	if len(got) != maxRestores || got[0].Partition != 0 || got[0].EtaMs != unknown || got[1].Partition != 1 || got[199].Partition != 199 {
		t.Errorf("%d restores, first %+v, %+v", len(got), got[0], got[1])
	}
}

// TestARestoreKeepsFewSamples however often it is looked at.
func TestARestoreKeepsFewSamples(t *testing.T) {
	var r restores
	for i := range int64(5000) {
		r.observe(restoringAt(t, i, 10_000), epoch.Add(time.Duration(i)*time.Millisecond))
		for _, c := range r.seen {
			if len(c.samples) > maxRestoreSamples {
				t.Fatalf("%d samples after %d looks", len(c.samples), i)
			}
		}
	}
	got := r.observe(restoringAt(t, 5000, 10_000), epoch.Add(5*time.Second))
	if got[0].PerSecond != 1000 || got[0].EtaMs != 5000 {
		t.Errorf("%+v", got[0])
	}
}
