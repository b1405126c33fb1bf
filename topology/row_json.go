package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// jsonRow reads values that are one JSON object each. Fields are the object's own members; of a name that occurs twice the
// last counts, as in encoding/json.
type jsonRow struct {
	wanted [][]byte
	fields []field
	value  []byte
}

func (r *jsonRow) want(name string) int {
	r.wanted = append(r.wanted, []byte(name))
	r.fields = append(r.fields, field{})
	return len(r.wanted) - 1
}

func (r *jsonRow) field(handle int) field { return r.fields[handle] }

func (r *jsonRow) json() []byte { return r.value }

// parse checks the whole value with encoding/json first, so that the scan below need not check anything.
func (r *jsonRow) parse(value []byte) error {
	if err := checkText(value); err != nil {
		return err
	}
	if !json.Valid(value) {
		return fmt.Errorf("%w: no JSON", errMalformed)
	}
	clear(r.fields)
	r.value = value
	rest := skipSpace(value)
	if rest[0] != '{' {
		return fmt.Errorf("%w: no JSON object", errMalformed)
	}
	for rest = skipSpace(rest[1:]); rest[0] != '}'; {
		name := rest[:valueLen(rest)]
		rest = skipSpace(rest[len(name):])
		rest = skipSpace(rest[1:]) // the colon
		raw := rest[:valueLen(rest)]
		for i, wanted := range r.wanted {
			if bytes.Equal(unquote(name), wanted) {
				r.fields[i] = jsonField(raw)
			}
		}
		rest = skipSpace(rest[len(raw):])
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return nil
}

func jsonField(raw []byte) field {
	switch raw[0] {
	case 'n':
		return field{}
	case '"':
		return field{kind: fieldText, text: unquote(raw), raw: raw}
	case '{', '[':
		return field{kind: fieldNested, text: raw, raw: raw}
	}
	return field{kind: fieldScalar, text: raw, raw: raw}
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueLen is the length of the JSON value at the start of b, which is valid.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// unquote returns the text of a valid JSON string. It shares the bytes unless there is an escape in them.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return raw // cannot be: the string is valid
	}
	return []byte(s)
}
