package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/gateway/shape"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

var topBegin = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// Each file is one run of top. "tell at=T [snapshot]" is a message: a line "NODE STATE [rack=R] [draining]" is a node, and a line
// "NODE STORE/PARTITION ROLE STATE POSITION END [TIME LAG]" a replica of it; "gone NODE". "keys" are pressed, one a word.
// "frame width=W height=H at=T" is the screen: # marks a heading, ! what is bad, ~ what is to be watched.
func TestTopFrames(t *testing.T) {
	datadriven.Walk(t, "testdata/top", func(t *testing.T, path string) {
		t.Helper()
		v := newTopView()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var at time.Duration
			if d.HasArg("at") {
				var text string
				d.ScanArgs(t, "at", &text)
				var err error
				if at, err = time.ParseDuration(text); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			switch d.Cmd {
			case "tell":
				v.take(message(t, d), topBegin.Add(at))
			case "keys":
				for key := range strings.FieldsSeq(d.Input) {
					if v.key(strings.ReplaceAll(key, "_", " ")) {
						return "quit\n"
					}
				}
			case "frame":
				width, height := unbounded, unbounded
				if d.HasArg("width") {
					d.ScanArgs(t, "width", &width)
					d.ScanArgs(t, "height", &height)
				}
				return frameText(t, v.frame(width, height, "router-1:7000", "", topBegin.Add(at)), width, height)
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return ""
		})
	})
}

// frameText writes a screen, and checks that it is one.
func frameText(t *testing.T, lines []topLine, width, height int) string {
	t.Helper()
	if len(lines) > height || height != unbounded && len(lines) != height {
		t.Errorf("%d lines on a screen of %d", len(lines), height)
	}
	var b strings.Builder
	for _, line := range lines {
		if n := utf8.RuneCountInString(line.text); n > width {
			t.Errorf("%d letters on a screen of %d: %s", n, width, line.text)
		}
		mark := map[topStyle]string{stylePlain: "|", styleHead: "#", styleBad: "!", styleWarn: "~"}[line.style]
		b.WriteString(strings.TrimRight(mark+line.text, " ") + "\n")
	}
	return b.String()
}

