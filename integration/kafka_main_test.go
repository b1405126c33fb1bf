//go:build kafka

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/iqgate/iqgate/integration/kafkabroker"
	"github.com/iqgate/iqgate/integration/process"
)

// kafkaTestTimeout bounds one test against the real broker.
const kafkaTestTimeout = 3 * time.Minute

// shared is what all tests against a real Kafka use: one broker, and the programs, each built at its first use. A test that
// kills the broker starts it again and does not call t.Parallel: those that do wait until all others have ended.
var shared struct {
	sync.Mutex
	dir      string
	broker   *kafkabroker.Broker
	programs map[string]string // path by name
}

// brokerProperties make the broker quick where a test would have to wait for it.
var brokerProperties = map[string]string{
	"log.cleaner.backoff.ms": "200",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}

func TestMain(m *testing.M) {
	os.Exit(runKafkaTests(m))
}

func runKafkaTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "iqgate-kafka-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nobody reads it any more
	shared.dir, shared.programs = dir, make(map[string]string)
	code := m.Run()
	if shared.broker != nil {
		shared.broker.Kill()
	}
	return code
}

// startBroker makes sure that the broker runs. It skips the test where no Kafka can run, or fails it when KAFKA_REQUIRED=1.
func startBroker(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := kafkabroker.Find(ctx); err != nil {
		if os.Getenv("KAFKA_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.broker == nil {
		b, err := kafkabroker.Start(ctx, kafkabroker.Options{Dir: filepath.Join(shared.dir, "kafka"), Properties: brokerProperties})
		if err != nil {
			t.Fatal(err)
		}
		shared.broker = b
		return
	}
	select {
	case <-shared.broker.Done(): // a test that killed it failed before it could start it again
		restartBroker(ctx, t)
	default:
	}
}

func restartBroker(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := shared.broker.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// program is the path of a program of this module.
func program(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if path, ok := shared.programs[name]; ok {
		return path
	}
	path, err := process.Build(ctx, shared.dir, name)
	if err != nil {
		t.Fatal(err)
	}
	shared.programs[name] = path
	return path
}
