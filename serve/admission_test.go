package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// A committingNode has one replica, whose commit is in flight until done is closed.
type committingNode struct {
	Node
	r Replica
}

func (n committingNode) Replica(metadata.Partition) Replica { return n.r }

type committingReplica struct {
	Replica
	done chan struct{}
}

func (r committingReplica) Settle(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r committingReplica) Read(func(*store.KV) (store.Checkpoint, error)) (metadata.Replica, error) {
	return metadata.Replica{Role: metadata.RoleActive, State: metadata.StateRunning, LeaseValid: true}, nil
}

// While Kafka does not answer, a commit stays in flight, and strong reads with it. They must not keep all others out.
func TestReadsThatAwaitACommitLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := committingReplica{done: make(chan struct{})}
		s := New(Config{NodeID: "a", MaxInFlight: 4, Node: func() Node { return committingNode{r: r} }})
		id := metadata.Partition{Store: "s"}
		read := func(mode iqv1.ReadPolicy_Mode) error {
			_, err := s.read(t.Context(), policy{mode: mode}, id, nil)
			return err
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- read(iqv1.ReadPolicy_MODE_STRONG) }()
		}
		synctest.Wait()
		over, ok := errors.AsType[*iqerr.OverloadedError](read(iqv1.ReadPolicy_MODE_STRONG))
		if !ok || over.InFlight != 2 || over.Limit != 2 {
			t.Errorf("a third read that awaits the commit: %+v", over)
		}
		if err := read(iqv1.ReadPolicy_MODE_ANY); err != nil {
			t.Errorf("a read that does not: %v", err)
		}
		close(r.done)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := read(iqv1.ReadPolicy_MODE_STRONG); err != nil {
			t.Errorf("after the commit: %v", err)
		}
	})
}

// The place of a read that has ended is free again, and a refusal takes none.
func TestNoMoreReadsThanMayBeInFlight(t *testing.T) {
	s := New(Config{NodeID: "a", MaxInFlight: 2, Node: func() Node { return nil }})
	for range 2 {
		if err := s.enter(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := s.lookup(t.Context(), nil); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one read too many: %v", err)
		}
	}
	s.exit()
	if _, err := s.lookup(t.Context(), nil); status.Code(err) == codes.ResourceExhausted {
		t.Errorf("with a place that is free: %v", err)
	}
	if n := s.InFlight(); n != 1 {
		t.Errorf("%d are in flight, want 1", n)
	}
}
