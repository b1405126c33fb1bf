package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/metadata"
)

// Bounds of a fetch.
const (
	fetchMaxWait        = 100 * time.Millisecond // how long a broker holds an empty fetch, hence how late a new partition joins
	fetchMaxBytes       = 32 << 20               // of one reply
	fetchPartitionBytes = 4 << 20                // of one partition in it, unless its cursor is Sized
	fetchTimeout        = 10 * time.Second       // a fetch that got no reply
)

// A Cursor is one partition that is being fetched, from Next on. A fetch is answered to the very cursor that asked: one
// that was closed meanwhile gets nothing, so that records fetched for an earlier life of a partition can never be taken
// for those of a later one (S44).
type Cursor interface {
	// At is the partition and the offset to fetch next; ok is false while nothing should be fetched.
	At() (tp metadata.TopicPartition, next int64, ok bool)
	// Deliver hands over what a fetch brought. It may block, and then holds the broker's next fetch back.
	Deliver(ctx context.Context, b Batch)
}

// A Sized cursor says how much it wants. Kafka counts bytes as they are on its disk, compressed and in whole batches: a
// partition whose next batch is larger than what is wanted gets nothing, unless it stands first in the request. Each fetch
// begins with another partition, so none starves.
type Sized interface {
	Cursor
	// Want is the most bytes that the next fetch should bring, at least 1.
	Want() int32
}

// A Batch is what one fetch brought of one partition, under read_committed.
type Batch struct {
	From    int64         // the offset that was asked for
	TopicID [16]byte      // the topic that was asked; zero when not known
	Records []*kgo.Record // committed data records only
	Bytes   int           // what came over the wire, compressed
	Next    int64         // where to go on: past control records, aborted records and compaction gaps
	Start   int64         // the log's start offset, -1 when not told
	End     int64         // the high watermark, -1 when not told
	Stable  int64         // the last stable offset: below it everything is decided; -1 when not told
	Err     error         // kerr.OffsetOutOfRange and the like; what a fresh look at the leaders cures is not delivered
}

// A Fetcher keeps one Fetch request open to each broker that leads a partition of its cursors. It uses Fetch itself
// rather than a consumer, because a replica needs the exact next offset and the high watermark of each reply, empty ones
// too: a consumer hides the control records at the end of a log, and lag would never be 0 (S05).
type Fetcher struct {
	cl      *kgo.Client
	catalog *Catalog
	log     *slog.Logger
	cursors func() []Cursor
	wake    chan struct{} // holds a token when a cursor was added

	codec kgo.Decompressor
}

// NewFetcher makes a fetcher of the cursors that cursors returns, which it calls often. cl is best the fetcher's own,
// since a fetch may wait at its broker and hold up what comes after it. It starts nothing.
func NewFetcher(cl *kgo.Client, cat *Catalog, log *slog.Logger, cursors func() []Cursor) *Fetcher {
	return &Fetcher{cl: cl, catalog: cat, log: log, cursors: cursors, wake: make(chan struct{}, 1), codec: kgo.DefaultDecompressor()}
}

// Wake says that a cursor was added or wants to go on, so that it need not wait for the next look.
func (f *Fetcher) Wake() { Poke(f.wake) }

