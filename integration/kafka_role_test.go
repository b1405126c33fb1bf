//go:build kafka

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// An active that was stopped until another one had replaced it never answers as active with what it had: not the reads
// that reached it while it was stopped, and none after. It comes back as the standby.
func TestS13PausedNodeNeverAnswersAsActive(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	active, standby := a.pair()
	a.write(a.kafka, "in", "k", "v0")
	active.becomes(client.Strong(), "k", "v0")
	for round := 1; round <= 2; round++ {
		value := fmt.Sprintf("v%d", round)
		if err := active.Pause(); err != nil {
			t.Fatal(err)
		}
		// Reads that wait in the stopped node's sockets are the first thing that it does when it goes on.
		queued, stop := a.readAsActive(active, value)
		a.write(a.kafka, "in", "k", value)
		standby.becomes(client.Strong(), "k", value)
		if err := active.Continue(); err != nil {
			t.Fatal(err)
		}
		active.is(iqv1.Role_ROLE_STANDBY)
		active.becomes(client.MaxOffsetLag(0), "k", value)
		stop()
		refused, wrong := queued()
		if wrong != "" {
			t.Fatal(wrong)
		}
		if refused == 0 {
			t.Error("no read reached the node")
		}
		t.Logf("round %d: %d reads refused", round, refused)
		active, standby = standby, active
	}
}

// readAsActive reads the key "k" from a stopped node as from an active, by several callers, until stop is called. An answer
// that is not value is wrong: every read was asked after the node had been stopped, so it is judged after it goes on.
func (a *app) readAsActive(n *server, value string) (result func() (refused int, wrong string), stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		refused int
		wrong   string
		began   = time.Now()
	)
	for i := range 8 {
		wg.Go(func() {
			policy := client.Active()
			if i%2 == 0 {
				policy = client.Strong()
			}
			for ctx.Err() == nil {
				asked := time.Since(began)
				call, done := context.WithTimeout(ctx, kafkaTestTimeout)
				res, err := n.Get(call, "table", []byte("k"), policy)
				done()
				mu.Lock()
				switch {
				case errors.Is(err, iqerr.ErrNoActive):
					refused++
				case err == nil && string(res.Value) != value:
					wrong = fmt.Sprintf("%s answered %q as %s (lag %d, %s), asked %s and answered %s after it was stopped; want %q",
						n.id, res.Value, res.Role, res.OffsetLag, res.TimeLag, asked, time.Since(began), value)
				}
				mu.Unlock()
			}
		})
	}
	stop = func() { cancel(); wg.Wait() }
	a.t.Cleanup(stop)
	return func() (int, string) { return refused, wrong }, stop
}

// A source topic that gets more partitions moves keys: reads are refused with both counts, never answered with a key
// miss, and a node does not start on such a topic.
func TestS29KafkaChangedPartitionCountIsRefused(t *testing.T) {
	t.Parallel()
	a := newApp(t, tableYAML, map[string]int32{"in": 3})
	n := a.start("a")
	const keys = 12
	for i := range keys {
		a.write(a.kafka, "in", fmt.Sprintf("k%d", i), "v")
	}
	for i := range keys {
		n.becomes(client.Strong(), fmt.Sprintf("k%d", i), "v")
	}
	if _, err := a.admin.UpdatePartitions(a.ctx, 6, a.topic("in")); err != nil {
		t.Fatal(err)
	}
	a.eventually(10*time.Second, "reads are refused", func() error {
		var answered error
		for i := range keys {
			got, _, err := a.read(n.Client, fmt.Sprintf("k%d", i), client.Any())
			var changed *iqerr.PartitionsChangedError
			switch {
			case err == nil && got != "v":
				t.Fatalf("k%d is %s", i, got)
			case err == nil:
				answered = fmt.Errorf("k%d is answered", i)
			case !errors.As(err, &changed) || changed.Want != 3 || changed.Have != 6:
				t.Fatalf("k%d: %v", i, err)
			}
		}
		return answered
	})
	n.Kill()
	n.run()
	select {
	case <-n.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("a node that starts on such a topic goes on")
	}
	if n.Err() == nil {
		t.Error("a node that cannot start exits with 0")
	}
	n.logs(time.Second, "expected 6, actual 3")
}
