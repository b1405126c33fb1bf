//go:build kafka

package integration

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Two nodes with one id: the later one is in the group, the earlier one is fenced, answers nothing as active from then on and
// ends, saying why. It does not stay as a silent process.
func TestS37KafkaLaterNodeWithTheSameIDReplacesTheEarlier(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	first := a.start("a")
	a.write(a.kafka, "in", "k", "v1")
	first.becomes(client.Strong(), "k", "v1")
	second := a.start("other")
	second.Kill()
	second.replaceArguments("--node-id", "a")
	a.write(a.kafka, "in", "k", "v2")
	second.becomes(client.Strong(), "k", "v2")
	if got, _, err := a.read(first.Client, "k", client.Active()); err == nil && got != "v2" {
		t.Errorf("the earlier one answers as active with %q", got)
	}
	select {
	case <-first.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the earlier one does not end")
	}
	if err := first.Err(); err == nil {
		t.Error("the earlier one ended as if all were well")
	}
	first.logs(time.Second, "another process")
	second.becomes(client.Strong(), "k", "v2")
}

// replaceArguments runs the server again with the value of a flag replaced.
func (s *server) replaceArguments(flag, value string) {
	s.app.t.Helper()
	args := slices.Clone(s.arguments())
	args[slices.Index(args, flag)+1] = value
	p, err := process.Start(process.Spec{Path: program(s.app.ctx, s.app.t, s.program), Args: args, Log: filepath.Join(s.app.dir, s.id+".log")})
	if err != nil {
		s.app.t.Fatal(err)
	}
	s.Process = p
}

// A stopped active costs a tolerant read through a router its own deadline at most, and later reads nothing: it is asked no more
// until it is back, which is soon noticed.
func TestS30KafkaStoppedNodeSlowsNoSecondRead(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	router := a.startRouter("r")
	active, standby := a.pair()
	a.write(a.kafka, "in", "k", "v")
	active.becomes(client.Strong(), "k", "v")
	standby.becomes(client.MaxOffsetLag(0), "k", "v")
	router.becomes(client.MaxStaleness(5*time.Second), "k", "v")
	timed := func() time.Duration {
		begun := time.Now()
		if got, _, err := a.read(router.Client, "k", client.MaxStaleness(time.Minute)); err != nil || got != "v" {
			t.Errorf("a read gives %q, %v", got, err)
		}
		return time.Since(begun)
	}
	p99 := func() time.Duration {
		var all []time.Duration
		for range 300 {
			all = append(all, timed())
			a.pause(5 * time.Millisecond)
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	before := p99() // what this machine gives
	if err := active.Pause(); err != nil {
		t.Fatal(err)
	}
	if first := timed(); first > 2*time.Second {
		t.Errorf("the first read took %s", first)
	}
	a.pause(time.Second) // suspect after 400 ms
	after := p99()
	t.Logf("p99 was %s and is %s", before, after)
	if limit := max(100*time.Millisecond, 3*before); after > limit {
		t.Errorf("p99 is %s, want at most %s", after, limit)
	}
	if err := active.Continue(); err != nil {
		t.Fatal(err)
	}
	a.eventually(10*time.Second, "the stopped one is back in rotation", func() error {
		instances, err := router.Instances(a.ctx, "")
		for _, in := range instances {
			if in.GetNode() == active.id && in.GetAlive() && !in.GetSuspect() {
				return nil
			}
		}
		if err == nil {
			err = errNotBack
		}
		return err
	})
	active.is(iqv1.Role_ROLE_STANDBY)
}
