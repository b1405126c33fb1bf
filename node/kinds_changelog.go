package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/store"
)

// changelogRecord makes rec a change of the store as Kafka Streams 4.x writes it.
func (s *taskStore) changelogRecord(c store.Change, rec *kgo.Record) error {
	key, value, ms, err := s.overlay.Schema().ToChangelog(c)
	if err != nil {
		return fmt.Errorf("store %s: %w", s.info.id, err)
	}
	if key == nil {
		key = []byte{} // an empty key is a key
	}
	rec.Topic, rec.Partition = s.info.changelog.Topic, s.info.changelog.Partition
	rec.Key, rec.Value, rec.Timestamp = key, value, time.UnixMilli(ms)
	return nil
}

// placed takes note of the changelog offset that the next record of the commit got.
func (s *taskStore) placed(offset int64) {
	if s.last == unknownOffset {
		s.first = offset
	}
	s.last = max(s.last, offset)
}

// changesOf reads a batch's records as changes, the last of each internal key: the batch becomes visible as one. It takes
// the stream time of the store before the batch. Records that are none of the store's kind are left out; it returns how
// many there are and what is wrong with the first.
func changesOf(schema store.Schema, b kafka.Batch, streamTime int64) (changes []store.Change, foreign int64, first error) {
	changes = make([]store.Change, 0, len(b.Records))
	for _, rec := range b.Records {
		c, err := changeOf(schema, rec)
		if err == nil {
			changes = append(changes, c)
			continue
		}
		if foreign++; foreign == 1 {
			first = fmt.Errorf("offset %d: %w", rec.Offset, err)
		}
	}
	return schema.Coalesce(changes, streamTime), foreign, first
}

func changeOf(schema store.Schema, rec *kgo.Record) (store.Change, error) {
	if rec.Key == nil {
		return store.Change{}, &store.RecordError{Kind: schema.Kind, Reason: "it is null"}
	}
	return schema.FromChangelog(rec.Key, rec.Value, rec.Timestamp.UnixMilli())
}

// foreignLogEvery is the shortest time between two lines of the log about records in a changelog that are none.
const foreignLogEvery = 10 * time.Second

// skipForeign counts records of the changelog that no store of this kind has written, and says so now and then. The
// caller holds the token.
func (r *replica) skipForeign(n int64, first error) {
	if n == 0 {
		return
	}
	total := r.foreign.Add(n)
	if now := time.Now(); now.Sub(r.foreignSaid) >= foreignLogEvery {
		r.foreignSaid = now
		r.set.log.Warn("records of the changelog are none of the store's kind and are skipped", slog.String("store", r.id.String()),
			slog.String("kind", r.schema.String()), slog.Int64("total", total), slog.Any("error", first))
	}
}
