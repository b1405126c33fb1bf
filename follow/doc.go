// Package follow is what a node follows that runs no tasks: the changelogs of a Kafka Streams application, and compacted
// topics as tables. It answers "which of my application's stores can be served, as what, and why not that one?", for a
// node in replica mode and for `iqctl import-check` alike.
//
//	config.go  what somebody wants followed; yaml.go its file
//	facts.go   what Kafka says of the topics and of the application's group; read.go asks for it
//	names.go   which topics are changelogs, and of what
//	detect.go  what kind of store a changelog is of, by its configuration and some of its records
//	check.go   Resolve: config and facts to stores and problems; checks.go has what it looks at
//
// Resolve is a function of values. What it decides is what a node serves: both take the StoreSpec that it makes.
//
// # What must hold
//
//   - Nothing here writes: neither to the application's topics nor to its group. A node that follows has a group of its
//     own, and its name can never be the application's.
//   - Nothing is guessed that would make an answer wrong. What a topic does not tell (the size of windows, which topic feeds
//     a store) has to be configured, and a store that lacks it is left out by name and reason.
//   - A record that is not of the store's kind is never shown as one; that is store.Schema's work, which is asked here too.
package follow
