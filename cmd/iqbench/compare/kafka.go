package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/cmd/internal/embedded"
	"github.com/iqgate/iqgate/cmd/internal/human"
	"github.com/iqgate/iqgate/integration/kafkabroker"
	"github.com/iqgate/iqgate/integration/process"
)

const (
	events       = "events" // the input of everything but the flow
	askTimeout   = 5 * time.Second
	writeTimeout = 5 * time.Minute
	linger       = 5 * time.Millisecond
	// maxBuffered bounds the records that wait for Kafka.
	maxBuffered = 100_000
	brokerHeap  = "1g"
	// trickleRate is the input, a second, while a process is killed.
	trickleRate = 2000
	feedTick    = 5 * time.Millisecond
)

// broker is the Kafka of a run, whichever it is.
type broker interface{ Kill() }

// startKafka starts the Kafka and connects to it.
func (r *run) startKafka(ctx context.Context) error {
	var err error
	if r.o.Kafka == kafkaReal {
		r.say("starting a real Kafka; the first time its jars are downloaded with Maven")
		var b *kafkabroker.Broker
		if b, err = kafkabroker.Start(ctx, kafkabroker.Options{Dir: r.file("kafka"), Heap: brokerHeap, JVMFlags: kafkabroker.Server()}); err == nil {
			r.broker, r.brokers = b, b.Addr()
		}
	} else {
		err = r.startEmbedded(ctx)
	}
	if err != nil {
		return err
	}
	r.kafka, err = kgo.NewClient(
		kgo.SeedBrokers(r.brokers), kgo.ClientID("iqbench"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(maxBuffered),
	)
	if err != nil {
		return fmt.Errorf("kafka at %s: %w", r.brokers, err)
	}
	r.admin = kadm.NewClient(r.kafka)
	return nil
}

func (r *run) startEmbedded(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	p, err := process.Start(process.Spec{Path: self, Args: []string{"compare", "broker"}, Log: r.file("kafka.log")})
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
	return errors.New("the embedded Kafka ended: " + logTail(r.file("kafka.log")))
}

// createTopic makes an input.
func (r *run) createTopic(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := r.admin.CreateTopic(ctx, int32(r.size.partitions), 1, nil, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// writeEvents writes the input: every key once, then keys at random.
func (r *run) writeEvents(ctx context.Context) error {
	if err := r.createTopic(ctx, events); err != nil {
		return err
	}
	r.say(fmt.Sprintf("writing %s records over %s keys", human.Thousands(int64(r.size.records)), human.Thousands(int64(r.size.keys))))
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, fmt.Errorf("the input is not written after %s", writeTimeout))
	defer cancel()
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // the same input in each run
	value := make([]byte, r.size.valueBytes)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	var failed atomic.Pointer[error]
	for i := range r.size.records {
		key := i
		if i >= r.size.keys {
			key = random.IntN(r.size.keys)
		}
		r.kafka.Produce(ctx, &kgo.Record{Topic: events, Key: []byte(r.keys[key]), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := r.kafka.Flush(ctx); err != nil {
		return fmt.Errorf("write the input: %w", context.Cause(ctx))
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("write the input: %w", *err)
	}
	return nil
}

// feed writes records at a rate, in rounds of the clock, until ctx ends. next gives the n-th record; done hears of each.
func (r *run) feed(ctx context.Context, rate int, next func(n int) *kgo.Record, done func(n int, err error)) {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	begin, sent := time.Now(), 0
	for {
		for due := int(time.Since(begin).Seconds() * float64(rate)); sent < due; sent++ {
			n := sent
			r.kafka.TryProduce(context.WithoutCancel(ctx), next(n), func(_ *kgo.Record, err error) { done(n, err) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// trickle feeds a little into the input until stop is called.
func (r *run) trickle(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	value := make([]byte, r.size.valueBytes)
	go func() {
		defer close(ended)
		r.feed(ctx, trickleRate, func(n int) *kgo.Record {
			return &kgo.Record{Topic: events, Key: []byte(r.keys[n%len(r.keys)]), Value: value}
		}, func(int, error) {})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// records is how many a topic's partitions hold, by their ends.
func (r *run) records(ctx context.Context, topic string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the end of %s: %w", topic, err)
	}
	var sum int64
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}

// committed is how many records of the input a group has committed; 0 while nobody can tell.
func (r *run) committed(ctx context.Context, group, topic string) int64 {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	offsets, err := r.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0
	}
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.Topic == topic {
			sum += max(0, o.At)
		}
	})
	return sum
}
