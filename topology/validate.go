package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/iqgate/iqgate/partitioner"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Line int    // line of the YAML file, counted from 1; 0 when not known
	Path string // the field, such as aggregates[0].group_by
	Text string // what is wrong
}

// String returns line, field and text.
func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// ConfigError holds every fault of a configuration, by ascending line.
type ConfigError struct {
	Faults []Fault
}

// Error lists the faults, one a line.
func (e *ConfigError) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
	}
	return b.String()
}

func configError(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return &ConfigError{Faults: faults}
}

// Validate returns a [*ConfigError] with everything that is wrong, or nil. Partitioners are looked up in r; nil knows the
// built-in ones.
func (c *Config) Validate(r *partitioner.Registry) error { return configError(c.check(r, true)) }

// check returns everything that is wrong; partitioners are looked up only if known says that r is the registry to be used.
func (c *Config) check(r *partitioner.Registry, known bool) []Fault {
	v := &validator{
		config: c, registry: r, partitionersKnown: known,
		stores: map[string]string{}, sources: map[string]*SourceConfig{}, made: map[string]bool{},
	}
	v.name("application", "application", c.Application)
	if c.OnError > SkipOnError {
		v.fault("on_error", "%d is not known", c.OnError)
	}
	if len(c.Sources) == 0 {
		v.fault("sources", "at least one is needed")
	}
	for i := range c.Sources {
		v.source(fmt.Sprintf("sources[%d]", i), &c.Sources[i])
	}
	if len(c.Tables)+len(c.Aggregates) == 0 {
		v.fault("", "at least one table or aggregate is needed")
	}
	for i := range c.Tables {
		v.table(fmt.Sprintf("tables[%d]", i), &c.Tables[i])
	}
	for i := range c.Aggregates {
		v.aggregate(fmt.Sprintf("aggregates[%d]", i), &c.Aggregates[i])
	}
	for i, s := range c.Sources {
		if s.Topic != "" && !c.uses(s.Topic) {
			v.fault(fmt.Sprintf("sources[%d].topic", i), "no table and no aggregate uses %q", s.Topic)
		}
	}
	v.outputs()
	return v.faults
}

type validator struct {
	config            *Config
	registry          *partitioner.Registry
	partitionersKnown bool
	sources           map[string]*SourceConfig // by topic
	stores            map[string]string        // store -> path of its first use
	made              map[string]bool          // names of internal topics
	faults            []Fault
}

func (v *validator) fault(path, format string, args ...any) {
	v.faults = append(v.faults, Fault{Line: v.config.line(path), Path: path, Text: fmt.Sprintf(format, args...)})
}

// line returns the line of the longest known part of a path.
func (c *Config) line(path string) int {
	for {
		if n, ok := c.lines[path]; ok {
			return n
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return c.lines[""]
		}
		path = path[:cut]
	}
}

// required reports an absent field, and says whether it is there.
func (v *validator) required(path, value string) bool {
	if value == "" {
		v.fault(path, "is required")
	}
	return value != ""
}

// name checks a name that becomes part of a topic's.
func (v *validator) name(path, what, value string) {
	if !v.required(path, value) {
		return
	}
	if err := checkName(what, value); err != nil {
		v.fault(path, "%v", err)
	}
}

func (v *validator) partitioner(path, name string) {
	if !v.partitionersKnown {
		return
	}
	if _, err := v.registry.Get(name); err != nil {
		v.fault(path, "%v", err)
	}
}

func (v *validator) serde(path, name string) {
	if name == "" {
		return
	}
	if _, err := SerdeByName(name); err != nil {
		v.fault(path, "%v", err)
	}
}

func (v *validator) source(path string, s *SourceConfig) {
	v.name(path+".topic", "topic", s.Topic)
	if first, taken := v.sources[s.Topic]; taken && first != nil && s.Topic != "" {
		v.fault(path+".topic", "%q is a source already", s.Topic)
	} else {
		v.sources[s.Topic] = s
	}
	v.partitioner(path+".partitioner", s.Partitioner)
	v.serde(path+".value_serde", s.ValueSerde)
	if s.ValueSerde != "" && (s.Format == FormatCSV || s.Format == FormatJSON) {
		v.fault(path+".value_serde", "is for format raw, not %s", s.Format)
	}
	switch s.Format {
	case FormatCSV:
		v.csv(path, s)
	case FormatJSON, FormatRaw:
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"columns", s.Columns != nil},
			{"numbers", s.Numbers != nil},
			{"delimiter", s.Delimiter != ""},
			{"quote", s.Quote != ""},
			{"null", s.Null != nil},
		} {
			if field.set {
				v.fault(path+"."+field.name, "is for format csv, not %s", s.Format)
			}
		}
	default:
		v.fault(path+".format", "%s is not known", s.Format)
	}
}

func (v *validator) csv(path string, s *SourceConfig) {
	if len(s.Columns) == 0 {
		v.fault(path+".columns", "is required for format csv, since records have no header line")
	}
	seen := make(map[string]bool, len(s.Columns))
	for i, column := range s.Columns {
		at := fmt.Sprintf("%s.columns[%d]", path, i)
		switch {
		case column == "":
			v.fault(at, "is empty")
		case column == wholeRow:
			v.fault(at, "%q is the word for the whole record; name the column otherwise", column)
		case seen[column]:
			v.fault(at, "%q is named twice", column)
		}
		seen[column] = true
	}
	for i, column := range s.Numbers {
		v.column(fmt.Sprintf("%s.numbers[%d]", path, i), s, column)
	}
	v.character(path+".delimiter", s.Delimiter)
	if s.Quote != noQuote {
		v.character(path+".quote", s.Quote)
	}
	if delimiter, quote := s.csvBytes(); delimiter == quote {
		v.fault(path+".quote", "is the delimiter too")
	}
}

