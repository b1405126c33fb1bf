package topology

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Op is what a ready-made aggregate keeps for each key.
type Op uint8

// The operations, and what a store of each holds.
const (
	OpNone    Op = iota
	OpCount      // number of records: int64
	OpSum        // sum of a field: int64 or double
	OpMin        // smallest value of a field: int64 or double
	OpMax        // largest value of a field: int64 or double
	OpAverage    // JSON object with sum (int64 or double), count and average (sum / count, a double)
	OpLatest     // a field, or the whole record, of the record with the largest timestamp; of equal ones the last
	OpFirst      // a field, or the whole record, of the record with the smallest timestamp; of equal ones the first
)

// String returns the operation's name in YAML.
func (o Op) String() string {
	switch o {
	case OpNone:
		return "none"
	case OpCount:
		return "count"
	case OpSum:
		return "sum"
	case OpMin:
		return "min"
	case OpMax:
		return "max"
	case OpAverage:
		return "average"
	case OpLatest:
		return "latest"
	case OpFirst:
		return "first"
	}
	return "op(" + strconv.Itoa(int(o)) + ")"
}

// ops are the operations in the order in which they are listed to people.
func ops() []Op { return []Op{OpCount, OpSum, OpMin, OpMax, OpAverage, OpLatest, OpFirst} }

// numeric says whether the operand is a number.
func (o Op) numeric() bool {
	switch o {
	case OpSum, OpMin, OpMax, OpAverage:
		return true
	case OpNone, OpCount, OpLatest, OpFirst:
	}
	return false
}

// ErrOverflow says that an exact sum or count has left the range of 64 bits. The record that would do it is not added.
var ErrOverflow = errors.New("the sum has left the range of int64")

// averageState is the value of an OpAverage store. Sum is kept as it was written, so that no digit of an int64 is lost.
type averageState struct {
	Sum     json.Number `json:"sum"`
	Count   int64       `json:"count"`
	Average float64     `json:"average"`
}

// state is what a store holds for a key.
type state struct {
	value     []byte // nil when the key is absent
	timestamp int64  // milliseconds
}

// step returns the state after one more operand: 8 bytes of a number of type t for the numeric operations, the value to
// keep for latest and first, anything for count. It is a pure function, and the result shares no bytes with old except
// when nothing changes.
func step(op Op, t NumberType, old state, operand []byte, timestamp int64) (state, error) {
	next := state{timestamp: max(timestamp, old.timestamp)}
	if old.value == nil {
		next.timestamp = timestamp
	}
	var err error
	switch op {
	case OpCount:
		next.value, err = add(NumberInt64, old.value, one)
	case OpSum:
		next.value, err = add(t, old.value, operand)
	case OpMin, OpMax:
		next.value, err = extreme(op, t, old.value, operand)
	case OpAverage:
		next.value, err = average(t, old.value, operand)
	case OpLatest:
		if old.value != nil && timestamp < old.timestamp {
			return old, nil
		}
		return state{operand, timestamp}, nil
	case OpFirst:
		if old.value != nil && timestamp >= old.timestamp {
			return old, nil
		}
		return state{operand, timestamp}, nil
	case OpNone:
		err = errors.New("no operation")
	}
	return next, err
}

// one is what a count adds.
var one = encodeInt64(1)

func add(t NumberType, old, operand []byte) ([]byte, error) {
	if old == nil {
		return operand, nil
	}
	if len(old) != 8 {
		return nil, fmt.Errorf("the stored %s has %d bytes, want 8", t, len(old))
	}
	if t == NumberDouble {
		sum := toDouble(old) + toDouble(operand)
		if math.IsInf(sum, 0) {
			return nil, errors.New("the sum has left the range of double")
		}
		return encodeDouble(sum), nil
	}
	sum, ok := addInt64(toInt64(old), toInt64(operand))
	if !ok {
		return nil, ErrOverflow
	}
	return encodeInt64(sum), nil
}

func extreme(op Op, t NumberType, old, operand []byte) ([]byte, error) {
	if old == nil {
		return operand, nil
	}
	if len(old) != 8 {
		return nil, fmt.Errorf("the stored %s has %d bytes, want 8", t, len(old))
	}
	less := toInt64(operand) < toInt64(old)
	more := toInt64(operand) > toInt64(old)
	if t == NumberDouble {
		less = toDouble(operand) < toDouble(old)
		more = toDouble(operand) > toDouble(old)
	}
	if op == OpMin && less || op == OpMax && more {
		return operand, nil
	}
	return old, nil
}

func average(t NumberType, old, operand []byte) ([]byte, error) {
	var sum []byte
	var count int64
	if old != nil {
		var err error
		if sum, count, err = parseAverage(t, old); err != nil {
			return nil, err
		}
	}
	return addAverage(t, sum, operand, count+1)
}

func mergeAverages(t NumberType, a, b []byte) ([]byte, error) {
	sumA, countA, err := parseAverage(t, a)
	if err != nil {
		return nil, err
	}
	sumB, countB, err := parseAverage(t, b)
	if err != nil {
		return nil, err
	}
	return addAverage(t, sumA, sumB, countA+countB)
}

// parseAverage reads the value of an OpAverage store.
func parseAverage(t NumberType, data []byte) (sum []byte, count int64, err error) {
	was := averageState{Sum: "0"}
	if err := json.Unmarshal(data, &was); err != nil {
		return nil, 0, fmt.Errorf("the stored average: %w", err)
	}
	sum, skip := t.number([]byte(was.Sum))
	if skip != "" {
		return nil, 0, fmt.Errorf("the stored average's sum %q is no %s", was.Sum, t)
	}
	return sum, was.Count, nil
}

// addAverage returns the value of an OpAverage store with the sum of two sums; the first may be nil.
func addAverage(t NumberType, sum, more []byte, count int64) ([]byte, error) {
	sum, err := add(t, sum, more)
	if err != nil {
		return nil, err
	}
	now := averageState{Count: count}
	if t == NumberDouble {
		now.Sum = json.Number(formatDouble(toDouble(sum)))
		now.Average = toDouble(sum) / float64(now.Count)
	} else {
		now.Sum = json.Number(strconv.FormatInt(toInt64(sum), 10))
		now.Average = float64(toInt64(sum)) / float64(now.Count)
	}
	return json.Marshal(now)
}

// mergeValues returns the value that a store would hold had the records of two of its values been those of one: of two
// sessions that become one, earlier and later.
func mergeValues(op Op, t NumberType, earlier, later []byte) ([]byte, error) {
	switch op {
	case OpCount:
		return add(NumberInt64, earlier, later)
	case OpSum:
		return add(t, earlier, later)
	case OpMin, OpMax:
		return extreme(op, t, earlier, later)
	case OpAverage:
		return mergeAverages(t, earlier, later)
	case OpLatest:
		return later, nil
	case OpFirst:
		return earlier, nil
	case OpNone:
	}
	return nil, errors.New("no operation")
}

func toInt64(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b))
}

func toDouble(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) }
