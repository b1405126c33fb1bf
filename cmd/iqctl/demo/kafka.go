package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/kafkabroker"
)

// Kafka's side of the demo.
const (
	partitions     = 4 // of the input, hence of every store
	outPartitions  = 2
	kafkaPatience  = time.Minute // until it answers
	kafkaTryPause  = 500 * time.Millisecond
	kafkaTryLimit  = 3 * time.Second
	kafkaSayEvery  = 10 // tries between two lines that say what is waited for
	cleanupTimeout = 10 * time.Second
)

//go:embed flights.yaml
var flightsYAML string

// names are what the demo has in Kafka. On a Kafka of the user's they are the run's own, so that runs do not meet.
type names struct {
	application, input, output string
}

func namesFor(kafka string, now time.Time) names {
	n := names{application: "flights", input: "flights", output: "by-dest-changes"}
	if kafka != kafkaEmbedded && kafka != kafkaReal {
		prefix := "iqgate-demo-" + strconv.FormatInt(now.UnixMilli(), 36)
		n = names{application: prefix, input: prefix + "-" + n.input, output: prefix + "-" + n.output}
	}
	return n
}

// yaml is the topology with these names.
func (n names) yaml() string {
	return strings.NewReplacer(
		"application: flights", "application: "+n.application,
		"topic: flights", "topic: "+n.input,
		"source: flights", "source: "+n.input,
		"output: by-dest-changes", "output: "+n.output,
	).Replace(flightsYAML)
}

// startKafka starts a Kafka or waits for the user's, and makes the topics.
func (r *run) startKafka(ctx context.Context) error {
	switch r.o.Kafka {
	case kafkaEmbedded:
		c, err := spawn(r.dir, "kafka", "demo", "broker")
		if err != nil {
			return err
		}
		r.fleet.add(c)
		if r.brokers, err = c.listens(ctx); err != nil {
			return err
		}
		r.screen.event("embedded Kafka at " + r.brokers)
	case kafkaReal:
		r.screen.event("starting a real Kafka; the first time its jars are downloaded with Maven")
		b, err := kafkabroker.Start(ctx, kafkabroker.Options{Dir: filepath.Join(r.dir, "kafka")})
		if err != nil {
			return err
		}
		r.broker, r.brokers = b, b.Addr()
		go func() {
			<-b.Done()
			if !r.ending.Load() {
				r.fleet.tell(errors.New("apache kafka ended unasked; see " + filepath.Join(r.dir, "kafka", "kafka.log")))
			}
		}()
		r.screen.event("Apache Kafka at " + r.brokers)
	default:
		r.brokers = r.o.Kafka
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(r.brokers, ",")...), kgo.ClientID("iqctl-demo"),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return fmt.Errorf("kafka at %s: %w", r.brokers, err)
	}
	r.kafka, r.admin = cl, kadm.NewClient(cl)
	if err := r.awaitKafka(ctx); err != nil {
		return err
	}
	r.created = true
	for topic, n := range map[string]int32{r.names.input: partitions, r.names.output: outPartitions} {
		if _, err := r.admin.CreateTopic(ctx, n, -1, nil, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

// awaitKafka waits until Kafka answers, and says so.
func (r *run) awaitKafka(ctx context.Context) error {
	deadline := time.NewTimer(kafkaPatience)
	defer deadline.Stop()
	for tries := 0; ; tries++ {
		tctx, cancel := context.WithTimeout(ctx, kafkaTryLimit)
		err := r.kafka.Ping(tctx)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if tries%kafkaSayEvery == 0 {
			r.screen.event(fmt.Sprintf("waiting for Kafka at %s: %v", r.brokers, err))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("kafka at %s does not answer after %s: %w", r.brokers, kafkaPatience, err)
		case <-time.After(kafkaTryPause):
		}
	}
}

// processedSoFar is how many flights have been taken into a committed transaction.
func (r *run) processedSoFar(ctx context.Context) (int64, error) {
	offsets, err := r.admin.FetchOffsetsForTopics(ctx, r.names.application, r.names.input)
	if err != nil {
		return 0, err
	}
	var n int64
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == r.names.input && o.At > 0 {
			n += o.At
		}
	})
	return n, offsets.Error()
}

// cleanKafka deletes what the run has made in a Kafka of the user's.
func (r *run) cleanKafka(ctx context.Context) error {
	if !r.created || r.o.Kafka == kafkaEmbedded || r.o.Kafka == kafkaReal {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	topics, err := r.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("delete the demo's topics: %w", err)
	}
	var errs []error
	for _, topic := range topics.Names() {
		if strings.HasPrefix(topic, r.names.application+"-") {
			_, err := r.admin.DeleteTopic(ctx, topic)
			errs = append(errs, err)
		}
	}
	_, err = r.admin.DeleteGroup(ctx, r.names.application)
	return errors.Join(append(errs, err)...)
}
