package node

import (
	"errors"
	"testing"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// A digest holds the keys that change meanwhile: more than so many at a time are refused, and their states stay pinned.
func TestDigestsAreBounded(t *testing.T) {
	t.Parallel()
	s := newVerifyServer(&Node{cfg: Config{NodeID: "a"}})
	sn := store.NewSnapshot(nil, store.Checkpoint{}, func() {})
	id, ok := s.pins.add(&pinnedState{sn: sn})
	if !ok {
		t.Fatal("there are no pins yet")
	}
	for range maxDigests {
		s.sums <- struct{}{}
	}
	var overloaded *iqerr.OverloadedError
	if _, err := s.DigestState(t.Context(), &iqv1.DigestStateRequest{Pin: id}); !errors.As(iqerr.FromStatus(err), &overloaded) {
		t.Errorf("one more gives %v", err)
	}
	<-s.sums
	if _, err := s.DigestState(t.Context(), &iqv1.DigestStateRequest{Pin: id, From: -1}); errors.As(iqerr.FromStatus(err), &overloaded) || s.pins.take(id) != nil {
		t.Errorf("when one has ended: %v", err)
	}
	if len(s.sums) != maxDigests-1 {
		t.Errorf("%d are counted", len(s.sums))
	}
}
