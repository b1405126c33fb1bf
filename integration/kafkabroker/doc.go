// Package kafkabroker starts a real Apache Kafka, one KRaft node from Maven's jars, for the tests of layer 5 and
// for the demo. It needs a Java of 17 or newer and Maven, no Docker, and no Kafka of the machine's own.
//
// A start goes in these steps, in order:
//
//  1. Find looks for the newest Java and for Maven, or says what to install.
//  2. Jars copies the jars that pom.xml names into the user's cache, once for each version of pom.xml. Processes
//     that come at the same time wait for the first one; a copy that was cut short is never used.
//  3. Two free ports below the ephemeral range are picked: no outgoing connection can take them in between.
//  4. The storage is formatted with a cluster id of its own, unless Options.Dir already holds a broker's data.
//  5. Java starts in a process group of its own, so that a Ctrl-C meant for the parent does not reach it, and on
//     Linux with a death signal, so that it never outlives its parent.
//  6. The broker is ready when whoever answers on the port tells the cluster id of step 4. A port that answers may
//     be another broker's; ours then fails to bind and exits, and steps 3 to 6 are done again, a few times.
//
// Invariants: a Broker that Start or Restart returned is the process that owns its ports. Restart keeps ports and
// data. Kill and Stop return after the process has ended.
//
// The package runs on Unix. What a test does with the broker is left to the test.
package kafkabroker
