package admin

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metrics"
	"github.com/iqgate/iqgate/tally"
)

// port is an admin port that answers for a node that the test makes ready.
type port struct {
	*testing.T
	url   string
	ready atomic.Bool
	level slog.LevelVar
	log   lines
}

// lines are what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t *testing.T) *port {
	t.Helper()
	p := &port{T: t}
	registry, err := metrics.NewRegistry(metrics.Build{Program: "iqnode", Version: "v1", Revision: "abc"}, metrics.NewNode(func(time.Time) tally.Node {
		return tally.Node{ID: "a", Requests: tally.NewRequests(), Reads: tally.NewReads(), Work: tally.NewWork()}
	}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(t.Context(), Config{
		Address: "127.0.0.1:0", Metrics: registry, Level: &p.level, Log: slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: &p.level})),
		Status: func(time.Time) Status {
			if p.ready.Load() {
				return Status{Ready: true}
			}
			return Status{Waiting: []string{"s/1: its store is not open"}, Restore: &Progress{Replicas: 2, Restored: 1, RemainingOffsets: 7}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + s.Address().String()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// ask sends a request and returns the code and the body.
func (p *port) ask(method, path, body string) (int, string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read whole below
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// expect asks and compares: the body must have want in it.
func (p *port) expect(method, path, body string, code int, want string) {
	p.Helper()
	if got, text := p.ask(method, path, body); got != code || !strings.Contains(text, want) {
		p.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, got, text, code, want)
	}
}

// Alive from the first moment on; ready and started are two things: a node that drains is not ready, and has started.
func TestProbes(t *testing.T) {
	t.Parallel()
	p := open(t)
	waits := `{"ready":false,"waiting":["s/1: its store is not open"],"restore":{"replicas":2,"restored":1,"passed_offsets":0,"remaining_offsets":7}}`
	p.expect(http.MethodGet, "/healthz", "", 200, `{"alive":true}`)
	p.expect(http.MethodGet, "/readyz", "", 503, waits)
	p.expect(http.MethodGet, "/startupz", "", 503, waits)
	p.ready.Store(true)
	p.expect(http.MethodGet, "/startupz", "", 200, `{"ready":true}`)
	p.expect(http.MethodGet, "/readyz", "", 200, `{"ready":true}`)
	p.ready.Store(false)
	p.expect(http.MethodGet, "/readyz", "", 503, waits)
	p.expect(http.MethodGet, "/startupz", "", 200, waits)
	p.expect(http.MethodPost, "/readyz", "", 405, "")
	p.expect(http.MethodGet, "/nothing", "", 404, "")
}

func TestMetricsAndProfilesAreShown(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.expect(http.MethodGet, "/metrics", "", 200, `iqgate_build_info{goversion=`)
	p.expect(http.MethodGet, "/metrics", "", 200, "iqgate_node_up 0")
	p.expect(http.MethodGet, "/debug/pprof/", "", 200, "goroutine")
	p.expect(http.MethodGet, "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile")
	p.expect(http.MethodGet, "/debug/pprof/cmdline", "", 200, "")
}

func TestTheLogsLevelIsSet(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.expect(http.MethodGet, "/loglevel", "", 200, `{"level":"info"}`)
	p.expect(http.MethodPut, "/loglevel", "debug\n", 200, `{"level":"debug"}`)
	if p.level.Level() != slog.LevelDebug {
		t.Errorf("the log's level is %s", p.level.Level())
	}
	p.expect(http.MethodPut, "/loglevel", `{"level": "error"}`, 200, `{"level":"error"}`)
	for body, want := range map[string]string{
		"loud":                     `level \"loud\" must be debug, info, warn or error`,
		"":                         `level \"\" must be debug, info, warn or error`,
		`{"level": 3}`:             "level: json",
		`{"level": "debug"`:        "level: unexpected end of JSON input",
		strings.Repeat("x", 1<<10): "level: http: request body too large",
	} {
		p.expect(http.MethodPut, "/loglevel", body, 400, want)
	}
	if p.level.Level() != slog.LevelError {
		t.Errorf("a wrong request has set the level to %s", p.level.Level())
	}
	p.expect(http.MethodPost, "/loglevel", "debug", 405, "")
	if got := strings.Count(p.log.String(), "log level changed"); got != 2 {
		t.Errorf("the log tells of %d changes:\n%s", got, p.log.String())
	}
}

func TestAnAddressInUseIsRefusedByName(t *testing.T) {
	t.Parallel()
	p := open(t)
	address := strings.TrimPrefix(p.url, "http://")
	if _, err := Listen(t.Context(), Config{Address: address}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("%v, want the address %s", err, address)
	}
}

func TestAddressesThatNobodyCanListenAt(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"127.0.0.1:9070": true, ":9070": true, "[::1]:0": true,
		"": false, "9070": false, "localhost": false, "localhost:": false, "a:b": false, "a:65536": false, "a:-1": false, "::1:9070": false,
	} {
		if err := checkAddress(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No port is none to run.
func TestNoPortIsOffByDefault(t *testing.T) {
	t.Parallel()
	s, err := (&Settings{}).Open(t.Context(), "iqnode", nil, nil, nil, nil)
	if s != nil || err != nil {
		t.Fatalf("%v, %v", s, err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
