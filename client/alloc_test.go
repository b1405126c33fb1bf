package client

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// quiet is a connection that answers at once and allocates nothing, so that what is left is the client's own.
type quiet struct{ grpc.ClientConnInterface }

func (quiet) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	if res, ok := reply.(*iqv1.GetResponse); ok {
		res.Found = true
	}
	return nil
}

func quietClient(targets int) *Client {
	c := &Client{opts: options{timeout: DefaultTimeout, attemptTimeout: DefaultAttemptTimeout}}
	for range targets {
		c.targets = append(c.targets, newTarget("quiet", quiet{}, func() error { return nil }))
	}
	return c
}

// TestGetAllocs holds what a read costs before gRPC: with one target the request and reply, gRPC's copy of the
// call options, and an empty value's slice; with two also the attempt's deadline.
func TestGetAllocs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	key := []byte("k")
	for _, x := range []struct {
		targets int
		ceiling float64
	}{{1, 4}, {2, 8}} {
		c := quietClient(x.targets)
		got := testing.AllocsPerRun(1000, func() {
			if r, err := c.Get(ctx, "orders", key, Strong(), PreferActive()); err != nil || !r.Found {
				t.Fatal(r, err)
			}
		})
		if got > x.ceiling {
			t.Errorf("targets=%d: %v allocations a read, ceiling %v", x.targets, got, x.ceiling)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	for name, targets := range map[string]int{"targets=1": 1, "targets=2": 2} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c := quietClient(targets)
			for b.Loop() {
				if _, err := c.Get(ctx, "orders", nil, Strong()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