func (v *validator) character(path, c string) {
	if c != "" && (len(c) != 1 || c[0] >= 0x80 || c == "\n" || c == "\r") {
		v.fault(path, "%q is not one ASCII character other than a line end", c)
	}
}

// column checks that a source has a field.
func (v *validator) column(path string, s *SourceConfig, name string) {
	switch {
	case s == nil:
	case s.Format == FormatRaw:
		v.fault(path, "source %q is of format raw and has no fields", s.Topic)
	case s.Format == FormatCSV && !slices.Contains(s.Columns, name):
		v.fault(path, "%q is not a column of %q%s", name, s.Topic, nearest(name, s.Columns))
	}
}

// common checks what tables and aggregates have in common and returns the source, nil if there is none.
func (v *validator) common(path, keyField, store, source string, key KeyConfig) *SourceConfig {
	v.name(path+".store", "store", store)
	if first, taken := v.stores[store]; taken && store != "" {
		v.fault(path+".store", "%q is the store of %s already", store, first)
	} else {
		v.stores[store] = path
	}
	v.topicLength(path+".store", changelogTopic(v.config.Application, store))
	if key.Field != "" {
		v.topicLength(path+".store", repartitionTopic(v.config.Application, store))
	}
	var s *SourceConfig
	if v.required(path+".source", source) {
		var ok bool
		if s, ok = v.sources[source]; !ok {
			v.fault(path+".source", "%q is not one of the sources%s", source, nearest(source, v.topics()))
		}
	}
	v.serde(path+".key_serde", key.Serde)
	v.partitioner(path+".partitioner", key.Partitioner)
	if key.Field != "" {
		v.column(path+"."+keyField, s, key.Field)
	} else {
		if key.Partitions != 0 {
			v.fault(path+".partitions", "is of no use without %s", keyField)
		}
		if key.Partitioner != "" {
			v.fault(path+".partitioner", "is of no use without %s; the source has one", keyField)
		}
	}
	if key.Partitions < 0 {
		v.fault(path+".partitions", "%d is not 1 or more", key.Partitions)
	}
	return s
}

func (v *validator) topicLength(path, topic string) {
	v.made[topic] = true
	if len(topic) > maxTopicName {
		v.fault(path, "topic %q would have %d characters, at most %d are allowed", topic[:16]+"...", len(topic), maxTopicName)
	}
}

func (v *validator) topics() []string {
	var all []string
	for _, s := range v.config.Sources {
		all = append(all, s.Topic)
	}
	return all
}

func (v *validator) table(path string, t *TableConfig) {
	s := v.common(path, "key", t.Store, t.Source, t.Key)
	if t.Value != "" && t.Value != wholeRow {
		v.column(path+".value", s, t.Value)
	}
	v.history(path, t.History)
	v.output(path, t.Output)
	v.keyForm(path, t.Output, false)
}

func (v *validator) aggregate(path string, a *AggregateConfig) {
	s := v.common(path, "group_by", a.Store, a.Source, a.Key)
	at := path + "." + a.Op.String()
	switch {
	case a.Op == OpNone || a.Op > OpFirst:
		v.fault(path, "one of %s is required", opList())
	case a.Op == OpCount:
		if a.Field != "" {
			v.fault(at, "counts records and takes no field")
		}
	case a.Op.numeric():
		if v.required(at, a.Field) {
			v.column(at, s, a.Field)
		}
	case a.Field != "" && a.Field != wholeRow:
		v.column(at, s, a.Field)
	}
	if a.Number != NumberInt64 && !a.Op.numeric() {
		v.fault(path+".type", "is for sum, min, max and average, not %s", a.Op)
	}
	if a.Number > NumberDouble {
		v.fault(path+".type", "%s is not known", a.Number)
	}
	if a.Window != (Windows{}) {
		v.windows(path, a)
	}
	v.output(path, a.Output)
	v.keyForm(path, a.Output, a.Window.Kind != NoWindows)
}

func (v *validator) output(path string, o OutputConfig) {
	if o.Topic == "" {
		if o.Partitioner != "" {
			v.fault(path+".output_partitioner", "is of no use without output")
		}
		return
	}
	v.name(path+".output", "topic", o.Topic)
	v.partitioner(path+".output_partitioner", o.Partitioner)
}

// outputs checks that no output is a topic that the application itself makes.
func (v *validator) outputs() {
	check := func(path string, o OutputConfig) {
		if v.made[o.Topic] {
			v.fault(path+".output", "topic %q is internal to the application", o.Topic)
		}
	}
	for i, t := range v.config.Tables {
		check(fmt.Sprintf("tables[%d]", i), t.Output)
	}
	for i, a := range v.config.Aggregates {
		check(fmt.Sprintf("aggregates[%d]", i), a.Output)
	}
	for i, s := range v.config.Sources {
		if v.made[s.Topic] {
			v.fault(fmt.Sprintf("sources[%d].topic", i), "topic %q is internal to the application", s.Topic)
		}
	}
}

func opList() string {
	var names []string
	for _, o := range ops() {
		names = append(names, o.String())
	}
	return strings.Join(names, ", ")
}

// nearest suggests the word that was probably meant, as " (did you mean ...?)", or nothing.
func nearest(name string, known []string) string {
	best, at := 3, "" // further off is another word
	for _, k := range known {
		if d := distance(name, k); d < best && d < len(k) {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", at)
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	if len(a) > maxTopicName || len(b) > maxTopicName {
		return maxTopicName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
