package client

import (
	"maps"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// call is one of the calls that read, as a bit, so that an option can name those that it is for.
type call uint8

const (
	callGet call = 1 << iota
	callMultiGet
	callScan
	callCount
	callWatch
)

// callWide are the calls for more than one key.
const callWide = callScan | callCount | callWatch

// String is the call's name.
func (c call) String() string {
	switch c { //nolint:exhaustive // callWide is no call
	case callGet:
		return "Get"
	case callMultiGet:
		return "MultiGet"
	case callScan:
		return "Scan"
	case callCount:
		return "Count"
	case callWatch:
		return "Watch"
	default:
		return "this call"
	}
}

// wide is what a request for more than one key says.
type wide struct {
	selection iqv1.Selection
	scan      iqv1.ScanRequest // all but selection and policy
	// keys is the option that limited the keys.
	keys                     string
	approximate, changesOnly bool
	from                     map[int32]int64
}

// readWide makes the request of a call for more than one key.
func (c *Client) readWide(call call, s *Session, store string, opts []ReadOption) (*read, error) {
	r := &read{call: call, wide: &wide{}}
	err := c.prepare(r, s, store, opts)
	w := r.wide
	w.selection.Store, w.selection.Application, w.selection.AsOfMs = store, c.opts.application, r.get.AsOfMs
	if w.selection.Times != nil && w.selection.AsOfMs != nil {
		r.fail("as_of", time.UnixMilli(r.get.GetAsOfMs()), "is not allowed with times")
		err = r.err
	}
	return r, err
}

// limitKeys gives the selection whose keys an option is to limit. It is nil where that is not possible.
func (r *read) limitKeys(option string) *iqv1.Selection {
	switch {
	case !r.takes(option, nil, callWide):
		return nil
	case r.wide.keys != "" && r.wide.keys != option:
		r.fail(option, nil, "contradicts "+r.wide.keys+"; give one of them")
		return nil
	}
	r.wide.keys = option
	return &r.wide.selection
}

// Key limits a scan, count or watch to one key: all windows, sessions or versions of it.
func Key(key []byte) ReadOption {
	return func(r *read) {
		if s := r.limitKeys("key"); s != nil {
			s.Keys = &iqv1.Selection_Key{Key: key}
		}
	}
}

// Prefix limits a scan, count or watch to the keys that begin with p.
func Prefix(p []byte) ReadOption {
	return func(r *read) {
		if s := r.limitKeys("prefix"); s != nil {
			s.Keys = &iqv1.Selection_Prefix{Prefix: p}
		}
	}
}

// Range limits a scan, count or watch to the keys from one to another in the order of their bytes, both included. A nil end
// is no bound. From, After, To and Before give one end each.
func Range(from, to []byte) ReadOption {
	return func(r *read) {
		if from != nil {
			From(from)(r)
		}
		if to != nil {
			To(to)(r)
		}
	}
}

// From limits a scan, count or watch to key and what follows it.
func From(key []byte) ReadOption {
	return bound(func(kr *iqv1.KeyRange) { kr.From = present(key); kr.FromExclusive = false })
}

// After limits a scan, count or watch to what follows key.
func After(key []byte) ReadOption {
	return bound(func(kr *iqv1.KeyRange) { kr.From = present(key); kr.FromExclusive = true })
}

// To limits a scan, count or watch to key and what comes before it.
func To(key []byte) ReadOption {
	return bound(func(kr *iqv1.KeyRange) { kr.To = present(key); kr.ToExclusive = false })
}

// Before limits a scan, count or watch to what comes before key.
func Before(key []byte) ReadOption {
	return bound(func(kr *iqv1.KeyRange) { kr.To = present(key); kr.ToExclusive = true })
}

// present is the empty key for nil, which the wire would leave out.
func present(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

func bound(set func(*iqv1.KeyRange)) ReadOption {
	return func(r *read) {
		s := r.limitKeys("range")
		if s == nil {
			return
		}
		if s.GetRange() == nil {
			s.Keys = &iqv1.Selection_Range{Range: &iqv1.KeyRange{}}
		}
		set(s.GetRange())
	}
}

// Times limits a scan or count of a window store to windows that start from one time to another, of a session store to
// sessions that overlap them, of a versioned store to versions that were valid then; both ends are included. A zero time is
// no bound. Without Times, all windows and sessions count, and of a versioned store the version of AsOf alone: to have all
// versions, give it with two zero times.
func Times(from, to time.Time) ReadOption {
	return func(r *read) {
		if !r.takes("times", nil, callScan|callCount) {
			return
		}
		t := &iqv1.TimeRange{}
		if !from.IsZero() {
			t.FromMs = new(from.UnixMilli())
		}
		if !to.IsZero() {
			t.ToMs = new(to.UnixMilli())
		}
		if t.FromMs != nil && t.ToMs != nil && t.GetFromMs() > t.GetToMs() {
			r.fail("times", to, "ends before it begins")
		}
		r.wide.selection.Times = t
	}
}

// Partitions limits a scan, count or watch to these store partitions.
func Partitions(ps ...int32) ReadOption {
	return func(r *read) {
		if !r.takes("partitions", ps, callWide) {
			return
		}
		for _, p := range ps {
			Partition(p)(r)
		}
	}
}

// Filter limits a scan or count to entries for which a CEL expression is true. It sees key (string), value (the JSON
// object), timestamp_ms, partition, and window_start_ms and window_end_ms where there are some. The store's values must be
// JSON.
func Filter(expression string) ReadOption {
	return func(r *read) {
		if r.takes("filter", expression, callScan|callCount) {
			r.wide.selection.Filter = expression
		}
	}
}

// Reverse turns a scan's order of keys and times round.
func Reverse() ReadOption { return reverse }

func reverse(r *read) {
	if r.takes("reverse", true, callScan) {
		r.wide.scan.Reverse = true
	}
}

// Limit ends a scan after n rows. Scanner.Token goes on from there.
func Limit(n int64) ReadOption {
	return func(r *read) {
		switch {
		case !r.takes("limit", n, callScan):
		case n < 1:
			r.fail("limit", n, "must be at least 1")
		default:
			r.wide.scan.Limit = n
		}
	}
}

// KeysOnly leaves the values out of a scan; nobody reads them then.
func KeysOnly() ReadOption { return keysOnly }

func keysOnly(r *read) {
	if r.takes("keys_only", true, callScan) {
		r.wide.scan.KeysOnly = true
	}
}

// OrderByPartition gives a scan's rows partition after partition, each in the order of keys and times. Without it they are in
// the order of their keys over all partitions.
func OrderByPartition() ReadOption { return orderByPartition }

func orderByPartition(r *read) {
	if r.takes("order", "partition", callScan) {
		r.wide.scan.Order = iqv1.ScanRequest_ORDER_PARTITION
	}
}

// PageToken goes on where a scan ended: see Scanner.Token. All else but policy and limit must be as it was then. An empty
// token begins anew.
func PageToken(token []byte) ReadOption {
	return func(r *read) {
		if r.takes("page_token", len(token), callScan) {
			r.wide.scan.PageToken = token
		}
	}
}

// Fields limits the JSON values of a scan to these of their fields.
func Fields(names ...string) ReadOption {
	return func(r *read) {
		if r.takes("fields", names, callScan) {
			r.wide.scan.Fields = append(r.wide.scan.Fields, names...)
		}
	}
}

// Approximate allows a count to be an estimate, where that is to be had: of whole partitions of a key-value store, without a
// filter.
func Approximate() ReadOption { return approximate }

func approximate(r *read) {
	if r.takes("approximate", true, callCount) {
		r.wide.approximate = true
	}
}

// ChangesOnly leaves what is there now out of a watch.
func ChangesOnly() ReadOption { return changesOnly }

func changesOnly(r *read) {
	if r.takes("changes_only", true, callWatch) {
		r.wide.changesOnly = true
	}
}

// Positions goes on with a watch from where an earlier one was: see Watcher.Positions. The changes from there on are sent.
func Positions(from map[int32]int64) ReadOption {
	return func(r *read) {
		if !r.takes("from", from, callWatch) {
			return
		}
		for p, position := range from {
			if p < 0 || position < 0 {
				r.fail("from", from, "partitions and positions must not be negative")
				return
			}
		}
		r.wide.from = maps.Clone(from)
	}
}
