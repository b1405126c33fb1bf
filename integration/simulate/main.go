// Command simulate runs many seeds of the simulation in several processes, so that one that hangs or panics takes only
// itself along, and says at the end which seeds failed and how to run each again.
//
//	go run ./integration/simulate -seeds 2000
//
// It exits with 1 when a seed failed, and prints what the test printed of it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	test = "TestSimRandomFaults"
	tags = "synctests"

	progressEvery = 30 * time.Second
)

func main() {
	var r runner
	flag.Uint64Var(&r.first, "first", 1, "the first seed")
	flag.Uint64Var(&r.seeds, "seeds", 100, "how many seeds to run")
	flag.IntVar(&r.processes, "processes", runtime.NumCPU(), "processes at a time")
	flag.Uint64Var(&r.chunk, "chunk", 20, "seeds that a process runs, one after the other")
	flag.DurationVar(&r.limit, "limit", 2*time.Minute, "how long a seed may take by the clock on the wall before its process is ended")
	flag.StringVar(&r.binary, "binary", "", "a test binary of ./integration built with the tag "+tags+" (default: it is built)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // it is a program
	defer stop()
	err := r.run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1) //nolint:gocritic // what stop would undo ends with the process
	}
}

// runner gives chunks of seeds to processes.
type runner struct {
	first, seeds uint64
	processes    int
	chunk        uint64
	limit        time.Duration
	binary       string

	mu     sync.Mutex
	next   uint64
	passed int
	failed []string // seeds, in the order in which they failed
	out    io.Writer
}

var errFailed = errors.New("some seeds failed")

func (r *runner) run(ctx context.Context, out io.Writer) error {
	r.out, r.next, r.chunk = out, r.first, max(r.chunk, 1)
	began := time.Now()
	if r.binary == "" {
		dir, err := os.MkdirTemp("", "iqgate-simulate-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		r.binary = filepath.Join(dir, "integration.test")
		build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", tags, "-o", r.binary, "./integration")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests: %w\n%s", err, text)
		}
	}
	var err error
	if r.binary, err = filepath.Abs(r.binary); err != nil {
		return err
	}
	progress, stop := context.WithCancel(ctx)
	defer stop()
	go r.tell(progress, began)
	var workers sync.WaitGroup
	for range r.processes {
		workers.Go(func() {
			for first, n, ok := r.take(); ok && ctx.Err() == nil; first, n, ok = r.take() {
				r.work(ctx, first, n)
			}
		})
	}
	workers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(out, "%d seeds passed, %d failed, in %s\n", r.passed, len(r.failed), time.Since(began).Round(time.Second))
	for _, seed := range r.failed {
		_, _ = fmt.Fprintln(out, "  "+command(seed))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.failed) > 0 {
		return errFailed
	}
	return nil
}

func command(seed string) string {
	return fmt.Sprintf("IQGATE_SIM_SEED=%s go test -tags %s -count=1 -run %s ./integration", seed, tags, test)
}

// tell says now and then how far it is.
func (r *runner) tell(ctx context.Context, began time.Time) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.mu.Lock()
			_, _ = fmt.Fprintf(r.out, "%s: %d of %d seeds passed, %d failed\n", time.Since(began).Round(time.Second), r.passed, r.seeds, len(r.failed))
			r.mu.Unlock()
		}
	}
}

// take gives the next chunk.
func (r *runner) take() (first, n uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	n = min(r.chunk, r.first+r.seeds-first)
	r.next += n
	return first, n, n > 0
}

// work runs seeds in processes: another one goes on behind a seed with which one died.
func (r *runner) work(ctx context.Context, first, n uint64) {
	for end := first + n; first < end && ctx.Err() == nil; {
		done := r.process(ctx, first, end-first)
		if done == 0 {
			return
		}
		first += done
	}
}

// process runs seeds in one process and returns how many of them are done with. A seed is done with when it passed or
// failed, or was the one that ran when the process died.
func (r *runner) process(ctx context.Context, first, n uint64) (done uint64) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*r.limit+time.Minute) // the test's own limit comes first and says more
	defer cancel()
	limit := fmt.Sprintf("-test.timeout=%s", time.Duration(n)*r.limit)
	cmd := exec.CommandContext(ctx, r.binary, "-test.run", "^"+test+"$", "-test.v", "-test.parallel=1", limit)
	cmd.Dir = filepath.Dir(r.binary)
	cmd.Env = append(os.Environ(), fmt.Sprintf("IQGATE_SIM_SEED=%d", first), fmt.Sprintf("IQGATE_SIM_SEEDS=%d", n))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	text := output.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	var dead string // output since the last seed that ended
	for seed := first; seed < first+n; seed++ {
		mark := fmt.Sprintf("--- %%s: %s/seed=%d ", test, seed)
		switch {
		case strings.Contains(text, fmt.Sprintf(mark, "PASS")):
			r.passed++
			done++
		case strings.Contains(text, fmt.Sprintf(mark, "FAIL")):
			done++
			r.fail(seed, section(text, seed))
		case dead == "" && err != nil && done == seed-first:
			dead = strconv.FormatUint(seed, 10)
		}
	}
	if err == nil {
		return n
	}
	if dead != "" && !errors.Is(context.Cause(ctx), context.Canceled) { // the process died of it
		var seed uint64
		if _, scanErr := fmt.Sscan(dead, &seed); scanErr == nil {
			r.fail(seed, fmt.Sprintf("the process ended: %v\n%s", err, death(text)))
			done++
		}
	}
	return done
}

// fail notes a seed that failed. The caller holds the lock.
func (r *runner) fail(seed uint64, text string) {
	r.failed = append(r.failed, strconv.FormatUint(seed, 10))
	_, _ = fmt.Fprintf(r.out, "seed %d failed:\n%s\n%s\n", seed, text, command(strconv.FormatUint(seed, 10)))
}

// section is what the test printed of one seed.
func section(text string, seed uint64) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "=== ") {
			inside = strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf("/seed=%d", seed))
			continue
		}
		if inside && !strings.HasPrefix(strings.TrimSpace(line), "---") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// deathText is how much of the output of a process is shown that died.
const deathText = 6000

// death is what a process said when it died: from the panic on, or the end of its output.
func death(text string) string {
	for _, sign := range []string{"panic: ", "fatal error: "} {
		if i := strings.Index(text, sign); i >= 0 {
			return text[i:min(len(text), i+deathText)]
		}
	}
	return text[max(0, len(text)-deathText):]
}
