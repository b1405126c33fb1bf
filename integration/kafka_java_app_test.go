//go:build kafka && java

package integration

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/javaapp"
	"github.com/iqgate/iqgate/integration/process"
)

// followYAML follows every store of the Java application. What no topic tells is the windows' size; the inputs are named
// because the application reads two topics.
const followYAML = `
application: APP
replicas: 2
stores:
  - {store: counts, key_serde: string, value_serde: int64, inputs: [APP-in]}
  - {store: win, kind: window, window_size: 60s, key_serde: string, value_serde: int64, inputs: [APP-in]}
  - {store: sess, kind: session, key_serde: string, value_serde: int64, inputs: [APP-in]}
  - {store: ver, key_serde: string, value_serde: string, inputs: [APP-in]}
  - {store: plain, key_serde: string, value_serde: string, inputs: [APP-in]}
  - {store: tab, topic: APP-users, key_serde: string, value_serde: string}
`

// javaT0 is when the application's events begin, by their own time: at a full hour that has just gone, since a broker deletes what
// is older than a topic's retention by the records' own time.
var javaT0 = time.Now().Truncate(time.Hour).Add(-time.Hour).UnixMilli()

// newFollowedApp is the Java application's topics, and nodes that follow it. file is for --replica.
func newFollowedApp(t *testing.T, file string, partitions int32) *app {
	t.Helper()
	buildJava(t)
	a := newApp(t, file, map[string]int32{"in": partitions})
	a.follows = true
	a.createTopic("users", partitions, map[string]string{"cleanup.policy": "compact"})
	return a
}

// javaInstance is an instance of the Java application. It keeps its ports and its state directory over restarts.
type javaInstance struct {
	*process.Process

	app     *app
	spec    process.Spec
	address string // of iq.v1
	dumpAt  string
}

