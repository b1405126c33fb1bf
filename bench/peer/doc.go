// Package peer is the other side of the comparison: an application of Kafka Streams with interactive queries over gRPC, in
// Java, as an experienced team would run it today.
//
//   - pom.xml and src/ are the application. It counts a topic by key under exactly-once and speaks the part of iq.v1 that a
//     lookup needs, with the same field numbers, so that both sides are asked with the same bytes.
//   - peer.go builds it with Maven, once for each version of its sources, into the user's cache folder, and says how to start
//     it: on the newest Java there is, answering on gRPC's event loop.
//
// The application prints one JSON line for each event on standard output: when it was restored, and which state it is in.
package peer