// Run starts a loop for each broker that leads a wanted partition and ends when ctx does.
func (f *Fetcher) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	wakes := make(map[int32]chan struct{})
	tick := time.NewTicker(fetchMaxWait)
	defer tick.Stop()
	for {
		for _, c := range f.cursors() {
			tp, _, _ := c.At()
			broker := f.catalog.Leader(tp)
			if broker < 0 {
				f.catalog.Invalidate()
				continue
			}
			if wakes[broker] == nil {
				wake := make(chan struct{}, 1)
				wakes[broker] = wake
				loops.Go(func() { f.loop(ctx, broker, wake) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-f.wake:
			for _, w := range wakes {
				Poke(w)
			}
		}
	}
}

// loop fetches from one broker for as long as the node lives; a broker that leads nothing costs nothing.
func (f *Fetcher) loop(ctx context.Context, broker int32, wake chan struct{}) {
	failures, turn := 0, 0 // each broker's fetches take turns to begin with a partition
	for ctx.Err() == nil {
		var mine []Cursor
		for _, c := range f.cursors() {
			if tp, _, ok := c.At(); ok && f.catalog.Leader(tp) == broker {
				mine = append(mine, c)
			}
		}
		if len(mine) == 0 {
			t := time.NewTimer(fetchMaxWait)
			select {
			case <-ctx.Done():
			case <-wake:
			case <-t.C:
			}
			t.Stop()
			continue
		}
		turn++
		if err := f.once(ctx, broker, mine, turn); err != nil && ctx.Err() == nil {
			failures++
			f.catalog.Invalidate()
			f.log.Debug("fetch failed", slog.Int("broker", int(broker)), slog.Any("error", err))
			if !Sleep(ctx, Backoff(failures)) {
				return
			}
			continue
		}
		failures = 0
	}
}

// once sends one Fetch for cursors to broker, beginning with the one whose turn it is, and delivers the reply, partitions in
// parallel.
func (f *Fetcher) once(ctx context.Context, broker int32, cursors []Cursor, turn int) error {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(fetchMaxWait / time.Millisecond)
	req.MinBytes, req.MaxBytes = 1, fetchMaxBytes
	req.IsolationLevel = 1 // read_committed
	req.SessionID, req.SessionEpoch = 0, -1
	type asked struct {
		cursor Cursor
		from   int64
	}
	byName := make(map[metadata.TopicPartition]asked, len(cursors))
	names := make(map[[16]byte]string)
	ids := make(map[string][16]byte)
	topics := make(map[string]int)
	for i := range cursors {
		c := cursors[(turn+i)%len(cursors)]
		tp, next, ok := c.At()
		if _, twice := byName[tp]; !ok || twice {
			continue // closed since, or an old life of the same partition: it gets the next fetch
		}
		byName[tp] = asked{c, next}
		at, seen := topics[tp.Topic]
		if !seen {
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic = tp.Topic
			if s, ok := f.catalog.Topic(tp.Topic); ok {
				rt.TopicID = s.ID
				names[s.ID], ids[tp.Topic] = tp.Topic, s.ID
			}
			at = len(req.Topics)
			topics[tp.Topic] = at
			req.Topics = append(req.Topics, rt)
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = tp.Partition, next, fetchPartitionBytes
		if sized, ok := c.(Sized); ok {
			rp.PartitionMaxBytes = sized.Want()
		}
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = -1, -1, -1
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, rp)
	}
	rctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	kresp, err := f.cl.Broker(int(broker)).Request(rctx, req)
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return errors.New("reply to a fetch is none")
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var failed error
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := t.Topic
		if topic == "" {
			topic = names[t.TopicID]
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a, ok := byName[metadata.TopicPartition{Topic: topic, Partition: p.Partition}]
			if !ok {
				continue
			}
			b, retry := f.decode(topic, p, a.from)
			b.TopicID = ids[topic]
			if retry != nil {
				failed = retry
				continue
			}
			wg.Go(func() { a.cursor.Deliver(ctx, b) })
		}
	}
	return failed
}

// decode reads one partition of a reply. retry is set when only a fresh look at the leaders can help.
func (f *Fetcher) decode(topic string, p *kmsg.FetchResponseTopicPartition, from int64) (b Batch, retry error) {
	err := kerr.ErrorForCode(p.ErrorCode)
	if err != nil && !errors.Is(err, kerr.OffsetOutOfRange) {
		return Batch{}, err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset:         from,
		IsolationLevel: kgo.ReadCommitted(),
		Topic:          topic,
		Partition:      p.Partition,
	}, p, f.codec, nil)
	b = Batch{
		From: from, Records: fp.Records, Bytes: len(p.RecordBatches), Next: max(next, from),
		Start: p.LogStartOffset, End: p.HighWatermark, Stable: p.LastStableOffset, Err: fp.Err,
	}
	return b, nil
}
