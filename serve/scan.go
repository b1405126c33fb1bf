package serve

import (
	"context"
	"log/slog"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/tally"
)

// A scan is one call of Scan. Its steps:
//
//  1. Check the request; find its partitions, all of which must be here.
//  2. Take a snapshot of each that is within the policy, and tell from where it comes. In the order of keys all are taken
//     first; partition after partition each when its turn comes.
//  3. Read batches of rows, merge them, and hand messages to the sender, which sends one while the next is made.
//
// It ends with OK only when all was sent: a store that is closed, a node that stops and a reader that takes nothing for
// Config.ScanIdle end it with CLOSING and SLOW_READER, and the caller goes on with the last page token. Whatever the end,
// the snapshots are released. Memory is a batch for each partition and two messages.
type scan struct {
	srv     *Server
	query   query.Scan
	policy  policy
	ids     []metadata.Partition // in order
	sources []*source            // of ids, nil before its turn
	out     *sender[*iqv1.ScanResponse]

	msg   *iqv1.ScanResponse // being filled
	bytes int                // of its rows
	count int64              // rows sent
	token []byte             // of the last message
}

// Scan implements QueryService.
func (s *queryServer) Scan(req *iqv1.ScanRequest, stream iqv1.QueryService_ScanServer) (err error) {
	defer s.begin(tally.Scan)(&err)
	if err := s.enter(); err != nil {
		return iqerr.Status(err)
	}
	defer s.exit()
	err = s.scan(stream.Context(), req, stream.Send)
	s.logFailure(stream.Context(), "scan", req.GetSelection().GetStore(), err)
	return iqerr.Status(err)
}

// logFailure logs what the caller is told nothing of.
func (s *queryServer) logFailure(ctx context.Context, call, store string, err error) {
	if err != nil && iqerr.ReasonOf(err) == iqv1.Reason_REASON_UNSPECIFIED && ctx.Err() == nil {
		s.cfg.Log.Error("a read failed", slog.String("call", call), slog.String("store", store), slog.Any("error", err))
	}
}

// admit lets a request in that holds snapshots, or says that there are too many; the caller ends with leave in both cases.
func (s *queryServer) admit() error {
	if n, limit := s.scans.Add(1), int64(s.cfg.MaxScans); n > limit {
		return &iqerr.OverloadedError{Node: s.cfg.NodeID, InFlight: n - 1, Limit: limit, RetryAfter: noActiveRetry}
	}
	return nil
}

func (s *queryServer) leave() { s.scans.Add(-1) }

func (s *queryServer) scan(ctx context.Context, req *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
	defer s.leave()
	if err := s.admit(); err != nil {
		return err
	}
	p, info, err := s.selected(req.GetPolicy(), req.GetSelection())
	if err != nil {
		return err
	}
	q, err := query.ParseScan(req, info)
	if err != nil {
		return err
	}
	ids, err := s.partitionsFor(&q.Selection, func(p int32) bool { return q.Place(p).State != query.PlaceBegin })
	if err != nil {
		return err
	}
	sc := &scan{srv: s.Server, query: q, policy: p, ids: ids, sources: make([]*source, len(ids)), msg: &iqv1.ScanResponse{}}
	sc.out = newSender(s.cfg.NodeID, s.cfg.ScanIdle, send)
	defer sc.out.close()
	defer sc.release()
	return sc.run(ctx)
}

func (s *scan) release() {
	for _, src := range s.sources {
		if src != nil {
			src.release()
		}
	}
}

