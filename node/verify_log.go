package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// A logPace keeps a reader below a rate.
type logPace struct {
	perSecond int64
	begun     time.Time
	read      int64
}

// took waits until so many bytes more are within the rate.
func (p *logPace) took(ctx context.Context, bytes int) error {
	p.read += int64(bytes)
	ahead := time.Duration(float64(p.read)/float64(p.perSecond)*float64(time.Second)) - time.Since(p.begun)
	if ahead < time.Millisecond {
		return ctx.Err()
	}
	if !kafka.Sleep(ctx, ahead) {
		return ctx.Err()
	}
	return nil
}

// A logPart is a part of a changelog to be read: the committed records from an offset to before another.
type logPart struct {
	tp       metadata.TopicPartition
	topicID  [16]byte
	from, to int64
}

// logCursor asks for one batch at a time.
type logCursor struct {
	tp      metadata.TopicPartition
	next    atomic.Int64
	wanted  atomic.Bool
	batches chan kafka.Batch
}

// At implements kafka.Cursor.
func (c *logCursor) At() (metadata.TopicPartition, int64, bool) {
	return c.tp, c.next.Load(), c.wanted.Load()
}

// Deliver implements kafka.Cursor.
func (c *logCursor) Deliver(ctx context.Context, b kafka.Batch) {
	if b.From != c.next.Load() || !c.wanted.CompareAndSwap(true, false) {
		return
	}
	select {
	case c.batches <- b:
	case <-ctx.Done():
	}
}

// logPatience is how long a part of a changelog may take to come: a transaction that hangs is not waited for for ever.
const logPatience = 30 * time.Second

// errLogLost says that the part is no more what it was when its offsets were learned.
var errLogLost = errors.New("the changelog was made anew or truncated meanwhile; try again")

// readLog hands over a part of a changelog batch by batch, at a pace. It holds one batch at a time.
func (n *Node) readLog(ctx context.Context, p logPart, at *logPace, each func(kafka.Batch) error) error {
	c := &logCursor{tp: p.tp, batches: make(chan kafka.Batch)}
	fetcher := kafka.NewFetcher(n.admin, n.up.Load().catalog, n.log, func() []kafka.Cursor { return []kafka.Cursor{c} })
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
	patience := time.NewTimer(logPatience)
	defer patience.Stop()
	for next := p.from; next < p.to; {
		c.next.Store(next)
		c.wanted.Store(true)
		fetcher.Wake()
		var b kafka.Batch
		select {
		case b = <-c.batches:
		case <-patience.C:
			return fmt.Errorf("read %s at %d of %d: nothing came for %s", p.tp, next, p.to, logPatience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if p.topicID != b.TopicID && p.topicID != [16]byte{} && b.TopicID != [16]byte{} || errors.Is(b.Err, kerr.OffsetOutOfRange) {
			return errLogLost
		}
		if b.Err != nil {
			return fmt.Errorf("read %s at %d: %w", p.tp, next, b.Err)
		}
		if b.Next <= next {
			continue
		}
		next = b.Next
		patience.Reset(logPatience)
		if err := each(b); err != nil {
			return err
		}
		size := 0
		for _, r := range b.Records {
			size += len(r.Key) + len(r.Value)
		}
		if err := at.took(ctx, size); err != nil {
			return err
		}
	}
	return nil
}
