//go:build synctests

package integration

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A second process with the same node id and a state directory of its own, as a scheduler starts it for one that it has
// lost sight of, takes the first one's place in the group at once. The first, cut off from Kafka, cannot know: the second
// begins nothing before the first one's lease must have run out.
func TestS37ReplacementWaitsForTheOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		first := f.StartNode("a")
		f.input(&kgo.Record{Key: []byte("k1"), Value: []byte("1")})
		f.settled(first, "k1", "1")
		first.Gate().Freeze()
		defer first.Gate().Thaw()
		second := f.StartNode("a2", func(cfg *nodeConfig) { cfg.NodeID = "a" })
		f.input(&kgo.Record{Key: []byte("k1"), Value: []byte("2")})
		active := &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG}
		f.Eventually(time.Minute, "the second is active", func() error {
			old, _, errOld := f.get(first, "k1", active)
			got, _, err := f.get(second, "k1", active)
			if err == nil && errOld == nil {
				t.Fatalf("both answer as active: the first %q, the second %q", old, got)
			}
			if err == nil && got != "2" {
				err = errors.New(got)
			}
			return err
		})
	})
}
