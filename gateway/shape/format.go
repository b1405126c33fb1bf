package shape

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/iqgate/iqgate/topology"
)

// Formats that any bytes have, besides those of package topology.
const (
	NameHex    = "hex"    // hexadecimal digits, two a byte
	NameBase64 = "base64" // RFC 4648 with padding; read with or without it, in either alphabet
)

// Format is how keys or values are written.
type Format struct{ topology.Serde }

// FormatByName finds a format; an error lists those that there are.
func FormatByName(name string) (Format, error) {
	switch name {
	case NameHex:
		return Format{hexSerde{}}, nil
	case NameBase64:
		return Format{base64Serde{}}, nil
	}
	s, err := topology.SerdeByName(name)
	if err != nil {
		return Format{}, fmt.Errorf("must be one of %s", strings.Join(FormatNames(), ", "))
	}
	return Format{s}, nil
}

// FormatNames are the formats that there are.
func FormatNames() []string { return append(topology.SerdeNames(), NameHex, NameBase64) }

// Bytes is the format that any bytes can be read in: the text itself, or hexadecimal digits after 0x.
func Bytes() Format {
	s, err := topology.SerdeByName(topology.NameBytes)
	if err != nil {
		panic(err) // package topology always has it
	}
	return Format{s}
}

// JSON is data as a JSON value, and the name of the format that it is in: numbers as numbers, JSON as it is, all else as text.
// What the format cannot read is given as bytes.
func (f Format) JSON(data []byte) (value any, format string) {
	text, err := f.Format(data)
	if err != nil || !utf8.ValidString(text) {
		text, _ = Bytes().Format(data) // any bytes can be written so
		return text, topology.NameBytes
	}
	switch f.Name() {
	case topology.NameInt32, topology.NameInt64:
		return json.Number(text), f.Name()
	case topology.NameDouble:
		if v, err := topology.Double.Decode(data); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) { // JSON has neither
			return v, f.Name()
		}
	case topology.NameJSON:
		return json.RawMessage(data), f.Name()
	}
	return text, f.Name()
}

// ParseJSON reads a JSON value as JSON writes one: a number of a format of numbers, any JSON of json, and the text of every
// other; the text of a number is taken too.
func (f Format) ParseJSON(raw json.RawMessage) ([]byte, error) {
	if f.Name() == topology.NameJSON {
		return raw, nil
	}
	var text string
	switch err := json.Unmarshal(raw, &text); {
	case err == nil && raw[0] == '"':
		return f.Parse(text)
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		if n := f.Name(); n == topology.NameInt32 || n == topology.NameInt64 || n == topology.NameDouble {
			return f.Parse(string(raw))
		}
		return nil, errors.New("must be a JSON string")
	}
	return nil, fmt.Errorf("must be a JSON string, or a number of a format of numbers; the format is %s", f.Name())
}

type hexSerde struct{}

func (hexSerde) Name() string { return NameHex }

func (hexSerde) Parse(text string) ([]byte, error) {
	data, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, errors.New("must be hexadecimal digits, two a byte")
	}
	return data, nil
}

func (hexSerde) Format(data []byte) (string, error) { return hex.EncodeToString(data), nil }

type base64Serde struct{}

func (base64Serde) Name() string { return NameBase64 }

// standard turns the alphabet for addresses into the other one.
var standard = strings.NewReplacer("-", "+", "_", "/")

func (base64Serde) Parse(text string) ([]byte, error) {
	data, err := base64.RawStdEncoding.DecodeString(standard.Replace(strings.TrimRight(text, "=")))
	if err != nil {
		return nil, errors.New("must be base64")
	}
	return data, nil
}

func (base64Serde) Format(data []byte) (string, error) {
	return base64.StdEncoding.EncodeToString(data), nil
}
