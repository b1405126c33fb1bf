package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// MaxKeys is the most keys of one MultiGet.
const MaxKeys = 10_000

// KeyResult is what a MultiGet found for one key.
type KeyResult struct {
	// Key is that of the call.
	Key []byte
	// Found is false for a key that the store does not hold, and where Err is set.
	Found bool
	// Value is as the store's value serde wrote it; it may be empty although Found. It belongs to the caller.
	Value []byte
	// Timestamp is the record timestamp of the value; zero when not found.
	Timestamp time.Time
	// ValidUntil is when the version found ended, exclusive; zero for the latest, and for stores that are not versioned.
	ValidUntil time.Time
	// Read says which replica answered, and at which position it was read. Keys of one partition share it. Nil where Err is
	// set.
	Read *iqv1.PartitionRead
	// Err is why the key could not be read: what a Get of it would have failed with.
	Err error
}

// MultiGet looks many keys of a key-value or versioned store up, at most MaxKeys, with a result for each in their order. Keys
// of one partition are read at one position. A key that could not be read has its error in its own result and takes no
// other with it; the call's error says that nothing could be read at all.
func (c *Client) MultiGet(ctx context.Context, store string, keys [][]byte, opts ...ReadOption) ([]KeyResult, error) {
	return c.multiGetIn(ctx, nil, store, keys, opts)
}

func (c *Client) multiGetIn(ctx context.Context, s *Session, store string, keys [][]byte, opts []ReadOption) ([]KeyResult, error) {
	r, err := c.read(callMultiGet, s, store, nil, opts)
	if len(keys) > MaxKeys {
		err = errors.Join(err, iqerr.Invalid("keys", len(keys), fmt.Sprintf("at most %d are allowed", MaxKeys)))
	}
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if s != nil {
		if err := s.begin(ctx, r); err != nil {
			return nil, err
		}
	}
	m := newMultiGet(r, keys)
	_, _, err = ask(ctx, c, m.ask, m, r.wait())
	if err != nil && !m.answered {
		return nil, err
	}
	if s != nil {
		for _, res := range m.results {
			s.saw(store, res.Read.GetInputPosition())
		}
	}
	return m.results, nil
}

// multiGet is one call: each target is asked for the keys that those before it could not read.
type multiGet struct {
	r        *read
	results  []KeyResult
	left     []int // indexes of the keys to ask for
	answered bool  // some target did
}

func newMultiGet(r *read, keys [][]byte) *multiGet {
	m := &multiGet{r: r, results: make([]KeyResult, len(keys)), left: make([]int, len(keys))}
	for i, k := range keys {
		m.results[i].Key, m.left[i] = k, i
	}
	return m
}

// ask asks one target. Its error is that of a key which another target may be able to read.
func (m *multiGet) ask(t *target, ctx context.Context, _ *multiGet) (struct{}, error) { //nolint:revive // the shape of all calls
	req := &iqv1.MultiGetRequest{
		Store: m.r.get.GetStore(), Policy: m.r.get.Policy, Application: m.r.get.GetApplication(), AsOfMs: m.r.get.AsOfMs,
		Keys: make([][]byte, 0, len(m.left)),
	}
	for _, i := range m.left {
		req.Keys = append(req.Keys, m.results[i].Key)
	}
	res, err := t.query.MultiGet(ctx, req)
	if err != nil {
		return struct{}{}, err
	}
	if len(res.GetResults()) != len(req.GetKeys()) {
		return struct{}{}, status.Errorf(codes.Internal, "%d results for %d keys", len(res.GetResults()), len(req.GetKeys()))
	}
	m.answered = true
	var failed error
	left := m.left[:0]
	for n, i := range m.left {
		res := keyResultOf(m.results[i].Key, res.GetResults()[n], res.GetPartitions())
		m.results[i] = res
		if res.Err != nil && iqerr.Retriable(res.Err) {
			left = append(left, i)
			if failed == nil || weight(res.Err) > weight(failed) {
				failed = res.Err
			}
		}
	}
	m.left = left
	return struct{}{}, failed
}

func keyResultOf(key []byte, m *iqv1.KeyResult, partitions []*iqv1.PartitionRead) KeyResult {
	r := KeyResult{Key: key}
	if m.GetError() != nil {
		r.Err = iqerr.FromKeyError(m.GetError())
		return r
	}
	if n := int(m.GetRead()); m.Read != nil && n >= 0 && n < len(partitions) {
		r.Read = partitions[n]
	}
	if !m.GetFound() {
		return r
	}
	r.Found, r.Value, r.Timestamp = true, present(m.GetValue()), time.UnixMilli(m.GetTimestampMs())
	if m.ValidUntilMs != nil {
		r.ValidUntil = time.UnixMilli(m.GetValidUntilMs())
	}
	return r
}
