//go:build synctests

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// A wordLog keeps what everybody logs.
type wordLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	also io.Writer
}

func (l *wordLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.also != nil {
		_, _ = l.also.Write(p)
	}
	return l.text.Write(p)
}

// says counts the lines that have all of the words.
func (l *wordLog) says(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.text.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

// A bootstrapFixture is a cluster whose node a is the active of a changelog that the test has written: every key several
// times, the values of a size.
type bootstrapFixture struct {
	*fixture
	log  *wordLog
	a    *bubble.Node
	want map[string]string
	end  int64
	dirB string // b's state directory
}

const (
	bootstrapKeys   = 1000
	bootstrapWrites = 3 * bootstrapKeys
	copiedLine      = "copied from another node"
)

func newBootstrapFixture(t *testing.T, edit func(*nodeConfig)) *bootstrapFixture {
	t.Helper()
	log := &wordLog{also: verboseLog(t)}
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: table, Log: log})
	f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	f.adm = kadm.NewClient(f.cl)
	f.createChangelog(1, nil)
	b := &bootstrapFixture{fixture: f, log: log, want: make(map[string]string), end: bootstrapWrites}
	for i := range bootstrapWrites {
		key, value := fmt.Sprint("key-", i*7%bootstrapKeys), fmt.Sprint(i, strings.Repeat(".", i%5000))
		f.cl.Produce(f.ctx, &kgo.Record{Topic: tableChangelog, Key: []byte(key), Value: []byte(value)}, nil)
		b.want[key] = value
	}
	if err := f.cl.Flush(f.ctx); err != nil {
		t.Fatal(err)
	}
	b.a = f.StartNode("a", func(cfg *nodeConfig) {
		if edit != nil {
			edit(cfg)
		}
	})
	f.waitRole(b.a, iqv1.Role_ROLE_ACTIVE)
	return b
}

// startB starts the node that begins with nothing.
func (f *bootstrapFixture) startB() *bubble.Node {
	return f.StartNode("b", func(cfg *nodeConfig) { cfg.BootstrapDistance, f.dirB = 1000, cfg.StateDir })
}

// slowFromEnd has each fetch of the changelog from where b's store is wait.
func (f *bootstrapFixture) slowFromEnd(by time.Duration) {
	f.Kafka.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.Kafka.KeepControl()
		fetch, ok := req.(*kmsg.FetchRequest)
		for i := range fetch.Topics {
			for _, p := range fetch.Topics[i].Partitions {
				if ok && p.FetchOffset == f.end {
					f.Kafka.SleepControl(func() { time.Sleep(by) })
				}
			}
		}
		return nil, nil, false
	})
}

// has checks every key at a node.
func (f *bootstrapFixture) has(n *bubble.Node, p *iqv1.ReadPolicy) {
	f.t.Helper()
	for key, value := range f.want {
		f.expect(n, p, key, value)
	}
}

// midCopy waits until b has begun to take a copy over a link that is slow.
func (f *bootstrapFixture) midCopy() *bubble.Node {
	f.t.Helper()
	f.Link("a", "b").Slow(20 * time.Millisecond)
	b := f.startB()
	f.Eventually(30*time.Second, "a copy has begun", func() error {
		_, err := os.Stat(filepath.Join(f.dirB, "incoming", "table", "0", "db"))
		return err
	})
	if n := f.log.says(copiedLine); n > 0 {
		f.t.Fatal("the copy has ended already")
	}
	return b
}

// noLeftovers checks that nothing is left of copies at b.
func (f *bootstrapFixture) noLeftovers() {
	f.t.Helper()
	if _, err := os.Stat(filepath.Join(f.dirB, "incoming", "table", "0")); !errors.Is(err, os.ErrNotExist) {
		f.t.Errorf("something is left of a copy: %v", err)
	}
}

// A node without state begins with a copy of what the active has, follows from there, and is as good as the active when
// that is gone.
func TestNewNodeBeginsWithACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.startB()
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		if n := f.log.says(copiedLine, "node=b", "from=a", fmt.Sprint("position=", f.end)); n != 1 {
			t.Fatalf("the log tells of %d copies", n)
		}
		f.has(b, maxLag(0))
		f.noLeftovers()
		f.write(f.cl, "in", "key-1", "later", "key-2", "null", "key-new", "new")
		f.settled(f.a, "key-new", "new")
		f.want["key-1"], f.want["key-2"], f.want["key-new"] = "later", "absent", "new"
		f.Eventually(20*time.Second, "b follows", func() error {
			got, _, err := f.get(b, "key-new", maxLag(0))
			if err == nil && got != "new" {
				err = errors.New(got)
			}
			return err
		})
		f.has(b, maxLag(0))
		f.a.Kill()
		f.waitRole(b, iqv1.Role_ROLE_ACTIVE)
		f.has(b, strong())
		b.Stop()
		b = f.startB() // with its store: nothing is copied again
		f.waitRole(b, iqv1.Role_ROLE_ACTIVE)
		f.has(b, strong())
		if n := f.log.says(copiedLine); n != 1 {
			t.Errorf("the log tells of %d copies", n)
		}
	})
}

