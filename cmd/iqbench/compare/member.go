package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/bench/bare"
	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	listenTimeout = 30 * time.Second // from the start of a process until it listens
	// servingTimeout bounds a start until everything is answered, processedTimeout until the whole input is processed.
	servingTimeout, processedTimeout = 2 * time.Minute, 5 * time.Minute

	poll         = 50 * time.Millisecond
	servingPoll  = 5 * time.Millisecond  // between two looks whether a partition is served
	committedPol = 20 * time.Millisecond // between two looks at what has been committed
	tryTimeout   = 2 * time.Second       // of one such look
	logTailLines = 5                     // shown of each log when a measure fails
	logTailBytes = 16 << 10
	logLineBytes = 400
)

// A member is a program under one name and at one address. It may be run again and again.
type member struct {
	name, address string
	spec          process.Spec
	proc          *process.Process // the current or the last run
}

// start runs the program and has it ended with the group.
func (r *run) start(m *member) error {
	p, err := process.Start(m.spec)
	if err != nil {
		return err
	}
	if m.proc == nil {
		r.members = append(r.members, m)
	}
	m.proc = p
	return nil
}

// kill ends it with SIGKILL.
func (m *member) kill() {
	if m.proc != nil {
		m.proc.Kill()
	}
}

// stop ends it with SIGTERM. How it exits is not measured.
func (m *member) stop() { _ = m.proc.Stop() }

// ended is an error when the program has ended.
func (m *member) ended() error {
	if m.proc.Alive() {
		return nil
	}
	return fmt.Errorf("%s ended unasked (%w)", m.name, errors.Join(m.proc.Err(), errors.New("see its log")))
}

// awaitServing waits until every request is answered with a value.
func (r *run) awaitServing(ctx context.Context, m *member, requests [][]byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, servingTimeout, fmt.Errorf("%s does not serve everything after %s", m.name, servingTimeout))
	defer cancel()
	cc, err := dial(m.address)
	if err != nil {
		return err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	for _, text := range requests {
		for {
			reply, err := lookup(ctx, cc, text)
			if err == nil && reply.GetFound() {
				break
			}
			if err := m.ended(); err != nil {
				return err
			}
			if !sleep(ctx, servingPoll) {
				return errors.Join(context.Cause(ctx), err)
			}
		}
	}
	return nil
}

// lookup asks once.
func lookup(ctx context.Context, cc *grpc.ClientConn, request []byte) (*iqv1.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	var out bare.Frame
	if err := cc.Invoke(ctx, bare.Method, &bare.Frame{Bytes: request}, &out, grpc.WaitForReady(true)); err != nil {
		return nil, err
	}
	reply := new(iqv1.GetResponse)
	return reply, proto.Unmarshal(out.Bytes, reply)
}

// awaitProcessed waits until an application has committed all of the input. It returns the rate from the first commit that
// is past a quarter of it to the last one: both sides have compiled, connected and found their tasks by then.
func (r *run) awaitProcessed(ctx context.Context, m *member, app string) (rate float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, processedTimeout, fmt.Errorf("%s has not processed everything after %s", m.name, processedTimeout))
	defer cancel()
	total, err := r.records(ctx, events)
	if err != nil {
		return 0, err
	}
	var first int64
	var at time.Time
	for {
		n := r.committed(ctx, app, events)
		now := time.Now()
		if first == 0 && n >= total/4 {
			first, at = n, now
		}
		if n >= total {
			if n == first {
				return 0, nil
			}
			return float64(n-first) / now.Sub(at).Seconds(), nil
		}
		if err := m.ended(); err != nil {
			return 0, err
		}
		if !sleep(ctx, committedPol) {
			return 0, context.Cause(ctx)
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
	lines = lines[max(0, len(lines)-logTailLines):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), logLineBytes)]
	}
	return "  " + strings.Join(lines, "\n  ")
}
