package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// readPatience is how long a part of a changelog may take to come from Kafka.
const readPatience = 30 * time.Second

// A changelogReader reads one partition batch by batch, each when it is asked for. It is a cursor of a Fetcher of its own.
type changelogReader struct {
	tp      metadata.TopicPartition
	next    atomic.Int64
	wanted  atomic.Bool
	batches chan kafka.Batch
}

// At implements kafka.Cursor.
func (c *changelogReader) At() (metadata.TopicPartition, int64, bool) {
	return c.tp, c.next.Load(), c.wanted.Load()
}

// Deliver implements kafka.Cursor.
func (c *changelogReader) Deliver(ctx context.Context, b kafka.Batch) {
	if b.From != c.next.Load() || !c.wanted.CompareAndSwap(true, false) {
		return
	}
	select {
	case c.batches <- b:
	case <-ctx.Done():
	}
}

// readUp tells the committed changes from where the watch is to before a position that the replica has reached, as they
// are in the changelog now. It holds one batch at a time.
func (p *watchedPart) readUp(ctx context.Context, to int64) error {
	if p.at >= to {
		return nil
	}
	client, catalog := p.w.srv.node().Kafka()
	c := &changelogReader{tp: p.held.Load().r.Changelog(), batches: make(chan kafka.Batch)}
	fetcher := kafka.NewFetcher(client, catalog, p.w.srv.cfg.Log, func() []kafka.Cursor { return []kafka.Cursor{c} })
	reading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = fetcher.Run(reading) // it ends with the context and never fails
	}()
	defer func() {
		stop()
		<-ended
	}()
	patience := time.NewTimer(readPatience)
	defer patience.Stop()
	for p.at < to {
		done, err := p.w.srv.watches.catchUp(ctx)
		if err != nil {
			return err
		}
		patience.Reset(readPatience)
		b, err := p.fetch(ctx, c, fetcher.Wake, patience.C)
		if err == nil {
			p.due = time.Now().Add(p.w.srv.cfg.ScanIdle)
			err = p.addBatch(ctx, b, to)
			p.due = time.Time{}
		}
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch gets the next batch that is not empty.
func (p *watchedPart) fetch(ctx context.Context, c *changelogReader, wake func(), patience <-chan time.Time) (kafka.Batch, error) {
	for {
		c.next.Store(p.at)
		c.wanted.Store(true)
		wake()
		select {
		case b := <-c.batches:
			switch topic := p.held.Load().kv.ID().TopicID; {
			case topic != b.TopicID && topic != [16]byte{} && b.TopicID != [16]byte{}:
				return b, p.lost("the changelog was made anew")
			case errors.Is(b.Err, kerr.OffsetOutOfRange):
				return b, p.lost(fmt.Sprintf("position %d is outside the changelog, which starts at %d and ends at %d", p.at, b.Start, b.End))
			case b.Err != nil:
				return b, fmt.Errorf("read %s at %d: %w", c.tp, p.at, b.Err)
			case b.Next > p.at:
				return b, nil
			}
		case <-patience:
			return kafka.Batch{}, p.unread(nil)
		case <-ctx.Done():
			return kafka.Batch{}, context.Cause(ctx)
		}
	}
}

// addBatch adds what a batch has before a position.
func (p *watchedPart) addBatch(ctx context.Context, b kafka.Batch, to int64) error {
	next := min(b.Next, to)
	if err := p.add(ctx, eventsOf(p.held.Load().kv.ID().Schema, b.Records), next); err != nil {
		return err
	}
	p.at = next
	return p.flush(ctx, p.at)
}

// unread says that Kafka did not answer.
func (p *watchedPart) unread(cause error) error {
	err := error(&iqerr.NotReadyError{Node: p.w.srv.cfg.NodeID, Waiting: "the changelog of " + p.id.String(), RetryAfter: time.Second})
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
