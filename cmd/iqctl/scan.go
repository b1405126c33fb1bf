package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
)

// scanFlags are the flags of scan and count.
type scanFlags struct {
	readFlags
	from, to, after, before, prefix string
	partitions                      []int32
	filter                          string
	times, since, asOf              string
	reverse, keysOnly, byPartition  bool
	limit                           int64
	fields                          []string
	pageToken                       string
}

// addSelection adds the flags that say which entries are meant.
func (s *scanFlags) addSelection(cmd *cobra.Command) {
	s.addPolicy(cmd)
	s.addKeyFormat(cmd)
	s.addHex(cmd)
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "first key, included")
	f.StringVar(&s.after, "from-exclusive", "", "key to begin after")
	f.StringVar(&s.to, "to", "", "last key, included")
	f.StringVar(&s.before, "to-exclusive", "", "key to end before")
	f.StringVar(&s.prefix, "prefix", "", "only keys whose bytes begin with those of this text; 0x and hexadecimal digits for any bytes")
	f.Int32SliceVar(&s.partitions, "partition", nil, "only these store partitions, several with commas (default: all)")
	f.StringVar(&s.filter, "filter", "", "only entries for which this CEL expression over key, value, timestamp_ms and partition is true; for json values")
	f.StringVar(&s.times, "times", "", "only windows that start, sessions that overlap, or versions that were valid from..to; either may be left out")
	f.StringVar(&s.since, "since", "", "as --times, from then until now and later")
	f.StringVar(&s.asOf, "as-of", "", "the versions of a versioned store that were valid at this time")
}

// selection turns the flags into read options.
func (s *scanFlags) selection(cmd *cobra.Command, f formats, now time.Time) ([]client.ReadOption, error) {
	opts, err := s.options(cmd)
	if err != nil {
		return nil, err
	}
	for _, x := range []struct {
		flag, text string
		option     func([]byte) client.ReadOption
	}{
		{"from", s.from, client.From}, {"from-exclusive", s.after, client.After}, {"to", s.to, client.To}, {"to-exclusive", s.before, client.Before},
	} {
		if !cmd.Flags().Changed(x.flag) {
			continue
		}
		key, err := f.key.Parse(x.text)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--%s %q: %w", x.flag, x.text, err))
		}
		opts = append(opts, x.option(key))
	}
	for _, x := range [][2]string{{"from", "from-exclusive"}, {"to", "to-exclusive"}, {"times", "since"}} {
		if cmd.Flags().Changed(x[0]) && cmd.Flags().Changed(x[1]) {
			return nil, usage(cmd, fmt.Errorf("--%s contradicts --%s; give one of them", x[1], x[0]))
		}
	}
	if cmd.Flags().Changed("prefix") {
		prefix, err := parsePrefix(s.prefix, s.hex)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--prefix %q: %w", s.prefix, err))
		}
		opts = append(opts, client.Prefix(prefix))
	}
	if len(s.partitions) > 0 {
		opts = append(opts, client.Partitions(s.partitions...))
	}
	if s.filter != "" {
		opts = append(opts, client.Filter(s.filter))
	}
	return s.timeOptions(cmd, opts, now)
}

func (s *scanFlags) timeOptions(cmd *cobra.Command, opts []client.ReadOption, now time.Time) ([]client.ReadOption, error) {
	if cmd.Flags().Changed("times") {
		from, to, ok := strings.Cut(s.times, "..")
		if !ok {
			return nil, usage(cmd, fmt.Errorf("--times %q: must be FROM..TO, such as -1h..-5m", s.times))
		}
		begin, end, err := parseTimes(cmd, "--times", from, to, now)
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.Times(begin, end))
	}
	if cmd.Flags().Changed("since") {
		begin, _, err := parseTimes(cmd, "--since", s.since, "", now)
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.Times(begin, time.Time{}))
	}
	if cmd.Flags().Changed("as-of") {
		at, err := shape.ParseTime(s.asOf, now)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--as-of %q: %w", s.asOf, err))
		}
		opts = append(opts, client.AsOf(at))
	}
	return opts, nil
}

