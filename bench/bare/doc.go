// Package bare has the simplest servers that grpc-go allows: one that answers a lookup with the same bytes whatever the key,
// and one that passes lookups on as they are. They do nothing else, so their rates are what any server on grpc-go could reach.
//
// Codec passes messages through as bytes; the load generator uses it too, so that it spends as little as it can on either side.
package bare
