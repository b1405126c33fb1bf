package topology

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Names of the formats of keys and values. Their bytes are those of Kafka's Java serialisers of the same names.
const (
	NameBytes  = "bytes"  // any bytes (ByteArraySerializer); as text: hexadecimal after 0x, or the text itself
	NameString = "string" // UTF-8 (StringSerializer)
	NameInt32  = "int32"  // 4 bytes, big endian (IntegerSerializer)
	NameInt64  = "int64"  // 8 bytes, big endian (LongSerializer)
	NameDouble = "double" // 8 bytes, IEEE 754, big endian (DoubleSerializer)
	NameUUID   = "uuid"   // 36 characters (UUIDSerializer): not the 16 raw bytes, which hash to another partition
	NameJSON   = "json"   // JSON text, UTF-8
)

// Serde reads and writes a format as text: what a person types or sees. It is safe for concurrent use.
type Serde interface {
	// Name of the format.
	Name() string
	// Parse turns text into bytes.
	Parse(text string) ([]byte, error)
	// Format turns bytes into text that Parse turns into the same bytes again, unless two texts mean the same value.
	Format(data []byte) (string, error)
}

// SerdeByName returns the format of that name. An unknown name is an error that lists the known ones.
func SerdeByName(name string) (Serde, error) {
	for _, s := range serdes() {
		if s.name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("serde %q is not known; known are %q", name, SerdeNames())
}

// SerdeNames returns the known names.
func SerdeNames() []string {
	var names []string
	for _, s := range serdes() {
		names = append(names, s.name)
	}
	return names
}

// textSerde makes a Serde of two functions.
type textSerde struct {
	name   string
	parse  func(string) ([]byte, error)
	format func([]byte) (string, error)
}

func (s textSerde) Name() string { return s.name }

func (s textSerde) Parse(text string) ([]byte, error) {
	data, err := s.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no %s: %w", text, s.name, err)
	}
	return data, nil
}

func (s textSerde) Format(data []byte) (string, error) {
	text, err := s.format(data)
	if err != nil {
		return "", fmt.Errorf("not a %s: %w", s.name, err)
	}
	return text, nil
}

func serdes() []textSerde {
	return []textSerde{
		{NameBytes, parseBytes, formatBytes},
		serdeOf(String, func(s string) (string, error) { return s, nil }, func(s string) string { return s }),
		serdeOf(Int32, parseInt32, func(v int32) string { return strconv.Itoa(int(v)) }),
		serdeOf(Int64, parseInt64, func(v int64) string { return strconv.FormatInt(v, 10) }),
		serdeOf(Double, parseDouble, formatDouble),
		serdeOf(UUID, uuid.Parse, uuid.UUID.String),
		{NameJSON, func(s string) ([]byte, error) { return []byte(s), checkJSON([]byte(s)) }, func(b []byte) (string, error) { return string(b), checkJSON(b) }},
	}
}

func serdeOf[T any](c Codec[T], parse func(string) (T, error), format func(T) string) textSerde {
	return textSerde{
		c.Name(),
		func(text string) ([]byte, error) {
			v, err := parse(text)
			if err != nil {
				return nil, short(err)
			}
			return c.Encode(v)
		},
		func(data []byte) (string, error) {
			v, err := c.Decode(data)
			if err != nil {
				return "", err
			}
			return format(v), nil
		},
	}
}

// short drops the function name and the input that strconv repeats.
func short(err error) error {
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		return n.Err
	}
	return err
}

func parseInt32(s string) (int32, error) {
	v, err := strconv.ParseInt(s, 10, 32)
	return int32(v), err
}

func parseInt64(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

func parseDouble(s string) (float64, error) {
	if strings.ContainsAny(s, "_xX") {
		return 0, strconv.ErrSyntax // ParseFloat takes Go's own notations too
	}
	return strconv.ParseFloat(s, 64)
}

func formatDouble(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

const hexPrefix = "0x"

func parseBytes(s string) ([]byte, error) {
	digits, isHex := strings.CutPrefix(s, hexPrefix)
	if !isHex {
		return []byte(s), nil
	}
	data := make([]byte, 0, len(digits)/2)
	for len(digits) > 0 {
		if len(digits) == 1 {
			return nil, errors.New("odd number of hexadecimal digits")
		}
		v, err := strconv.ParseUint(digits[:2], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("%q are no hexadecimal digits", digits[:2])
		}
		data, digits = append(data, byte(v)), digits[2:]
	}
	return data, nil
}

func formatBytes(data []byte) (string, error) {
	s := string(data)
	if !utf8.Valid(data) || strings.HasPrefix(s, hexPrefix) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return fmt.Sprintf("%s%x", hexPrefix, data), nil
	}
	return s, nil
}

func checkJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return errors.New("invalid")
}

// Codec turns values of a Go type into bytes and back. It is safe for concurrent use.
type Codec[T any] interface {
	// Name of the format, for [StoreSpec].
	Name() string
	// Encode returns new bytes, never nil.
	Encode(v T) ([]byte, error)
	// Decode reads bytes; what it returns may share them.
	Decode(data []byte) (T, error)
}

type codec[T any] struct {
	name   string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

func (c codec[T]) Name() string                  { return c.name }
func (c codec[T]) Encode(v T) ([]byte, error)    { return c.encode(v) }
func (c codec[T]) Decode(data []byte) (T, error) { return c.decode(data) }

// Codecs of the named formats.
var (
	Bytes  Codec[[]byte]    = codec[[]byte]{NameBytes, func(v []byte) ([]byte, error) { return append(make([]byte, 0, len(v)), v...), nil }, func(b []byte) ([]byte, error) { return b, nil }}
	String Codec[string]    = codec[string]{NameString, func(v string) ([]byte, error) { return append(make([]byte, 0, len(v)), v...), checkUTF8([]byte(v)) }, decodeString}
	Int32  Codec[int32]     = codec[int32]{NameInt32, func(v int32) ([]byte, error) { return binary.BigEndian.AppendUint32(nil, uint32(v)), nil }, decodeInt32}
	Int64  Codec[int64]     = codec[int64]{NameInt64, func(v int64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, uint64(v)), nil }, decodeInt64}
	Double Codec[float64]   = codec[float64]{NameDouble, func(v float64) ([]byte, error) { return binary.BigEndian.AppendUint64(nil, math.Float64bits(v)), nil }, decodeDouble}
	UUID   Codec[uuid.UUID] = codec[uuid.UUID]{NameUUID, func(v uuid.UUID) ([]byte, error) { return v.MarshalText() }, decodeUUID}
)

// JSON returns the codec of a Go type as JSON, by encoding/json.
func JSON[T any]() Codec[T] {
	return codec[T]{
		NameJSON,
		func(v T) ([]byte, error) { return json.Marshal(v) },
		func(b []byte) (T, error) {
			var v T
			err := json.Unmarshal(b, &v)
			return v, err
		},
	}
}

func checkUTF8(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("invalid UTF-8")
	}
	return nil
}

func decodeString(b []byte) (string, error) { return string(b), checkUTF8(b) }

func decodeInt32(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("%d bytes, want 4", len(b))
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

func decodeInt64(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%d bytes, want 8", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

func decodeDouble(b []byte) (float64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%d bytes, want 8", len(b))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}

func decodeUUID(b []byte) (uuid.UUID, error) {
	if len(b) != 36 {
		return uuid.Nil, fmt.Errorf("%d bytes, want 36", len(b))
	}
	return uuid.ParseBytes(slices.Clone(b))
}
