package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iqgate/iqgate/tally"
)

// Kind is what a metric is to Prometheus.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Metric is a family of metrics by one name.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string // of its value: what is counted, or what it is measured in; empty where it has none
	Help   string
	Labels []string

	desc *prometheus.Desc
}

// a list is the metrics of one program, in the order of their making.
type list struct{ all []*Metric }

func (l *list) add(kind Kind, name, unit, help string, labels ...string) *Metric {
	m := &Metric{Name: name, Kind: kind, Unit: unit, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
	l.all = append(l.all, m)
	return m
}

func (l *list) counter(name, unit, help string, labels ...string) *Metric {
	return l.add(Counter, name, unit, help, labels...)
}

func (l *list) gauge(name, unit, help string, labels ...string) *Metric {
	return l.add(Gauge, name, unit, help, labels...)
}

// histogram is one of durations.
func (l *list) histogram(name, help string, labels ...string) *Metric {
	return l.add(Histogram, name, "seconds", help, labels...)
}

func (l *list) describe(out chan<- *prometheus.Desc) {
	for _, m := range l.all {
		out <- m.desc
	}
}

// All lists every metric of iqgate's own, by name.
func All() []Metric {
	var all []Metric
	for _, m := range slices.Concat(buildMetrics.all, nodeMetrics.all, routerMetrics.all) {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// a scrape is one look at everything.
type scrape struct {
	out chan<- prometheus.Metric
	now time.Time
}

// put sends a counter or gauge.
func (s scrape) put(m *Metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == Counter {
		kind = prometheus.CounterValue
	}
	metric, err := prometheus.NewConstMetric(m.desc, kind, value, valid(labels)...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.out <- metric
}

func (s scrape) count(m *Metric, n int64, labels ...string) { s.put(m, float64(n), labels...) }

func (s scrape) seconds(m *Metric, d time.Duration, labels ...string) {
	s.put(m, d.Seconds(), labels...)
}

func (s scrape) flag(m *Metric, is bool) {
	if is {
		s.put(m, 1)
		return
	}
	s.put(m, 0)
}

func (s scrape) distribution(m *Metric, d tally.Distribution, labels ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	for i, bound := range d.Bounds {
		buckets[bound.Seconds()] = uint64(d.Below[i])
	}
	metric, err := prometheus.NewConstHistogram(m.desc, uint64(d.Count), d.Sum.Seconds(), buckets, valid(labels)...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(m.desc, err)
	}
	s.out <- metric
}

// byName sends counts by one name or two.
func (s scrape) byName(m *Metric, counts *tally.ByName) {
	for name, n := range counts.Load() {
		s.count(m, n, name[:len(m.Labels)]...)
	}
}

// requests sends what callers have asked.
func (s scrape) requests(total, duration *Metric, r *tally.Requests) {
	r.Each(func(call tally.Call, outcome tally.Outcome, n int64) {
		s.count(total, n, call.String(), outcome.String())
	})
	r.Durations(func(call tally.Call, took tally.Distribution) { s.distribution(duration, took, call.String()) })
}

// valid are label values that Prometheus takes. Names come from others, and one that is not UTF-8 would spoil the scrape.
func valid(labels []string) []string {
	for i, v := range labels {
		labels[i] = strings.ToValidUTF8(v, "?")
	}
	return labels
}
