package iqerr

import (
	"fmt"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// NotReadyError says that the server knows no assignment yet.
type NotReadyError struct {
	// Node is the node or router that was asked; may be empty.
	Node string
	// Waiting says what it waits for: "the first assignment", "a report of any node".
	Waiting string
	// RetryAfter is when trying again makes sense; 0 gives no hint.
	RetryAfter time.Duration
}

func (e *NotReadyError) Error() string {
	text := "not ready"
	if e.Node != "" {
		text = e.Node + " is not ready"
	}
	if e.Waiting != "" {
		text += ": waiting for " + e.Waiting
	}
	return text
}

// Unwrap gives ErrNotReady.
func (e *NotReadyError) Unwrap() error { return ErrNotReady }

func (e *NotReadyError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.put(keyWaiting, e.Waiting)
	d.retryAfter(e.RetryAfter)
}

func decodeNotReady(d *details) error {
	return &NotReadyError{Node: d.get(keyNode), Waiting: d.get(keyWaiting), RetryAfter: d.getRetryAfter()}
}

// NotHostedError says that the node asked does not hold the replica.
type NotHostedError struct {
	// Node is the node that was asked.
	Node string
	// Store and Partition name the replica.
	Store     string
	Partition int32
	// Named are the nodes that the asked node's newest host map names for it, the active first.
	Named []string
}

func (e *NotHostedError) Error() string {
	text := fmt.Sprintf("%s/%d is not hosted by %s", e.Store, e.Partition, e.Node)
	if len(e.Named) == 0 {
		return text + "; its newest host map names nobody"
	}
	return text + "; its newest host map names " + list(e.Named)
}

// Unwrap gives ErrNotHosted.
func (e *NotHostedError) Unwrap() error { return ErrNotHosted }

func (e *NotHostedError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.put(keyStore, e.Store)
	d.putInt(keyPartition, int64(e.Partition))
	named := &iqv1.ReplicaRefusals{Store: e.Store, Partition: e.Partition}
	for _, node := range atMost(e.Named, maxReplicas) {
		named.Candidates = append(named.Candidates, &iqv1.Candidate{Replica: &iqv1.ReplicaStatus{
			Node: node, Store: e.Store, Partition: e.Partition,
		}})
	}
	d.add(named)
}

func decodeNotHosted(d *details) error {
	e := &NotHostedError{Node: d.get(keyNode), Store: d.get(keyStore), Partition: d.getInt32(keyPartition)}
	for _, c := range d.refusals().GetCandidates() {
		e.Named = append(e.Named, c.GetReplica().GetNode())
	}
	return e
}

// OverloadedError says that an admission limit was reached.
type OverloadedError struct {
	// Node is the node or router that refused.
	Node string
	// InFlight is the number of requests being answered, Limit the most that are admitted.
	InFlight, Limit int64
	// RetryAfter is when trying the same server again makes sense; 0 gives no hint.
	RetryAfter time.Duration
}

func (e *OverloadedError) Error() string {
	return fmt.Sprintf("%s is overloaded: %d requests in flight, limit %d", e.Node, e.InFlight, e.Limit)
}

// Unwrap gives ErrOverloaded.
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }

func (e *OverloadedError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.putInt(keyInFlight, e.InFlight)
	d.putInt(keyLimit, e.Limit)
	d.retryAfter(e.RetryAfter)
}

func decodeOverloaded(d *details) error {
	return &OverloadedError{Node: d.get(keyNode), InFlight: d.getInt(keyInFlight), Limit: d.getInt(keyLimit), RetryAfter: d.getRetryAfter()}
}

// ClosingError says that a node, or one store of it, is shutting down.
type ClosingError struct {
	// Node is the node or router, Store the store; Store is empty when all of the node closes.
	Node, Store string
}

func (e *ClosingError) Error() string {
	if e.Store == "" {
		return e.Node + " is closing"
	}
	return fmt.Sprintf("store %s is closing on %s", e.Store, e.Node)
}

// Unwrap gives ErrClosing.
func (e *ClosingError) Unwrap() error { return ErrClosing }

func (e *ClosingError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.put(keyStore, e.Store)
}

func decodeClosing(d *details) error {
	return &ClosingError{Node: d.get(keyNode), Store: d.get(keyStore)}
}

// CorruptError says that a replica's data are damaged and being rebuilt.
type CorruptError struct {
	// Node holds the damaged replica of Store and Partition.
	Node      string
	Store     string
	Partition int32
	// Problem says what was found; it is shown to callers, so it names no paths.
	Problem string
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%s/%d on %s is damaged and being rebuilt", e.Store, e.Partition, e.Node)
	if e.Problem != "" {
		text += ": " + e.Problem
	}
	return text
}

// Unwrap gives ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

func (e *CorruptError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.put(keyStore, e.Store)
	d.putInt(keyPartition, int64(e.Partition))
	d.put(keyProblem, e.Problem)
}

func decodeCorrupt(d *details) error {
	return &CorruptError{Node: d.get(keyNode), Store: d.get(keyStore), Partition: d.getInt32(keyPartition), Problem: d.get(keyProblem)}
}