// A store that is far behind is replaced; until then it serves what it has.
func TestNodeFarBehindTakesACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.startB()
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		b.Stop()
		for i := range 2 * bootstrapWrites {
			key, value := fmt.Sprint("key-", i%bootstrapKeys), fmt.Sprint("v", i, strings.Repeat(".", 3000))
			f.cl.Produce(f.ctx, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value)}, nil)
			f.want[key] = value
			if i%500 == 0 {
				time.Sleep(200 * time.Millisecond) // so that not all of a key's writes are one record of the changelog
			}
		}
		if err := f.cl.Flush(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.settled(f.a, fmt.Sprint("key-", bootstrapKeys-1), f.want[fmt.Sprint("key-", bootstrapKeys-1)])
		f.slowFromEnd(5 * time.Second) // than the group takes
		b = f.startB()
		f.Eventually(time.Minute, "a copy", func() error {
			if f.log.says(copiedLine, "node=b") != 2 {
				return errors.New("there is none")
			}
			return nil
		})
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		f.has(b, maxLag(0))
	})
}

// What the operator has turned off, or the other node does not give, is read from the changelog.
func TestWithoutCopiesTheChangelogIsRead(t *testing.T) {
	for name, c := range map[string]struct{ a, b func(*nodeConfig) }{
		"off at b": {func(*nodeConfig) {}, func(cfg *nodeConfig) { cfg.BootstrapDistance = -1 }},
		"off at a": {func(cfg *nodeConfig) { cfg.MaxCopies = -1 }, func(cfg *nodeConfig) { cfg.BootstrapDistance = 1000 }},
		"not far":  {func(*nodeConfig) {}, func(*nodeConfig) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBootstrapFixture(t, c.a)
				defer f.close()
				b := f.StartNode("b", c.b)
				f.waitRole(b, iqv1.Role_ROLE_STANDBY)
				f.has(b, maxLag(0))
				if n := f.log.says(copiedLine); n != 0 {
					t.Errorf("the log tells of %d copies", n)
				}
			})
		})
	}
}

// The node that a copy comes from dies in the middle of it: the changelog has everything.
func TestSourceKilledInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.midCopy()
		f.a.Kill()
		f.waitRole(b, iqv1.Role_ROLE_ACTIVE)
		f.has(b, strong())
		f.noLeftovers()
		if f.log.says("cannot copy a store from another node", "node=b") != 1 || f.log.says(copiedLine) != 0 {
			t.Error("the log does not tell of a copy that failed")
		}
	})
}

// The node that a copy comes from falls silent in the middle of it, for this node alone.
func TestSourceSilentInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.midCopy()
		f.Link("a", "b").Freeze()
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		f.has(b, maxLag(0))
		f.noLeftovers()
		if f.log.says("cannot copy a store from another node", "nothing came for") != 1 {
			t.Error("the log does not tell of a copy that failed")
		}
		f.expect(f.a, strong(), "key-1", f.want["key-1"])
		f.Link("a", "b").Thaw()
	})
}

// The node that takes a copy dies in the middle of it. What it had is thrown away at its next start.
func TestTakerKilledInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.midCopy()
		b.Kill()
		left := filepath.Join(f.dirB, "incoming", "table", "0", "db")
		if err := os.MkdirAll(left, 0o700); err != nil { // as SIGKILL would have it
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, "000001.sst"), []byte("half a table"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.Link("a", "b").Slow(0)
		b = f.startB()
		f.waitRole(b, iqv1.Role_ROLE_STANDBY)
		f.has(b, maxLag(0))
		f.noLeftovers()
	})
}

// The changelog is made anew in the middle of a copy: nothing of the old one is served, although the new one has outgrown the
// copy's position.
func TestChangelogMadeAnewInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, nil)
		defer f.close()
		b := f.midCopy()
		if _, err := f.adm.DeleteTopic(f.ctx, tableChangelog); err != nil {
			t.Fatal(err)
		}
		f.createChangelog(1, nil)
		fresh := f.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer fresh.Close()
		const more = bootstrapWrites + 500
		for i := range more {
			fresh.Produce(f.ctx, &kgo.Record{Topic: tableChangelog, Key: fmt.Append(nil, "new-", i%10), Value: fmt.Append(nil, i)}, nil)
		}
		if err := fresh.Flush(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.Link("a", "b").Slow(0)
		f.waitLag(b, more, 0)
		for key := range f.want {
			f.expect(b, maxLag(0), key, "absent")
		}
		for i := range 10 {
			f.expect(b, maxLag(0), fmt.Sprint("new-", i), fmt.Sprint(more-10+i))
		}
	})
}

