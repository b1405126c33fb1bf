// Package secure makes of a program's settings how it protects its links: Files for the links to clients, routers and nodes,
// Kafka for those to Kafka. Settings name files; secrets stand in files, and a password in the environment, never on a command
// line, where every process of the machine can read it.
package secure
