package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/metadata"
)

// transactionalID is the transactional id of a node's worker. Whoever takes over the node's tasks fences it.
func transactionalID(application string, node metadata.NodeID, worker int) string {
	return fmt.Sprintf("%s-%s-%d", application, node, worker)
}

// A producer is one transactional client. After any failure it is closed and a new one made, whose initialisation ends
// whatever transaction the old one left and makes the broker refuse what of it is still on the way.
type producer struct {
	cl    *kgo.Client
	group string

	inTxn    bool        // a transaction has begun
	produced atomic.Bool // something was produced in it; without that the broker knows of no transaction

	mu struct {
		sync.Mutex
		failed *produceError
	}
}

// produceError is the first record of a transaction that Kafka did not take.
type produceError struct {
	task      metadata.TaskID
	topic     string
	partition int32
	key       []byte
	bytes     int
	err       error
}

func (e *produceError) Error() string {
	return fmt.Sprintf("task %s: produce to %s-%d: record with key %x of %d bytes: %v", e.task, e.topic, e.partition, abbreviate(e.key), e.bytes, e.err)
}

func (e *produceError) Unwrap() error { return e.err }

// poison says that trying the same record again gives the same error.
func (e *produceError) poison() bool {
	return errors.Is(e.err, kerr.MessageTooLarge) || errors.Is(e.err, kerr.InvalidRecord) || errors.Is(e.err, kerr.RecordListTooLarge)
}

// abbreviate cuts a key for messages.
func abbreviate(key []byte) []byte {
	const shown = 16
	return key[:min(len(key), shown)]
}

// newProducer makes the client and initialises its transactional id, which aborts or completes what an earlier process or
// client left open.
func newProducer(ctx context.Context, cfg Config, group string, limits batchLimits) (*producer, error) {
	cl, err := kgo.NewClient(cfg.baseOptions(
		kgo.TransactionalID(transactionalID(group, metadata.NodeID(cfg.NodeID), 0)),
		kgo.TransactionTimeout(cfg.TransactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// No RecordDeliveryTimeout: the client counts it from the record's timestamp, and event times are old.
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return limits.of(topic) }),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxProduceRequestsInflightPerBroker(1),
	)...)
	if err != nil {
		return nil, fmt.Errorf("make the producer: %w", err)
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("initialise the producer: %w", err)
	}
	return &producer{cl: cl, group: group}, nil
}

// maxBufferedRecords bounds the records on their way to Kafka.
const maxBufferedRecords = 100_000

// begin starts a transaction unless one has begun.
func (p *producer) begin() error {
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

// produce sends a record in the transaction. placed, when given, learns the offset it got; it is called by one goroutine
// at a time and never after flush has returned.
func (p *producer) produce(ctx context.Context, task metadata.TaskID, rec *kgo.Record, placed func(offset int64)) {
	p.produced.Store(true)
	p.cl.Produce(ctx, rec, func(rec *kgo.Record, err error) {
		if err == nil {
			if placed != nil {
				placed(rec.Offset)
			}
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.failed == nil {
			p.mu.failed = &produceError{task: task, topic: rec.Topic, partition: rec.Partition, key: rec.Key, bytes: len(rec.Key) + len(rec.Value), err: err}
		}
	})
}

// flush waits until Kafka has answered for each record, and says which failed first. The client would commit what
// succeeded although one record failed, so nobody may end a transaction without asking here.
func (p *producer) flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.failed != nil {
		return p.mu.failed
	}
	return nil
}

// commitOffsets adds the offsets to the transaction under the membership of this moment: the group refuses a member or
// generation that is not the newest (KIP-447).
func (p *producer) commitOffsets(ctx context.Context, cl *kgo.Client, id string, generation int32, instance string, offsets map[metadata.TopicPartition]int64) error {
	pid, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id: %w", err)
	}
	txn := p.cl.OptValue(kgo.TransactionalID).(string) //nolint:forcetypeassert // set in newProducer
	err = retry(ctx, func() error {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = txn, pid, epoch, p.group
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
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = txn, p.group, pid, epoch
		req.Generation, req.MemberID, req.InstanceID = generation, id, &instance
		for topic, partitions := range byTopic(metadata.Position(offsets).Sorted()) {
			rt := kmsg.NewTxnOffsetCommitRequestTopic()
			rt.Topic = topic
			for _, p := range partitions {
				rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch = p, offsets[metadata.TopicPartition{Topic: topic, Partition: p}], -1
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

// end commits the transaction. Any error means that the outcome is not known.
func (p *producer) end(ctx context.Context) error {
	p.inTxn = false
	if err := p.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("end the transaction: %w", err)
	}
	return nil
}

// plainOffsets commits offsets outside of any transaction, for input that led to nothing being produced: a transaction of
// offsets alone is one that the client does not know to have begun and would never end.
func plainOffsets(ctx context.Context, cl *kgo.Client, group, id string, generation int32, instance string, offsets map[metadata.TopicPartition]int64) error {
	err := retry(ctx, func() error {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID, req.InstanceID = group, generation, id, &instance
		for topic, partitions := range byTopic(metadata.Position(offsets).Sorted()) {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = topic
			for _, p := range partitions {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch = p, offsets[metadata.TopicPartition{Topic: topic, Partition: p}], -1
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
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
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
		if !sleep(ctx, min(backoff(tries), 200*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

// close ends the client without waiting for what is on its way; a new client's initialisation aborts it.
func (p *producer) close() {
	p.cl.UnsafeAbortBufferedRecords()
	p.cl.Close()
}
