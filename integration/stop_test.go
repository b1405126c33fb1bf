//go:build synctests

package integration

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A node stops at once although a read waits there for what does not come. It waited for the read to give up.
func TestStoppingNodeEndsReadsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		a := c.StartNode("a")
		c.Eventually(20*time.Second, "active", func() error {
			_, err := getCount(t.Context(), a.Query(), "k", strong())
			return err
		})
		policy := &iqv1.ReadPolicy{
			Mode: iqv1.ReadPolicy_MODE_ANY, Wait: durationpb.New(time.Hour),
			AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Offset: 1000}}},
		}
		waited := make(chan error, 1)
		go func() {
			_, err := getCount(t.Context(), a.Query(), "k", policy)
			waited <- err
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		a.Stop()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("stopping took %s", took)
		}
		if err := iqerr.FromStatus(<-waited); !errors.Is(err, iqerr.ErrClosing) {
			t.Errorf("the read that waited got %v", err)
		}
	})
}
