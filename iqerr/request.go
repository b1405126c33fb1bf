package iqerr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// StoreUnknownError says that no node has told of such a store.
type StoreUnknownError struct {
	// Store is the name asked for.
	Store string
	// Known are the stores that are known, in the order that the text shows them. Cut at maxNames on the wire.
	Known []string
}

func (e *StoreUnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("store %q is unknown; no store is known yet", e.Store)
	}
	return fmt.Sprintf("store %q is unknown; known are %s", e.Store, list(e.Known))
}

// Unwrap gives ErrStoreUnknown.
func (e *StoreUnknownError) Unwrap() error { return ErrStoreUnknown }

func (e *StoreUnknownError) encode(d *details) {
	d.put(keyStore, e.Store)
	d.add(&iqv1.ReplicaRefusals{Store: e.Store, Partition: NoPartition, KnownStores: atMost(e.Known, maxNames)})
}

func decodeStoreUnknown(d *details) error {
	return &StoreUnknownError{Store: d.get(keyStore), Known: d.refusals().GetKnownStores()}
}

// InvalidError says that one field of a request is wrong. Join several with errors.Join; all cross the wire.
type InvalidError struct {
	// Field is the field's path in the request: "policy.max_staleness".
	Field string
	// Value is what the caller sent, as text, strings and bytes quoted; empty where there was none.
	Value string
	// Problem says what is wrong: "must not be negative".
	Problem string
}

// Invalid makes an InvalidError. Strings and bytes of value are quoted, a nil value is left out, and its text is cut at
// maxValueRunes, since the value is the caller's and may be of any size.
func Invalid(field string, value any, problem string) error {
	return &InvalidError{Field: field, Value: valueText(value), Problem: problem}
}

func (e *InvalidError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Problem
	}
	return e.Field + " " + e.Value + ": " + e.Problem
}

// Unwrap gives ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func (e *InvalidError) encode(d *details) { encodeInvalid(d, []*InvalidError{e}) }

// encodeInvalid writes all problems of a request into one BadRequest. That has no place for a value, so values are
// metadata: "value" of the first, "value_2" of the second, and so on.
func encodeInvalid(d *details, all []*InvalidError) {
	all = atMost(all, maxViolations)
	bad := &errdetails.BadRequest{}
	for i, e := range all {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: e.Field, Description: e.Problem})
		if e.Value != "" {
			d.put(valueKey(i), e.Value)
		}
	}
	if len(all) > 0 {
		d.put(keyField, all[0].Field)
	}
	d.add(bad)
}

func valueKey(i int) string {
	if i == 0 {
		return keyValue
	}
	return keyValue + "_" + strconv.Itoa(i+1)
}

func decodeInvalid(d *details) error {
	bad := detail[*errdetails.BadRequest](d)
	all := make([]error, 0, len(bad.GetFieldViolations()))
	for i, v := range bad.GetFieldViolations() {
		all = append(all, &InvalidError{Field: v.GetField(), Value: d.get(valueKey(i)), Problem: v.GetDescription()})
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return errors.Join(all...)
}

// allInvalid gives every InvalidError in err's tree, in order.
func allInvalid(err error) []*InvalidError {
	if e, ok := err.(*InvalidError); ok { //nolint:errorlint // this walks the tree itself, to find all and not only the first
		return []*InvalidError{e}
	}
	switch u := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return allInvalid(u.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*InvalidError
		for _, e := range u.Unwrap() {
			all = append(all, allInvalid(e)...)
		}
		return all
	}
	return nil
}

// PartitionsChangedError says that the topic's partition count is no longer the store's, so that keys may hash to
// partitions that hold something else.
type PartitionsChangedError struct {
	// Store is the store's name, Topic the source topic whose count changed (empty where not known).
	Store, Topic string
	// Want is the partition count that the store was built with, Have the topic's now.
	Want, Have int32
}

func (e *PartitionsChangedError) Error() string {
	topic := "its source topic"
	if e.Topic != "" {
		topic = "topic " + e.Topic
	}
	return fmt.Sprintf("store %s: partition count of %s changed: expected %d, actual %d; the store must be rebuilt",
		e.Store, topic, e.Want, e.Have)
}

// Unwrap gives ErrPartitionsChanged.
func (e *PartitionsChangedError) Unwrap() error { return ErrPartitionsChanged }

func (e *PartitionsChangedError) encode(d *details) {
	d.put(keyStore, e.Store)
	d.put(keyTopic, e.Topic)
	d.putInt(keyWant, int64(e.Want))
	d.putInt(keyHave, int64(e.Have))
}

func decodePartitionsChanged(d *details) error {
	return &PartitionsChangedError{Store: d.get(keyStore), Topic: d.get(keyTopic), Want: d.getInt32(keyWant), Have: d.getInt32(keyHave)}
}

// list shows names for a text, cut at maxNames.
func list(names []string) string {
	text := strings.Join(atMost(names, maxNames), ", ")
	if more := len(names) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
