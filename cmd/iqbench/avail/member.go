package avail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

const (
	listenTimeout = 30 * time.Second // from the start of a process until it listens
	poll          = 50 * time.Millisecond
	dialTimeout   = time.Second
	logTailLines  = 15 // shown of each log when a run fails
	logTailBytes  = 16 << 10
)

// A member is a program of the cluster under one name and at one address. It may be run again and again, by one goroutine.
type member struct {
	name, address string
	spec          process.Spec
	died          chan<- error // gets the first end that was not wanted

	proc  *process.Process // the current or the last run
	meant *atomic.Bool     // its end is wanted
}

// start runs the program.
func (m *member) start() error {
	p, err := process.Start(m.spec)
	if err != nil {
		return err
	}
	meant := new(atomic.Bool)
	m.proc, m.meant = p, meant
	go func() {
		if err := p.Err(); !meant.Load() {
			select {
			case m.died <- fmt.Errorf("%s ended unasked: %w", m.name, orExited(err)):
			default:
			}
		}
	}()
	return nil
}

func orExited(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// kill ends it with SIGKILL.
func (m *member) kill() {
	if m.proc != nil {
		m.meant.Store(true)
		m.proc.Kill()
	}
}

// stop ends it with SIGTERM.
func (m *member) stop() error {
	m.meant.Store(true)
	if err := m.proc.Stop(); err != nil {
		return fmt.Errorf("stop %s: %w", m.name, err)
	}
	return nil
}

// listens waits until the address accepts a connection.
func (m *member) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, fmt.Errorf("%s does not listen at %s after %s", m.name, m.address, listenTimeout))
	defer cancel()
	dialer := net.Dialer{Timeout: dialTimeout}
	for {
		if c, err := dialer.DialContext(ctx, "tcp", m.address); err == nil {
			return c.Close()
		}
		if !sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}

// sleep waits, and says whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// programs finds the folder of iqnode and iqrouter, or builds them into dir.
func programs(ctx context.Context, bin, dir string) (string, error) {
	found, err := process.Find(ctx, bin, dir, "iqnode", "iqrouter")
	if err != nil && bin != "" {
		return "", &OptionError{fmt.Errorf("--bin %q: %w", bin, err)}
	}
	return found, err
}

// logTail is the end of a log.
func logTail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "  " + err.Error()
	}
	defer f.Close() //nolint:errcheck // read only
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-logTailBytes), io.SeekStart) // if it fails, all is read
	}
	text, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTailLines):], "\n  ")
}
