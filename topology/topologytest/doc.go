// Package topologytest runs a topology in a test, without Kafka and without nodes: records go in, outputs and stores can
// be looked at. It is to topologies what TopologyTestDriver is to Kafka Streams.
//
// Everything happens in the caller's goroutine, in one fixed order: a record, and everything that follows from it through
// repartition topics, is processed before Put returns. Nothing is sampled and nothing is timed, so the same records always
// give the same result. Transactions, restarts and rebalances are not simulated.
// Window, session and versioned stores keep what a node's keep: they expire by stream time, and Changelog shows what they
// wrote in Kafka Streams' format.
package topologytest
