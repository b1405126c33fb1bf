package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/iqgate/iqgate/cmd/internal/config/configtest"
	"github.com/iqgate/iqgate/routing"
)

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "router.yaml")
	text := "listen: file:1\nname: file\nsuspect-after: 100ms\nnode-timeout: 3s\nhedge: true\nmax-waiters: 7\nmax-watchers: 8\nmax-scans: 9\nmax-watches: 10\nscan-idle: 11s\nlog-level: debug\ndefault-policy: max_staleness=5s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"IQROUTER_CONFIG=" + file, "IQROUTER_NAME=env", "IQROUTER_SUSPECT_AFTER=200ms", "IQROUTER_COLOUR=blue", "PATH=/"}
	s, loaded, err := load([]string{"--suspect-after", "300ms"}, env)
	if err != nil {
		t.Fatal(err)
	}
	c := s.router
	if c.SuspectAfter != 300*time.Millisecond || c.Name != "env" || c.Listen != "file:1" || c.NodeTimeout != 3*time.Second || !c.Hedge ||
		c.MaxWaiters != 7 || c.MaxWatchers != 8 || c.MaxScans != 9 || c.MaxWatches != 10 || c.ScanIdle != 11*time.Second || s.log.Level.Level() != slog.LevelDebug || c.DefaultPolicy.Mode != routing.ModeAny || c.DefaultPolicy.MaxStaleness != 5*time.Second {
		t.Errorf("got %+v, log level %s", c, s.log.Level.Level())
	}
	if len(loaded.Strangers) != 1 || loaded.Strangers[0] != "IQROUTER_COLOUR" {
		t.Errorf("strangers %v", loaded.Strangers)
	}
}

// TestBadSettingsNameThemselves ends with exit code 2 and says which setting is wrong, wherever it comes from.
func TestBadSettingsNameThemselves(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) []string {
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", path}
	}
	for _, c := range []struct {
		args, env []string
		text      string // of the file
		want      string
	}{
		{args: []string{"--suspect-after", "soon"}, want: `--suspect-after "soon": must be a duration`},
		{args: []string{"--suspect-after", "1ms"}, want: `--suspect-after "1ms": must be at least 50ms`},
		{args: []string{"--suspect-after", "3s"}, want: "--suspect-after: 3s must be at most node-timeout, which is 2s"},
		{args: []string{"--max-in-flight", "-1"}, want: `--max-in-flight "-1": must be at least 1`},
		{args: []string{"--listen", "nowhere"}, want: `--listen: "nowhere" must be host:port`},
		{args: []string{"--listen", "127.0.0.1:70000"}, want: `--listen: "127.0.0.1:70000" must be host:port with a port from 0 to 65535`},
		{args: []string{"--listen", ""}, want: `--listen "": is empty`},
		{args: []string{"--hedge=perhaps"}, want: `--hedge "perhaps": must be true or false`},
		{args: []string{"--default-policy", "newest"}, want: "newest"},
		{args: []string{"--log-level", "loud"}, want: "log-level"},
		{args: []string{"--log-format", "xml"}, want: "log-format"},
		{args: []string{"--frobnicate"}, want: "frobnicate"},
		{args: []string{"stray"}, want: "stray"},
		{args: []string{"--config", filepath.Join(dir, "none.yaml")}, want: "none.yaml"},
		{env: []string{"IQROUTER_MAX_WAITERS=many"}, want: "IQROUTER_MAX_WAITERS"},
		{env: []string{"IQROUTER_MAX_WAITERS=-4"}, want: `IQROUTER_MAX_WAITERS "-4": must be at least 1`},
		{env: []string{"IQROUTER_LISTEN="}, want: `IQROUTER_LISTEN "": is empty`},
		{text: "listen: \n", want: "c.yaml line 1: listen: has no value"},
		{text: "suspect-after: 1ms\n", want: `c.yaml line 1: suspect-after "1ms": must be at least 50ms`},
		{text: "listen: [a, b]\n", want: "c.yaml line 1: listen: must be one value"},
		{text: "\nliste: a:1\n", want: "c.yaml line 2: liste: is no setting; did you mean listen?"},
		{text: "suspect_after: soon\n", want: "suspect_after: is no setting; did you mean suspect-after?"},
		{text: "a: b: c\n", want: "c.yaml"},
		{text: "- a\n", want: "c.yaml"},
		{text: "config: other.yaml\n", want: "config"},
		{text: "x: " + strings.Repeat("y", 1<<20), want: "bytes"},
	} {
		args := c.args
		if c.text != "" {
			args = append(args, file(c.text)...)
		}
		var stderr bytes.Buffer
		if code := run(t.Context(), args, c.env, io.Discard, &stderr); code != exitBadConfig || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v %v: exit %d, %s; want %q", args, c.env, code, stderr.String(), c.want)
		}
	}
}

