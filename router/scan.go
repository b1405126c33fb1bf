package router

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// flushAfter is how long rows wait for more before they are sent in a message that is not full.
const flushAfter = 10 * time.Millisecond

// Scan streams the entries of a selection. See scanner.
func (s *queryService) Scan(m *iqv1.ScanRequest, stream iqv1.QueryService_ScanServer) (err error) {
	defer s.router.begin(tally.Scan)(&err)
	r, ctx := s.router, stream.Context()
	return r.status(ctx, r.scan(ctx, m, stream.Send))
}

// admit counts a request among those under way; the caller calls the function returned when it is over.
func (r *Router) admit(under interface{ Add(delta int64) int64 }, limit int) (leave func(), err error) {
	if n := under.Add(1); n > int64(limit) {
		under.Add(-1)
		return nil, &iqerr.OverloadedError{Node: r.name(), InFlight: n - 1, Limit: int64(limit), RetryAfter: routing.RetryAfter}
	}
	return func() { under.Add(-1) }, nil
}

// selectedStore finds the store that a selection names.
func selectedStore(v *metadata.View, m *iqv1.Selection) (metadata.StoreInfo, error) {
	name, err := query.StoreOf(m)
	if err != nil {
		return metadata.StoreInfo{}, err
	}
	return routing.Store(v, name)
}

// scan is a scan from its request to its end.
func (r *Router) scan(ctx context.Context, m *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
	leave, err := r.admit(&r.scans, r.config.MaxScans)
	if err != nil {
		return err
	}
	defer leave()
	e := r.board.load()
	info, err := selectedStore(e.view, m.GetSelection())
	if err != nil {
		return err
	}
	policy, wait, policyErr := policyFromProto(m.GetPolicy(), r.config.DefaultPolicy)
	q, err := query.ParseScan(m, info)
	err = errors.Join(err, policyErr, checkApplication("selection.application", m.GetSelection().GetApplication(), e.view.Application()))
	if err != nil {
		return err
	}
	partitions, err := r.selected(e, &q.Selection)
	if err != nil || q.Empty() || len(partitions) == 0 {
		return err
	}
	r.retries.earn()
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	sc := &scanner{router: r, ctx: ctx, scan: &q, left: q.Limit}
	sc.out = newSender(ctx, r.name(), r.config.ScanIdle, send)
	sc.timer = time.NewTimer(flushAfter)
	defer sc.timer.Stop()
	nodePolicy := policy.ToProto(m.GetPolicy())
	for _, p := range partitions {
		src := &source{
			failover: failover{router: r, query: r.queryOf(info.Name, p, policy), wait: wait},
			scan:     &q, request: m, policy: nodePolicy, place: q.Place(p), left: q.Limit, batches: make(chan batch),
		}
		sc.parts = append(sc.parts, &part{source: src, place: src.place})
	}
	start := func(p *part) { sources.Go(func() { p.source.run(ctx) }) }
	if q.ByPartition {
		err = sc.byPartition(start)
	} else {
		err = sc.byKey(start)
	}
	if err == nil {
		return sc.out.finish()
	}
	if !sc.out.over && sc.flush() == nil { // what comes before the failure is right, and its page token goes on there
		_ = sc.out.finish()
	}
	return err
}

// scanner sends the rows of several sources as one stream.
//
//  1. By key: all sources run, and the merge says from which one the next rows come. By partition: one source runs after
//     the other.
//  2. Rows are gathered into messages, which are sent when they are full, when flushAfter has passed without more, and before
//     another replica of a partition goes on. A message is handed to the sender while the next one is gathered.
//  3. The page token of a message has each partition's last row that is in it or was sent before.
//
// An error of a source ends the stream at once: what comes after in the order of keys can no longer be known.
type scanner struct {
	router *Router
	ctx    context.Context
	scan   *query.Scan
	out    *sender[*iqv1.ScanResponse]
	parts  []*part
	left   int64 // rows until the limit, if there is one

	message *iqv1.ScanResponse // what is gathered; nil for nothing
	bytes   int
	timer   *time.Timer
}

// part is one partition as it has been sent.
type part struct {
	source *source
	place  query.Place
	told   bool // which replica its rows come from
	used   chan struct{}
}

var errLimit = errors.New("the limit is reached")