// parsePrefix takes bytes: the beginning of a key is seldom a key of its format.
func parsePrefix(text string, hexOnly bool) ([]byte, error) {
	if hexOnly || strings.HasPrefix(text, "0x") {
		return hexSerde{}.Parse(text)
	}
	return []byte(text), nil
}

func newScanCommand(a *app) *cobra.Command {
	var s scanFlags
	cmd := &cobra.Command{
		Use:   "scan STORE",
		Short: "Read a range of keys, or all of a store, in the order of the keys",
		Long: `scan reads the entries of a store in the order of their keys' bytes, over all partitions, and says at the end who
served each partition. It ends with exit code 0 only when everything that was asked for has been printed: a router or replica
that fails midway is replaced by another, without loss or repetition.

Times are RFC 3339, milliseconds since the epoch, or how long ago: -5m.

-o json prints an object a line, and at the end one with "end": the number of rows, the page token and who served. -o raw
prints the value of each row as it is, and a line feed; with --keys-only the key. A scan takes as long as it takes unless
--timeout is given.`,
		Example: `  iqctl scan by-dest --prefix A --limit 10
  iqctl scan orders --from 100 --to-exclusive 200 --reverse --policy any
  iqctl scan orders --filter 'value.total > 100.0' --fields id,total -o json
  iqctl scan clicks-per-minute --since -15m`,
		Args: exactArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.scan(cmd.Context(), cmd, &s, args[0]) },
	}
	s.addSelection(cmd)
	s.addValueFormat(cmd)
	f := cmd.Flags()
	f.BoolVar(&s.reverse, "reverse", false, "turn the order of keys and times round")
	f.Int64Var(&s.limit, "limit", 0, "end after so many rows, and print a page token if there may be more (default: all)")
	f.BoolVar(&s.keysOnly, "keys-only", false, "leave the values out")
	f.BoolVar(&s.byPartition, "by-partition", false, "partition after partition, in place of one order of keys over all")
	f.StringSliceVar(&s.fields, "fields", nil, "only these fields of json values, several with commas")
	f.StringVar(&s.pageToken, "page-token", "", "go on where a scan with the same flags ended")
	return takesRaw(cmd)
}

func (a *app) scan(ctx context.Context, cmd *cobra.Command, s *scanFlags, store string) error {
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, err := s.formats(ctx, c, store)
	if err != nil {
		return err
	}
	opts, err := s.selection(cmd, f, time.Now())
	if err != nil {
		return err
	}
	opts = s.scanOptions(cmd, opts)
	if cmd.Flags().Changed("page-token") {
		token, err := base64.RawURLEncoding.DecodeString(s.pageToken)
		if err != nil {
			return usage(cmd, fmt.Errorf("--page-token %q: is not one that a scan has printed", s.pageToken))
		}
		opts = append(opts, client.PageToken(token))
	}
	_, err = a.printScan(c.Scan(ctx, store, opts...), f, s.keysOnly)
	return err
}

func (s *scanFlags) scanOptions(cmd *cobra.Command, opts []client.ReadOption) []client.ReadOption {
	for _, x := range []struct {
		set    bool
		option client.ReadOption
	}{
		{s.reverse, client.Reverse()},
		{s.keysOnly, client.KeysOnly()},
		{s.byPartition, client.OrderByPartition()},
		{cmd.Flags().Changed("limit"), client.Limit(s.limit)},
		{len(s.fields) > 0, client.Fields(s.fields...)},
	} {
		if x.set {
			opts = append(opts, x.option)
		}
	}
	return opts
}