// TestAllBadSettingsAreNamedAtOnce, each once, and none that only another's badness makes bad.
func TestAllBadSettingsAreNamedAtOnce(t *testing.T) {
	args := []string{"--suspect-after", "soon", "--node-timeout", "100ms", "--listen", ":99999", "--log-level", "loud", "--default-policy", "newest"}
	var stderr bytes.Buffer
	code := run(t.Context(), args, []string{"IQROUTER_MAX_WAITERS=many", "IQROUTER_LISTEN="}, io.Discard, &stderr)
	want := `iqrouter: bad configuration:
  --suspect-after "soon": must be a duration such as 100ms or 10s
  --default-policy "newest": policy "newest": "newest" is not strong, active, any, max_staleness=<duration>, max_offset_lag=<n> or prefer=<order>
  IQROUTER_MAX_WAITERS "many": must be a whole number
  --log-level "loud": must be debug, info, warn or error
  --listen: ":99999" must be host:port with a port from 0 to 65535
see: iqrouter --help
`
	if got := stderr.String(); code != exitBadConfig || got != want {
		t.Errorf("exit %d\n%s\nwant\n%s", code, got, want)
	}
}

// TestTheExampleInTheDocumentationIsWhatIsSaid.
func TestTheExampleInTheDocumentationIsWhatIsSaid(t *testing.T) {
	doc, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("router.yaml", []byte("listen: 127.0.0.1:0\nsugpect-after: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	args := []string{"--config", "router.yaml", "--suspect-after", "3s"}
	code := run(t.Context(), args, []string{"IQROUTER_MAX_SCANS=-1"}, io.Discard, &stderr)
	if said := "$ iqrouter " + strings.Join(args, " ") + "\n" + stderr.String(); code != exitBadConfig || !strings.Contains(string(doc), said) {
		t.Errorf("exit %d; docs/config.md does not show\n%s", code, said)
	}
}

// TestVersionIsPrintedWhateverElseIsSet: it is asked for alone, most often.
func TestVersionIsPrintedWhateverElseIsSet(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--version"}, []string{"IQROUTER_LISTEN=nowhere"}, &stdout, &stderr)
	if code != exitOK || !strings.HasPrefix(stdout.String(), "iqrouter ") || !strings.Contains(stdout.String(), runtime.Version()) || stderr.Len() > 0 {
		t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

func TestDefaultsAreThoseOfTheRouter(t *testing.T) {
	configtest.DefaultsAreDocumented(t, (&settings{}).program(), "../../router/config.go", 14)
}

func TestDocumentationIsCurrent(t *testing.T) {
	configtest.DocumentationIsCurrent(t, (&settings{}).program(), "../../docs")
}

func TestHelpListsEverySetting(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, nil, &out, io.Discard); code != exitOK {
		t.Errorf("exit %d", code)
	}
	for _, name := range []string{"-listen", "-default-policy", "-suspect-after", "-log-level", "-log-format", "-config", "--version", "IQROUTER_"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("help lacks %s", name)
		}
	}
}

func TestTakenAddressIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, ended := start(t, ctx)
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--listen", address}, nil, io.Discard, &stderr); code != exitError || !strings.Contains(stderr.String(), address) {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// TestServesUntilTheSignal starts the program on a real socket, asks for its health, and ends it.
func TestServesUntilTheSignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, ended := start(t, ctx)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health without a node: %v, %v", resp, err)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// start runs the program on a free port and reads the address from its first line.
func start(t *testing.T, ctx context.Context) (string, chan int) { //nolint:revive // t first, as in every helper
	t.Helper()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"--listen", "127.0.0.1:0"}, nil, in, io.Discard) }()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address, ok := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "iqrouter listening at ")
	if !ok {
		t.Fatalf("the first line is %q", line[:n])
	}
	return address, ended
}
