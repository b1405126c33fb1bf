//go:build kafka

package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
)

// A node and a router that are started before there is a broker say what they wait for, answer reads with that they are
// not ready, and come up by themselves when the broker is there; then the topics are waited for in the same way.
func TestKafkaBrokerAndTopicsMayComeLater(t *testing.T) {
	a := newApp(t, tableYAML, nil)
	shared.broker.Kill()
	r := a.startRouter("r")
	n := a.start("a")
	n.logs(20*time.Second, "waiting for Kafka")
	n.logs(0, "brokers="+shared.broker.Addr())
	for _, s := range []*server{n, r} {
		a.eventually(10*time.Second, s.id+" answers", func() error {
			_, _, err := a.read(s.Client, "k", client.Any())
			if !errors.Is(err, iqerr.ErrNotReady) && !errors.Is(err, iqerr.ErrStoreUnknown) {
				return fmt.Errorf("a read gives %w", err)
			}
			return nil
		})
	}
	restartBroker(a.ctx, t)
	n.logs(20*time.Second, "waiting for topics that do not exist")
	n.logs(0, "topics="+a.topic("in"))
	if !n.Alive() || !r.Alive() {
		t.Fatalf("alive: node %v, router %v", n.Alive(), r.Alive())
	}
	a.createTopic("in", 1, nil)
	a.write(a.kafka, "in", "k", "v")
	for _, s := range []*server{n, r} {
		s.becomes(client.Strong(), "k", "v")
	}
}

// A broker that dies and comes back is waited for: nothing is lost or doubled, "any" is served all the while, and a bound
// that cannot be kept is refused, not ignored.
func TestKafkaBrokerRestartsUnderLoad(t *testing.T) {
	a := sumsApp(t)
	nodes := []*server{a.start("a"), a.start("b")}
	f := a.startFeed(20 * time.Millisecond)
	for _, n := range nodes {
		a.hasAll(n.Client, client.MaxStaleness(time.Second))
	}
	reads := a.newReaders()
	for _, n := range nodes {
		reads.read("any at "+n.id, n.Client, client.Any())
	}
	const bound = time.Second
	shared.broker.Kill()
	for _, n := range nodes {
		a.eventually(10*time.Second, n.id+" refuses what it cannot promise", func() error {
			_, err := a.number(n.Client, "counts", "g1", client.MaxStaleness(bound))
			if err == nil {
				return errors.New("it answers")
			}
			if !errors.Is(err, iqerr.ErrStale) {
				t.Errorf("node %s with the broker down: %v", n.id, err)
			}
			return nil
		})
		for name, policy := range map[string]client.ReadOption{"strong": client.Strong(), "active": client.Active()} {
			if _, err := a.number(n.Client, "counts", "g1", policy); !errors.Is(err, iqerr.ErrNoActive) {
				t.Errorf("%s read at %s with the broker down: %v", name, n.id, err)
			}
		}
		if !n.Alive() {
			t.Fatalf("node %s ended: %v", n.id, n.Err())
		}
	}
	began := time.Now()
	restartBroker(a.ctx, t)
	t.Logf("the broker is back after %s", time.Since(began))
	began = time.Now()
	for _, n := range nodes {
		a.eventually(time.Minute, n.id+" is fresh again", func() error {
			_, err := a.number(n.Client, "counts", "g1", client.MaxStaleness(bound))
			return err
		})
	}
	t.Logf("all nodes are fresh %s after the broker's return", time.Since(began))
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	reads.stop()
	began = time.Now()
	a.exact(f, time.Minute)
	t.Logf("exact after another %s", time.Since(began))
}
