package topology

import (
	"strconv"
	"time"
)

// Format is the format of a source's values.
type Format uint8

// The formats.
const (
	FormatJSON Format = iota // one JSON object a record
	FormatCSV                // one line of CSV a record, without a header line
	FormatRaw                // any bytes: values are kept as they are, and have no fields
)

// String returns the format's name in YAML.
func (f Format) String() string {
	switch f {
	case FormatJSON:
		return "json"
	case FormatCSV:
		return "csv"
	case FormatRaw:
		return "raw"
	}
	return "format(" + strconv.Itoa(int(f)) + ")"
}

// Config is a topology of ready-made tables and aggregates: the YAML file as a Go value, see [LoadYAML].
type Config struct {
	// Application is the application's name and its consumer group. Required.
	Application string
	// OnError is what becomes of a record that fails, such as one whose sum leaves the range of int64. Records that can
	// merely not be used (malformed, null key) are skipped and counted under either policy. Default StopOnError.
	OnError ErrorPolicy
	// Sources are the topics to read; at least one.
	Sources []SourceConfig
	// Tables and Aggregates are the stores to keep; at least one in all.
	Tables     []TableConfig
	Aggregates []AggregateConfig

	lines map[string]int // line in the YAML file, by path; nil for a Config made in Go
}

// SourceConfig describes a topic that is read.
type SourceConfig struct {
	// Topic to read; it must exist. Other parts name the source by it. Required.
	Topic string
	// Format of the values. Required in YAML; json when made in Go.
	Format Format
	// Columns are the names of CSV's fields in their order. Required for csv, else not allowed.
	Columns []string
	// Numbers are the columns that are numbers where a whole record becomes a JSON object; the others are strings. csv
	// only. Default none.
	Numbers []string
	// Delimiter between CSV's fields, one ASCII character. csv only. Default ",".
	Delimiter string
	// Quote around CSV's fields that hold delimiters, one ASCII character, or "none". csv only. Default `"`.
	Quote string
	// Null are the texts that mean null in CSV's fields. csv only. Default "" and "NA"; an empty list for none.
	Null []string
	// ValueSerde names the format of raw values, so that tools can show them. raw only. Default bytes.
	ValueSerde string
	// Partitioner names the partitioner by which the topic is written. Default murmur2.
	Partitioner string
}

// KeyConfig says which key a table or an aggregate has.
type KeyConfig struct {
	// Field that becomes the key; records pass through a repartition topic <application>-<store>-repartition. Default the
	// record's own key, and no repartition topic.
	Field string
	// Serde names the format of the key. Default string.
	Serde string
	// Partitions of the repartition topic. Default 0: as many as the source has.
	Partitions int32
	// Partitioner names the partitioner by which the repartition topic is written. Default murmur2.
	Partitioner string
}

// OutputConfig is the topic that gets each change of a store, with the store's keys and values.
type OutputConfig struct {
	// Topic to write; it must exist. Default none.
	Topic string
	// Partitioner names the partitioner by which it is written. Default murmur2.
	Partitioner string
	// Key is the form of the keys of a windowed aggregate. Windowed aggregates only. Default KeyBinary.
	Key KeyForm
}

// TableConfig is a store with the last value of each key, in the order of the topic. Null deletes the key: a null value, or
// a null field if the table keeps a field. Where the key is a field, a record with a null value has no key and is skipped.
type TableConfig struct {
	// Store is the store's name. Required.
	Store string
	// Source is the topic of a source. Required.
	Source string
	// Key of the table.
	Key KeyConfig
	// Value is the field to keep, or row for the whole record. Default row.
	Value string
	// History is how long, by stream time, values that were replaced can still be read as of a time, in whole milliseconds.
	// The store is then a versioned one: the value of a key is that with the largest timestamp, whatever the order of the
	// topic, and records older than the history are skipped under [SkipLate]. Default 0: a key-value store.
	History time.Duration
	// Output gets each record of the table.
	Output OutputConfig
}

// AggregateConfig is a store with one aggregate for each key.
type AggregateConfig struct {
	// Store is the store's name. Required.
	Store string
	// Source is the topic of a source. Required.
	Source string
	// Key by which records are grouped.
	Key KeyConfig
	// Op is the operation. Required.
	Op Op
	// Field to aggregate; not for OpCount; a field or row for OpLatest and OpFirst.
	Field string
	// Number is the type in which numbers are added and compared. sum, min, max and average only. Default int64.
	Number NumberType
	// Window says how time is cut; one aggregate is kept for each key and window. Default: no windows. OpFirst cannot be over
	// sliding windows.
	Window Windows
	// Output gets each change.
	Output OutputConfig
}

// Words of the configuration.
const (
	wholeRow = "row"  // the whole record, in place of a field
	noQuote  = "none" // no quote
)

func (s *SourceConfig) nullValues() []string {
	if s.Null == nil {
		return []string{"", "NA"}
	}
	return s.Null
}

// csvBytes returns delimiter and quote, 0 for no quote.
func (s *SourceConfig) csvBytes() (delimiter, quote byte) {
	delimiter, quote = ',', '"'
	if s.Delimiter != "" {
		delimiter = s.Delimiter[0]
	}
	switch s.Quote {
	case "":
	case noQuote:
		quote = 0
	default:
		quote = s.Quote[0]
	}
	return delimiter, quote
}
