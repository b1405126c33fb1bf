// Package gateway is the HTTP/JSON side of a router: the reads and the metadata of iq.v1 for callers that speak no gRPC.
//
// # The way of a request
//
//  1. server.go accepts connections, as many as it may, with the router's own certificates.
//  2. handler.go finds the route (routes.go) and reads the request by the route's parameters (params.go, read.go). A parameter
//     that the route does not have is refused like a bad value.
//  3. The route's operation makes a request of iq.v1 of it. store.go asks how the store's keys and values are written, and
//     package shape turns them into bytes and back.
//  4. The call goes to the router's own services within the process (package local), by the credentials of the HTTP request:
//     the router's rules, limits and policies hold as they do for gRPC.
//  5. get.go, mget.go, metadata.go answer with one JSON object; scan.go with one line a row and a last line that says how it
//     ended; watch.go with server-sent events. errors.go answers with google.rpc.Status.
//
// openapi.go describes all of it from the same tables, so that the document cannot say anything else.
//
// # Bounds
//
// Connections: MaxConnections, and maxExcess more that are told so. Headers: maxHeaderBytes, within headerTimeout. Body:
// MaxBodyBytes, within bodyTimeout; keys of a request: query.MaxKeys. A reader that takes nothing for StreamIdle is cut off. An idle
// connection is closed after idleTimeout. Reads, scans, watches and waits at a time are the router's bounds.
//
// # What must hold
//
//   - A stream of rows is never cut silently: the last line is its end or its error. A body without such a line is not whole.
//   - The id of an event is a position from which a watch goes on without a gap.
//   - A bad parameter is refused by its name and value, and with all others that are bad.
//   - What the caller has shown goes to the router's guard and nowhere else.
package gateway
