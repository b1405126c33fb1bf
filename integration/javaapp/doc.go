// Package javaapp is a Kafka Streams application with every kind of store, for tests: nodes in replica mode follow it, it
// answers for its own active stores, and it takes stores over and hands them over.
//
//   - IqQuery.java and IqHeartbeats.java are what a Java application needs to be asked through a router; docs/java.md shows
//     them. They know nothing of the rest.
//   - Stores.java is the topology, App.java the process, Dump.java what the tests compare with.
package javaapp
