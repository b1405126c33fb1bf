// Package auth is who calls, and what the caller may do.
//
// # The way of a call
//
//  1. certificate.go and token.go make a Principal of what the caller shows: a client certificate that an authority of ours
//     has signed, or a bearer token (JWT) that a key of the key set has signed. A token wins over a certificate. Nothing shown,
//     or something that is not accepted, is UNAUTHENTICATED.
//  2. methods.go says what a request wants: Accesses, each an action on a store and a range of keys. A method without a row
//     there is refused to everybody, so that a new one cannot be forgotten.
//  3. decide.go decides: Decide is a pure function of (rules, principal, accesses). What no rule allows is PERMISSION_DENIED.
//  4. guard.go and stream.go are the shell around it, as interceptors of a gRPC server. Each message of a stream is judged,
//     and the last one again before anything is sent once the rules have changed or the credentials have run out.
//
// # Nodes and routers
//
// The rules name them by their certificates or tokens. A node's name has its node id in it ("{node}" in the rules), and a
// report may speak for no other: one that was recorded from another node is refused whatever it says. A router may tell
// nodes for whom it asks (forward.go): it passes the names of its caller on, and the node judges them by its own rules
// again. Such names from anybody else are an error. Without them a router is a caller like others.
//
// # What must hold
//
//   - Deny by default: no row, no rule, no credentials, no answer.
//   - A range of keys is allowed if all of it lies within one allowed prefix, else refused; it is never made smaller.
//   - What is about no key, such as a store's lags, is about all of its keys.
//   - No error, log line or metric has anything of a token, a key of a store or a value. Errors tell what the caller asked
//     for, and the same for a store that exists and one that does not.
//   - Rules, keys and authorities are one edition each, swapped whole when their files change (package reload). A file that
//     is wrong changes nothing.
//   - Caches are bounded (maxCached) and hold accepted credentials only, by the digest of a token and never the token.
//
// Package certs has the certificates; codes of errors are iqerr's.
package auth
