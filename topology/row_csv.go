package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// csvRow reads values that are one line of CSV each: fields between delimiters; a field that begins with the quote ends
// with it and may hold delimiters, line ends and doubled quotes; a quote inside any other field is an ordinary character.
// One line end at the end is ignored. A line has exactly as many fields as there are columns.
type csvRow struct {
	columns   []string
	numeric   []bool // by column: a number in json
	delimiter byte
	quote     byte // 0 for none
	null      [][]byte
	names     [][]byte // by column: `"name":`
	fields    [][]byte // by column, of the line parsed last
}

func newCSVRow(s *SourceConfig) *csvRow {
	r := &csvRow{columns: s.Columns, numeric: make([]bool, len(s.Columns)), fields: make([][]byte, 0, len(s.Columns))}
	r.delimiter, r.quote = s.csvBytes()
	for _, text := range s.nullValues() {
		r.null = append(r.null, []byte(text))
	}
	for i, name := range s.Columns {
		r.numeric[i] = slices.Contains(s.Numbers, name)
		r.names = append(r.names, append(appendJSONString(nil, []byte(name)), ':'))
	}
	return r
}

func (r *csvRow) want(name string) int { return slices.Index(r.columns, name) }

func (r *csvRow) parse(value []byte) error {
	if err := checkText(value); err != nil {
		return err
	}
	value = bytes.TrimSuffix(value, []byte("\n"))
	value = bytes.TrimSuffix(value, []byte("\r"))
	r.fields = r.fields[:0]
	for {
		text, rest, more, err := r.next(value)
		if err != nil {
			return err
		}
		if len(r.fields) == len(r.columns) {
			return fmt.Errorf("%w: more than %d fields", errMalformed, len(r.columns))
		}
		r.fields = append(r.fields, text)
		if !more {
			break
		}
		value = rest
	}
	if len(r.fields) != len(r.columns) {
		return fmt.Errorf("%w: %d fields, want %d", errMalformed, len(r.fields), len(r.columns))
	}
	return nil
}

// next cuts the first field off a line. more says that a delimiter followed it.
func (r *csvRow) next(line []byte) (text, rest []byte, more bool, err error) {
	if r.quote == 0 || len(line) == 0 || line[0] != r.quote {
		if end := bytes.IndexByte(line, r.delimiter); end >= 0 {
			return line[:end], line[end+1:], true, nil
		}
		return line, nil, false, nil
	}
	line = line[1:]
	var unescaped []byte // of a field with doubled quotes; new, since the line is not ours to change
	for {
		end := bytes.IndexByte(line, r.quote)
		if end < 0 {
			return nil, nil, false, fmt.Errorf("%w: a quoted field does not end", errMalformed)
		}
		text, line = line[:end], line[end+1:]
		if len(line) > 0 && line[0] == r.quote {
			unescaped = append(append(unescaped, text...), r.quote)
			line = line[1:]
			continue
		}
		if unescaped != nil {
			text = append(unescaped, text...)
		}
		switch {
		case len(line) == 0:
			return text, nil, false, nil
		case line[0] == r.delimiter:
			return text, line[1:], true, nil
		}
		return nil, nil, false, fmt.Errorf("%w: text follows a quoted field", errMalformed)
	}
}

func (r *csvRow) field(column int) field {
	text := r.fields[column]
	for _, null := range r.null {
		if bytes.Equal(text, null) {
			return field{}
		}
	}
	return field{kind: fieldText, text: text}
}

// json makes an object of the columns in their order: null for the null texts, a number where the column is numeric and
// the text is a JSON number, else a string.
func (r *csvRow) json() []byte {
	size := 2
	for i, text := range r.fields {
		size += len(r.names[i]) + len(text) + 3
	}
	out := append(make([]byte, 0, size), '{')
	for i, text := range r.fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r.names[i]...)
		switch f := r.field(i); {
		case f.kind == fieldNull:
			out = append(out, "null"...)
		case r.numeric[i] && isJSONNumber(text):
			out = append(out, text...)
		default:
			out = appendJSONString(out, text)
		}
	}
	return append(out, '}')
}

func isJSONNumber(text []byte) bool {
	return len(text) > 0 && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid(text) && !bytes.ContainsAny(text[len(text)-1:], " \t\r\n")
}

// appendJSONString appends UTF-8 text as a JSON string, escaping only what JSON demands.
func appendJSONString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
