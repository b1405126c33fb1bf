package kafkabroker

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one run of Java. Its goroutine ends with it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its output has been written
	err  error         // how it ended; read it after done
}

// spawn starts cmd in a process group of its own, and closes its log when it has ended.
//
// The goroutine that starts it stays on its thread until the process has ended: Linux sends the death signal when
// the thread that forked ends, and not only when the parent process does.
func spawn(cmd *exec.Cmd, log io.Closer) (*process, error) {
	cmd.SysProcAttr = childAttr()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		_ = log.Close() // of an append-only file that nobody reads for correctness
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// alive reports whether the process has not ended yet.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL and returns after its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.done
}

// stop asks the process to end and kills it when it has not done so within patience.
func (p *process) stop(patience time.Duration) (killed bool) {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.done:
			return false
		case <-timer.C:
		}
	}
	killed = p.alive()
	p.kill()
	return killed
}

// openLog opens the file that takes a broker's output, behind what earlier runs wrote.
func openLog(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// logTail returns the end of a log, for an error.
func logTail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // read only
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-tailBytes), io.SeekStart) // then the whole file is read
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
