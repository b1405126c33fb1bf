package shape

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestWhatAFormatWritesItReads: JSON of bytes, and the bytes of that JSON.
func TestWhatAFormatWritesItReads(t *testing.T) {
	for _, c := range []struct {
		format string
		data   []byte
		want   string // as JSON
		as     string // the format it is in; empty for its own
	}{
		{"string", []byte("a\"b<ü"), `"a\"b<ü"`, ""},
		{"string", nil, `""`, ""},
		{"string", []byte{0xff}, `"0xff"`, "bytes"},
		{"int32", []byte{0xff, 0xff, 0xff, 0xf3}, `-13`, ""},
		{"int64", []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, `9223372036854775807`, ""},
		{"int64", []byte("short"), `"short"`, "bytes"},
		{"double", []byte{0x40, 0x29, 0, 0, 0, 0, 0, 0}, `12.5`, ""},
		{"double", []byte{0x7f, 0xf0, 0, 0, 0, 0, 0, 0}, `"+Inf"`, ""},
		{"uuid", []byte("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"), `"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, ""},
		{"json", []byte(`{"a":[1,null]}`), `{"a":[1,null]}`, ""},
		{"json", []byte(`{`), `"{"`, "bytes"},
		{"json", []byte("\"\xff\""), `"0x22ff22"`, "bytes"},
		{"bytes", []byte{0, 1}, `"0x0001"`, ""},
		{"bytes", []byte("0x"), `"0x3078"`, ""},
		{"hex", []byte{0, 255}, `"00ff"`, ""},
		{"base64", []byte{251, 255}, `"+/8="`, ""},
	} {
		f, err := FormatByName(c.format)
		if err != nil {
			t.Fatal(err)
		}
		v, as := f.JSON(c.data)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Errorf("%s %q: %v", c.format, c.data, err)
		}
		if c.as == "" {
			c.as = c.format
		}
		if got := string(bytes.TrimSpace(b.Bytes())); got != c.want || as != c.as {
			t.Errorf("%s %q: %s as %s, want %s as %s", c.format, c.data, got, as, c.want, c.as)
		}
		if f, err = FormatByName(as); err != nil {
			t.Fatal(err)
		}
		if back, err := f.ParseJSON(json.RawMessage(c.want)); err != nil || !bytes.Equal(back, c.data) {
			t.Errorf("%s %s: read back as %q, %v", as, c.want, back, err)
		}
	}
	if _, err := FormatByName("avro"); err == nil {
		t.Error("an unknown format")
	}
	for _, text := range []string{"-_8", "+/8=", "-_8="} {
		if f, _ := FormatByName(NameBase64); f.Serde != nil {
			if data, err := f.Parse(text); err != nil || !bytes.Equal(data, []byte{251, 255}) {
				t.Errorf("base64 %s: %x, %v", text, data, err)
			}
		}
	}
}

// TestALagIsNeverShownSmaller than it is, and one that is not known is no number.
func TestALagIsNeverShownSmaller(t *testing.T) {
	for d, want := range map[time.Duration]float64{0: 0, 1: 0.001, 1500 * time.Microsecond: 1.5, time.Second + 1: 1000.001} {
		if got := Millis(durationpb.New(d)); *got != want || *got < float64(d)/float64(time.Millisecond)-math.SmallestNonzeroFloat64 {
			t.Errorf("%s: %v, want %v", d, *got, want)
		}
	}
	text, err := json.Marshal(ReplicaOf(&iqv1.ReplicaStatus{Node: "a"}))
	if err != nil || !bytes.Contains(text, []byte(`"offset_lag":null,"time_lag_ms":null`)) {
		t.Errorf("%s, %v", text, err)
	}
	if ReplicaOf(nil) != nil || ReplicasOf(nil) == nil {
		t.Error("nil is null, and a list is never null")
	}
}

// TestTimesAreReadInEachForm, and nothing else is taken for one.
func TestTimesAreReadInEachForm(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-01-31T13:00:00.5+01:00": "2026-01-31T12:00:00.500Z", "1700000040123": "2023-11-14T22:14:00.123Z", "-5m": "2026-01-31T11:55:00.000Z",
		"1h30m": "2026-01-31T10:30:00.000Z", "0": "1970-01-01T00:00:00.000Z", "-1": "1969-12-31T23:59:59.999Z", "2026-01-31": "", "--5m": "", "": "", "soon": "",
	} {
		at, err := ParseTime(text, now)
		got := ""
		if err == nil {
			got = at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		}
		if got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
}
