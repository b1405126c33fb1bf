package serve

import (
	"context"
	"errors"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// A pinnedRead is one partition of a request, read at one position: a snapshot of its store and what was known of the
// replica when it was taken.
type pinnedRead struct {
	srv     *Server
	id      metadata.Partition
	r       Replica
	kv      *store.KV
	sn      *store.Snapshot
	reading reading
}

// pin takes a snapshot of a partition's store that is within the policy, and waits for one as the policy says. It must be
// released.
func (s *Server) pin(ctx context.Context, p policy, id metadata.Partition) (*pinnedRead, error) {
	pr := &pinnedRead{srv: s, id: id}
	err := s.await(ctx, p, func() (err error) {
		pr.release() // of a try before
		pr.r = s.node().Replica(id)
		pr.reading, err = s.read(ctx, p, id, func(kv *store.KV) (store.Checkpoint, error) {
			sn, err := kv.Snapshot()
			if err != nil {
				return store.Checkpoint{}, err
			}
			pr.kv, pr.sn = kv, sn
			return sn.Checkpoint(), nil
		})
		return err
	})
	s.counted(p, id, &pr.reading, err)
	if err != nil {
		pr.release()
		return nil, err
	}
	return pr, nil
}

func (pr *pinnedRead) release() {
	if pr.sn != nil {
		pr.sn.Release()
		pr.sn = nil
	}
}

// goOn says why what is pinned can be read no more: the node stops, or the store was closed or is rebuilt.
func (pr *pinnedRead) goOn() error {
	switch {
	case pr.srv.closing.Load():
		return &iqerr.ClosingError{Node: pr.srv.cfg.NodeID}
	case pr.r == nil || pr.r.KV() != pr.kv || pr.r.State() == metadata.StateClosed:
		return pr.closed()
	}
	return nil
}

func (pr *pinnedRead) closed() error {
	return &iqerr.ClosingError{Node: pr.srv.cfg.NodeID, Store: pr.id.String()}
}

// failed says what a failure of the store is to a caller.
func (pr *pinnedRead) failed(err error) error {
	if errors.Is(err, store.ErrClosed) {
		return pr.closed()
	}
	return pr.srv.readFailed(pr.id, err)
}

// A source is the rows of one partition in batches. Between two batches it holds nothing but the snapshot: a scan that
// stayed open while a reader takes nothing would keep the store from being closed.
type source struct {
	*pinnedRead
	scan  rowScan
	after []byte // cursor of the last row that was read
	done  bool   // nothing comes after it

	place query.Place // of what was sent
	left  int         // rows that were read and not sent
}

func newSource(pr *pinnedRead, s *query.Scan, place query.Place) *source {
	return &source{
		pinnedRead: pr, place: place, after: place.After, done: place.State == query.PlaceDone,
		scan: rowScan{sel: &s.Selection, sn: pr.sn, partition: pr.id.Partition, reverse: s.Reverse, keysOnly: s.KeysOnly, fields: s.Fields},
	}
}

// firstRows is how many rows a batch has room for before it grows.
const firstRows = 128

// batch reads the next rows: until there are most, or maxBytes of them, or no more, which done tells. None are the end.
func (s *source) batch(ctx context.Context, most, maxBytes int) ([]*iqv1.Row, error) {
	if s.done {
		return nil, nil
	}
	rows := make([]*iqv1.Row, 0, min(most, firstRows))
	size := 0
	for row, err := range s.scan.rows(ctx, s.after) {
		if err != nil {
			return nil, s.failed(err)
		}
		rows, s.after = append(rows, row), row.GetCursor()
		s.left++
		if size += query.RowBytes(row); len(rows) == most || size >= maxBytes {
			return rows, nil
		}
	}
	s.done = true
	return rows, nil
}

// sent takes note of a row that was sent.
func (s *source) sent(row *iqv1.Row) {
	s.left--
	s.place.State, s.place.After = query.PlaceAfter, row.GetCursor()
}

// at is the place from which a page goes on.
func (s *source) at() query.Place {
	if s.done && s.left == 0 {
		return query.Place{Partition: s.id.Partition, State: query.PlaceDone}
	}
	return s.place
}
