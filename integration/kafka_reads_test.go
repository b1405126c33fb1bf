//go:build kafka

package integration

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/iqgate/iqgate/client"
)

const (
	// readEvery is the pause between two reads of one reader.
	readEvery = 5 * time.Millisecond
	// failuresShown bounds the failed reads that a test's message tells of.
	failuresShown = 5
)

// readers read the counts of the groups in turn, all the while.
type readers struct {
	app  *app
	halt chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu     sync.Mutex
	served map[string]int // by the reader's name
	failed []string
}

func (a *app) newReaders() *readers {
	r := &readers{app: a, halt: make(chan struct{}), served: make(map[string]int)}
	a.t.Cleanup(r.end)
	return r
}

func (r *readers) end() {
	r.once.Do(func() { close(r.halt) })
	r.wg.Wait()
}

// read starts a reader.
func (r *readers) read(name string, from *client.Client, policy client.ReadOption) {
	r.wg.Go(func() {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-r.halt:
				return
			case <-tick.C:
			}
			began := time.Now()
			key := fmt.Sprintf("g%d", n%groups)
			got, err := r.app.number(from, "counts", key, policy)
			if err == nil && got == 0 {
				err = fmt.Errorf("%s is absent", key)
			}
			r.mu.Lock()
			if err == nil {
				r.served[name]++
			} else {
				r.failed = append(r.failed, fmt.Sprintf("%s at %s after %s: %v", name, began.Format("15:04:05.000"), time.Since(began), err))
			}
			r.mu.Unlock()
		}
	})
}

// stop ends the reads and fails the test if one has failed.
func (r *readers) stop() {
	r.app.t.Helper()
	r.end()
	r.app.t.Logf("reads served: %v", r.served)
	if len(r.failed) > 0 {
		r.app.t.Errorf("%d reads failed; the first ones:\n%s", len(r.failed), strings.Join(r.failed[:min(len(r.failed), failuresShown)], "\n"))
	}
	if len(r.served) == 0 {
		r.app.t.Error("no read was served")
	}
}
