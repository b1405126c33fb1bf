package topology

import "bytes"

// selector is the first half of every ready-made table and aggregate: it turns a source's record into the key and the
// operand that the second half works on, in a partition of that key. What cannot be used is skipped here, so that the
// repartition topic holds good records alone.
type selector struct {
	row      row     // nil when no field is needed
	key      int     // handle of the key field; -1 for the record's own key
	keySerde Serde   // of the key field; nil for string, which is the field's text
	operand  operand // what the second half needs
	field    int     // handle of the operand's field
	number   NumberType
	table    bool // null deletes: the value, if the key is the record's own, or the field
}

// operand says what the second half of an aggregate needs of a record.
type operand uint8

const (
	operandNothing operand = iota // its key alone
	operandNumber                 // a field as 8 bytes
	operandField                  // a field: the text of a CSV column, or a JSON member as written
	operandRow                    // the whole record, as JSON
	operandValue                  // the value's bytes as they are
)

// nothing is the operand of a count: not nil, which would be a tombstone.
var nothing = []byte{}

// Process implements Processor.
func (s *selector) Process(ctx Context, r Record) error {
	key, value, skip := s.choose(r)
	if skip != "" {
		ctx.Skip(skip)
		return nil
	}
	ctx.Forward(Record{Key: key, Value: value, Timestamp: r.Timestamp})
	return nil
}

// choose returns the key and the operand, or the reason to skip the record for.
func (s *selector) choose(r Record) (key, value []byte, skip string) {
	if s.key < 0 && r.Key == nil {
		return nil, nil, SkipNullKey
	}
	if r.Value == nil {
		if s.table && s.key < 0 {
			return r.Key, nil, ""
		}
		return nil, nil, SkipNullValue
	}
	if s.row != nil {
		if err := s.row.parse(r.Value); err != nil {
			return nil, nil, SkipMalformed
		}
	}
	key = r.Key
	if s.key >= 0 {
		if key, skip = s.keyOf(s.row.field(s.key)); skip != "" {
			return nil, nil, skip
		}
	}
	value, skip = s.operandOf(r)
	return key, value, skip
}

func (s *selector) keyOf(f field) (key []byte, skip string) {
	switch {
	case f.kind == fieldNull:
		return nil, SkipNullKey
	case s.keySerde == nil && f.kind != fieldNested:
		return f.text, ""
	case s.keySerde == nil:
		return nil, SkipMalformed
	}
	key, err := s.keySerde.Parse(string(f.text))
	if err != nil {
		return nil, SkipMalformed
	}
	return key, ""
}

func (s *selector) operandOf(r Record) (value []byte, skip string) {
	switch s.operand {
	case operandNothing:
		return nothing, ""
	case operandValue:
		return r.Value, ""
	case operandRow:
		return s.row.json(), ""
	case operandNumber, operandField:
	}
	f := s.row.field(s.field)
	switch {
	case f.kind == fieldNull && s.table:
		return nil, ""
	case f.kind == fieldNull:
		return nil, SkipNullField
	case s.operand == operandNumber && f.kind == fieldNested:
		return nil, SkipNotANumber
	case s.operand == operandNumber:
		return s.number.number(f.text)
	case f.raw != nil:
		return f.raw, ""
	}
	return f.text, ""
}

// aggregator is the second half of an aggregate: it keeps one state for each key and forwards what changed.
type aggregator struct {
	store  string
	op     Op
	number NumberType
}

// Process implements Processor.
func (a *aggregator) Process(ctx Context, r Record) error {
	switch {
	case r.Key == nil:
		ctx.Skip(SkipNullKey)
		return nil
	case r.Value == nil:
		ctx.Skip(SkipNullValue)
		return nil
	case a.op.numeric() && len(r.Value) != 8:
		ctx.Skip(SkipMalformed)
		return nil
	}
	store := ctx.Store(a.store)
	value, timestamp, found, err := store.Get(r.Key)
	if err != nil {
		return err
	}
	old := state{timestamp: timestamp}
	if old.value = value; found && value == nil {
		old.value = nothing // an empty value, which a store may give as nil
	}
	next, err := step(a.op, a.number, old, r.Value, r.Timestamp)
	if err != nil {
		return err
	}
	changed := !found || !bytes.Equal(old.value, next.value)
	if !changed && next.timestamp == old.timestamp {
		return nil
	}
	if err := store.Put(r.Key, next.value, next.timestamp); err != nil {
		return err
	}
	if changed {
		ctx.Forward(Record{Key: r.Key, Value: next.value, Timestamp: next.timestamp})
	}
	return nil
}

// table is the second half of a table: the last value of each key in the order of the topic, where null deletes (Kafka
// Streams' KTableSource). It forwards every record.
type table struct {
	store string
}

// Process implements Processor.
func (t *table) Process(ctx Context, r Record) error {
	if r.Key == nil {
		ctx.Skip(SkipNullKey)
		return nil
	}
	if err := ctx.Store(t.store).Put(r.Key, r.Value, r.Timestamp); err != nil {
		return err
	}
	ctx.Forward(r)
	return nil
}

// versionedTable is the second half of a table with a history (Kafka Streams' KTableSource on a versioned store). It
// forwards every record that the store takes, late ones too.
type versionedTable struct {
	store string
}

// Process implements Processor.
func (t *versionedTable) Process(ctx Context, r Record) error {
	reason := checkTimestamp(r)
	if r.Key == nil {
		reason = SkipNullKey
	}
	if reason != "" {
		ctx.Skip(reason)
		return nil
	}
	accepted, err := ctx.VersionedStore(t.store).Put(r.Key, r.Value, r.Timestamp)
	switch {
	case err != nil:
		return err
	case !accepted:
		ctx.Skip(SkipLate)
	default:
		ctx.Forward(r)
	}
	return nil
}
