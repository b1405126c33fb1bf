// Package metrics shows what package tally counts to Prometheus, on a registry of its own.
//
//   - metric.go says what a metric is; node.go and router.go list those of a node and a router and make them at a scrape.
//   - registry.go puts them together with the build's, the Go runtime's and the process's.
//
// docs/metrics.md lists every metric; a test compares it with what is listed here, another the alerts and boards in deploy. Names
// begin with iqgate_, then node_ or router_ by who tells, and end with their unit.
//
// Nothing is kept here: a scrape reads the counters as they are at that moment, so metrics and what "iqctl status" shows come from
// the same figures. A scrape costs some microseconds for each replica.
package metrics
