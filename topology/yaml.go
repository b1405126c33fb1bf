package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxYAML is the largest configuration that LoadYAML reads, in bytes.
const MaxYAML = 1 << 20

// maxItems is how many items a list of the configuration may have. With aliases a small file could name far more.
const maxItems = 1000

// LoadYAML reads a [Config] from its YAML form. It is strict: unknown and repeated fields, wrong types, missing fields and
// everything that [Config.Validate] finds with the built-in partitioners' names left aside are reported together, as a
// [*ConfigError] with line numbers. Names of partitioners are checked by Build, which knows them.
//
//	application: flights            # required; also the consumer group
//	on_error: stop                  # stop (default) | skip
//	sources:
//	  - topic: flights              # required
//	    format: csv                 # required: json | csv | raw
//	    columns: [carrier, dest]    # csv: required
//	    numbers: [dep_delay]        # csv: columns that are numbers in JSON
//	    delimiter: ","              # csv
//	    quote: '"'                  # csv; none for no quote
//	    "null": ["", NA]            # csv: texts that mean null
//	    value_serde: int64          # raw
//	    partitioner: murmur2        # how the topic is written
//	tables:                         # the last value of each key
//	  - store: latest-by-tail       # required
//	    source: flights             # required: a source's topic
//	    key: tailnum                # field; absent: the record's own key
//	    key_serde: string
//	    value: row                  # row (default) | field
//	    versioned: {history: 5m}    # also keep old values, to be read as of a time
//	    partitions: 3               # of the repartition topic
//	    partitioner: murmur2        # of the repartition topic
//	    output: tails               # topic for each change
//	    output_partitioner: murmur2
//	aggregates:
//	  - store: by-carrier
//	    source: flights
//	    group_by: carrier           # field; absent: the record's own key
//	    sum: dep_delay              # or count: true, min, max, average, latest, first
//	    type: int64                 # int64 (default) | double
//	    window:                     # one aggregate for each window; absent: over all time
//	      tumbling: 60s             # or hopping and advance, sliding (time difference), session (inactivity gap)
//	      grace: 10s                # how long after its end a window takes records (default 0s)
//	      retention: 2m             # how long windows are kept (default: the least, see Windows.MinRetention)
//	    output_key: binary          # of windows: binary (default) | text | json
//	    # key_serde, partitions, partitioner, output, output_partitioner as above
//	  - {store: visits, source: flights, group_by: carrier, count: true, window: {session: 30m}}
//	  - {store: last-5m, source: flights, group_by: carrier, count: true, window: {hopping: 5m, advance: 1m}}
//
// Durations are numbers with units, such as 1h30m, 90s or 500ms, in whole milliseconds.
func LoadYAML(data []byte) (*Config, error) {
	y := &yamlReader{config: &Config{lines: map[string]int{}}}
	if len(data) > MaxYAML {
		y.faults = []Fault{{Text: fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), MaxYAML)}}
		return nil, configError(y.faults)
	}
	y.document(data)
	if y.fatal {
		return nil, configError(y.faults)
	}
	faults := slices.Clone(y.faults)
	for _, f := range y.config.check(nil, false) {
		if !y.reported(f.Path) {
			faults = append(faults, f)
		}
	}
	if err := configError(faults); err != nil {
		return nil, err
	}
	return y.config, nil
}

// unknownFormat stands for a missing or wrong format, so that one fault does not lead to more.
func unknownFormat() Format { return 255 }

// yamlReader fills a Config from a YAML tree and notes the line of each field.
type yamlReader struct {
	config *Config
	faults []Fault
	broken []string // paths of what should be fields with values and is not
	fatal  bool     // the text is no YAML at all
}