// A node gives copies to nodes of the application that mean the same store, so many at a time, and waits for nobody.
func TestWhoGetsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBootstrapFixture(t, func(cfg *nodeConfig) { cfg.MaxCopies = 1 })
		defer f.close()
		topics, err := f.adm.ListTopics(f.ctx, tableChangelog)
		if err != nil {
			t.Fatal(err)
		}
		topicID := topics[tableChangelog].ID
		ask := func(edit func(*iqv1.CopyRequest)) (iqv1.SnapshotService_CopyClient, error) {
			cc := f.Conn(f.a.Address)
			t.Cleanup(func() { _ = cc.Close() })
			req := &iqv1.CopyRequest{Node: "a", Generation: 1, Format: store.SnapshotFormat, Identity: &iqv1.SnapshotIdentity{
				Application: "app", Store: "table", Changelog: tableChangelog, TopicId: topicID[:], Kind: "key-value",
				WindowSize: durationpb.New(0), Retention: durationpb.New(0),
			}}
			if edit != nil {
				edit(req)
			}
			in, err := iqv1.NewSnapshotServiceClient(cc).Copy(f.ctx, req)
			if err != nil {
				return nil, err
			}
			_, err = in.Recv()
			return in, err
		}
		for name, c := range map[string]struct {
			edit func(*iqv1.CopyRequest)
			want error
		}{
			"a stranger":             {func(r *iqv1.CopyRequest) { r.Node = "x"; r.Generation = 0 }, iqerr.ErrInvalid},
			"one that knows more":    {func(r *iqv1.CopyRequest) { r.Node = "x"; r.Generation = 1 << 40 }, iqerr.ErrNotReady},
			"another format":         {func(r *iqv1.CopyRequest) { r.Format++ }, iqerr.ErrInvalid},
			"another store":          {func(r *iqv1.CopyRequest) { r.Identity.Store = "other" }, iqerr.ErrNotHosted},
			"another partition":      {func(r *iqv1.CopyRequest) { r.Identity.Partition = 1 }, iqerr.ErrNotHosted},
			"another application":    {func(r *iqv1.CopyRequest) { r.Identity.Application = "b" }, iqerr.ErrInvalid},
			"another topic":          {func(r *iqv1.CopyRequest) { r.Identity.Changelog = "b" }, iqerr.ErrInvalid},
			"a topic made anew":      {func(r *iqv1.CopyRequest) { r.Identity.TopicId = bytes.Repeat([]byte{1}, 16) }, iqerr.ErrInvalid},
			"a topic without an id":  {func(r *iqv1.CopyRequest) { r.Identity.TopicId = nil }, iqerr.ErrInvalid},
			"another kind":           {func(r *iqv1.CopyRequest) { r.Identity.Kind = "window" }, iqerr.ErrInvalid},
			"another retention":      {func(r *iqv1.CopyRequest) { r.Identity.Retention = durationpb.New(1) }, iqerr.ErrInvalid},
			"another size of window": {func(r *iqv1.CopyRequest) { r.Identity.WindowSize = durationpb.New(1) }, iqerr.ErrInvalid},
		} {
			if _, err := ask(c.edit); !errors.Is(iqerr.FromStatus(err), c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		stuck, err := ask(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(nil); !errors.Is(iqerr.FromStatus(err), iqerr.ErrOverloaded) {
			t.Errorf("the second at a time: %v", err)
		}
		f.settledInput("key-1", "while somebody is stuck")
		time.Sleep(15 * time.Second) // it took nothing
		whole, err := ask(nil)
		if err != nil {
			t.Fatalf("after the stuck one was cut off: %v", err)
		}
		for {
			part, err := whole.Recv()
			if err != nil {
				t.Fatalf("a copy ended without its sum: %v", err)
			}
			if sum := part.GetSum(); sum != nil {
				if sum.GetEntries() != bootstrapKeys {
					t.Errorf("%d entries", sum.GetEntries())
				}
				break
			}
		}
		for err = error(nil); err == nil; {
			_, err = stuck.Recv()
		}
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrSlowReader) {
			t.Errorf("who took nothing was told %v", err)
		}
	})
}

// settledInput writes a record and waits until it is counted at a.
func (f *bootstrapFixture) settledInput(key, value string) {
	f.t.Helper()
	f.write(f.cl, "in", key, value)
	f.settled(f.a, key, value)
}
