package topology

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// errMalformed says that a record's value is not what its format says.
var errMalformed = errors.New("malformed")

// fieldKind says what a field of a row holds.
type fieldKind uint8

const (
	fieldNull   fieldKind = iota // missing, null, or one of the texts that mean null
	fieldText                    // text of a CSV column or a JSON string
	fieldScalar                  // JSON number, true or false, as written
	fieldNested                  // JSON object or array, as written
)

// field is a field of the row that was parsed last.
type field struct {
	kind fieldKind
	text []byte // the text without quotes and escapes; immutable
	raw  []byte // of a JSON field: as written
}

// row reads one record's value after another. It belongs to one goroutine.
type row interface {
	// want returns a handle for field, before the first parse.
	want(name string) int
	// parse reads a value; the error is errMalformed or wraps it.
	parse(value []byte) error
	// field returns a wanted field of the value parsed last.
	field(handle int) field
	// json returns the whole value parsed last as a JSON object that nobody changes afterwards.
	json() []byte
}

// newRow returns the reader of a source's format, nil for raw.
func newRow(s *SourceConfig) row {
	switch s.Format {
	case FormatCSV:
		return newCSVRow(s)
	case FormatJSON:
		return &jsonRow{}
	case FormatRaw:
	}
	return nil
}

func checkText(value []byte) error {
	if !utf8.Valid(value) {
		return fmt.Errorf("%w: not UTF-8", errMalformed)
	}
	return nil
}
