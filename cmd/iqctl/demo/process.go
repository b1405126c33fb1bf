package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Bounds of child processes.
const (
	listenTimeout = 20 * time.Second // from the start of a process until it says where it listens
	stopPatience  = 5 * time.Second  // from SIGTERM to SIGKILL
	logTailLines  = 12               // shown of the log of a process that died
	logTailBytes  = 8 << 10
)

// listening is what a child prints when it listens; its address follows.
const listening = " listening at "

// A child is one process of the cluster. Its goroutine ends with it.
type child struct {
	name    string
	cmd     *exec.Cmd
	log     string
	address chan string   // gets the address once
	done    chan struct{} // closed when the process has ended
	err     error         // how it ended; read it after done
	meant   atomic.Bool   // its end is wanted
}

// spawn starts this executable with other arguments. Both its outputs go to a log file in dir.
//
// The goroutine that starts it stays on its thread until the process has ended: Linux sends the death signal when the
// thread that forked ends, and not only when the parent process does.
func spawn(dir, name string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	c := &child{name: name, log: filepath.Join(dir, name+".log"), address: make(chan string, 1), done: make(chan struct{})}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	c.cmd = exec.Command(self, args...) //nolint:noctx // it is stopped in order, not with a context
	c.cmd.Env = childEnv(os.Environ())
	c.cmd.Stdout, c.cmd.Stderr = in, log
	c.cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		_ = in.Close()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close(), log.Close())
	}
	go func() {
		c.read(out, log)
		_, _ = out.Close(), log.Close()
	}()
	return c, nil
}

// childEnv leaves out the settings of other nodes that the user may have in his environment.
func childEnv(env []string) []string {
	var kept []string
	for _, line := range env {
		if !strings.HasPrefix(line, "IQNODE_") && !strings.HasPrefix(line, "IQROUTER_") && !strings.HasPrefix(line, "IQCTL_") {
			kept = append(kept, line)
		}
	}
	return kept
}

// read copies the child's output to its log and finds the address in it.
func (c *child) read(out io.Reader, log io.Writer) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(log, line)
		if _, address, ok := strings.Cut(strings.TrimSpace(line), listening); ok {
			select {
			case c.address <- address:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// listens waits until the child says where it listens.
func (c *child) listens(ctx context.Context) (string, error) {
	t := time.NewTimer(listenTimeout)
	defer t.Stop()
	select {
	case address := <-c.address:
		return address, nil
	case <-c.done:
		return "", c.death()
	case <-t.C:
		return "", fmt.Errorf("%s does not listen after %s; see %s", c.name, listenTimeout, c.log)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// death is the error of a child that ended unasked.
func (c *child) death() error { return &deathError{child: c, tail: logTail(c.log)} }

// A deathError says that a process ended unasked. The end of its log is for the screen.
type deathError struct {
	child *child
	tail  string
}

func (e *deathError) Error() string {
	return fmt.Sprintf("%s ended unasked: %v", e.child.name, e.child.err)
}

func (e *deathError) Unwrap() error { return e.child.err }

// kill ends the child with SIGKILL and returns after its end.
func (c *child) kill() {
	c.meant.Store(true)
	_ = c.cmd.Process.Kill() // fails only when it has ended
	<-c.done
}

// stop asks the child to end, and kills it when it has not within stopPatience or when hurry is closed.
func (c *child) stop(hurry <-chan struct{}) {
	c.meant.Store(true)
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	if c.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-c.done:
		case <-t.C:
		case <-hurry:
		}
	}
	c.kill()
}

// A fleet is all children, in the order of their start.
type fleet struct {
	died chan error // gets the first unwanted end

	mu struct {
		sync.Mutex
		children []*child
	}
}

func newFleet() *fleet { return &fleet{died: make(chan error, 1)} }

// add keeps a child: it will be stopped, and its unwanted end be told.
func (f *fleet) add(c *child) {
	f.mu.Lock()
	f.mu.children = append(f.mu.children, c)
	f.mu.Unlock()
	go func() {
		<-c.done
		if !c.meant.Load() {
			f.tell(c.death())
		}
	}()
}

// tell tells of an unwanted end; only the first counts.
func (f *fleet) tell(err error) {
	select {
	case f.died <- err:
	default:
	}
}

// stopNodes ends the nodes, all at a time. They come first: a node that stops in order needs Kafka.
func (f *fleet) stopNodes(hurry <-chan struct{}) {
	var wg sync.WaitGroup
	for _, c := range f.take(func(c *child) bool { return strings.HasPrefix(c.name, nodePrefix) }) {
		wg.Go(func() { c.stop(hurry) })
	}
	wg.Wait()
}

// stop ends all children, the nodes first and then the last started first.
func (f *fleet) stop(hurry <-chan struct{}) {
	f.stopNodes(hurry)
	for _, c := range slices.Backward(f.take(func(*child) bool { return true })) {
		c.stop(hurry)
	}
}

// take removes the children that fit.
func (f *fleet) take(fits func(*child) bool) []*child {
	f.mu.Lock()
	defer f.mu.Unlock()
	var taken, rest []*child
	for _, c := range f.mu.children {
		if fits(c) {
			taken = append(taken, c)
		} else {
			rest = append(rest, c)
		}
	}
	f.mu.children = rest
	return taken
}

// logTail is the end of a log, for an error.
func logTail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // read only
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-logTailBytes), io.SeekStart) // if it fails, all is read
	}
	text, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTailLines):], "\n  ")
}
