package process

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"IQNODE_X=given"}, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestOutputAndSettingsAreTheTestsOwn(t *testing.T) {
	t.Setenv("IQNODE_Y", "inherited")
	p := start(t, `echo "x=$IQNODE_X y=$IQNODE_Y"; echo wrong >&2`)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	if log, err := p.Log(); err != nil || log != "x=given y=\nwrong\n" {
		t.Errorf("the log is %q, %v", log, err)
	}
	if p.Alive() || p.Signal() != 0 {
		t.Errorf("alive %v, ended by signal %v", p.Alive(), p.Signal())
	}
}

// A paused process has done its last step when Pause returns, not some time after.
func TestPausedProcessStandsStill(t *testing.T) {
	p := start(t, "while :; do echo x; done")
	for range 5 {
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		before, err := p.Log()
		if err != nil {
			t.Fatal(err)
		}
		after, err := p.Log()
		if err != nil || len(after) != len(before) {
			t.Errorf("it has printed %d bytes more, %v", len(after)-len(before), err)
		}
		if err := p.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill()
	if p.Signal() != syscall.SIGKILL {
		t.Errorf("ended by signal %v, %v", p.Signal(), p.Err())
	}
}

func TestKillEndsAPausedProcess(t *testing.T) {
	p := start(t, "while :; do :; done")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if p.Signal() != syscall.SIGKILL {
		t.Errorf("ended by signal %v, %v", p.Signal(), p.Err())
	}
	if syscall.Kill(p.PID(), 0) == nil {
		t.Errorf("process %d is alive after Kill", p.PID())
	}
}

func TestStopTellsTheExitCode(t *testing.T) {
	for _, c := range []struct{ code, want string }{{"0", ""}, {"3", "exit status 3"}} {
		p := start(t, `trap "exit `+c.code+`" TERM; echo ready; while :; do sleep 0.01; done`)
		for log := ""; !strings.Contains(log, "ready"); {
			var err error
			if log, err = p.Log(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			case <-p.Done():
				t.Fatal(p.Err())
			case <-time.After(time.Millisecond):
			}
		}
		got := ""
		if err := p.Stop(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("exit code %s: Stop gives %q, want %q", c.code, got, c.want)
		}
	}
}

func TestWhatCannotStartIsAnError(t *testing.T) {
	if _, err := Start(Spec{Path: filepath.Join(t.TempDir(), "nothing"), Log: os.DevNull}); err == nil {
		t.Error("a program that is not there was started")
	}
	if _, err := Build(t.Context(), t.TempDir(), "no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that is not there was built: %v", err)
	}
}

func TestAddressCanBeListenedAt(t *testing.T) {
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
