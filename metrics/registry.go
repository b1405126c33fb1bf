package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

var (
	buildMetrics list
	buildInfo    = buildMetrics.gauge("iqgate_build_info", "", "1, with what the program was built from.", "program", "version", "revision", "goversion")
)

// Build is what a program was built from.
type Build struct{ Program, Version, Revision string }

// NewRegistry makes a registry of a program's metrics: those of the collectors given, of the build, of the Go runtime and of the
// process.
func NewRegistry(b Build, more ...prometheus.Collector) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	more = append(more, b, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range more {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Describe implements prometheus.Collector.
func (b Build) Describe(out chan<- *prometheus.Desc) { buildMetrics.describe(out) }

// Collect implements prometheus.Collector.
func (b Build) Collect(out chan<- prometheus.Metric) {
	scrape{out: out}.put(buildInfo, 1, b.Program, b.Version, b.Revision, runtime.Version())
}
