// Package demo is the command iqctl demo: a small cluster that counts a month of real flights while it is read, loses a
// node and gets it back.
//
// # The way of a run
//
//  1. options.go checks the flags; demo.go is the run from start to end.
//  2. kafka.go starts or finds a Kafka and makes the topics; cluster.go starts the router and the nodes, each a process of
//     this same executable (command.go has the hidden commands, process.go keeps them).
//  3. feed.go writes the flights, reads.go reads by every policy, kill.go kills a node and starts it again, watch.go asks
//     the router who holds what. All of them tell screen.go, which shows it.
//  4. verify.go waits until all is processed and reads every key of every store; compare.go holds that against flights.go,
//     a plain pass over the file.
//  5. report.go is what a person wants to know at the end, and the JSON object.
//
// tally.go, compare.go, flights.go and options.go are pure.
//
// # What must hold
//
//   - However the run ends, no process of it is left and no directory that the user has not named. Children stand in
//     process groups of their own, so that a Ctrl-C reaches the demo alone, which stops them in order; on Linux they die with
//     it even when it is killed.
//   - Nothing listens outside the loopback interface.
//   - A read has failed only if the client returned an error; its gap counts from the last success to the next.
package demo