func message(t *testing.T, d *datadriven.TestData) *iqv1.WatchMetadataResponse {
	t.Helper()
	m := &iqv1.WatchMetadataResponse{Snapshot: d.HasArg("snapshot")}
	stores := map[string]bool{}
	nodes := map[string]*iqv1.Instance{}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		switch {
		case words[0] == "gone":
			m.Gone = append(m.Gone, words[1])
		case strings.Contains(words[1], "/"):
			store, partition, _ := strings.Cut(words[1], "/")
			r := &iqv1.ReplicaStatus{
				Node: words[0], Store: store, Partition: int32(number(t, partition)), Position: number(t, words[4]), EndPosition: number(t, words[5]),
				Role:  iqv1.Role(iqv1.Role_value["ROLE_"+strings.ToUpper(words[2])]),
				State: iqv1.ReplicaState(iqv1.ReplicaState_value["REPLICA_STATE_"+strings.ToUpper(words[3])]),
			}
			if len(words) > 6 {
				lag, err := time.ParseDuration(words[6])
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				r.OffsetLag, r.TimeLag = new(r.GetEndPosition()-r.GetPosition()), durationpb.New(lag)
			}
			nodes[words[0]].Replicas = append(nodes[words[0]].Replicas, r)
			if !stores[store] {
				stores[store] = true
				m.Stores = append(m.Stores, &iqv1.StoreInfo{Name: store})
			}
		default:
			i := &iqv1.Instance{
				Node: words[0], Address: words[0] + ".example:7070", Alive: words[1] != shape.Dead, Suspect: words[1] == shape.Suspect,
				Draining: strings.Contains(line, "draining"), LastHeard: durationpb.New(40 * time.Millisecond),
			}
			_, i.Rack, _ = strings.Cut(strings.TrimSpace(line), "rack=")
			nodes[words[0]] = i
			m.Instances = append(m.Instances, i)
		}
	}
	return m
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEachKeyOfATerminalIsRead, as terminals of several kinds send them, and what is no key is nothing.
func TestEachKeyOfATerminalIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"q": "q", "jk": "j|k", "\x1b[A\x1bOB": "up|down", "\x1b[5~\x1b[6~": "page up|page down", "\x1b[H\x1b[4~": "home|end", "\t": "tab", "\x03": "ctrl-c",
		"\x1b[15~s": "s", "\x1b[1;5Cq": "q", "\x1bOPq": "q", "\x1b": "", "\x1b[": "", "\x1b[1": "", "ä\xff": "ä|\xff", "": "",
	} {
		if got := strings.Join(splitKeys(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzKeys: whatever a terminal sends is read to its end, and no key makes a frame of the wrong size.
func FuzzKeys(f *testing.F) {
	f.Add("q\x1b[A", 80, 24)
	f.Add("\x1b[6~\x1b[6~\x1b[F\t\x1b[F", 20, 6)
	f.Add("sssrhp", 1, 1)
	f.Fuzz(func(t *testing.T, text string, width, height int) {
		if width < 0 || height < 0 || width > 500 || height > 200 {
			return
		}
		v := newTopView()
		m := &iqv1.WatchMetadataResponse{Snapshot: true}
		for n := range 9 {
			m.Instances = append(m.Instances, &iqv1.Instance{Node: strconv.Itoa(n), Alive: n > 0, Replicas: []*iqv1.ReplicaStatus{standbyOnB(), restoringOnC()}})
		}
		v.take(m, topBegin)
		for _, key := range splitKeys(text) {
			v.key(key)
			frameText(t, v.frame(width, height, "r:1", "", topBegin), width, height)
		}
	})
}

// fakeScreen is a terminal of 80x24 at first. What is written to it can be looked at.
type fakeScreen struct {
	screen
	out           strings.Builder
	keys          chan string
	width, height int
}

func newFakeScreen() *fakeScreen {
	f := &fakeScreen{keys: make(chan string, keyQueue), width: 80, height: 24}
	f.screen = screen{out: &f.out, keys: f.keys, size: func() (int, int) { return f.width, f.height }}
	return f
}

// written gives what was written since the last call.
func (f *fakeScreen) written() string {
	text := f.out.String()
	f.out.Reset()
	return text
}

// messages tells what comes through the channel until the context ends.
func messages(c <-chan *iqv1.WatchMetadataResponse) func(context.Context) iter.Seq2[*iqv1.WatchMetadataResponse, error] {
	return func(ctx context.Context) iter.Seq2[*iqv1.WatchMetadataResponse, error] {
		return func(yield func(*iqv1.WatchMetadataResponse, error) bool) {
			for {
				select {
				case m, open := <-c:
					if !open {
						yield(nil, errors.New("no router answers"))
						return
					}
					if !yield(m, nil) {
						return
					}
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
			}
		}
	}
}

func oneReplica(position int64) *iqv1.WatchMetadataResponse {
	r := standbyOnB()
	r.Position = position
	return &iqv1.WatchMetadataResponse{Instances: []*iqv1.Instance{{Node: "b", Alive: true, Replicas: []*iqv1.ReplicaStatus{r}}}}
}

// TestTopDrawsWhatChanges: at first everything, then the lines that differ, everything again in a new size; nothing new while it
// is paused, and all of it afterwards; until q.
func TestTopDrawsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeScreen()
		c := make(chan *iqv1.WatchMetadataResponse)
		run := &top{view: newTopView(), source: "r:1", interval: time.Second, told: messages(c), screen: &f.screen}
		run.show = run.draw
		ended := make(chan error, 1)
		go func() { ended <- run.run(t.Context()) }()
		synctest.Wait()
		if text := f.written(); !strings.Contains(text, "waiting for r:1") {
			t.Errorf("before anything was told: %q", text)
		}
		c <- oneReplica(1000)
		synctest.Wait()
		if text := f.written(); !strings.Contains(text, "flights-by-dest") || strings.Contains(text, "/s") {
			t.Errorf("the first message is shown at once, without a rate: %q", text)
		}
		time.Sleep(900 * time.Millisecond)
		c <- oneReplica(1900)
		synctest.Wait()
		if text := f.written(); text != "" {
			t.Errorf("shown before the interval is over: %q", text)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if text := f.written(); !strings.Contains(text, "1,000/s") || strings.Contains(text, "q quit") {
			t.Errorf("after the interval, the lines that differ: %q", text)
		}
		f.width, f.height = 66, 12
		time.Sleep(resizeCheck)
		synctest.Wait()
		if text := f.written(); !strings.HasPrefix(text, "\x1b[2J") || !strings.Contains(text, "\x1b[12;1Hq quit") {
			t.Errorf("in a new size: %q", text)
		}
		f.keys <- "p"
		synctest.Wait()
		f.written()
		c <- oneReplica(70_000)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if text := f.written(); strings.Contains(text, "/s") {
			t.Errorf("while it is paused: %q", text)
		}
		f.keys <- " "
		synctest.Wait()
		if text := f.written(); !strings.Contains(text, "/s") {
			t.Errorf("when it goes on: %q", text)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := f.written(); !strings.Contains(text, "nothing was told for") {
			t.Errorf("a router that tells nothing: %q", text)
		}
		f.keys <- "q"
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestTopEndsWithItsRouters, with its context and with its count.
func TestTopEndsWithItsRouters(t *testing.T) {
	for name, c := range map[string]struct {
		count  int64
		end    func(cancel func(), told chan *iqv1.WatchMetadataResponse)
		want   string
		frames int
	}{
		"count":   {count: 3, end: func(func(), chan *iqv1.WatchMetadataResponse) {}, frames: 3},
		"context": {end: func(cancel func(), _ chan *iqv1.WatchMetadataResponse) { cancel() }, want: "context canceled", frames: 11},
		"routers": {end: func(_ func(), told chan *iqv1.WatchMetadataResponse) { close(told) }, want: "no router answers", frames: 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				told := make(chan *iqv1.WatchMetadataResponse, 1)
				told <- oneReplica(1)
				frames := 0
				run := &top{view: newTopView(), interval: time.Second, count: c.count, told: messages(told)}
				run.show = func(time.Time) error { frames++; return nil }
				ended := make(chan error, 1)
				go func() { ended <- run.run(ctx) }()
				time.Sleep(10*time.Second + time.Millisecond)
				c.end(cancel, told)
				if err := <-ended; c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) || frames != c.frames {
					t.Errorf("ended with %v after %d screens, want %q after %d", err, frames, c.want, c.frames)
				}
			})
		})
	}
}

// TestMessagesOfAPauseTellTheSameAsOneByOne.
func TestMessagesOfAPauseTellTheSameAsOneByOne(t *testing.T) {
	node := func(id string, generation int64) *iqv1.Instance {
		return &iqv1.Instance{Node: id, Generation: generation}
	}
	all := []*iqv1.WatchMetadataResponse{
		{Instances: []*iqv1.Instance{node("x", 1)}},
		{Snapshot: true, Instances: []*iqv1.Instance{node("a", 1), node("b", 1)}, Stores: []*iqv1.StoreInfo{{Name: "s"}}},
		{Instances: []*iqv1.Instance{node("a", 2)}, Gone: []string{"b"}},
		{Gone: []string{"a"}},
		{Instances: []*iqv1.Instance{node("b", 3)}},
		{Instances: []*iqv1.Instance{node("c", 4)}},
	}
	for from := range all {
		for to := from + 1; to <= len(all); to++ {
			one, atOnce := newTopView(), newTopView()
			for _, m := range all[:from] {
				one.take(m, topBegin)
				atOnce.take(m, topBegin)
			}
			for _, m := range all[from:to] {
				one.take(m, topBegin)
			}
			atOnce.take(merged(all[from:to])[0], topBegin)
			if a, b := fmt.Sprint(one.sorted(), one.stores), fmt.Sprint(atOnce.sorted(), atOnce.stores); a != b {
				t.Errorf("messages %d to %d: %s, at once %s", from, to, a, b)
			}
		}
	}
}
