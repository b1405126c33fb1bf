package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Scanner reads a range of a store. It is not safe for concurrent use.
type Scanner struct {
	c       *Client
	session *Session
	r       *read
	err     error // wrong options
	ctx     func() context.Context

	rows     []*iqv1.Row // received and not yet taken
	token    []byte      // goes on after rows
	before   []byte      // goes on before those of rows' message
	more     bool        // the server may have more
	received int64
	reads    reads
}

// Scan reads the entries of a store, in the order of their keys over all partitions, then of their times. Options say which,
// how many and in which order; without any it is the whole store.
//
//	for row, err := range c.Scan(ctx, "by-dest", client.Prefix([]byte("A"))).Rows() { ... }
//
// A scan ends without an error only when everything that was asked for has been handed over. A router or replica that fails
// midway is replaced by another that goes on after the last row, so that nothing is lost or comes twice; where that is not
// possible the loop gets the error, ErrPageLost for one.
func (c *Client) Scan(ctx context.Context, store string, opts ...ReadOption) *Scanner {
	return c.scanIn(ctx, nil, store, opts)
}

func (c *Client) scanIn(ctx context.Context, session *Session, store string, opts []ReadOption) *Scanner {
	s := &Scanner{c: c, session: session, more: true, reads: reads{}, ctx: func() context.Context { return ctx }}
	s.r, s.err = c.readWide(callScan, session, store, opts)
	s.token = s.r.wide.scan.GetPageToken()
	s.before = s.token
	return s
}

// Rows are the rows. The loop's last pair may be an error. A loop that was left can be gone on with by another one over Rows,
// after an error too: it goes on with the row after the last.
func (s *Scanner) Rows() iter.Seq2[Row, error] { return s.run }

// Token goes on after the last row that a loop over Rows has handed over, with PageToken, in this or another process. It is
// exact once the loop has ended by itself, as with Limit. Of a loop that was left midway some of the last rows come again:
// there are tokens only between the messages in which rows travel. It is empty when nothing is left, and before the first
// row: More tells these apart.
func (s *Scanner) Token() []byte {
	if len(s.rows) > 0 {
		return s.before
	}
	return s.token
}

// More says that there may be rows that were not handed over yet: Limit or the caller has ended the loop.
func (s *Scanner) More() bool { return s.more || len(s.rows) > 0 }

// Reads says for each partition which replica the newest rows come from, at which position.
func (s *Scanner) Reads() []*iqv1.PartitionRead { return s.reads.sorted() }

func (s *Scanner) run(yield func(Row, error) bool) {
	if s.err != nil {
		yield(Row{}, s.err)
		return
	}
	if !s.hand(yield) {
		return
	}
	ctx := s.ctx()
	for tries := s.c.newTries(); s.more && !s.full(); {
		started := time.Now()
		err := s.follow(ctx, tries, yield)
		switch {
		case errors.Is(err, errTaken):
			return
		case err == nil || !s.more || s.full():
			continue
		}
		if err := tries.fail(ctx, err, time.Since(started)); err != nil {
			yield(Row{}, err)
			return
		}
	}
}

// full says that the limit is reached.
func (s *Scanner) full() bool {
	limit := s.r.wide.scan.GetLimit()
	return limit > 0 && s.received >= limit
}

// hand hands over what was received. It returns false when the caller ends the loop.
func (s *Scanner) hand(yield func(Row, error) bool) bool {
	for len(s.rows) > 0 {
		row := s.rows[0]
		s.rows = s.rows[1:]
		if !yield(rowOf(row), nil) {
			return false
		}
	}
	return true
}

// follow takes what one target sends. It returns nil when the target ended in order.
func (s *Scanner) follow(ctx context.Context, tries *tries, yield func(Row, error) bool) error {
	ctx, l := tries.listen(ctx, s.patience())
	defer l.close()
	req, err := s.request(ctx)
	if err != nil {
		return err
	}
	stream, err := tries.target().query.Scan(ctx, req)
	if err != nil {
		return silent(ctx, err)
	}
	sent, left, worked := false, false, false
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && sent && left && !worked && !s.full():
			return errUnfinished // asking again would not help
		case errors.Is(err, io.EOF):
			if !sent || !left {
				s.more, s.token = false, nil
			}
			return nil // with rows left and no limit reached, another stream goes on
		case err != nil:
			return silent(ctx, err)
		}
		l.heard()
		sent, left = true, len(m.GetPageToken()) > 0
		if s.take(m) {
			worked = true
			tries.progressed()
		}
		if !s.hand(yield) {
			return errTaken
		}
		l.listen()
	}
}

// patience is how long a target may take beyond what any may.
func (s *Scanner) patience() time.Duration {
	if s.r.wide.selection.GetFilter() != "" {
		return s.r.wait() + CountTime
	}
	return s.r.wait()
}

// request is for what was not received yet.
func (s *Scanner) request(ctx context.Context) (*iqv1.ScanRequest, error) {
	if s.session != nil {
		if err := s.session.begin(ctx, s.r); err != nil {
			return nil, err
		}
	}
	w := s.r.wide
	req := &iqv1.ScanRequest{
		Selection: &w.selection, Policy: s.r.get.Policy, Reverse: w.scan.GetReverse(), KeysOnly: w.scan.GetKeysOnly(),
		Order: w.scan.GetOrder(), Fields: w.scan.GetFields(), PageToken: s.token,
	}
	if limit := w.scan.GetLimit(); limit > 0 {
		req.Limit = limit - s.received
	}
	return req, nil
}

// take notes a message, and says whether it brings the scan on. One without rows says nothing by an empty token: it may tell
// of reads alone.
func (s *Scanner) take(m *iqv1.ScanResponse) bool {
	s.reads.note(m.GetReads())
	if s.session != nil {
		for _, r := range m.GetReads() {
			s.session.saw(s.r.get.GetStore(), r.GetInputPosition())
		}
	}
	rows, token := m.GetRows(), m.GetPageToken()
	if len(rows) == 0 && len(token) == 0 {
		return false
	}
	worked := len(rows) > 0 || !bytes.Equal(token, s.token)
	s.before, s.token, s.rows, s.more = s.token, token, rows, len(token) > 0
	s.received += int64(len(rows))
	return worked
}
