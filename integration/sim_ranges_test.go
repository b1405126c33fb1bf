//go:build synctests

package integration

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/integration/history"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// readRanges scans, counts and looks many keys up until ctx ends.
func (w *simWorld) readRanges(ctx context.Context) {
	r := simRand(w.plan.seed, 30)
	for ctx.Err() == nil {
		read := history.Read{Partition: history.Partition{Store: pick(r, w.plan.stores()), Partition: history.Unknown}}
		read.Router, read.Direct = w.whom(r)
		read.Policy = w.policy(r, read, nil)
		if r.IntN(2) == 0 { // with bounds a scan of all partitions mostly fails while there are faults
			read.Policy = history.Policy{Mode: history.Any, MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
		}
		var wait time.Duration
		if r.IntN(3) == 0 {
			wait = between(r, 10*time.Millisecond, 1500*time.Millisecond)
		}
		switch r.IntN(4) {
		case 0:
			w.multiGet(ctx, r, read, wait)
		case 1:
			w.count(ctx, r, read, wait)
		default:
			w.pages(ctx, r, read, wait)
		}
		time.Sleep(between(r, 0, 150*time.Millisecond))
	}
}

// selection chooses a part of the store, as a request and as the history has it.
func (w *simWorld) selection(r *rand.Rand, store string) (*iqv1.Selection, history.Range) {
	sel, g := &iqv1.Selection{Store: store}, history.Range{}
	switch r.IntN(4) {
	case 0:
		g.Prefix = pick(r, []string{"k", "k1", "g", "g2", "x"})
		sel.Keys = &iqv1.Selection_Prefix{Prefix: []byte(g.Prefix)}
	case 1:
		key := w.plan.keyOf(store, r.IntN(100))
		g.Keys = []string{key}
		sel.Keys = &iqv1.Selection_Key{Key: []byte(key)}
	}
	return sel, g
}

// pages scans, in pages where the seed says so.
func (w *simWorld) pages(ctx context.Context, r *rand.Rand, read history.Read, wait time.Duration) {
	sel, g := w.selection(r, read.Store)
	req := &iqv1.ScanRequest{Selection: sel, Policy: policyProto(read.Policy, wait), Reverse: r.IntN(2) == 0}
	g.Reverse = req.GetReverse()
	if r.IntN(3) == 0 {
		req.Order = iqv1.ScanRequest_ORDER_PARTITION
	}
	after := make(map[int32]history.Entry)
	for {
		req.Limit = 0
		if r.IntN(2) == 0 {
			req.Limit = 1 + r.Int64N(8)
		}
		w.scan(ctx, read, g, req, after, wait)
		if len(req.GetPageToken()) == 0 || ctx.Err() != nil {
			return
		}
		read.Router, read.Direct = w.whom(r) // a page token is good anywhere
		time.Sleep(between(r, 0, 200*time.Millisecond))
	}
}

// A simScan gathers what a scan tells of one partition from one replica.
type simScan struct {
	read  history.Read
	after *history.Entry
}

// scan scans once, notes and returns what was told, moves after to each partition's last row, and the request to the next
// page, without a page token when nothing is left or the scan failed.
func (w *simWorld) scan(ctx context.Context, read history.Read, g history.Range, req *iqv1.ScanRequest, after map[int32]history.Entry, wait time.Duration) []history.Read {
	query, before := w.server(read.Router, read.Direct)
	if query == nil {
		req.PageToken = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+simReadTimeout)
	defer cancel()
	read.Invoked = w.now()
	var reads []history.Read
	open := make(map[int32]*simScan)
	done := func(s *simScan, whole bool) { // what comes from a replica ends with its last row, unless the partition ends
		part := g
		part.After = s.after
		if !whole {
			if len(s.read.Rows) == 0 {
				return
			}
			part.UpTo = &s.read.Rows[len(s.read.Rows)-1].Entry
		}
		s.read.Range = &part
		reads = append(reads, s.read)
	}
	var token []byte
	stream, err := query.Scan(ctx, req)
	for err == nil {
		var m *iqv1.ScanResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		token = m.GetPageToken()
		for _, pr := range m.GetReads() {
			if s := open[pr.GetPartition()]; s != nil {
				done(s, false)
			}
			s := &simScan{read: read}
			simServed(&s.read, pr.GetServed(), pr.GetInputPosition())
			s.read.Partition.Partition = pr.GetPartition()
			if e, ok := after[pr.GetPartition()]; ok {
				s.after = &e
			}
			open[pr.GetPartition()] = s
		}
		for _, row := range m.GetRows() {
			s := open[row.GetPartition()]
			if s == nil {
				w.failed(errors.New("a row before its partition was told: " + row.String()))
				req.PageToken = nil
				return nil
			}
			s.read.Rows = append(s.read.Rows, simRow(read.Store, row))
			after[row.GetPartition()] = s.read.Rows[len(s.read.Rows)-1].Entry
		}
	}
	whole := errors.Is(err, io.EOF) && len(token) == 0
	for _, s := range open {
		done(s, whole)
	}
	if !errors.Is(err, io.EOF) {
		token = nil
		read.Failed = err.Error()
		reads = append(reads, read)
	}
	for i := range reads {
		reads[i].Returned = w.now()
	}
	w.note(before, reads...)
	req.PageToken = token
	return reads
}

// count counts a partition.
func (w *simWorld) count(ctx context.Context, r *rand.Rand, read history.Read, wait time.Duration) {
	query, before := w.server(read.Router, read.Direct)
	if query == nil {
		return
	}
	sel, g := w.selection(r, read.Store)
	read.Partition.Partition = r.Int32N(w.plan.partitions)
	sel.Partitions = []int32{read.Partition.Partition}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+simReadTimeout)
	defer cancel()
	read.Invoked = w.now()
	resp, err := query.Count(ctx, &iqv1.CountRequest{Selection: sel, Policy: policyProto(read.Policy, wait)})
	read.Returned = w.now()
	switch {
	case err != nil:
		read.Failed = err.Error()
	case len(resp.GetReads()) == 1:
		g.Counted, g.Count = true, int(resp.GetCount())
		simServed(&read, resp.GetReads()[0].GetServed(), resp.GetReads()[0].GetInputPosition())
	case g.Keys != nil && w.partitionOf(g.Keys[0]) != read.Partition.Partition && resp.GetCount() == 0:
		return // the key is nowhere in that partition, so nobody was asked
	default:
		w.failed(errors.New("a count of one partition: " + resp.String()))
		return
	}
	read.Range = &g
	w.note(before, read)
}

