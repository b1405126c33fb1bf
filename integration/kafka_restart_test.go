//go:build kafka

package integration

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/process"
)

// A node that is started again within the session timeout and tells the group something else than before runs its tasks.
// Kafka takes a static member back with the assignment that it had, whatever it tells; the node found nothing in it for
// a process of its incarnation and waited for ever. (kfake compares what it tells, so only this test shows it.)
func TestS37KafkaRestartThatTellsSomethingNewIsGivenItsTasks(t *testing.T) {
	for name, change := range map[string]func(a *app, n *server){
		"nothing": func(*app, *server) {},
		"state directory": func(a *app, n *server) {
			if err := os.RemoveAll(filepath.Join(a.dir, n.id)); err != nil {
				t.Fatal(err)
			}
		},
		"address": func(a *app, n *server) {
			address, err := process.Address()
			if err != nil {
				t.Fatal(err)
			}
			n.address, n.Client = address, a.ask(address)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, tableYAML, map[string]int32{"in": 1})
			n := a.start("a")
			a.write(a.kafka, "in", "k", "v")
			n.becomes(client.Strong(), "k", "v")
			a.pause(2 * time.Second)
			n.Kill()
			change(a, n)
			began := time.Now()
			n.run()
			n.becomes(client.Strong(), "k", "v")
			t.Logf("active after %s", time.Since(began))
		})
	}
}

// A node ends within its bounds while the broker is silent.
func TestKafkaStopWhileTheBrokerIsSilent(t *testing.T) {
	a := newApp(t, tableYAML, map[string]int32{"in": 1})
	n := a.start("a")
	a.write(a.kafka, "in", "k", "v")
	n.becomes(client.Strong(), "k", "v")
	if err := syscall.Kill(shared.broker.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(shared.broker.PID(), syscall.SIGCONT) }()
	a.pause(3 * time.Second)
	began := time.Now()
	if err := syscall.Kill(n.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Done():
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s to end", took)
		}
	case <-time.After(90 * time.Second):
		t.Error("it does not end")
	}
}
