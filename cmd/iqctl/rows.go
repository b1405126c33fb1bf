package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// outputRaw prints values alone, as they are.
const outputRaw = "raw"

// rawAnnotation marks the commands that know -o raw.
const rawAnnotation = "raw"

func takesRaw(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{rawAnnotation: "yes"}
	return cmd
}

func (a *app) raw() bool { return a.output == outputRaw }

// hexSerde shows and takes all bytes as hexadecimal digits after 0x; typed ones may do without.
type hexSerde struct{}

func (hexSerde) Name() string { return shape.NameHex }

func (hexSerde) Parse(text string) ([]byte, error) {
	data, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, fmt.Errorf("%q: must be hexadecimal digits, two a byte", text)
	}
	return data, nil
}

func (hexSerde) Format(data []byte) (string, error) { return "0x" + hex.EncodeToString(data), nil }

// keyText shows a key, as bytes where its format cannot read it.
func (f formats) keyText(key []byte) string {
	if text, err := f.key.Format(key); err == nil {
		return text
	}
	return asBytes(key)
}

// parseTimes reads both ends of a range; an empty text is no bound, and its time zero.
func parseTimes(cmd *cobra.Command, flag, from, to string, now time.Time) (begin, end time.Time, err error) {
	for _, x := range []struct {
		text string
		to   *time.Time
	}{{from, &begin}, {to, &end}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = shape.ParseTime(x.text, now); err != nil {
			return begin, end, usage(cmd, fmt.Errorf("%s %q: %w", flag, x.text, err))
		}
	}
	return begin, end, nil
}

// timeText shows a time with milliseconds, in UTC; a zero one not at all.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// timeMs is a time for JSON: milliseconds since the epoch, null for none.
func timeMs(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// liveTable writes rows one by one under a heading. A column is as wide as its widest cell so far.
type liveTable struct {
	p       *printer
	heading []string
	widths  []int
	held    [][]string // until the widths of a first screen are known
	live    bool       // nothing is held but the first row
}

// tableLookahead is how many rows a table looks at before it writes the first, so that they are aligned.
const tableLookahead = 200

func (t *liveTable) row(cells ...string) {
	if t.widths != nil { // the first screen is written
		t.write(cells)
		return
	}
	if t.held = append(t.held, cells); t.live || len(t.held) >= tableLookahead {
		t.flush()
	}
}

// flush writes what is held.
func (t *liveTable) flush() {
	held := t.held
	t.held = nil
	if t.widths == nil {
		held = append([][]string{t.heading}, held...)
	}
	for _, cells := range held {
		t.widen(cells)
	}
	for _, cells := range held {
		t.write(cells)
	}
}

func (t *liveTable) widen(cells []string) {
	if t.widths == nil {
		t.widths = make([]int, len(t.heading))
	}
	for i, c := range cells {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cellText(c)))
	}
}

func (t *liveTable) write(cells []string) {
	t.widen(cells)
	var b strings.Builder
	for i, c := range cells {
		c = cellText(c)
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c)+2))
		}
	}
	t.p.line(strings.TrimRight(b.String(), " "))
}

// cellText keeps a cell on its line.
func cellText(c string) string {
	if strings.ContainsAny(c, "\t\n\v\f\r") {
		c = strconv.Quote(c)
	}
	return orUnknown(c)
}

// printLine prints one JSON object on one line.
func printLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// rowShape is an entry as f writes it, with its key as text.
func rowShape(f formats, r client.Row, keysOnly bool) shape.Row {
	s := shape.Row{
		Key: f.keyText(r.Key), Timestamp: new(r.Timestamp.UnixMilli()), Partition: r.Partition, Start: timeMs(r.Start), End: timeMs(r.End),
		Deleted: r.Deleted,
	}
	if !keysOnly && !r.Deleted {
		s.Value, s.ValueFormat = f.value.JSON(r.Value)
	}
	return s
}

// reads says in words who answered for each partition.
func (p *printer) reads(reads []*iqv1.PartitionRead) {
	for _, r := range reads {
		text := fmt.Sprintf("partition %d served by %s %s", r.GetPartition(), r.GetServed().GetNode(), iqerr.Standing(r.GetServed()))
		if lag := iqerr.Lag(r.GetServed()); lag != "" {
			text += ", " + lag + " behind"
		}
		p.line(text)
	}
}

func rowsText(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return strconv.FormatInt(n, 10) + " rows"
}
