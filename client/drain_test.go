package client_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// drains tells how many tasks are left, at last that it is done, and then ends with err.
func drains(err error, tasks ...int32) *router {
	return &router{drain: func(_ *iqv1.DrainRequest, out iqv1.ControlService_DrainServer) error {
		for _, n := range tasks {
			if err := out.Send(&iqv1.DrainResponse{ActiveTasks: n, Done: n == 0}); err != nil {
				return err
			}
		}
		return err
	}}
}

func TestADrainIsFollowedToItsEndWhicheverRouterBreaks(t *testing.T) {
	for name, x := range map[string]struct {
		routers map[string]*router
		want    []int32
	}{
		"one router":      {map[string]*router{"r1": drains(nil, 3, 1, 0)}, []int32{3, 1, 0}},
		"done is the end": {map[string]*router{"r1": drains(status.Error(codes.Unavailable, "gone"), 1, 0)}, []int32{1, 0}},
		"first is down":   {map[string]*router{"r1": nil, "r2": drains(nil, 3, 0)}, []int32{3, 0}},
		"first breaks":    {map[string]*router{"r1": drains(iqerr.ErrClosing, 3, 2), "r2": drains(nil, 1, 0)}, []int32{3, 2, 1, 0}},
		"ends too soon":   {map[string]*router{"r1": drains(nil, 3), "r2": drains(nil, 1, 0)}, []int32{3, 1, 0}},
		"another node":    {map[string]*router{"r1": drains(iqerr.Invalid("node", "b", "this is a")), "r2": drains(nil, 0)}, []int32{0}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int32
			c := newNetwork(t, x.routers).client(t, map[int]string{1: "r1", 2: "r1 r2"}[len(x.routers)])
			if err := c.Drain(t.Context(), "b", func(m *iqv1.DrainResponse) { got = append(got, m.GetActiveTasks()) }); err != nil || !slices.Equal(got, x.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestADrainThatIsRefusedSaysWhy(t *testing.T) {
	second := drains(nil, 0)
	c := newNetwork(t, map[string]*router{"r1": drains(status.Error(codes.NotFound, `node "b" is unknown`)), "r2": second}).client(t, "r1 r2")
	if err := c.Drain(t.Context(), "b", nil); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	other := drains(iqerr.Invalid("node", "b", "this is a"))
	c = newNetwork(t, map[string]*router{"r1": other, "r2": other}).client(t, "r1 r2")
	if err := c.Drain(t.Context(), "b", nil); !errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := c.Drain(t.Context(), "", nil); !errors.Is(err, iqerr.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestADrainOfWhichNothingIsHeardEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &router{drain: func(_ *iqv1.DrainRequest, out iqv1.ControlService_DrainServer) error {
			<-out.Context().Done()
			return nil
		}}
		c := newNetwork(t, map[string]*router{"r1": hung}).client(t, "r1")
		began := time.Now()
		err := c.Drain(t.Context(), "b", nil)
		if status.Code(iqerr.Status(err)) != codes.DeadlineExceeded || time.Since(began) != 2*client.MaxSilence {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}
