package serve

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// watchBench serves watches of one store without a cluster around it.
type watchBench struct {
	iqv1.UnimplementedQueryServiceServer
	kv     *store.KV
	c      Changes
	prefix []byte
	begun  sync.WaitGroup
}

// Watch implements QueryService, from the present on.
func (s *watchBench) Watch(_ *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
	w := &watch{srv: &Server{cfg: Config{NodeID: "a"}}, send: stream.Send, out: make(chan *iqv1.WatchResponse), base: time.Now()}
	w.query.Keys.Prefix = s.prefix
	p := newWatchedPart(w, metadata.Partition{Store: "s"})
	p.held.Store(&held{kv: s.kv})
	p.sub = s.c.subscribe(s.kv)
	defer s.c.unsubscribe(p.sub)
	p.at = s.kv.Position()
	s.begun.Done()
	go w.deliver(stream.Context(), func(error) {})
	return p.live(stream.Context())
}

// BenchmarkWatchDelivery measures from the moment at which Kafka has committed, before the Apply, until a watcher has the
// change, over TCP, at 5,000 changes a second, of which each watcher gets all or those of one key of fifty.
func BenchmarkWatchDelivery(b *testing.B) {
	const (
		every  = 10 * time.Millisecond
		commit = 50
	)
	for _, of := range []struct{ watchers, keys int }{{1, commit}, {10, commit}, {100, 1}} {
		watchers := of.watchers
		b.Run(fmt.Sprintf("watchers=%d/keys=%d", watchers, of.keys), func(b *testing.B) {
			s := &watchBench{kv: openMemory(b, store.Schema{})}
			if of.keys == 1 {
				s.prefix = []byte("key-00")
			}
			s.begun.Add(watchers)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := grpc.NewServer()
			iqv1.RegisterQueryServiceServer(srv, s)
			go func() { _ = srv.Serve(l) }()
			b.Cleanup(srv.Stop)
			var mu sync.Mutex
			var sent []time.Time // of each commit
			var delays []time.Duration
			var all sync.WaitGroup
			for range watchers {
				cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = cc.Close() })
				stream, err := iqv1.NewQueryServiceClient(cc).Watch(b.Context(), &iqv1.WatchRequest{})
				if err != nil {
					b.Fatal(err)
				}
				go func() {
					for got := 0; ; {
						m, err := stream.Recv()
						if err != nil {
							return
						}
						now := time.Now()
						mu.Lock()
						for range m.GetEvents() {
							delays = append(delays, now.Sub(sent[got/of.keys]))
							if got++; got%of.keys == 0 {
								all.Done()
							}
						}
						mu.Unlock()
					}
				}()
			}
			s.begun.Wait()
			changed := make([]store.Change, commit)
			tick := time.NewTicker(every)
			defer tick.Stop()
			next := int64(0)
			for b.Loop() {
				<-tick.C
				all.Add(watchers)
				mu.Lock()
				sent = append(sent, time.Now())
				mu.Unlock()
				for i := range changed {
					changed[i] = store.Change{Key: fmt.Appendf(nil, "key-%02d", i), Value: make([]byte, 100)}
				}
				from := s.kv.Position()
				next += commit
				if err := s.kv.Apply(changed, store.Checkpoint{Position: next}); err != nil {
					b.Fatal(err)
				}
				s.c.Committed(s.kv, from, next, next-commit, slices.Clone(changed))
			}
			all.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(delays)
			b.ReportMetric(float64(delays[len(delays)/2])/float64(time.Millisecond), "p50-ms")
			b.ReportMetric(float64(delays[len(delays)*99/100])/float64(time.Millisecond), "p99-ms")
		})
	}
}