// multiGet looks some keys up at once.
func (w *simWorld) multiGet(ctx context.Context, r *rand.Rand, read history.Read, wait time.Duration) {
	query, before := w.server(read.Router, read.Direct)
	if query == nil {
		return
	}
	read.Store = pick(r, w.plan.keyed())
	req := &iqv1.MultiGetRequest{Store: read.Store, Policy: policyProto(read.Policy, wait)}
	asked := make(map[int32][]string)
	var keys []string
	for range 1 + r.IntN(6) {
		key := w.plan.keyOf(read.Store, r.IntN(100))
		keys, req.Keys = append(keys, key), append(req.Keys, []byte(key))
		asked[w.partitionOf(key)] = append(asked[w.partitionOf(key)], key)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+simReadTimeout)
	defer cancel()
	read.Invoked = w.now()
	resp, err := query.MultiGet(ctx, req)
	read.Returned = w.now()
	if err != nil {
		read.Failed = err.Error()
		w.note(before, read)
		return
	}
	told := make(map[int32]*history.Read)
	for _, pr := range resp.GetPartitions() {
		part := read
		simServed(&part, pr.GetServed(), pr.GetInputPosition())
		part.Partition.Partition = pr.GetPartition()
		part.Range = &history.Range{Keys: slices.Compact(slices.Sorted(slices.Values(asked[pr.GetPartition()])))}
		told[pr.GetPartition()] = &part
	}
	for i, res := range resp.GetResults() {
		p := w.partitionOf(keys[i])
		switch part := told[p]; {
		case res.Read == nil:
			part := read
			part.Partition.Partition, part.Range, part.Failed = p, &history.Range{Keys: keys[i : i+1]}, res.GetError().GetMessage()
			w.note(before, part)
			delete(told, p) // some of its keys failed
		case part != nil && res.GetFound():
			row := history.Row{Entry: history.Entry{Key: keys[i]}, Value: simValue(read.Store, res.GetValue())}
			if read.Store == simVersions {
				row.Start = res.GetTimestampMs()
			}
			if !slices.Contains(part.Rows, row) {
				part.Rows = append(part.Rows, row)
			}
		}
	}
	for _, part := range told {
		slices.SortFunc(part.Rows, func(a, b history.Row) int { return strings.Compare(a.Key, b.Key) })
		w.note(before, *part)
	}
}
