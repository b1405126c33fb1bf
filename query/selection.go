package query

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Keys are a range of keys in byte order. The zero value is all keys; nil is no bound, an empty slice is the empty key.
// With a prefix there are no bounds. Its fields are those of store.KeyRange, into which it converts.
type Keys struct {
	From, To         []byte
	FromOpen, ToOpen bool // the end itself is left out
	Prefix           []byte
}

// All says whether no key is left out.
func (k Keys) All() bool { return k.From == nil && k.To == nil && len(k.Prefix) == 0 }

// Times are a range of times in milliseconds since the epoch, both ends included. Its fields are those of store.Times.
type Times struct {
	From, To int64
}

// AllTimes is every time.
var AllTimes = Times{math.MinInt64, math.MaxInt64}

// Selection says which entries of a store are meant.
type Selection struct {
	// Store is what the server knew of the store when the request was checked.
	Store metadata.StoreInfo
	Kind  Kind
	// Keys are the keys; of one key it is the range from that key to itself.
	Keys Keys
	// Key is the one key that is meant, never nil then; nil when Keys is a range.
	Key []byte
	// Times limits windows, sessions and versions; AllTimes when not given.
	Times Times
	// HasTimes says that the request gave times. Of a versioned store all versions are meant then, else one of each key.
	HasTimes bool
	// AsOf is the time of the versions that are meant; nil for the latest, and for stores that are not versioned.
	AsOf *int64
	// Partitions are the partitions named, in ascending order; nil when none were: all, or those of the key.
	Partitions []int32
	// Filter is nil when every entry is meant.
	Filter *Filter
}

// Empty says that no entry can be meant: a bound lies behind the other.
func (s *Selection) Empty() bool {
	k := &s.Keys
	if k.From != nil && k.To != nil {
		c := bytes.Compare(k.From, k.To)
		if c > 0 || c == 0 && (k.FromOpen || k.ToOpen) {
			return true
		}
	}
	return s.Times.From > s.Times.To
}

// Includes says whether the partition is one of those named, or none were.
func (s *Selection) Includes(partition int32) bool {
	if s.Partitions == nil {
		return partition >= 0 && partition < s.Store.Partitions
	}
	_, found := slices.BinarySearch(s.Partitions, partition)
	return found
}

// All are the partitions named, or all of the store.
func (s *Selection) All() []int32 {
	if s.Partitions != nil {
		return s.Partitions
	}
	all := make([]int32, s.Store.Partitions)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// StoreOf is the store's name in a request, which the caller looks up before the rest can be checked. The error is an
// *iqerr.InvalidError.
func StoreOf(m *iqv1.Selection) (string, error) {
	if m.GetStore() == "" {
		return "", iqerr.Invalid("selection.store", "", "must be a store's name")
	}
	return m.GetStore(), nil
}

// ParseSelection checks which entries of the store are meant. A range whose ends are the wrong way round is empty, which
// is no error. The error holds an *iqerr.InvalidError for each wrong field. The selection shares the request's bytes.
func ParseSelection(m *iqv1.Selection, info metadata.StoreInfo) (Selection, error) {
	s := Selection{Store: info, Times: AllTimes}
	_, err := StoreOf(m)
	kind, kindErr := KindOf(&info)
	errs := []error{err, kindErr}
	s.Kind = kind
	s.keys(m)
	errs = append(errs, s.times(m), s.asOf(m), s.partitions(m.GetPartitions()))
	if text := m.GetFilter(); text != "" {
		if s.Filter, err = ParseFilter(text, &info); err != nil {
			errs = append(errs, err)
		}
	}
	return s, errors.Join(errs...)
}

func (s *Selection) keys(m *iqv1.Selection) {
	switch keys := m.GetKeys().(type) {
	case *iqv1.Selection_Key:
		s.Key = notNil(keys.Key)
		s.Keys = Keys{From: s.Key, To: s.Key}
	case *iqv1.Selection_Prefix:
		s.Keys.Prefix = keys.Prefix
	case *iqv1.Selection_Range:
		r := keys.Range
		if r != nil && r.From != nil { // a pointer's absence: an empty key is a bound
			s.Keys.From, s.Keys.FromOpen = notNil(r.GetFrom()), r.GetFromExclusive()
		}
		if r != nil && r.To != nil {
			s.Keys.To, s.Keys.ToOpen = notNil(r.GetTo()), r.GetToExclusive()
		}
	}
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (s *Selection) times(m *iqv1.Selection) error {
	t := m.GetTimes()
	if t == nil {
		return nil
	}
	s.HasTimes = true
	if t.FromMs != nil {
		s.Times.From = t.GetFromMs()
	}
	if t.ToMs != nil {
		s.Times.To = t.GetToMs()
	}
	if s.Kind == KeyValue {
		return iqerr.Invalid("selection.times", timesText(t), fmt.Sprintf("store %q is a key-value store, whose entries have no times", s.Store.Name))
	}
	return nil
}

func timesText(t *iqv1.TimeRange) string {
	end := func(ms *int64) string {
		if ms == nil {
			return ""
		}
		return strconv.FormatInt(*ms, 10)
	}
	return end(t.FromMs) + ".." + end(t.ToMs)
}

func (s *Selection) asOf(m *iqv1.Selection) error {
	if m == nil || m.AsOfMs == nil {
		return nil
	}
	s.AsOf = m.AsOfMs
	var errs []error
	if s.Kind != Versioned {
		errs = append(errs, notVersioned("selection.as_of_ms", *m.AsOfMs, s.Store.Name, s.Kind))
	}
	if m.GetTimes() != nil {
		errs = append(errs, iqerr.Invalid("selection.as_of_ms", *m.AsOfMs, "cannot be given together with times"))
	}
	return errors.Join(errs...)
}

func notVersioned(field string, ms int64, store string, kind Kind) error {
	return iqerr.Invalid(field, ms, fmt.Sprintf("store %q is not versioned; it is of kind %s", store, kind))
}

func (s *Selection) partitions(named []int32) error {
	if len(named) == 0 {
		return nil
	}
	var errs []error
	for i, p := range named {
		field := fmt.Sprintf("selection.partitions[%d]", i)
		switch {
		case p < 0 || p >= s.Store.Partitions:
			errs = append(errs, iqerr.Invalid(field, p, fmt.Sprintf("store %q has %d partitions, from 0", s.Store.Name, s.Store.Partitions)))
		case slices.Contains(s.Partitions, p):
			errs = append(errs, iqerr.Invalid(field, p, "is there twice"))
		default:
			s.Partitions = append(s.Partitions, p)
		}
		if len(errs) == maxProblems {
			break
		}
	}
	slices.Sort(s.Partitions)
	return errors.Join(errs...)
}

// maxProblems bounds the wrong items of one list that an error names.
const maxProblems = 8