func (s *scanner) byKey(start func(*part)) error {
	for _, p := range s.parts {
		start(p)
	}
	merge := query.NewMerge(len(s.parts), query.Compare(s.scan.Kind, s.scan.Reverse))
	for {
		for source, wants := merge.Wants(); wants; source, wants = merge.Wants() {
			rows, err := s.take(s.parts[source])
			switch {
			case errors.Is(err, io.EOF):
				merge.End()
			case err != nil:
				return err
			default:
				merge.Feed(rows)
			}
		}
		source, rows := merge.Next(query.MaxBatchRows)
		if len(rows) == 0 {
			return s.flush()
		}
		if err := s.add(s.parts[source], rows); err != nil {
			return s.atLimit(err)
		}
	}
}

func (s *scanner) byPartition(start func(*part)) error {
	for _, p := range s.parts {
		start(p)
		for {
			rows, err := s.take(p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = s.add(p, rows)
			}
			if err != nil {
				return s.atLimit(err)
			}
		}
	}
	return s.flush()
}

func (s *scanner) atLimit(err error) error {
	if errors.Is(err, errLimit) {
		return s.flush()
	}
	return err
}

// take waits for the next rows of a partition; there may be none in what comes. io.EOF says that all have come. Rows that
// were gathered are sent meanwhile, if it takes too long.
func (s *scanner) take(p *part) ([]*iqv1.Row, error) {
	if p.used != nil {
		close(p.used)
		p.used = nil
	}
	var b batch
	if s.message != nil {
		s.timer.Reset(flushAfter)
		select {
		case b = <-p.source.batches:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-s.timer.C:
			if err := s.flush(); err != nil {
				return nil, err
			}
		}
	}
	if b.err == nil && b.rows == nil && b.read == nil {
		select {
		case b = <-p.source.batches:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-s.out.ended: // nothing can be sent any more
			return nil, s.out.err
		}
	}
	if b.err != nil {
		if errors.Is(b.err, io.EOF) {
			p.place.State, p.place.After = query.PlaceDone, nil
		}
		return nil, b.err
	}
	p.used = b.used
	return b.rows, s.tell(p, b.read)
}

// tell says from which replica the rows come that follow. What was gathered goes first when they came from another.
func (s *scanner) tell(p *part, read *iqv1.PartitionRead) error {
	if read == nil {
		return nil
	}
	if p.told {
		if err := s.flush(); err != nil {
			return err
		}
	}
	p.told = true
	s.gather().Reads = append(s.gather().Reads, read)
	return nil
}

func (s *scanner) gather() *iqv1.ScanResponse {
	if s.message == nil {
		s.message = &iqv1.ScanResponse{}
	}
	return s.message
}

// add gathers rows of one partition, and sends what is full. The error is errLimit after the last row that is wanted.
func (s *scanner) add(p *part, rows []*iqv1.Row) error {
	if s.scan.Limit > 0 && int64(len(rows)) > s.left {
		rows = rows[:s.left]
	}
	for _, row := range rows {
		cursor, size := row.GetCursor(), query.RowBytes(row)
		m := s.gather()
		if len(m.GetRows()) == query.MaxBatchRows || (len(m.GetRows()) > 0 && s.bytes+size > query.MaxBatchBytes) {
			if err := s.flush(); err != nil {
				return err
			}
			m = s.gather()
		}
		row.Cursor, row.Partition = nil, p.place.Partition
		if m.Rows == nil {
			m.Rows = make([]*iqv1.Row, 0, min(query.MaxBatchRows, max(len(rows), minBatchRows)))
		}
		m.Rows = append(m.Rows, row)
		s.bytes += size
		p.place.State, p.place.After = query.PlaceAfter, cursor
	}
	if s.scan.Limit > 0 {
		if s.left -= int64(len(rows)); s.left <= 0 {
			return errLimit
		}
	}
	return nil
}

// minBatchRows is the room that a message begins with.
const minBatchRows = 64

// flush sends what is gathered.
func (s *scanner) flush() error {
	m := s.message
	if m == nil {
		return nil
	}
	s.message, s.bytes = nil, 0
	places := make([]query.Place, 0, len(s.parts))
	for _, p := range s.parts {
		places = append(places, p.place)
	}
	slices.SortFunc(places, func(a, b query.Place) int { return int(a.Partition - b.Partition) })
	m.PageToken = s.scan.Token(places)
	return s.out.send(m)
}
