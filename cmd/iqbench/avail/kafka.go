package avail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/cmd/internal/embedded"
	"github.com/iqgate/iqgate/integration/kafkabroker"
	"github.com/iqgate/iqgate/integration/process"
)

const (
	topicTimeout = 30 * time.Second
	// maxBuffered bounds the records that wait for a broker that is away. Two minutes at the default rate.
	maxBuffered = 1 << 18
	linger      = 5 * time.Millisecond
)

// broker is the Kafka of a run, whichever it is.
type broker interface {
	PID() int
	Done() <-chan struct{}
	Kill()
}

// startKafka starts the Kafka and makes the input topic.
func (r *run) startKafka(ctx context.Context) error {
	var err error
	if r.o.Kafka == kafkaReal {
		r.say("starting a real Kafka; the first time its jars are downloaded with Maven")
		err = r.startReal(ctx)
	} else {
		err = r.startEmbedded(ctx)
	}
	if err != nil {
		return err
	}
	r.watchBroker()
	r.kafka, err = kgo.NewClient(
		kgo.SeedBrokers(r.brokers), kgo.ClientID("iqbench"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(maxBuffered),
	)
	if err != nil {
		return fmt.Errorf("kafka at %s: %w", r.brokers, err)
	}
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	if _, err := kadm.NewClient(r.kafka).CreateTopic(ctx, int32(r.o.Partitions), 1, nil, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	if r.scenario != scenarioMixed {
		return nil
	}
	if _, err := kadm.NewClient(r.kafka).CreateTopic(ctx, int32(r.o.Partitions), 1, nil, sideTopic); err != nil {
		return fmt.Errorf("create topic %s: %w", sideTopic, err)
	}
	return nil
}

func (r *run) startReal(ctx context.Context) error {
	b, err := kafkabroker.Start(ctx, kafkabroker.Options{Dir: r.file("kafka")})
	if err != nil {
		return err
	}
	r.broker, r.real, r.brokers = b, b, b.Addr()
	return nil
}

func (r *run) startEmbedded(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	p, err := process.Start(process.Spec{Path: self, Args: []string{"avail", "broker"}, Log: r.file("kafka.log")})
	if err != nil {
		return err
	}
	r.broker = p
	ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, fmt.Errorf("the embedded Kafka does not listen after %s", listenTimeout))
	defer cancel()
	for p.Alive() {
		log, err := p.Log()
		if err != nil {
			return err
		}
		for line := range strings.Lines(log) {
			if _, address, ok := strings.Cut(strings.TrimSuffix(line, "\n"), embedded.Listening); ok && strings.HasSuffix(line, "\n") {
				r.brokers = address
				return nil
			}
		}
		if !sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("the embedded Kafka ended: %w", orExited(p.Err()))
}

// watchBroker tells of an end of the broker that was not wanted.
func (r *run) watchBroker() {
	done := r.broker.Done()
	go func() {
		<-done
		if !r.brokerEnds.Load() {
			select {
			case r.died <- errors.New("kafka ended unasked"):
			default:
			}
		}
	}()
}

// brokerLog is where the broker's log is.
func (r *run) brokerLog() string {
	if r.real != nil {
		return filepath.Join(r.file("kafka"), "kafka.log")
	}
	return r.file("kafka.log")
}

// brokerAway takes the broker away and returns when it does nothing any more; back brings it back.
func (r *run) brokerAway() (back func(context.Context) error, err error) {
	if r.o.BrokerAway == awayKill {
		r.brokerEnds.Store(true)
		r.broker.Kill()
		return func(ctx context.Context) error {
			if err := r.real.Restart(ctx); err != nil {
				return err
			}
			r.brokerEnds.Store(false)
			r.watchBroker()
			return nil
		}, nil
	}
	pid := r.broker.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop kafka: %w", err)
	}
	return func(context.Context) error { return syscall.Kill(pid, syscall.SIGCONT) }, nil
}
