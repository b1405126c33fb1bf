// Package iqnode is the program iqnode: from its command line to its exit code. It is a package, and not the main package
// of cmd/iqnode, because the demo runs nodes too, as processes of its own executable.
//
//   - iqnode.go is the life of the process, from top to bottom.
//   - settings.go declares every setting; package config takes their values from flags, environment and file.
//   - admin.go is the port for operators, and the Kafka client's log, whose level they set.
//   - secure.go reads the files about TLS, SASL and who may do what.
//   - crash.go ends the process in the middle of a commit, for fault tests.
package iqnode
