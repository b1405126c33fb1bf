package query

import (
	"errors"
	"fmt"
	"slices"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds on requests and replies.
const (
	// MaxKeys is how many keys a MultiGet may have.
	MaxKeys = 10_000
	// MaxKeysBytes is how many bytes the keys of a MultiGet may have together, so that a request fits gRPC's default bound of
	// 4 MiB.
	MaxKeysBytes = 3 << 20
	// MaxReplyBytes is how many bytes of values a reply to a MultiGet has. Keys that find no room carry the KeyError of
	// ReplyFull, and can be read alone.
	MaxReplyBytes = 16 << 20
	// MaxBatchRows and MaxBatchBytes are how much one message of a scan or watch has. A row that is larger goes alone.
	MaxBatchRows  = 1_000
	MaxBatchBytes = 256 << 10
)

// rowOverhead is about what a row has on the wire besides key, value and cursor.
const rowOverhead = 32

// RowBytes is about how many bytes a row takes in a message.
func RowBytes(r *iqv1.Row) int {
	return len(r.GetKey()) + len(r.GetValue()) + len(r.GetCursor()) + rowOverhead
}

// Scan is a checked ScanRequest.
type Scan struct {
	Selection
	Reverse bool
	// Limit is 0 for none.
	Limit    int64
	KeysOnly bool
	// ByPartition orders the entries partition after partition, else by key over all.
	ByPartition bool
	// Fields is nil for whole values.
	Fields *Fields
	// places are those of the page token, in the order of partitions; nil when there is none.
	places []Place
	bind   binding
}

// ParseScan checks a request. The error holds an *iqerr.InvalidError for each wrong field, or is an *iqerr.PageLostError.
func ParseScan(m *iqv1.ScanRequest, info metadata.StoreInfo) (Scan, error) {
	s := Scan{Reverse: m.GetReverse(), Limit: m.GetLimit(), KeysOnly: m.GetKeysOnly()}
	var err error
	s.Selection, err = ParseSelection(m.GetSelection(), info)
	errs := []error{err}
	if s.Limit < 0 {
		errs = append(errs, iqerr.Invalid("limit", s.Limit, "must be 0 or more"))
	}
	switch m.GetOrder() {
	case iqv1.ScanRequest_ORDER_UNSPECIFIED, iqv1.ScanRequest_ORDER_KEY:
	case iqv1.ScanRequest_ORDER_PARTITION:
		s.ByPartition = true
	default:
		errs = append(errs, iqerr.Invalid("order", int32(m.GetOrder()), "is not a known order"))
	}
	if len(m.GetFields()) > 0 {
		s.Fields, err = ParseFields(m.GetFields(), &info)
		errs = append(errs, err)
		if s.KeysOnly {
			errs = append(errs, iqerr.Invalid("fields", m.GetFields()[0], "cannot be given together with keys_only"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	s.bind = bindingOf(m, &s)
	if len(m.GetPageToken()) > 0 {
		s.places, err = s.bind.decode(m.GetPageToken(), &s.Selection)
	}
	return s, err
}

// Count is a checked CountRequest.
type Count struct {
	Selection
	// Approximate allows an estimate.
	Approximate bool
}

// Whole says whether whole partitions of a key-value store are meant, whose entries can be estimated.
func (c *Count) Whole() bool { return c.Kind == KeyValue && c.Keys.All() && c.Filter == nil }

// ParseCount checks a request. The error holds an *iqerr.InvalidError for each wrong field.
func ParseCount(m *iqv1.CountRequest, info metadata.StoreInfo) (Count, error) {
	s, err := ParseSelection(m.GetSelection(), info)
	return Count{Selection: s, Approximate: m.GetApproximate()}, err
}

// MultiGet is a checked MultiGetRequest.
type MultiGet struct {
	Store metadata.StoreInfo
	Kind  Kind
	Keys  [][]byte
	// AsOf is nil for the latest.
	AsOf *int64
}

// ParseMultiGet checks a request. The error holds an *iqerr.InvalidError for each wrong field.
func ParseMultiGet(m *iqv1.MultiGetRequest, info metadata.StoreInfo) (MultiGet, error) {
	g := MultiGet{Store: info, Keys: m.GetKeys(), AsOf: m.AsOfMs}
	var errs []error
	if m.GetStore() == "" {
		errs = append(errs, iqerr.Invalid("store", "", "must be a store's name"))
	}
	kind, err := KindOf(&info)
	errs = append(errs, err)
	g.Kind = kind
	if err == nil && kind != KeyValue && kind != Versioned {
		errs = append(errs, iqerr.Invalid("store", info.Name, fmt.Sprintf("is a %s store; only key-value and versioned stores have one value for a key", kind)))
	}
	if n := len(g.Keys); n > MaxKeys {
		errs = append(errs, iqerr.Invalid("keys", fmt.Sprintf("%d keys", n), fmt.Sprintf("must be at most %d", MaxKeys)))
	}
	size := 0
	for _, k := range g.Keys {
		size += len(k)
	}
	if size > MaxKeysBytes {
		errs = append(errs, iqerr.Invalid("keys", fmt.Sprintf("%d bytes", size), fmt.Sprintf("must be at most %d bytes together", MaxKeysBytes)))
	}
	if g.AsOf != nil && kind != Versioned {
		errs = append(errs, notVersioned("as_of_ms", *g.AsOf, info.Name, kind))
	}
	return g, errors.Join(errs...)
}

// ReplyFull says of a key that its value of size bytes found no room in a reply. Asking again, or another replica, does
// not help; a Get of the key does.
func ReplyFull(size int) *iqv1.KeyError {
	return &iqv1.KeyError{
		Code:    codeResourceExhausted,
		Message: fmt.Sprintf("the value of %d bytes finds no room in a reply of at most %d bytes of values; get the key alone", size, MaxReplyBytes),
	}
}

// codeResourceExhausted is gRPC's RESOURCE_EXHAUSTED.
const codeResourceExhausted = 8

// IsReplyFull says whether a key's error is that of ReplyFull.
func IsReplyFull(e *iqv1.KeyError) bool {
	return e.GetCode() == codeResourceExhausted && e.GetReason() == iqv1.Reason_REASON_UNSPECIFIED
}

// Watch is a checked WatchRequest.
type Watch struct {
	Selection
	// From are the positions to go on from by partition; nil when what is there now comes first.
	From map[int32]int64
	// ChangesOnly leaves out what is there now.
	ChangesOnly bool
}

// ParseWatch checks a request. The error holds an *iqerr.InvalidError for each wrong field.
func ParseWatch(m *iqv1.WatchRequest, info metadata.StoreInfo) (Watch, error) {
	s, err := ParseSelection(m.GetSelection(), info)
	w := Watch{Selection: s, ChangesOnly: m.GetChangesOnly()}
	errs := []error{err}
	for field, given := range map[string]bool{
		"selection.filter": m.GetSelection().GetFilter() != "", "selection.times": s.HasTimes, "selection.as_of_ms": s.AsOf != nil,
	} {
		if given {
			errs = append(errs, iqerr.Invalid(field, nil, "is not for a watch"))
		}
	}
	slices.SortFunc(errs, byText)
	for i, p := range m.GetFrom() {
		field := fmt.Sprintf("from[%d].", i)
		_, twice := w.From[p.GetPartition()]
		switch {
		case err == nil && !s.Includes(p.GetPartition()):
			errs = append(errs, iqerr.Invalid(field+"partition", p.GetPartition(), "is not a partition of the selection"))
		case twice:
			errs = append(errs, iqerr.Invalid(field+"partition", p.GetPartition(), "is there twice"))
		case p.GetPosition() < 0:
			errs = append(errs, iqerr.Invalid(field+"position", p.GetPosition(), "must be 0 or more"))
		}
		if w.From == nil {
			w.From = make(map[int32]int64, len(m.GetFrom()))
		}
		w.From[p.GetPartition()] = p.GetPosition()
		if len(errs) > maxProblems {
			break
		}
	}
	return w, errors.Join(errs...)
}

func byText(a, b error) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return slices.Compare([]byte(a.Error()), []byte(b.Error()))
}