// printScan prints rows as they come, then how the scan ended, and gives their number. What came before an error is printed.
func (a *app) printScan(s *client.Scanner, f formats, keysOnly bool) (n int64, err error) {
	p := &printer{w: a.out}
	out := &rowPrinter{a: a, f: f, keysOnly: keysOnly, table: liveTable{p: p}}
	for row, err := range s.Rows() {
		if err == nil {
			err = out.print(row, n == 0)
		}
		if err != nil {
			out.flush()
			return n, err
		}
		n++
	}
	out.flush()
	token := ""
	if s.More() {
		token = base64.RawURLEncoding.EncodeToString(s.Token())
	}
	switch {
	case a.json():
		end := shape.ScanEnd{Rows: n, Reads: shape.ReadsOf(s.Reads())}
		if token != "" {
			end.PageToken = &token
		}
		return n, printLine(a.out, map[string]any{"end": end})
	case a.raw():
		p.w = a.errs // the rows alone go to the output
	default:
		p.line(rowsText(n))
		p.reads(s.Reads())
	}
	if token != "" {
		p.line("more: --page-token " + token)
	}
	return n, p.err
}

// rowPrinter prints rows of one kind of store.
type rowPrinter struct {
	a        *app
	f        formats
	keysOnly bool
	timed    bool // rows have a start and perhaps an end
	table    liveTable
}

func (o *rowPrinter) print(row client.Row, first bool) error {
	switch {
	case o.a.json():
		return printLine(o.a.out, rowShape(o.f, row, o.keysOnly))
	case o.a.raw():
		data := row.Value
		if o.keysOnly {
			data = row.Key
		}
		o.table.p.write(string(data) + "\n")
		return o.table.p.err
	}
	if first {
		o.timed = !row.Start.IsZero()
		o.table.heading = o.heading()
	}
	o.table.row(o.cells(row)...)
	return o.table.p.err
}

func (o *rowPrinter) heading() []string {
	h := []string{"KEY"}
	if o.timed {
		h = append(h, "START", "END")
	}
	if !o.keysOnly {
		h = append(h, "VALUE")
	}
	return append(h, "TIMESTAMP", "PARTITION")
}

func (o *rowPrinter) cells(row client.Row) []string {
	cells := []string{o.f.keyText(row.Key)}
	if o.timed {
		cells = append(cells, timeText(row.Start), timeText(row.End))
	}
	if !o.keysOnly {
		text, _ := o.f.text(row.Value)
		if row.Deleted {
			text = "(deleted)"
		}
		cells = append(cells, text)
	}
	return append(cells, timeText(row.Timestamp), strconv.Itoa(int(row.Partition)))
}

func (o *rowPrinter) flush() {
	if o.table.heading != nil {
		o.table.flush()
	}
}

func newCountCommand(a *app) *cobra.Command {
	var (
		s      scanFlags
		approx bool
	)
	cmd := &cobra.Command{
		Use:   "count STORE",
		Short: "Count the entries that a scan would print",
		Long: `count counts the entries that a scan with the same flags would print. It reads them all, and takes as long as it takes
unless --timeout is given; --approximate allows an estimate for whole partitions of a key-value store.`,
		Example: `  iqctl count by-dest
  iqctl count orders --prefix eu- --policy any
  iqctl count orders --approximate`,
		Args: exactArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.count(cmd.Context(), cmd, &s, approx, args[0]) },
	}
	s.addSelection(cmd)
	cmd.Flags().BoolVar(&approx, "approximate", false, "an estimate is good enough")
	return takesRaw(cmd)
}

func (a *app) count(ctx context.Context, cmd *cobra.Command, s *scanFlags, approx bool, store string) error {
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, err := s.keyFormats(ctx, c, store)
	if err != nil {
		return err
	}
	opts, err := s.selection(cmd, f, time.Now())
	if err != nil {
		return err
	}
	if approx {
		opts = append(opts, client.Approximate())
	}
	res, err := c.Count(ctx, store, opts...)
	if err != nil {
		return err
	}
	p := &printer{w: a.out}
	switch {
	case a.json():
		return printJSON(a.out, map[string]any{"store": store, "count": res.Count, "approximate": res.Approximate, "reads": shape.ReadsOf(res.Reads)})
	case a.raw():
		p.line(strconv.FormatInt(res.Count, 10))
	default:
		text := strconv.FormatInt(res.Count, 10)
		if res.Approximate {
			text = "about " + text
		}
		p.line(text)
		p.reads(res.Reads)
	}
	return p.err
}

