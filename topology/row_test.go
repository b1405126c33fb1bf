package topology

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func csvFields(r *csvRow) []string {
	var all []string
	for _, f := range r.fields {
		all = append(all, string(f))
	}
	return all
}

func TestCSVLineIsCutIntoItsFields(t *testing.T) {
	for _, c := range []struct {
		line, delimiter, quote string
		want                   []string // nil: malformed
	}{
		{`a,b,c`, "", "", []string{"a", "b", "c"}},
		{`,,`, "", "", []string{"", "", ""}},
		{"a,b,c\r\n", "", "", []string{"a", "b", "c"}},
		{"a,b,c\n\n", "", "", []string{"a", "b", "c\n"}},
		{`"a,1","b""x","c` + "\n" + `"`, "", "", []string{"a,1", `b"x`, "c\n"}},
		{`"","""",""`, "", "", []string{"", `"`, ""}},
		{`a"b,5" pipe, "c"`, "", "", []string{`a"b`, `5" pipe`, ` "c"`}},
		{"a;'b;c';d,e", ";", "'", []string{"a", "b;c", "d,e"}},
		{"a\t\"b\tc", "\t", "none", []string{"a", `"b`, "c"}},
		{"日本,é,", "", "", []string{"日本", "é", ""}},
		{``, "", "", nil},
		{`a,b`, "", "", nil},
		{`a,b,c,`, "", "", nil},
		{`a,b,"c`, "", "", nil},
		{`a,"b"x,c`, "", "", nil},
		{"a,b,\xff", "", "", nil},
	} {
		r := newCSVRow(&SourceConfig{Columns: []string{"x", "y", "z"}, Delimiter: c.delimiter, Quote: c.quote})
		err := r.parse([]byte(c.line))
		switch {
		case c.want == nil && !errors.Is(err, errMalformed):
			t.Errorf("%q: %q, %v, want errMalformed", c.line, csvFields(r), err)
		case c.want != nil && (err != nil || !slices.Equal(csvFields(r), c.want)):
			t.Errorf("%q: %q, %v, want %q", c.line, csvFields(r), err, c.want)
		}
	}
}

// encoding/csv is the twin: what it writes is read back, and what both read they read alike.
func FuzzCSVMatchesEncodingCSV(f *testing.F) {
	f.Add("a", "b,c", "d\"e")
	f.Add("", "\"", "\n")
	f.Add("x\"y", " z", "\r\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) || !utf8.ValidString(c) {
			return
		}
		r := newCSVRow(&SourceConfig{Columns: []string{"x", "y", "z"}})
		var buf bytes.Buffer
		w := csv.NewWriter(&buf)
		if err := w.Write([]string{a, b, c}); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if err := r.parse(buf.Bytes()); err != nil || !slices.Equal(csvFields(r), []string{a, b, c}) {
			t.Fatalf("%q is read as %q, %v", buf.String(), csvFields(r), err)
		}
		line := strings.Join([]string{a, b, c}, ",") // not quoted by anyone
		twin := csv.NewReader(strings.NewReader(line))
		twin.FieldsPerRecord = 3
		want, err := twin.Read()
		if err != nil || strings.ContainsAny(line, "\r\n") {
			return // it is stricter about quotes, and reads several lines
		}
		if err := r.parse([]byte(line)); err != nil || !slices.Equal(csvFields(r), want) {
			t.Fatalf("%q is read as %q, %v; encoding/csv reads %q", line, csvFields(r), err, want)
		}
	})
}

func TestCSVRowBecomesAJSONObject(t *testing.T) {
	r := newCSVRow(&SourceConfig{
		Columns: []string{"id", `q"uote`, "n", "m", "o"}, Numbers: []string{"n", "m", "o"}, Null: []string{"-"},
	})
	for line, want := range map[string]string{
		`007,x,1.5e3,-,NA`:     `{"id":"007","q\"uote":"x","n":1.5e3,"m":null,"o":"NA"}`,
		`-,"a""b\c",007,1 ,+1`: `{"id":null,"q\"uote":"a\"b\\c","n":"007","m":"1 ","o":"+1"}`,
		",\x01\t,-0,,true":     `{"id":"","q\"uote":"\u0001\t","n":-0,"m":"","o":"true"}`,
	} {
		if err := r.parse([]byte(line)); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if got := string(r.json()); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%q becomes\n%s, want\n%s", line, got, want)
		}
	}
}

// encoding/json is the twin: the same values are malformed, and the same fields have the same contents.
func FuzzJSONFieldMatchesEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `{"a":"x\n\"y\\"}`, ` { "b" : [ {"a":2} , "}" ] , "a" : null } `, `{"\u0061":true,"a":{"c":"]"}}`, `{}`, `[]`, `1`, `"a"`,
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":1}x`, "{\"a\":\"\xff\"}", ``, `{"a":-1e-5}`, `{"a":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &jsonRow{}
		a := r.want("a")
		err := r.parse(data)
		var twin map[string]json.RawMessage
		twinErr := json.Unmarshal(data, &twin)
		bad := twinErr != nil || twin == nil || !utf8.Valid(data)
		if bad != (err != nil) {
			t.Fatalf("%q: %v; encoding/json says %v", data, err, twinErr)
		}
		if bad {
			return
		}
		raw, got := twin["a"], r.field(a)
		if raw == nil || string(raw) == "null" {
			if got.kind != fieldNull {
				t.Fatalf("%q: field %q, want null", data, got.text)
			}
			return
		}
		if string(got.raw) != string(raw) {
			t.Fatalf("%q: field is written %q; encoding/json has %q", data, got.raw, raw)
		}
		var s string
		if json.Unmarshal(raw, &s) == nil && (got.kind != fieldText || string(got.text) != s) {
			t.Fatalf("%q: field is %q; encoding/json has %q", data, got.text, s)
		}
	})
}
