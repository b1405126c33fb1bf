// Package tally is what nodes and routers count of their work, and what they tell of themselves at one moment. Package metrics
// makes Prometheus' metrics of it.
//
//   - reads.go counts reads of stores, requests.go the calls that callers make, work.go what a node does besides.
//   - node.go and router.go are the snapshots that a scrape takes.
//
// # What must hold
//
//   - A read costs a few additions to memory: no allocation, no lock, and no look for a counter by its labels but the one by the
//     store's name.
//   - The labels have few values. A store that the application does not have is counted as Other, so that nobody makes counters by
//     asking for names.
//   - Counters only grow, and begin at 0 with the process.
package tally
