package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// drawer answers for the keys that it has, and with an error for those in failing.
func drawer(node string, has map[string]string, failing map[string]*iqv1.KeyError) *router {
	r := &router{}
	r.multiGet = func(_ context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
		res := &iqv1.MultiGetResponse{Partitions: []*iqv1.PartitionRead{{Partition: 1, Served: &iqv1.ReplicaStatus{Node: node}}}}
		for _, k := range req.GetKeys() {
			if e := failing[string(k)]; e != nil {
				res.Results = append(res.Results, &iqv1.KeyResult{Error: e})
				continue
			}
			v, found := has[string(k)]
			res.Results = append(res.Results, &iqv1.KeyResult{Found: found, Value: []byte(v), Read: new(int32(0)), TimestampMs: 7})
		}
		return res, nil
	}
	return r
}

func keyStale() *iqv1.KeyError {
	return &iqv1.KeyError{
		Code: int32(codes.FailedPrecondition), Reason: iqv1.Reason_REASON_STALE, Message: "orders/2: too far behind",
		Refusals: &iqv1.ReplicaRefusals{Store: "orders", Partition: 2, Candidates: []*iqv1.Candidate{{Why: "910 behind"}}},
	}
}

func TestEachKeyHasItsOwnAnswerOrError(t *testing.T) {
	r := drawer("a", map[string]string{"x": "1", "empty": ""}, map[string]*iqv1.KeyError{
		"stale": keyStale(), "odd": {Code: int32(codes.InvalidArgument), Reason: iqv1.Reason_REASON_INVALID, Message: "key: is no int32"},
		"bug": {Code: int32(codes.Internal), Message: "internal error"},
	})
	c := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1")
	keys := [][]byte{[]byte("x"), []byte("stale"), []byte("none"), []byte("odd"), []byte("empty"), []byte("bug"), []byte("x")}
	got, err := c.MultiGet(t.Context(), "orders", keys, client.AsOf(time.UnixMilli(9)))
	if err != nil || len(got) != len(keys) {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, want := range []struct {
		found bool
		value string
		is    error
		code  codes.Code
	}{
		{found: true, value: "1"},
		{is: iqerr.ErrStale, code: codes.FailedPrecondition},
		{},
		{is: iqerr.ErrInvalid, code: codes.InvalidArgument},
		{found: true},
		{code: codes.Internal},
		{found: true, value: "1"},
	} {
		g := got[i]
		if string(g.Key) != string(keys[i]) || g.Found != want.found || string(g.Value) != want.value || g.Found != (g.Value != nil) {
			t.Errorf("key %s: got %+v", keys[i], g)
		}
		if want.is != nil && !errors.Is(g.Err, want.is) || status.Code(iqerr.Status(g.Err)) != want.code || (g.Err == nil) != (g.Read.GetServed().GetNode() == "a") {
			t.Errorf("key %s: got error %v, read %v", keys[i], g.Err, g.Read)
		}
	}
	if got[1].Err.Error() != "orders/2: too far behind" {
		t.Errorf("got %v", got[1].Err)
	}
}

// TestS18AnotherRouterIsAskedForTheKeysThatOneCannotRead, and for those alone.
func TestS18AnotherRouterIsAskedForTheKeysThatOneCannotRead(t *testing.T) {
	var asked []string
	r1 := drawer("a", map[string]string{"x": "1"}, map[string]*iqv1.KeyError{
		"y": keyStale(), "z": keyStale(), "odd": {Code: int32(codes.InvalidArgument), Reason: iqv1.Reason_REASON_INVALID},
	})
	r2 := drawer("b", map[string]string{"y": "2"}, map[string]*iqv1.KeyError{"z": keyStale()})
	answer := r2.multiGet
	r2.multiGet = func(ctx context.Context, req *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
		for _, k := range req.GetKeys() {
			asked = append(asked, string(k))
		}
		return answer(ctx, req)
	}
	c := newNetwork(t, map[string]*router{"r1": r1, "r2": r2, "r3": nil}).client(t, "r1 r2 r3")
	got, err := c.MultiGet(t.Context(), "orders", [][]byte{[]byte("x"), []byte("odd"), []byte("y"), []byte("z")})
	if err != nil {
		t.Fatal(err)
	}
	if string(got[0].Value) != "1" || !errors.Is(got[1].Err, iqerr.ErrInvalid) || string(got[2].Value) != "2" || !errors.Is(got[3].Err, iqerr.ErrStale) {
		t.Errorf("got %+v", got)
	}
	if len(asked) != 2 || asked[0] != "y" || asked[1] != "z" {
		t.Errorf("the second router was asked for %q", asked)
	}
}

func TestAMultiGetThatNobodyAnswersIsAnError(t *testing.T) {
	short := &router{multiGet: func(context.Context, *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error) {
		return &iqv1.MultiGetResponse{Results: []*iqv1.KeyResult{{}}}, nil
	}}
	for name, r := range map[string]*router{"nobody": nil, "too few results": short} {
		c := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1")
		if got, err := c.MultiGet(t.Context(), "orders", [][]byte{nil, nil}); got != nil || err == nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if got, err := c.MultiGet(t.Context(), "orders", nil); got != nil || err != nil {
			t.Errorf("%s: no keys give %v, %v", name, got, err)
		}
	}
}

func TestACountGoesToTheNextRouterAndTellsItsReads(t *testing.T) {
	var asked *iqv1.CountRequest
	r := &router{count: func(_ context.Context, req *iqv1.CountRequest) (*iqv1.CountResponse, error) {
		asked = req
		return &iqv1.CountResponse{Count: 12, Approximate: true, Reads: []*iqv1.PartitionRead{{Partition: 4}}}, nil
	}}
	c := newNetwork(t, map[string]*router{"r1": nil, "r2": r}).client(t, "r1 r2")
	got, err := c.Count(t.Context(), "orders", client.Approximate(), client.Prefix([]byte("a")), client.Any())
	if err != nil || got.Count != 12 || !got.Approximate || got.Reads[0].GetPartition() != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
	want := &iqv1.CountRequest{
		Selection: &iqv1.Selection{Store: "orders", Keys: &iqv1.Selection_Prefix{Prefix: []byte("a")}}, Approximate: true,
		Policy: &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ANY},
	}
	if !proto.Equal(asked, want) {
		t.Errorf("sent %v", asked)
	}
}