// buildJava builds the Java application, which takes a minute once on a machine and would count as a test's own time. It skips
// the test where that cannot be done, or fails it when KAFKA_REQUIRED=1.
func buildJava(t *testing.T) *javaapp.Program {
	t.Helper()
	prog, err := javaapp.Build(t.Context(), os.DirFS("../proto"))
	if err != nil {
		if os.Getenv("KAFKA_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return prog
}

// java is an instance that is not started. Options that are the instance's own are filled in.
func (a *app) java(o javaapp.Options) *javaInstance {
	a.t.Helper()
	prog := buildJava(a.t)
	j := &javaInstance{app: a}
	var err error
	if j.address, err = process.Address(); err == nil {
		j.dumpAt, err = process.Address()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	_, o.Port, _ = net.SplitHostPort(j.address)
	_, o.DumpPort, _ = net.SplitHostPort(j.dumpAt)
	o.Brokers, o.Application = shared.broker.Addr(), a.name
	o.StateDir, o.Log = filepath.Join(a.dir, "java-"+o.Port), filepath.Join(a.dir, "java-"+o.Port+".log")
	j.spec = prog.Spec(o)
	a.t.Cleanup(func() {
		if j.Process == nil {
			return
		}
		j.Kill()
		if text, err := j.Log(); a.t.Failed() {
			a.t.Logf("the log of the Java application (%v):\n%s", err, text[max(0, len(text)-4000):])
		}
	})
	return j
}

// run starts the instance and waits until it answers.
func (j *javaInstance) run() {
	j.app.t.Helper()
	p, err := process.Start(j.spec)
	if err != nil {
		j.app.t.Fatal(err)
	}
	j.Process = p
	j.app.eventually(90*time.Second, "the Java application runs", func() error {
		if !p.Alive() {
			j.app.t.Fatal("the Java application has ended")
		}
		_, err := j.lines("counts")
		return err
	})
}

// exitTerminated is how a JVM ends after SIGTERM.
const exitTerminated = 143

// stop ends the instance in order.
func (j *javaInstance) stop() {
	j.app.t.Helper()
	err := j.Stop()
	var exit interface{ ExitCode() int }
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitTerminated) {
		j.app.t.Fatalf("the Java application: %v", err)
	}
}

// lines are all that the application's own interactive queries say of a store. Sessions take it long: it asks for each key alone.
func (j *javaInstance) lines(store string) ([]string, error) {
	ctx, cancel := context.WithTimeout(j.app.ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+j.dumpAt+"/"+store, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	case len(text) == 0:
		return nil, nil
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(all)
	return all, nil
}

// caughtUp waits until the application has processed all of its inputs.
func (a *app) caughtUp(topics ...string) {
	a.t.Helper()
	a.eventually(60*time.Second, "the application has processed everything", func() error {
		for _, name := range topics {
			ends, err := a.admin.ListEndOffsets(a.ctx, a.topic(name))
			if err == nil {
				err = ends.Error()
			}
			if err != nil {
				return err
			}
			commits, err := a.admin.FetchOffsets(a.ctx, a.name)
			if err != nil {
				return err
			}
			for _, end := range ends.Offsets().Sorted() {
				if at, ok := commits.Lookup(end.Topic, end.Partition); end.At > 0 && (!ok || at.At < end.At) {
					return fmt.Errorf("%s/%d is at %d of %d", end.Topic, end.Partition, at.At, end.At)
				}
			}
		}
		return nil
	})
}

// rows are all that a router or node says of a store, at lag 0, in the words of the application's dump. Of versions that were
// deletions the application says nothing.
func (a *app) rows(from *client.Client, store string, opts ...client.ReadOption) ([]string, error) {
	ctx, cancel := context.WithTimeout(a.ctx, 60*time.Second)
	defer cancel()
	var all []string
	opts = append([]client.ReadOption{client.MaxOffsetLag(0), client.Wait(10 * time.Second)}, opts...)
	for row, err := range from.Scan(ctx, store, opts...).Rows() {
		if err != nil {
			return nil, err
		}
		if !row.Deleted {
			all = append(all, rowLine(row))
		}
	}
	slices.Sort(all)
	return all, nil
}

func rowLine(row client.Row) string {
	times := ""
	if !row.Start.IsZero() {
		end := "-"
		if !row.End.IsZero() {
			end = fmt.Sprint(row.End.UnixMilli())
		}
		times = fmt.Sprintf("%d %s ", row.Start.UnixMilli(), end)
	}
	return hex.EncodeToString(row.Key) + " " + times + "=" + hex.EncodeToString(row.Value)
}

// sameLines compares what the application and the replicas say of a store.
func sameLines(t *testing.T, what string, java, ours []string) {
	t.Helper()
	if slices.Equal(java, ours) {
		return
	}
	told := 0
	only := func(who string, a, b []string) {
		for _, line := range a {
			if _, found := slices.BinarySearch(b, line); !found && told < 10 {
				told++
				t.Errorf("%s: only %s says %s", what, who, line)
			}
		}
	}
	only("the application", java, ours)
	only("the replicas", ours, java)
	t.Errorf("%s: the application has %d lines, the replicas have %d", what, len(java), len(ours))
}

// everyVersion asks a versioned store for all that it keeps.
func everyVersion() client.ReadOption {
	return client.Times(time.UnixMilli(0), time.UnixMilli(javaT0*2))
}

// javaEvent is the i-th record of the application's input: 2,000 keys, over nine minutes of event time, some in bursts so that
// they have several sessions, some values that delete.
func javaEvent(i int, topic string) *kgo.Record {
	const keys, steps = 2000, 50
	key, step := i%keys, i/keys
	if key%3 == 0 {
		step = step / 5 * 5
	}
	value := fmt.Sprintf("v%d", i)
	if i%17 == 0 {
		value = "-" + value
	}
	ms := javaT0 + int64(step)*540_000/steps + int64(key%7)*1500 + int64(i/keys%5)*10
	return &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", key), Value: []byte(value), Timestamp: time.UnixMilli(ms)}
}
