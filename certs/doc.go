// Package certs is which certificates a process shows on its links and whom it trusts there. They are read from files and
// read again when the files change, without a restart and without ending a connection (package reload says how).
//
//   - certs.go is an Identity: a certificate with its key, and the authorities that sign the peers' ones.
//   - links.go knows the connections that were dialled, to end them when the files have changed.
//   - credentials.go makes gRPC's transport credentials of it, and configurations for other clients.
//
// # What must hold
//
//   - A handshake uses one edition of the files, whole: never a new certificate with an old authority.
//   - Each connection that is made after a change uses the new edition. Those that a server has accepted go on; whoever judges
//     callers by their certificates (package auth) judges those of open connections again. Those that were dialled are made
//     anew one after the other, before the old certificate can have run out.
//   - A client always checks the server's name and chain. There is no way to turn that off.
//   - TLS 1.3 between the processes of this module; 1.2 is allowed to others, such as Kafka.
//
// The package imports package reload alone of this module.
package certs