func (s *scan) run(ctx context.Context) error {
	var err error
	if s.query.ByPartition {
		err = s.byPartition(ctx)
	} else {
		err = s.byKey(ctx)
	}
	if err != nil {
		return err
	}
	if len(s.msg.GetRows()) > 0 || len(s.msg.GetReads()) > 0 || s.token != nil && s.nextToken() == nil {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	return s.out.flush(ctx, s.goOn)
}

// begin takes the snapshot of a partition and tells of it.
func (s *scan) begin(ctx context.Context, i int) (*source, error) {
	place := s.query.Place(s.ids[i].Partition)
	pr, err := s.srv.pin(ctx, s.policy, s.ids[i])
	if err != nil {
		return nil, err
	}
	s.sources[i] = newSource(pr, &s.query, place)
	s.msg.Reads = append(s.msg.Reads, pr.reading.proto())
	return s.sources[i], nil
}

// byPartition sends partition after partition.
func (s *scan) byPartition(ctx context.Context) error {
	for i, id := range s.ids {
		if s.query.Place(id.Partition).State == query.PlaceDone {
			continue
		}
		if s.full() {
			return nil
		}
		src, err := s.begin(ctx, i)
		if err == nil {
			err = s.flush(ctx)
		}
		for err == nil && !s.full() {
			var rows []*iqv1.Row
			if rows, err = src.batch(ctx, s.batchRows(), query.MaxBatchBytes); err != nil || len(rows) == 0 {
				break
			}
			err = s.add(ctx, src, rows)
		}
		if err != nil {
			return err
		}
		src.release()
	}
	return nil
}

// byKey merges the partitions.
func (s *scan) byKey(ctx context.Context) error {
	var sources []*source
	for i, id := range s.ids {
		if s.query.Place(id.Partition).State == query.PlaceDone {
			continue
		}
		src, err := s.begin(ctx, i)
		if err != nil {
			return err
		}
		sources = append(sources, src)
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	m := query.NewMerge(len(sources), query.Compare(s.query.Kind, s.query.Reverse))
	for !s.full() {
		for i, ok := m.Wants(); ok; i, ok = m.Wants() {
			rows, err := sources[i].batch(ctx, s.batchRows(), query.MaxBatchBytes)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				m.End()
			}
			m.Feed(rows)
		}
		i, run := m.Next(s.room())
		if len(run) == 0 {
			return nil
		}
		if err := s.add(ctx, sources[i], run); err != nil {
			return err
		}
	}
	return nil
}

// full says that the limit is reached.
func (s *scan) full() bool {
	return s.query.Limit > 0 && s.count >= s.query.Limit
}

// room is how many rows are wanted at once.
func (s *scan) room() int {
	if s.query.Limit == 0 {
		return query.MaxBatchRows
	}
	return int(min(query.MaxBatchRows, s.query.Limit-s.count))
}

// batchRows is how many rows to read at once. With a limit it is one more than are wanted, so that the last page knows that
// it is the last.
func (s *scan) batchRows() int {
	if s.query.Limit == 0 {
		return query.MaxBatchRows
	}
	return s.room() + 1
}

// add puts rows of a source into messages.
func (s *scan) add(ctx context.Context, src *source, rows []*iqv1.Row) error {
	if s.query.Limit > 0 {
		rows = rows[:min(int64(len(rows)), s.query.Limit-s.count)]
	}
	for _, row := range rows {
		size := query.RowBytes(row)
		if n := len(s.msg.GetRows()); n > 0 && (n == query.MaxBatchRows || s.bytes+size > query.MaxBatchBytes) {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
		s.msg.Rows = append(s.msg.Rows, row)
		s.bytes += size
		s.count++
		src.sent(row)
	}
	return nil
}

// flush hands the message to the sender.
func (s *scan) flush(ctx context.Context) error {
	if err := s.goOn(); err != nil {
		return err
	}
	s.msg.PageToken = s.nextToken()
	s.token = s.msg.GetPageToken()
	m := s.msg
	s.msg, s.bytes = &iqv1.ScanResponse{}, 0
	return s.out.send(ctx, m, s.goOn)
}

// nextToken goes on behind what was sent.
func (s *scan) nextToken() []byte {
	places := make([]query.Place, len(s.ids))
	for i, id := range s.ids {
		if places[i] = s.query.Place(id.Partition); s.sources[i] != nil {
			places[i] = s.sources[i].at()
		}
	}
	return s.query.Token(places)
}

// goOn says why the scan cannot go on.
func (s *scan) goOn() error {
	for _, src := range s.sources {
		if src == nil || src.sn == nil || src.done {
			continue
		}
		if err := src.goOn(); err != nil {
			return err
		}
	}
	if s.srv.closing.Load() {
		return &iqerr.ClosingError{Node: s.srv.cfg.NodeID}
	}
	return nil
}