// keyedFlags are the flags of the commands that read all that one key has in time.
type keyedFlags struct {
	readFlags
	from, to string
}

// newKeyedCommand makes window, session and versions, which are alike.
func newKeyedCommand(a *app, use, short, long, example string) *cobra.Command {
	var k keyedFlags
	cmd := &cobra.Command{
		Use: use + " STORE KEY", Short: short, Args: exactArgs("STORE", "KEY"), Example: example,
		Long: long + `

Times are RFC 3339, milliseconds since the epoch, or how long ago: -5m. Both ends are included. -o json prints an object a
line, and at the end one with "end". A key that has none gives exit code 3.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.keyed(cmd.Context(), cmd, &k, args[0], args[1])
		},
	}
	k.add(cmd)
	k.addValueFormat(cmd)
	k.addHex(cmd)
	cmd.Flags().StringVar(&k.from, "from", "", "no earlier than this time")
	cmd.Flags().StringVar(&k.to, "to", "", "no later than this time")
	return takesRaw(cmd)
}

func newWindowCommand(a *app) *cobra.Command {
	return newKeyedCommand(a, "window", "Read the windows of a key",
		`window reads the windows of a key that start between two times, in their order, each with its start and exclusive end.`,
		"  iqctl window clicks-per-minute /home --from -15m\n  iqctl window clicks-per-minute /home --from 2026-01-31T12:00:00Z --to 2026-01-31T13:00:00Z -o json")
}

func newSessionCommand(a *app) *cobra.Command {
	return newKeyedCommand(a, "session", "Read the sessions of a key",
		`session reads the sessions of a key that overlap the time between two times, each with its start and included end.`,
		"  iqctl session visits alice\n  iqctl session visits alice --from -24h")
}

func newVersionsCommand(a *app) *cobra.Command {
	return newKeyedCommand(a, "versions", "Read the versions of a key",
		`versions reads the versions of a key that were valid between two times, with the time from which each was valid and the
exclusive time until which; deletions are versions too. The latest has no end.`,
		"  iqctl versions prices apple\n  iqctl versions prices apple --from 2026-01-01T00:00:00Z --to -1h")
}

func (a *app) keyed(ctx context.Context, cmd *cobra.Command, k *keyedFlags, store, keyText string) error {
	opts, err := k.options(cmd)
	if err != nil {
		return err
	}
	from, to, err := parseTimes(cmd, "--from/--to", k.from, k.to, time.Now())
	if err != nil {
		return err
	}
	ctx, c, done, err := a.connect(ctx, k.wait)
	if err != nil {
		return err
	}
	defer done()
	f, err := k.formats(ctx, c, store)
	if err != nil {
		return err
	}
	key, err := f.parseKey(keyText)
	if err != nil {
		return err
	}
	n, err := a.printScan(c.Scan(ctx, store, append(opts, client.Key(key), client.Times(from, to))...), f, false)
	if err == nil && n == 0 {
		err = errNotFound
	}
	return err
}

func newAsOfCommand(a *app) *cobra.Command {
	var r readFlags
	cmd := &cobra.Command{
		Use:   "asof STORE KEY TIME",
		Short: "Read the version of a key that was valid at a time",
		Long: `asof reads the version of a key of a versioned store that was valid at a time, and prints what get does and until when
it was valid. TIME is RFC 3339, milliseconds since the epoch, or how long ago: 5m, or -- -5m.`,
		Example: "  iqctl asof prices apple 2026-01-31T12:00:00Z\n  iqctl asof prices apple 24h",
		Args:    exactArgs("STORE", "KEY", "TIME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := shape.ParseTime(args[2], time.Now())
			if err != nil {
				return usage(cmd, fmt.Errorf("TIME %q: %w", args[2], err))
			}
			return a.get(cmd.Context(), cmd, &r, []client.ReadOption{client.AsOf(at)}, args[0], args[1])
		},
	}
	r.add(cmd)
	r.addValueFormat(cmd)
	r.addHex(cmd)
	return takesRaw(cmd)
}
