package topology_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/iqgate/iqgate/topology"
)

// The bytes are those of Kafka's Java serialisers (Integer-, Long-, Double-, String- and UUIDSerializer).
func TestSerdesWriteJavasBytes(t *testing.T) {
	for _, c := range []struct{ serde, text, hex, back string }{
		{"int32", "1", "00000001", "1"},
		{"int32", "-2", "fffffffe", "-2"},
		{"int32", "-2147483648", "80000000", "-2147483648"},
		{"int64", "42", "000000000000002a", "42"},
		{"int64", "9223372036854775807", "7fffffffffffffff", "9223372036854775807"},
		{"int64", "-1", "ffffffffffffffff", "-1"},
		{"double", "3.5", "400c000000000000", "3.5"},
		{"double", "1e21", "444b1ae4d6e2ef50", "1e+21"},
		{"double", "NaN", "7ff8000000000001", "NaN"},
		{"double", "-Inf", "fff0000000000000", "-Inf"},
		{"string", "", "", ""},
		{"string", "日本", "e697a5e69cac", "日本"},
		{"uuid", "FD7AF248-CE5C-46A5-93D7-1C0C9005B99D", "66643761663234382d636535632d343661352d393364372d316330633930303562393964", "fd7af248-ce5c-46a5-93d7-1c0c9005b99d"},
		{"bytes", "0x00ff", "00ff", "0x00ff"},
		{"bytes", "plain", "706c61696e", "plain"},
		{"bytes", "0x", "", ""},
		{"bytes", "0x307831", "307831", "0x307831"},
		{"json", `{"a": 1}`, "7b2261223a20317d", `{"a": 1}`},
	} {
		s, err := topology.SerdeByName(c.serde)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Parse(c.text)
		if err != nil || hex.EncodeToString(data) != c.hex || data == nil {
			t.Errorf("%s: %q is %x, %v, want %s", c.serde, c.text, data, err, c.hex)
			continue
		}
		if back, err := s.Format(data); err != nil || back != c.back {
			t.Errorf("%s: %x is %q, %v, want %q", c.serde, data, back, err, c.back)
		}
	}
}

func TestSerdesRefuseWhatIsNotTheirs(t *testing.T) {
	for _, c := range []struct{ serde, text, want string }{
		{"int32", "2147483648", "value out of range"},
		{"int32", "1.5", "invalid syntax"},
		{"int32", "", "invalid syntax"},
		{"int64", "0x10", "invalid syntax"},
		{"int64", "1_000", "invalid syntax"},
		{"double", "0x1p4", "invalid syntax"},
		{"double", "1_0", "invalid syntax"},
		{"double", "much", "invalid syntax"},
		{"string", "\xff", "UTF-8"},
		{"uuid", "fd7af248", "UUID"},
		{"bytes", "0x123", "odd number"},
		{"bytes", "0x+1", "no hexadecimal digits"},
		{"json", "{", "unexpected end"},
	} {
		s, err := topology.SerdeByName(c.serde)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.serde) {
			t.Errorf("%s: %q is %x, %v, want an error with %q", c.serde, c.text, data, err, c.want)
		}
	}
	for _, c := range []struct{ serde, data, want string }{
		{"int32", "123", "3 bytes, want 4"},
		{"int64", "", "0 bytes, want 8"},
		{"double", "123456789", "9 bytes, want 8"},
		{"string", "\xff", "invalid UTF-8"},
		{"uuid", strings.Repeat("x", 16), "16 bytes, want 36"},
		{"uuid", strings.Repeat("x", 36), "UUID"},
		{"json", "", "unexpected end"},
	} {
		s, err := topology.SerdeByName(c.serde)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := s.Format([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q is %q, %v, want an error with %q", c.serde, c.data, text, err, c.want)
		}
	}
	if _, err := topology.SerdeByName("avro"); err == nil || !strings.Contains(err.Error(), `"avro"`) || !strings.Contains(err.Error(), `"int64"`) {
		t.Errorf("an unknown serde gives %v", err)
	}
}

// What Format shows, Parse reads back into the same value; the text is the same the second time.
func FuzzSerdeTextRoundTrips(f *testing.F) {
	f.Add([]byte("0x41"))
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 2})
	f.Add([]byte("fd7af248-ce5c-46a5-93d7-1c0c9005b99d"))
	f.Add([]byte(`{"a":[1,2,{"b":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range topology.SerdeNames() {
			s, err := topology.SerdeByName(name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := s.Format(data)
			if err != nil {
				if name == topology.NameBytes {
					t.Fatalf("bytes %x have no text: %v", data, err)
				}
				continue
			}
			back, err := s.Parse(text)
			if err != nil {
				t.Fatalf("%s: %x is shown as %q, which is not read: %v", name, data, text, err)
			}
			exact := name != topology.NameDouble && name != topology.NameUUID // NaNs and upper case have several forms
			if exact && string(back) != string(data) {
				t.Fatalf("%s: %x is shown as %q, which is read as %x", name, data, text, back)
			}
			if again, err := s.Format(back); err != nil || again != text {
				t.Fatalf("%s: %q is shown as %q, %v", name, text, again, err)
			}
		}
	})
}

func TestCodecsRoundTripGoValues(t *testing.T) {
	roundTrip(t, topology.Int32, 0, 1, math.MinInt32, math.MaxInt32)
	roundTrip(t, topology.Int64, 0, -1, math.MinInt64, math.MaxInt64)
	roundTrip(t, topology.Double, 0, -0.5, math.MaxFloat64, math.Inf(1))
	roundTrip(t, topology.String, "", "a", "日本")
	roundTrip(t, topology.UUID, uuid.Nil, uuid.MustParse("fd7af248-ce5c-46a5-93d7-1c0c9005b99d"))
	type pair struct {
		A int
		B string
	}
	roundTrip(t, topology.JSON[pair](), pair{}, pair{1, "x"})
	if data, err := topology.Bytes.Encode(nil); err != nil || data == nil {
		t.Errorf("nil bytes are %v, %v, want empty ones: nil would be a tombstone", data, err)
	}
	if _, err := topology.String.Encode("\xff"); err == nil {
		t.Error("a string that is not UTF-8 is written")
	}
}

func roundTrip[T comparable](t *testing.T, c topology.Codec[T], values ...T) {
	t.Helper()
	for _, v := range values {
		data, err := c.Encode(v)
		if err != nil || data == nil {
			t.Errorf("%s: %v is %x, %v", c.Name(), v, data, err)
		}
		if back, err := c.Decode(data); err != nil || back != v {
			t.Errorf("%s: %v is read back as %v, %v", c.Name(), v, back, err)
		}
	}
}
