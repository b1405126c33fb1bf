//go:build synctests

package integration

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/history"
)

const simSessionReads = 30 // of a session, before the reader begins another one

// readSession reads in sessions of the client until ctx ends: what a session has written and seen it sees from then on,
// whoever answers.
func (w *simWorld) readSession(ctx context.Context) {
	r := simRand(w.plan.seed, 40)
	opts := []client.Option{
		client.WithDialOptions(grpc.WithContextDialer(w.DialAsClient)), client.WithTimeout(simReadTimeout), client.WithAttemptTimeout(simReadTimeout / 3),
	}
	if r.IntN(2) == 0 {
		opts = append(opts, client.WithDirect())
	}
	c, err := client.New([]string{"passthrough:///r1:7000", "passthrough:///r2:7000"}, opts...)
	if err != nil {
		w.failed(err)
		return
	}
	defer func() { _ = c.Close() }()
	for ctx.Err() == nil {
		s := c.NewSession(client.LeastLoaded())
		least := make(map[history.TopicPartition]int64)
		for range simSessionReads {
			if ctx.Err() != nil {
				return
			}
			if r.IntN(3) == 0 {
				w.wrote(s, r.IntN(1000), least)
			}
			key := w.plan.keyOf(simLatest, r.IntN(100))
			tp := history.TopicPartition{Topic: "in", Partition: w.partitionOf(key)}
			read := history.Read{Partition: history.Partition{Store: simLatest}, Key: key, Router: "a session"}
			read.Policy = history.Policy{Mode: history.Any, MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
			read.Policy.AtLeast = map[history.TopicPartition]int64{tp: least[tp]}
			w.mu.Lock()
			before := w.lives()
			w.mu.Unlock()
			read.Invoked = w.now()
			res, err := s.Get(context.WithoutCancel(ctx), simLatest, []byte(key), client.Any(), client.Wait(between(r, 10*time.Millisecond, time.Second)))
			read.Returned = w.now()
			if err != nil {
				read.Failed, read.Partition.Partition = err.Error(), tp.Partition
			} else {
				read.Found, read.Value = res.Found, simValue(simLatest, res.Value)
				simServed(&read, res.Served, res.InputPosition)
				least[tp] = max(least[tp], read.Input[tp])
			}
			w.note(before, read)
			time.Sleep(between(r, 0, 100*time.Millisecond))
		}
	}
}

// wrote tells the session that it has written one of the newest records.
func (w *simWorld) wrote(s *client.Session, n int, least map[history.TopicPartition]int64) {
	const newest = 20
	w.mu.Lock()
	records := w.mu.records[max(0, len(w.mu.records)-newest):]
	w.mu.Unlock()
	if len(records) == 0 {
		return
	}
	in := records[n%len(records)]
	if err := s.Wrote(in.Topic, in.Partition, in.Offset); err != nil {
		w.failed(err)
	}
	least[in.TopicPartition] = max(least[in.TopicPartition], in.Offset+1)
}