func (y *yamlReader) fault(n *yaml.Node, path, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	y.faults = append(y.faults, Fault{Line: line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// reported says whether there is a fault about that field already, or about what it would be in, so that it is not called
// missing too.
func (y *yamlReader) reported(path string) bool {
	for _, outer := range y.broken {
		if strings.HasPrefix(path, outer+".") {
			return true
		}
	}
	return slices.ContainsFunc(y.faults, func(f Fault) bool { return f.Path == path })
}

// syntax reports what the YAML parser says, with the line that its text begins with.
func (y *yamlReader) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	f := Fault{Text: "no YAML: " + text}
	if _, scanErr := fmt.Sscanf(text, "line %d:", &f.Line); scanErr == nil {
		_, rest, _ := strings.Cut(text, ": ")
		f.Text = "no YAML: " + rest
	}
	y.faults = append(y.faults, f)
}

func (y *yamlReader) document(data []byte) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); err != nil {
		y.fatal = true
		if errors.Is(err, io.EOF) {
			y.fault(nil, "", "the file is empty")
		} else {
			y.syntax(err)
		}
		return
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			y.syntax(err)
		} else {
			y.fault(&more, "", "a second document; only one is allowed")
		}
	}
	if len(doc.Content) == 0 {
		y.fatal = true
		y.fault(nil, "", "the file is empty")
		return
	}
	c := y.config
	m, ok := y.mapping(doc.Content[0], "", "application", "on_error", "sources", "tables", "aggregates")
	if !ok {
		y.fatal = true
		return
	}
	c.Application = y.text(m, "application")
	c.OnError = pick(y, m, "on_error", StopOnError, StopOnError, SkipOnError)
	for i, n := range y.list(m, "sources") {
		c.Sources = append(c.Sources, y.source(n, fmt.Sprintf("sources[%d]", i)))
	}
	for i, n := range y.list(m, "tables") {
		c.Tables = append(c.Tables, y.table(n, fmt.Sprintf("tables[%d]", i)))
	}
	for i, n := range y.list(m, "aggregates") {
		c.Aggregates = append(c.Aggregates, y.aggregate(n, fmt.Sprintf("aggregates[%d]", i)))
	}
}

func (y *yamlReader) source(n *yaml.Node, path string) SourceConfig {
	m, _ := y.mapping(n, path, "topic", "format", "columns", "numbers", "delimiter", "quote", "null", "value_serde", "partitioner")
	if m.fields["format"] == nil && m.node != nil {
		y.fault(m.node, path+".format", "is required: json, csv or raw")
	}
	return SourceConfig{
		Topic: y.text(m, "topic"), Format: pick(y, m, "format", unknownFormat(), FormatJSON, FormatCSV, FormatRaw),
		Columns: y.texts(m, "columns"), Numbers: y.texts(m, "numbers"), Delimiter: y.text(m, "delimiter"),
		Quote: y.text(m, "quote"), Null: y.texts(m, "null"), ValueSerde: y.text(m, "value_serde"),
		Partitioner: y.text(m, "partitioner"),
	}
}

func (y *yamlReader) table(n *yaml.Node, path string) TableConfig {
	m, _ := y.mapping(n, path, "store", "source", "key", "key_serde", "value", "versioned", "partitions", "partitioner", "output", "output_partitioner")
	return TableConfig{
		Store: y.text(m, "store"), Source: y.text(m, "source"), Key: y.key(m, "key"), Value: y.text(m, "value"),
		History: y.history(m),
		Output:  OutputConfig{Topic: y.text(m, "output"), Partitioner: y.text(m, "output_partitioner")},
	}
}

func (y *yamlReader) aggregate(n *yaml.Node, path string) AggregateConfig {
	known := []string{"store", "source", "group_by", "key_serde", "type", "window", "partitions", "partitioner", "output", "output_partitioner", "output_key"}
	for _, o := range ops() {
		known = append(known, o.String())
	}
	m, _ := y.mapping(n, path, known...)
	a := AggregateConfig{
		Store: y.text(m, "store"), Source: y.text(m, "source"), Key: y.key(m, "group_by"),
		Number: pick(y, m, "type", NumberInt64, NumberInt64, NumberDouble), Window: y.window(m),
		Output: OutputConfig{
			Topic: y.text(m, "output"), Partitioner: y.text(m, "output_partitioner"),
			Key: pick(y, m, "output_key", KeyBinary, KeyBinary, KeyText, KeyJSON),
		},
	}
	for _, o := range ops() {
		at := m.fields[o.String()]
		switch {
		case at == nil:
		case a.Op != OpNone:
			y.fault(at, path+"."+o.String(), "%s is given already; a store holds one aggregate", a.Op)
		case o == OpCount:
			a.Op = o
			if at.Tag != "!!bool" || at.Value != "true" {
				y.fault(at, path+".count", "want true, have %s", describe(at))
			}
		default:
			a.Op, a.Field = o, y.text(m, o.String())
		}
	}
	return a
}

