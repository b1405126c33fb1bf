package mux

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// TestLookupContextIsLikeTheOneThatItSaves compares it with context's own, whether or not somebody waits for its end.
func TestLookupContextIsLikeTheOneThatItSaves(t *testing.T) {
	for name, wait := range map[string]bool{"watched": true, "unwatched": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
				make3 := func() (a, b, c *lookupContext) {
					a = &lookupContext{stream: stream, deadline: time.Now().Add(time.Second)}
					b, c = &lookupContext{stream: stream}, &lookupContext{stream: stream, deadline: time.Now().Add(time.Hour)}
					return a, b, c
				}
				timed, ended, cut := make3()
				all := []*lookupContext{timed, ended, cut}
				for _, c := range all {
					if wait {
						c.Done()
					}
					if c.Err() != nil || c.Value(key{}) != "v" {
						t.Errorf("at first: %v, %v", c.Err(), c.Value(key{}))
					}
				}
				time.Sleep(time.Second)
				synctest.Wait()
				ended.end()
				cancelled := []error{timed.Err(), ended.Err(), cut.Err()}
				if !errors.Is(cancelled[0], context.DeadlineExceeded) || !errors.Is(cancelled[1], context.Canceled) || cancelled[2] != nil {
					t.Errorf("after a second: %v", cancelled)
				}
				child, cancelChild := context.WithTimeout(cut, time.Minute)
				defer cancelChild()
				cancel()
				synctest.Wait()
				if !errors.Is(cut.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
					t.Errorf("after the stream: %v, its child %v", cut.Err(), child.Err())
				}
				timed.end()
				if !errors.Is(timed.Err(), context.DeadlineExceeded) {
					t.Errorf("why it ended became %v", timed.Err())
				}
				for _, c := range all {
					<-c.Done() // also the first time
				}
			})
		})
	}
}
