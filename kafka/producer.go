package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/metadata"
)

// TransactionalID is the transactional id of a node's worker. Whoever takes over the node's tasks fences it.
func TransactionalID(application string, node metadata.NodeID, worker int) string {
	return fmt.Sprintf("%s-%s-%d", application, node, worker)
}

// A Producer is one transactional client. After any failure it is closed and a new one made, whose initialisation ends
// whatever transaction the old one left and makes the broker refuse what of it is still on the way.
type Producer struct {
	cl *kgo.Client

	inTxn    bool        // a transaction has begun
	produced atomic.Bool // something was produced in it; without that the broker knows of no transaction

	mu struct {
		sync.Mutex
		failed *ProduceError
	}
}

// A ProduceError is the first record of a transaction that Kafka did not take.
type ProduceError struct {
	Task      metadata.TaskID
	Topic     string
	Partition int32
	Key       []byte
	Bytes     int // of key and value
	Err       error
}

// Error names the task, the partition and the record.
func (e *ProduceError) Error() string {
	return fmt.Sprintf("task %s: produce to %s-%d: record with key %x of %d bytes: %v", e.Task, e.Topic, e.Partition, abbreviate(e.Key), e.Bytes, e.Err)
}

// Unwrap is why Kafka did not take the record.
func (e *ProduceError) Unwrap() error { return e.Err }

// Poison says that trying the same record again gives the same error.
func (e *ProduceError) Poison() bool {
	return errors.Is(e.Err, kerr.MessageTooLarge) || errors.Is(e.Err, kerr.InvalidRecord) || errors.Is(e.Err, kerr.RecordListTooLarge)
}

// abbreviate cuts a key for messages.
func abbreviate(key []byte) []byte {
	const shown = 16
	return key[:min(len(key), shown)]
}

// A ProducerConfig says how a transactional client is made.
type ProducerConfig struct {
	Options            []kgo.Opt     // of the client, see Options
	TransactionalID    string        // see TransactionalID
	TransactionTimeout time.Duration // after how long Kafka aborts a transaction of a client that went silent
	Limits             BatchLimits   // of the topics that are written
}

// NewProducer makes the client and initialises its transactional id, which aborts or completes what an earlier process or
// client left open.
func NewProducer(ctx context.Context, cfg ProducerConfig) (*Producer, error) {
	cl, err := kgo.NewClient(slices.Concat(cfg.Options, []kgo.Opt{
		kgo.TransactionalID(cfg.TransactionalID),
		kgo.TransactionTimeout(cfg.TransactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// No RecordDeliveryTimeout: the client counts it from the record's timestamp, and event times are old.
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return cfg.Limits.of(topic) }),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.ProducerLinger(producerLinger),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxProduceRequestsInflightPerBroker(1),
	})...)
	if err != nil {
		return nil, fmt.Errorf("make the producer: %w", err)
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("initialise the producer: %w", err)
	}
	return &Producer{cl: cl}, nil
}

const (
	// maxBufferedRecords bounds the records on their way to Kafka.
	maxBufferedRecords = 100_000
	// producerLinger is how long a batch that is not full waits for more. Nobody sees a record before its transaction ends,
	// which begins with a Flush that waits for nothing; without a pause the first record of a transaction would travel
	// alone, and all others wait for its return.
	producerLinger = time.Second
)

// InTxn says whether a transaction has begun and End was not called.
func (p *Producer) InTxn() bool { return p.inTxn }

// Produced says whether anything was produced since the transaction began. Without it the broker knows of no transaction.
func (p *Producer) Produced() bool { return p.produced.Load() }

// Begin starts a transaction unless one has begun.
func (p *Producer) Begin() error {
	if p.inTxn {
		return nil
	}
	if err := p.cl.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	p.inTxn = true
	p.produced.Store(false)
	return nil
}

// Produce sends a record in the transaction; done is of Outcome. Several goroutines may produce at a time. The record must
// not be written to until Flush has returned.
func (p *Producer) Produce(ctx context.Context, rec *kgo.Record, done func(*kgo.Record, error)) {
	p.produced.Store(true)
	p.cl.Produce(ctx, rec, done)
}

// Outcome is what Produce tells how its record fared, one for all records of a task. placed, when given, learns the offset of
// each record that Kafka took; it is called by one goroutine at a time and never after Flush has returned.
func (p *Producer) Outcome(task metadata.TaskID, placed func(offset int64)) func(*kgo.Record, error) {
	return func(rec *kgo.Record, err error) {
		if err == nil {
			if placed != nil {
				placed(rec.Offset)
			}
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.failed == nil {
			p.mu.failed = &ProduceError{Task: task, Topic: rec.Topic, Partition: rec.Partition, Key: rec.Key, Bytes: len(rec.Key) + len(rec.Value), Err: err}
		}
	}
}

// Flush waits until Kafka has answered for each record, and says which failed first. The client would commit what
// succeeded although one record failed, so nobody may end a transaction without asking here.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.failed != nil && !fault.PromiseUnchecked {
		return p.mu.failed
	}
	return nil
}

// CommitOffsets adds commits of input offsets to the transaction in the name of by, with requests of cl.
func (p *Producer) CommitOffsets(ctx context.Context, cl *kgo.Client, by Committer, commits map[metadata.TopicPartition]Commit) error {
	pid, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id: %w", err)
	}
	txn := p.cl.OptValue(kgo.TransactionalID).(string) //nolint:forcetypeassert // set in NewProducer
	err = retry(ctx, func() error {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = txn, pid, epoch, by.Group
		resp, err := add.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("add the group to the transaction: %w", err)
	}
	err = retry(ctx, func() error {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = txn, by.Group, pid, epoch
		req.Generation, req.MemberID, req.InstanceID = by.Generation, by.MemberID, &by.Instance
		for topic, partitions := range byTopic(sortedCommits(commits)) {
			rt := kmsg.NewTxnOffsetCommitRequestTopic()
			rt.Topic = topic
			for _, p := range partitions {
				rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				c := commits[metadata.TopicPartition{Topic: topic, Partition: p}]
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, c.Offset, -1, &c.Metadata
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, rp := range t.Partitions {
				if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add offsets to the transaction: %w", err)
	}
	return nil
}

// End commits the transaction. Any error means that the outcome is not known.
func (p *Producer) End(ctx context.Context) error {
	p.inTxn = false
	if err := p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("end the transaction: %w", err)
	}
	return nil
}

// Close ends the client without waiting for what is on its way; a new client's initialisation aborts it.
func (p *Producer) Close() {
	p.cl.UnsafeAbortBufferedRecords()
	p.cl.Close()
}

// Fence initialises a transactional id: its open transaction is aborted, or completed if its end was decided, and whoever
// held the id before is refused by the broker from then on.
func Fence(ctx context.Context, cl *kgo.Client, transactionalID string, timeout time.Duration) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &transactionalID
	req.TransactionTimeoutMillis = int32(timeout / time.Millisecond)
	req.ProducerID, req.ProducerEpoch = -1, -1
	for tries := 1; ; tries++ {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, kerr.ConcurrentTransactions) && !kerr.IsRetriable(err):
			return fmt.Errorf("fence %s: %w", transactionalID, err)
		case !Sleep(ctx, Backoff(tries)):
			return ctx.Err()
		}
	}
}
