package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopPatience is how long Stop waits for an orderly end before it kills.
const stopPatience = 20 * time.Second

// Spec says what to run.
type Spec struct {
	// Path of the program. Required.
	Path string
	// Args are its arguments.
	Args []string
	// Env is added to the test's own environment, of which variables that are the programs' settings are left out.
	Env []string
	// Log is the file that takes all output, behind what is there. Required.
	Log string
}

// Process is one run of a program. Its methods may be called from any goroutine.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read it after done
}

// Start starts a program. The caller ends it with Kill or Stop.
//
// The goroutine that starts it stays on its thread until the process has ended: Linux sends the death signal when the
// thread that forked ends, and not only when the parent process does.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p := &Process{spec: spec, cmd: exec.Command(spec.Path, spec.Args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(withoutSettings(os.Environ()), spec.Env...)
	p.cmd.SysProcAttr = attr()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = log.Close() // the child has its own
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	return p, nil
}

// withoutSettings leaves out the variables that are settings of the programs: those are the tests' to give.
func withoutSettings(env []string) []string {
	var kept []string
	for _, line := range env {
		if !strings.HasPrefix(line, "IQNODE_") && !strings.HasPrefix(line, "IQROUTER_") {
			kept = append(kept, line)
		}
	}
	return kept
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err is how the process ended, nil for exit code 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal returns the signal that ended the process, or 0. It waits for the end.
func (p *Process) Signal() syscall.Signal {
	<-p.done
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// Kill ends the process with SIGKILL, a paused one too, and returns after its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.done
}

// Stop asks the process to end with SIGTERM and returns after its end. One that has not ended within 20 s is killed,
// which is an error; so is an exit code other than 0.
func (p *Process) Stop() error {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		timer := time.NewTimer(stopPatience)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			p.Kill()
			return fmt.Errorf("stop %s: it did not end within %s and was killed", p.spec.Path, stopPatience)
		}
	}
	return p.Err()
}

// Pause stops the process with SIGSTOP: it does nothing until Continue, its sockets stay open. It returns when every thread
// stands still, or what the caller asks next may still be answered.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("pause %s: %w", p.spec.Path, err)
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("pause %s: it has ended", p.spec.Path)
		}
	}
}

// Continue ends Pause.
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Log is all that this run and the runs before it printed to the same file.
func (p *Process) Log() (string, error) {
	text, err := os.ReadFile(p.spec.Log)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}
