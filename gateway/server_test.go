package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// pipes is a listener in memory, whose connections have deadlines.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) DialContext(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// server is a gateway that runs, over a network in memory.
type server struct {
	t        *testing.T
	listener *pipes
	client   *http.Client
	stop     context.CancelFunc
	ended    chan error
}

// inBubble runs a test with a gateway in front of a fake. It fails when anything is left running.
func inBubble(t *testing.T, f *fake, edit func(*Config), test func(s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		s := &server{t: t, listener: newPipes(), ended: make(chan error, 1)}
		g := newFake(t, f, func(c *Config) {
			c.Listener = s.listener
			if edit != nil {
				edit(c)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = cancel
		go func() { s.ended <- g.Run(ctx) }()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.listener.DialContext(ctx) }}
		s.client = &http.Client{Transport: transport}
		test(s)
		cancel()
		transport.CloseIdleConnections()
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func (s *server) dial() net.Conn {
	s.t.Helper()
	conn, err := s.listener.DialContext(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// get gives the answer of a path, whole.
func (s *server) get(path string) (int, string, error) {
	resp, err := s.client.Get("http://r1" + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// rowsOf sends n rows and then err.
func rowsOf(n int, err error) func(context.Context, *iqv1.ScanRequest, func(*iqv1.ScanResponse) error) error {
	return func(_ context.Context, _ *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
		for i := range n {
			row := &iqv1.Row{Key: fmt.Appendf(nil, "k%06d", i), Value: bytes.Repeat([]byte{'x'}, 1000), Partition: 1}
			if sendErr := send(&iqv1.ScanResponse{Rows: []*iqv1.Row{row}, PageToken: row.GetKey()}); sendErr != nil {
				return sendErr
			}
		}
		return err
	}
}

// TestAScanIsNeverCutSilently: the last line is the end or the error, and a body without either breaks off.
func TestAScanIsNeverCutSilently(t *testing.T) {
	f := &fake{scan: rowsOf(3, iqerr.Status(&iqerr.NoReplicaError{Refusals: iqerr.Refusals{Store: "raw", Partition: 1}}))}
	inBubble(t, f, nil, func(s *server) {
		code, text, err := s.get("/v1/stores/raw/scan")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if code != http.StatusOK || err != nil || len(lines) != 4 {
			t.Fatalf("%d %v: %s", code, err, text)
		}
		var last struct {
			Error struct {
				Code    int `json:"code"`
				Details []struct{ Reason string }
			} `json:"error"`
			Rows  int    `json:"rows"`
			Token string `json:"page_token"`
		}
		if err := json.Unmarshal([]byte(lines[3]), &last); err != nil || last.Error.Details[0].Reason != "NO_REPLICA" || last.Rows != 3 || last.Token != "azAwMDAwMg" {
			t.Errorf("the last line is %s (%v)", lines[3], err)
		}
	})
	f.scan = rowsOf(1, nil)
	inBubble(t, f, func(c *Config) { c.StopTimeout = time.Second }, func(s *server) {
		f.scan = func(ctx context.Context, _ *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
			if err := send(&iqv1.ScanResponse{Rows: []*iqv1.Row{{Key: []byte("k")}}}); err != nil {
				return err
			}
			<-ctx.Done() // a replica that hangs
			return context.Cause(ctx)
		}
		over := make(chan error, 1)
		go func() {
			_, text, err := s.get("/v1/stores/raw/scan")
			if strings.Contains(text, `"end"`) {
				err = errors.New("it ends as if it were whole: " + text)
			}
			over <- err
		}()
		synctest.Wait()
		s.stop()
		if err := <-over; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the end of a scan that was under way when the gateway stopped: %v", err)
		}
	})
}

// TestASlowReaderIsCutOff: who takes nothing holds neither the router's scan nor a connection.
func TestASlowReaderIsCutOff(t *testing.T) {
	var left chan error // of the bubble
	f := &fake{}
	f.scan = func(ctx context.Context, m *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
		err := rowsOf(1000, nil)(ctx, m, send)
		left <- err
		return err
	}
	inBubble(t, f, func(c *Config) { c.StreamIdle = 7 * time.Second }, func(s *server) {
		left = make(chan error, 1)
		conn := s.dial()
		defer func() { _ = conn.Close() }()
		start := time.Now()
		if _, err := io.WriteString(conn, "GET /v1/stores/raw/scan HTTP/1.1\r\nHost: r1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-left; err == nil {
			t.Error("all rows were taken")
		}
		if waited := time.Since(start); waited != 7*time.Second {
			t.Errorf("after %s", waited)
		}
	})
}

// TestWhoGoesAwayEndsItsScanAndWatch at once.
func TestWhoGoesAwayEndsItsScanAndWatch(t *testing.T) {
	var left chan error // of the bubble
	f := &fake{}
	f.scan = func(ctx context.Context, _ *iqv1.ScanRequest, send func(*iqv1.ScanResponse) error) error {
		err := send(&iqv1.ScanResponse{Rows: []*iqv1.Row{{Key: []byte("k")}}})
		<-ctx.Done()
		left <- errors.Join(err, ctx.Err())
		return ctx.Err()
	}
	f.watch = func(ctx context.Context, _ *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) error {
		err := send(&iqv1.WatchResponse{Current: []int32{0}})
		<-ctx.Done()
		left <- errors.Join(err, ctx.Err())
		return ctx.Err()
	}
	for _, path := range []string{"/v1/stores/raw/scan", "/v1/stores/raw/watch"} {
		inBubble(t, f, nil, func(s *server) {
			left = make(chan error, 1)
			start := time.Now()
			conn := s.dial()
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: r1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			if err := <-left; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %s", path, err, time.Since(start))
			}
		})
	}
}

// TestAWatchWithoutChangesStaysAlive by comments, and by them it begins although nothing has come.
func TestAWatchWithoutChangesStaysAlive(t *testing.T) {
	f := &fake{watch: func(ctx context.Context, _ *iqv1.WatchRequest, _ func(*iqv1.WatchResponse) error) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	inBubble(t, f, nil, func(s *server) {
		code, text, err := s.get("/v1/stores/raw/watch?timeout=40s")
		want := "retry: 1000\n\n: alive\n\n: alive\n\nevent: end\ndata: {\"positions\":{}}\n\n"
		if code != http.StatusOK || err != nil || text != want {
			t.Errorf("%d %v: %q", code, err, text)
		}
	})
}

// TestWatchesEndWhenTheGatewayStops with an event that says so, well before requests are cut off.
func TestWatchesEndWhenTheGatewayStops(t *testing.T) {
	f := &fake{watch: func(ctx context.Context, _ *iqv1.WatchRequest, send func(*iqv1.WatchResponse) error) error {
		if err := send(&iqv1.WatchResponse{Current: []int32{0}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	inBubble(t, f, nil, func(s *server) {
		start := time.Now()
		over := make(chan string, 1)
		go func() {
			_, text, err := s.get("/v1/stores/raw/watch")
			over <- fmt.Sprint(text, err)
		}()
		synctest.Wait()
		s.stop()
		if text := <-over; !strings.Contains(text, "event: error\ndata: {\"code\":14,\"message\":\"this router is closing\"") || time.Since(start) >= time.Second {
			t.Errorf("after %s: %s", time.Since(start), text)
		}
	})
}

// TestConnectionsAreBounded: one too many is told so, and many too many are closed.
func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, &fake{}, func(c *Config) { c.MaxConnections = 2 }, func(s *server) {
		ask := func(conn net.Conn) string {
			if _, err := io.WriteString(conn, "GET /v1/stores HTTP/1.1\r\nHost: r1\r\n\r\n"); err != nil {
				return err.Error()
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return err.Error()
			}
			defer func() { _ = resp.Body.Close() }()
			text, _ := io.ReadAll(resp.Body)
			return fmt.Sprint(resp.StatusCode, resp.Close, strings.Contains(string(text), "OVERLOADED"))
		}
		var conns []net.Conn
		for _, want := range []string{"200 false false", "200 false false", "429 true true"} {
			conns = append(conns, s.dial())
			if got := ask(conns[len(conns)-1]); got != want {
				t.Errorf("connection %d: %s, want %s", len(conns), got, want)
			}
		}
		for range maxExcess {
			conns = append(conns, s.dial())
		}
		synctest.Wait()
		last := s.dial()
		if n, err := last.Read(make([]byte, 1)); err == nil {
			t.Errorf("one beyond all bounds reads %d bytes", n)
		}
		for _, c := range append(conns, last) {
			_ = c.Close()
		}
		synctest.Wait()
		if code, _, err := s.get("/v1/stores"); code != http.StatusOK {
			t.Errorf("when others have gone: %d %v", code, err)
		}
	})
}

// TestBodiesAreBounded in size and time.
func TestBodiesAreBounded(t *testing.T) {
	inBubble(t, &fake{}, func(c *Config) { c.MaxBodyBytes = 1 << 20 }, func(s *server) {
		post := func(body io.Reader) (int, string) {
			resp, err := s.client.Post("http://r1/v1/stores/counts/mget", mediaJSON, body)
			if err != nil {
				return 0, err.Error()
			}
			defer func() { _ = resp.Body.Close() }()
			text, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(text)
		}
		if code, text := post(strings.NewReader(`{"keys":["` + strings.Repeat("x", 1<<20) + `"]}`)); code != http.StatusRequestEntityTooLarge {
			t.Errorf("too large: %d %s", code, text)
		}
		many := `{"keys":[` + strings.Repeat(`"k",`, query.MaxKeys) + `"k"]}`
		if code, text := post(strings.NewReader(many)); code != http.StatusBadRequest || !strings.Contains(text, "10001 keys") {
			t.Errorf("too many: %d %s", code, text)
		}
		if code, text := post(strings.NewReader("{\"keys\":[\"\xff\"]}")); code != http.StatusBadRequest || !strings.Contains(text, "UTF-8") {
			t.Errorf("no UTF-8: %d %s", code, text)
		}
		start := time.Now()
		slow, never := io.Pipe()
		defer func() { _ = never.Close() }()
		if code, text := post(slow); code != http.StatusRequestTimeout || time.Since(start) != bodyTimeout {
			t.Errorf("never there: %d %s after %s", code, text, time.Since(start))
		}
	})
}

// TestHeadersAreBounded in size and time.
func TestHeadersAreBounded(t *testing.T) {
	inBubble(t, &fake{}, nil, func(s *server) {
		r, err := http.NewRequest(http.MethodGet, "http://r1/v1/stores", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", strings.Repeat("x", 2*maxHeaderBytes))
		if resp, err := s.client.Do(r); err == nil {
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("too large: %d", resp.StatusCode)
			}
		}
		conn := s.dial()
		start := time.Now()
		if _, err := io.WriteString(conn, "GET /v1/stores HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(conn)
		if waited := time.Since(start); waited != headerTimeout {
			t.Errorf("headers that never end: closed after %s", waited)
		}
		_ = conn.Close()
	})
}

func TestAConfigurationNamesEachBadField(t *testing.T) {
	_, err := New(Config{Listen: "nowhere", MaxConnections: -1, MaxBodyBytes: -1, StreamIdle: -1, KeepAlive: -1, StopTimeout: -1})
	for _, field := range []string{"Calls", "Listen", "MaxConnections", "MaxBodyBytes", "StreamIdle", "KeepAlive", "StopTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}
