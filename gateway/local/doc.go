// Package local is a gRPC server and its client in one process: calls are function calls, with the interceptors of a server
// and without a network, an encoding or a second connection.
//
//   - server.go: Server takes services as a grpc.Server does, and is a grpc.ClientConnInterface that calls them.
//   - stream.go: a stream of one request and many responses, handed over one by one.
//
// # What must hold
//
//   - A handler meets what it would meet behind a grpc.Server: the caller's metadata as incoming, no outgoing metadata, the
//     caller's deadline and cancellation, a request of its own.
//   - A response is shared with the caller, as gRPC may keep one until it is written: nobody writes to it any more.
//   - Sending blocks until the caller receives. Nothing is queued, so a slow reader is as slow for the handler.
//   - A stream ends with its context. Wait returns when no handler runs any more.
package local