func (y *yamlReader) key(m mapping, field string) KeyConfig {
	return KeyConfig{
		Field: y.text(m, field), Serde: y.text(m, "key_serde"), Partitions: y.count(m, "partitions"),
		Partitioner: y.text(m, "partitioner"),
	}
}

// mapping is a YAML mapping with its known fields.
type mapping struct {
	node   *yaml.Node
	path   string // with a dot at its end, unless empty
	fields map[string]*yaml.Node
}

// mapping reads a node as a mapping and reports unknown and repeated fields. The result is usable in any case.
func (y *yamlReader) mapping(n *yaml.Node, path string, known ...string) (mapping, bool) {
	n = resolve(n)
	m := mapping{path: path, fields: map[string]*yaml.Node{}}
	y.config.lines[path] = n.Line
	if path != "" {
		m.path += "."
	}
	if n.Kind != yaml.MappingNode {
		y.fault(n, path, "want fields with values, have %s", describe(n))
		y.broken = append(y.broken, path)
		return m, false
	}
	m.node = n
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case name.Kind != yaml.ScalarNode:
			y.fault(name, path, "a field's name is %s", describe(name))
		case !slices.Contains(known, name.Value):
			y.fault(name, m.path+name.Value, "unknown field%s", nearest(name.Value, known))
		case m.fields[name.Value] != nil:
			y.fault(name, m.path+name.Value, "the field is given twice")
		default:
			m.fields[name.Value] = value
			y.config.lines[m.path+name.Value] = name.Line
		}
	}
	return m, true
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias // never an alias itself
	}
	return n
}

// text returns a string field, "" when absent. A field that is there is never empty.
func (y *yamlReader) text(m mapping, field string) string {
	n := m.fields[field]
	if n == nil {
		return ""
	}
	s, ok := y.scalar(n, m.path+field)
	if ok && s == "" {
		y.fault(n, m.path+field, "is empty")
	}
	return s
}

func (y *yamlReader) scalar(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, true
	}
	hint := ""
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		hint = "; quote it if it is meant as text"
	}
	y.fault(n, path, "want text, have %s%s", describe(n), hint)
	return "", false
}

func (y *yamlReader) list(m mapping, field string) []*yaml.Node {
	n := m.fields[field]
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		y.fault(n, m.path+field, "want a list, have %s", describe(n))
		return nil
	}
	if len(n.Content) > maxItems {
		y.fault(n, m.path+field, "has %d items, at most %d are allowed", len(n.Content), maxItems)
		return n.Content[:maxItems]
	}
	return n.Content
}

// texts returns a list of strings: nil when absent, not nil when empty.
func (y *yamlReader) texts(m mapping, field string) []string {
	nodes := y.list(m, field)
	if m.fields[field] == nil {
		return nil
	}
	all := []string{}
	for i, n := range nodes {
		n = resolve(n)
		path := fmt.Sprintf("%s%s[%d]", m.path, field, i)
		y.config.lines[path] = n.Line
		s, _ := y.scalar(n, path)
		all = append(all, s)
	}
	return all
}

// count returns a positive number, 0 when absent.
func (y *yamlReader) count(m mapping, field string) int32 {
	n := m.fields[field]
	if n == nil {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < 1 || v > math.MaxInt32 {
		y.fault(n, m.path+field, "want a number from 1 to %d, have %s", math.MaxInt32, describe(n))
		return 0
	}
	return int32(v)
}

// pick returns the value whose name the field has, or the default.
func pick[T fmt.Stringer](y *yamlReader, m mapping, field string, standard T, all ...T) T {
	n := m.fields[field]
	if n == nil {
		return standard
	}
	s, ok := y.scalar(n, m.path+field)
	if !ok {
		return standard
	}
	var names []string
	for _, v := range all {
		if v.String() == s {
			return v
		}
		names = append(names, v.String())
	}
	y.fault(n, m.path+field, "%q is not one of %q%s", s, names, nearest(s, names))
	return standard
}

// describe says what a node is, for people.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
	case yaml.DocumentNode, yaml.AliasNode:
		return "nothing of use"
	}
	value := n.Value
	if len(value) > 40 {
		value = value[:40] + "..."
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + value
	case "!!bool":
		return "the truth value " + value
	case "!!str":
		return fmt.Sprintf("the text %q", value)
	}
	return fmt.Sprintf("%q of type %s", value, n.Tag)
}
