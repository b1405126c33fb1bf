package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// Session makes the reads of one reader monotonic: whichever replicas answer, none shows a state of a store that is older than
// what the session has seen of it. Wrote adds records that the reader has produced itself: reads that follow see them.
//
// It remembers, for each store, the greatest input position that a reply had, and asks for a replica that covers it (AtLeast), on top
// of the policy. No replica may have got so far: then a read fails with iqerr.ErrPositionNotReached, after its Wait, which may
// be given to NewSession. A server judges each store partition by the input partitions of the same number alone, as Kafka's
// PositionBound does.
//
// Its memory is one number for each input partition of each store that was read, and for each partition that was written to.
// It is safe for concurrent use: a read sees what those have seen that ended before it began.
type Session struct {
	c    *Client
	opts []ReadOption

	mu struct {
		sync.Mutex
		seen  map[string]metadata.Position // by store
		wrote metadata.Position
	}
}

// NewSession makes a session that knows of nothing yet. Its options come after the client's and before those of a call: Wait is
// the useful one.
func (c *Client) NewSession(opts ...ReadOption) *Session {
	s := &Session{c: c, opts: opts}
	s.mu.seen, s.mu.wrote = map[string]metadata.Position{}, metadata.Position{}
	return s
}

// Wrote notes that a record was produced to a topic partition at offset, as Kafka's record metadata tells. Reads of stores
// that are built from that topic see it from now on: those that name it among the source topics of ListStores.
func (s *Session) Wrote(topic string, partition int32, offset int64) error {
	switch {
	case topic == "":
		return iqerr.Invalid("topic", topic, "is required")
	case partition < 0:
		return iqerr.Invalid("partition", partition, "must not be negative")
	case offset < 0:
		return iqerr.Invalid("offset", offset, "must not be negative")
	}
	tp := metadata.TopicPartition{Topic: topic, Partition: partition}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.wrote[tp] = max(s.mu.wrote[tp], offset+1)
	return nil
}

// Get is Client.Get in the session.
func (s *Session) Get(ctx context.Context, store string, key []byte, opts ...ReadOption) (Result, error) {
	return s.c.getIn(ctx, s, store, key, opts)
}

// MultiGet is Client.MultiGet in the session.
func (s *Session) MultiGet(ctx context.Context, store string, keys [][]byte, opts ...ReadOption) ([]KeyResult, error) {
	return s.c.multiGetIn(ctx, s, store, keys, opts)
}

// Scan is Client.Scan in the session.
func (s *Session) Scan(ctx context.Context, store string, opts ...ReadOption) *Scanner {
	return s.c.scanIn(ctx, s, store, opts)
}

// Count is Client.Count in the session.
func (s *Session) Count(ctx context.Context, store string, opts ...ReadOption) (Counted, error) {
	return s.c.countIn(ctx, s, store, opts)
}

// saw notes the input position of a reply.
func (s *Session) saw(store string, m *iqv1.Position) {
	if len(m.GetOffsets()) == 0 {
		return
	}
	p := routing.PositionFromProto(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.mu.seen[store]; !seen.Covers(p) {
		s.mu.seen[store] = seen.Merge(p) // another map: those who read the old one hold no lock
	}
}

// begin makes a request ask for what the session has seen and written, and what the call itself asks for.
func (s *Session) begin(ctx context.Context, r *read) error {
	store := r.get.GetStore()
	s.mu.Lock()
	least, wrote := s.mu.seen[store], s.mu.wrote.Merge(nil)
	s.mu.Unlock()
	if len(wrote) > 0 {
		topics, err := s.c.sources.of(ctx, s.c, store, time.Now())
		if err != nil {
			return err
		}
		for tp := range wrote {
			if !slices.Contains(topics, tp.Topic) {
				delete(wrote, tp)
			}
		}
	}
	least = least.Merge(wrote).Merge(routing.PositionFromProto(r.policy.GetAtLeast()))
	if len(least) > 0 {
		r.policy.AtLeast, r.get.Policy = routing.PositionToProto(least), &r.policy
	}
	return nil
}

// sourcesFor is how long the source topics of the stores are remembered.
const sourcesFor = time.Minute

// sources are the source topics of the stores, for the sessions of a client.
type sources struct {
	mu struct {
		sync.Mutex
		byStore map[string][]string
		asked   time.Time
	}
}

// of gives the source topics of a store.
func (s *sources) of(ctx context.Context, c *Client, store string, now time.Time) ([]string, error) {
	s.mu.Lock()
	topics, known := s.mu.byStore[store]
	fresh := now.Sub(s.mu.asked) < sourcesFor
	s.mu.Unlock()
	if known && fresh {
		return topics, nil
	}
	all, err := c.Stores(ctx)
	if err != nil {
		return nil, err
	}
	byStore := make(map[string][]string, len(all))
	unknown := &iqerr.StoreUnknownError{Store: store}
	for _, info := range all {
		byStore[info.GetName()] = info.GetSourceTopics()
		unknown.Known = append(unknown.Known, info.GetName())
	}
	s.mu.Lock()
	s.mu.byStore, s.mu.asked = byStore, now
	s.mu.Unlock()
	if topics, known = byStore[store]; !known {
		return nil, unknown
	}
	return topics, nil
}
