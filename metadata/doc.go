// Package metadata says who hosts what and how far behind: the words of KIP-535 (StreamsMetadata, KeyQueryMetadata,
// LagInfo, Position) and the View, an immutable picture of the whole application as a router or node knows it.
//
// The package is pure: it has no clock, lock, log or I/O and imports nothing but the standard library. Time enters as
// an argument. A View is never written after it was published (I7); Apply and Expire return a new one.
//
// Who follows a View keeps a table of Instances and asks Diff what to change in it, so that nobody has to be told everything
// each time; what changed in figures alone is told apart, because it changes with every report.
//
// What it leaves to others: how reports travel (node, router), which replica answers a query (router), how lag is
// measured (node).
package metadata
