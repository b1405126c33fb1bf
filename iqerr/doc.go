// Package iqerr is every error that a caller of iqgate can meet, and the only code that knows gRPC codes.
//
// There is one sentinel per wire reason (iq.v1 Reason) and, where the caller needs numbers, one struct error that wraps
// it: errors.Is(err, iqerr.ErrStale) asks for the fact, errors.As(err, &stale) for the numbers. Both work alike at the
// place where the error is made and, after Status, the wire and FromStatus, at the caller.
//
// # What crosses the wire
//
// Status turns an error into a gRPC status error:
//
//   - the code of the reason, as CodeOf says;
//   - the fact's own text. Text that wraps it ("open /var/lib/...: ...") stays on the server, for its log;
//   - google.rpc.ErrorInfo with the reason without its prefix ("STALE"), domain "iqgate", and the numbers as metadata;
//   - ReplicaRefusals for what concerns replicas, BadRequest for INVALID, RetryInfo where trying again later helps.
//
// Details travel in a trailer, and some clients accept no more than 8 KiB of those, so every list and text in them is
// cut at a named bound. Numbers are never cut: what FromStatus returns has exactly the numbers that Status was given.
//
// # Order when an error holds several facts
//
// A struct error wins over a bare sentinel, that over a gRPC status, that over a context's end, and depth first within
// each kind; what is none of these is INTERNAL, with no text of its own. Several InvalidErrors joined with errors.Join
// all arrive.
package iqerr
