package topology

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// NumberType is the type in which numbers of an aggregate are added and compared.
type NumberType uint8

// The number types.
const (
	// NumberInt64 is exact: a sum beyond 64 bits is an error, and a field with a fraction is skipped.
	NumberInt64 NumberType = iota
	// NumberDouble is IEEE 754 double precision: sums are rounded at each step, in the order of the records.
	NumberDouble
)

// String returns the type's name in YAML, which is also its format's.
func (t NumberType) String() string {
	switch t {
	case NumberInt64:
		return NameInt64
	case NumberDouble:
		return NameDouble
	}
	return "number(" + strconv.Itoa(int(t)) + ")"
}

// maxExactInteger is the largest magnitude up to which every integer is a double (2^53).
const maxExactInteger = 1 << 53

// number reads text as the 8 bytes of a number of type t. Where it cannot, it returns the reason to skip the record for.
func (t NumberType) number(text []byte) (data []byte, skip string) {
	text = bytes.Trim(text, " \t")
	if t == NumberInt64 {
		if v, ok := parseInteger(text); ok {
			return encodeInt64(v), ""
		}
	}
	v, err := parseDouble(string(text))
	if math.IsNaN(v) || math.IsInf(v, 0) || err != nil {
		if err == nil || t == NumberDouble || !isDigits(text) {
			return nil, SkipNotANumber
		}
		return nil, SkipNotAnInteger
	}
	if t == NumberDouble {
		return encodeDouble(v), ""
	}
	if v != math.Trunc(v) || math.Abs(v) > maxExactInteger {
		return nil, SkipNotAnInteger
	}
	return encodeInt64(int64(v)), "" // 5.0, as Java prints a whole double
}

func isDigits(text []byte) bool {
	digits := bytes.TrimLeft(text, "+-")
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0
}

// parseInteger reads a decimal integer of at most 64 bits without allocating.
func parseInteger(text []byte) (int64, bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative || len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	var v uint64 // 19 digits fit
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	switch {
	case negative && v <= 1<<63:
		return int64(-v), true
	case !negative && v < 1<<63:
		return int64(v), true
	}
	return 0, false
}

func encodeInt64(v int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(v))
}

func encodeDouble(v float64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), math.Float64bits(v))
}

// addInt64 adds exactly; ok is false when the sum has no 64 bits.
func addInt64(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}
