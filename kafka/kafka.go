package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// RequestTimeout bounds one request with its retries.
const RequestTimeout = 5 * time.Second

// Bounds of what is asked of Kafka.
const (
	retryMin           = 50 * time.Millisecond  // first pause after a failure
	retryMax           = 2 * time.Second        // longest pause between two tries
	catalogMinInterval = 100 * time.Millisecond // between two metadata requests that errors asked for
	maxRecordBytes     = 64 << 20               // the largest record written or read
)

// Options are the options of each Kafka client of the node, and more after them. The protocol is held at Kafka 3.6: from
// transaction.version 2 on the transaction's epoch would change at each end of a transaction behind the client's back, and
// offsets are committed here by requests of our own (see producer.go); and topics are named, not numbered, in every request.
func Options(brokers []string, clientID string, more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ClientID(clientID),
		kgo.MaxVersions(kversion.V3_6_0()),
		kgo.MetadataMinAge(catalogMinInterval),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return Backoff(tries) }),
		kgo.RequestRetries(20),
		kgo.WithHooks(redialer{}),
		kgo.BrokerMaxReadBytes(maxRecordBytes + 36<<20),
	}
	return append(opts, more...)
}

// Backoff is the pause before try number tries, counted from 1: it doubles from 50 ms to 2 s.
func Backoff(tries int) time.Duration {
	d := retryMin
	for range min(max(tries-1, 0), 10) {
		d *= 2
	}
	return min(d, retryMax)
}

// Sleep waits for d or until ctx ends, and says whether ctx goes on.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Poke puts a token into a channel of capacity one, unless there is one already.
func Poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// maxRetries bounds the tries of one step of a commit.
const maxRetries = 10

// retry calls f until it works, fails for good, or maxRetries are used up.
func retry(ctx context.Context, f func() error) error {
	for tries := 1; ; tries++ {
		err := f()
		if err == nil || tries == maxRetries || !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		if !Sleep(ctx, min(Backoff(tries), 200*time.Millisecond)) {
			return ctx.Err()
		}
	}
}
