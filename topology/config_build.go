package topology

import (
	"time"

	"github.com/iqgate/iqgate/partitioner"
)

// Build checks the configuration and returns its topology. Partitioners are looked up in r; nil knows the built-in ones.
func (c *Config) Build(r *partitioner.Registry) (*Topology, error) {
	b, err := c.Builder(r)
	if err != nil {
		return nil, err
	}
	return b.Build(c.Application)
}

// Builder checks the configuration and returns it as a builder, to which more can be added.
func (c *Config) Builder(r *partitioner.Registry) (*Builder, error) {
	if err := c.Validate(r); err != nil {
		return nil, err
	}
	b := New().OnError(c.OnError)
	sources := map[string]*SourceConfig{}
	for i := range c.Sources {
		s := &c.Sources[i]
		sources[s.Topic] = s
		if c.uses(s.Topic) {
			b.Source("input:"+s.Topic, s.Topic)
		}
	}
	for i := range c.Tables {
		addTable(b, r, sources[c.Tables[i].Source], &c.Tables[i])
	}
	for i := range c.Aggregates {
		addAggregate(b, r, sources[c.Aggregates[i].Source], &c.Aggregates[i])
	}
	return b, nil
}

// uses says whether a table or an aggregate reads the source.
func (c *Config) uses(topic string) bool {
	for _, t := range c.Tables {
		if t.Source == topic {
			return true
		}
	}
	for _, a := range c.Aggregates {
		if a.Source == topic {
			return true
		}
	}
	return false
}

// part is what tables and aggregates have in common.
type part struct {
	store      string
	source     *SourceConfig
	key        KeyConfig
	operand    operand
	field      string
	number     NumberType
	table      bool
	valueSerde string
	history    time.Duration
	windows    Windows
	keep       func() Processor // the second half
	output     OutputConfig
}

func addTable(b *Builder, r *partitioner.Registry, s *SourceConfig, t *TableConfig) {
	p := part{store: t.Store, source: s, key: t.Key, table: true, output: t.Output}
	p.operand, p.valueSerde = valueOperand(s, t.Value)
	p.field = t.Value
	name := t.Store
	p.keep = func() Processor { return &table{store: name} }
	if p.history = t.History; p.history > 0 {
		p.keep = func() Processor { return &versionedTable{store: name} }
	}
	p.add(b, r)
}

func addAggregate(b *Builder, r *partitioner.Registry, s *SourceConfig, a *AggregateConfig) {
	p := part{store: a.Store, source: s, key: a.Key, field: a.Field, number: a.Number, output: a.Output}
	switch a.Op {
	case OpCount, OpNone:
		p.operand, p.valueSerde = operandNothing, NameInt64
	case OpSum, OpMin, OpMax:
		p.operand, p.valueSerde = operandNumber, a.Number.String()
	case OpAverage:
		p.operand, p.valueSerde = operandNumber, NameJSON
	case OpLatest, OpFirst:
		p.operand, p.valueSerde = valueOperand(s, a.Field)
	}
	keep := aggregator{store: a.Store, op: a.Op, number: a.Number}
	p.keep = func() Processor { return &keep }
	if p.windows = a.Window; p.windows.Kind != NoWindows {
		p.keep = windowedSupplier(a.Store, a.Window, p.windows.in(StoreSpec{}).Retention, opFold{a.Op, a.Number})
	}
	p.add(b, r)
}

// valueOperand returns what is kept of a record, and its format.
func valueOperand(s *SourceConfig, field string) (operand, string) {
	whole := field == "" || field == wholeRow
	switch s.Format {
	case FormatCSV:
		if !whole {
			return operandField, NameString
		}
	case FormatJSON:
		if !whole {
			return operandField, NameJSON
		}
	case FormatRaw:
		if s.ValueSerde == "" {
			return operandValue, NameBytes
		}
		return operandValue, s.ValueSerde
	}
	return operandRow, NameJSON
}

// add adds the nodes: source, selector, repartition topic if the key is a field, second half with the store, sink.
func (p *part) add(b *Builder, r *partitioner.Registry) {
	spec := StoreSpec{Name: p.store, KeySerde: p.key.Serde, ValueSerde: p.valueSerde, Partitioner: p.source.Partitioner}
	if spec.KeySerde == "" {
		spec.KeySerde = NameString
	}
	from := "select:" + p.store
	b.Processor(from, p.selector, "input:"+p.source.Topic)
	if p.key.Field != "" {
		spec.Partitioner = p.key.Partitioner
		through := "repartition:" + p.store
		b.Repartition(through, p.store, RepartitionOptions{Partitions: p.key.Partitions, Partitioner: lookup(r, p.key.Partitioner)}, from)
		from = through
	}
	b.Processor("keep:"+p.store, p.keep, from)
	switch {
	case p.history > 0:
		spec.Kind, spec.Retention = Versioned, p.history
	case p.windows.Kind != NoWindows:
		spec = p.windows.in(spec)
	}
	b.Store(spec, "keep:"+p.store)
	if p.output.Topic != "" {
		p.addOutput(b, lookup(r, p.output.Partitioner), spec.KeySerde)
	}
}

// addOutput adds the sink, and what gives keys their form.
func (p *part) addOutput(b *Builder, by partitioner.Partitioner, keySerde string) {
	from := "keep:" + p.store
	switch {
	case p.windows.Kind == NoWindows:
	case p.output.Key != KeyBinary:
		serde, _ := SerdeByName(keySerde) // Validate has looked it up
		format := windowFormatter{form: p.output.Key, windows: p.windows, keySerde: serde}
		b.Processor("format:"+p.store, func() Processor { return &format }, from)
		from = "format:" + p.store
	case p.windows.Kind == SessionWindows:
		by = windowedPartitioner(by, sessionKeySuffix)
	default:
		by = windowedPartitioner(by, windowKeySuffix)
	}
	b.Sink("output:"+p.store, p.output.Topic, by, from)
}

// lookup returns a partitioner that Validate has found before.
func lookup(r *partitioner.Registry, name string) partitioner.Partitioner {
	p, err := r.Get(name)
	if err != nil {
		return partitioner.Murmur2() // cannot be: Validate has looked it up
	}
	return p
}

// selector makes the first half for a task.
func (p *part) selector() Processor {
	s := &selector{key: -1, operand: p.operand, number: p.number, table: p.table}
	s.row = newRow(p.source)
	if p.key.Field != "" {
		s.key = s.row.want(p.key.Field)
		if p.key.Serde != "" && p.key.Serde != NameString {
			s.keySerde, _ = SerdeByName(p.key.Serde) // Validate has looked it up
		}
	}
	if p.operand == operandNumber || p.operand == operandField {
		s.field = s.row.want(p.field)
	}
	return s
}
