package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path"

	"github.com/iqgate/iqgate/gateway/shape"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// rowAnswer is an entry, by its name in the OpenAPI document.
type rowAnswer shape.Row

// endAnswer is the last line of a scan that has given all that was asked for.
type endAnswer struct {
	End shape.ScanEnd `json:"end"`
}

// failureAnswer is the last line of a scan that has broken off.
type failureAnswer struct {
	Error     json.RawMessage `json:"error" ref:"Status"`
	Rows      int64           `json:"rows" doc:"rows that came before; they are right"`
	PageToken *string         `json:"page_token" doc:"where to go on after them; null for from the start"`
}

const rowsExample = `{"key":"ATL","value":1396,"value_format":"int64","timestamp_ms":1700000040000,"partition":3}
{"end":{"rows":1,"page_token":null,"reads":[]}}
`

type countAnswer struct {
	Store       string       `json:"store"`
	Count       int64        `json:"count"`
	Approximate bool         `json:"approximate" doc:"it is an estimate"`
	Reads       []shape.Read `json:"reads"`
}

// row is an entry as f writes it; a removed one has no value and no timestamp.
func (f formats) row(r *iqv1.Row, withValue, removed bool) rowAnswer {
	a := rowAnswer{Partition: r.GetPartition(), Start: r.StartMs, End: r.EndMs, Deleted: r.GetDeleted()}
	a.Key, _ = f.key.JSON(r.GetKey())
	if !removed {
		a.Timestamp = &r.TimestampMs
	}
	if withValue && !removed && !r.GetDeleted() {
		a.Value, a.ValueFormat = f.value.JSON(r.GetValue())
	}
	return a
}

// countRows counts what scan would give.
func (c *call) countRows() error {
	f, err := c.formats()
	if err != nil {
		return err
	}
	selection, err := c.selection(f)
	if err != nil {
		return err
	}
	resp, err := c.query.Count(c, &iqv1.CountRequest{Selection: selection, Policy: c.policy, Approximate: c.approximate})
	if err != nil {
		return err
	}
	return c.reply(countAnswer{Store: c.store, Count: resp.GetCount(), Approximate: resp.GetApproximate(), Reads: shape.ReadsOf(resp.GetReads())})
}

// scan streams the entries of a selection.
func (c *call) scan() error {
	f, err := c.formats()
	if err != nil {
		return err
	}
	selection, err := c.selection(f)
	if err != nil {
		return err
	}
	m := &iqv1.ScanRequest{
		Selection: selection, Policy: c.policy, Reverse: c.reverse, Limit: c.limit, KeysOnly: c.keysOnly, PageToken: c.pageToken, Fields: c.fields,
	}
	if c.byPartition {
		m.Order = iqv1.ScanRequest_ORDER_PARTITION
	}
	return c.stream(f, m)
}

// entriesOfKey streams the windows, sessions or versions of one key.
func (c *call) entriesOfKey() error {
	f, key, err := c.parsedKey()
	if err != nil {
		return err
	}
	if err := c.wantKind(f.info, kindOf[path.Base(c.route.path)]); err != nil {
		return err
	}
	return c.stream(f, &iqv1.ScanRequest{
		Selection: &iqv1.Selection{
			Store: c.store, Keys: &iqv1.Selection_Key{Key: notNil(key)}, Times: c.rangeOfTimes(), Partitions: c.partitions,
		},
		Policy: c.policy, Reverse: c.reverse, Limit: c.limit, PageToken: c.pageToken,
	})
}

// stream sends the rows of a scan as they come, and how it ended.
//
//  1. Until the first message has come an error is the answer, with its status.
//  2. Each message is one write, so that rows are seen as soon as they are there.
//  3. The last line is endAnswer or failureAnswer. A caller that takes nothing for StreamIdle gets neither.
func (c *call) stream(f formats, m *iqv1.ScanRequest) error {
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	scan, err := c.query.Scan(ctx, m)
	if err != nil {
		return err
	}
	resp, err := scan.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	c.w.Header().Set("Content-Type", mediaRows)
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies that know it pass rows on as they come
	c.w.WriteHeader(http.StatusOK)
	var (
		rows  int64
		token *string
		reads = []shape.Read{}
		b     bytes.Buffer
	)
	for ; err == nil; resp, err = scan.Recv() {
		b.Reset()
		for _, r := range resp.GetRows() {
			if err := encodeTo(&b, f.row(r, !m.GetKeysOnly(), false)); err != nil {
				c.giveUp(err)
			}
		}
		rows += int64(len(resp.GetRows()))
		reads = append(reads, shape.ReadsOf(resp.GetReads())...)
		token = nil
		if len(resp.GetPageToken()) > 0 {
			token = new(base64.RawURLEncoding.EncodeToString(resp.GetPageToken()))
		}
		if err := c.send(b.Bytes()); err != nil {
			return nil // who has gone needs no answer
		}
	}
	var last any = endAnswer{shape.ScanEnd{Rows: rows, PageToken: token, Reads: reads}}
	if !errors.Is(err, io.EOF) {
		last = failureAnswer{Error: statusJSON(asParameters(err)), Rows: rows, PageToken: token}
	}
	line, err := encode(last)
	if err != nil {
		c.giveUp(err)
	}
	_ = c.send(line) // who has gone needs no end
	return nil
}

// send writes a part of a stream and sends it.
func (c *call) send(part []byte) error {
	if len(part) > 0 {
		if _, err := c.w.Write(part); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.w).Flush()
}

// giveUp breaks a stream off that cannot be brought to its end, so that it is not taken for whole. Only a fault of this program
// makes it so.
func (c *call) giveUp(err error) {
	c.config.Logger.ErrorContext(c, "a row cannot be written as JSON", slog.Any("error", err))
	panic(http.ErrAbortHandler)
}
