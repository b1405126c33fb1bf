package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/router"
)

// TestTheHTTPSideIsOffUnlessSet, and says where it listens when it is on.
func TestTheHTTPSideIsOffUnlessSet(t *testing.T) {
	if f, err := newFront("", nil, router.Config{}); f != nil || err != nil {
		t.Errorf("without an address: %v, %v", f, err)
	}
	for _, c := range []struct{ value, want string }{
		{"nowhere", `--http "nowhere": must be host:port`}, {"", `--http "": is empty`}, {"h:70000", `--http "h:70000": must be host:port with a port from 0 to 65535`},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"--http", c.value}, nil, io.Discard, &stderr); code != exitBadConfig || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit %d, %s", c.value, code, stderr.String())
		}
	}
}

// TestTheHTTPSideServesAndEndsWithTheRouter on real sockets; a taken address is an error.
func TestTheHTTPSideServesAndEndsWithTheRouter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, address, ended := startWithHTTP(t, ctx)
	for path, want := range map[string]int{"/v1/stores": http.StatusOK, "/openapi.json": http.StatusOK, "/v1/stores/s/keys/k": http.StatusServiceUnavailable, "/v1/other": http.StatusNotFound} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	resp, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "<title>iqgate</title>") {
		t.Errorf("the dashboard: %d %s", resp.StatusCode, page)
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--http", address}, nil, io.Discard, &stderr); code != exitError || !strings.Contains(stderr.String(), address) {
		t.Errorf("at a taken address: exit %d, %s", code, stderr.String())
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// startWithHTTP runs the program on free ports and reads from its output where it listens.
func startWithHTTP(t *testing.T, ctx context.Context, more ...string) (grpc, web string, ended chan int) { //nolint:revive // t first, as in every helper
	t.Helper()
	out, in := io.Pipe()
	ended = make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, more...), nil, in, io.Discard)
	}()
	for lines := bufio.NewScanner(out); (grpc == "" || web == "") && lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "iqrouter listening at "); ok {
			grpc = at
		}
		if at, ok := strings.CutPrefix(lines.Text(), "iqrouter http at "); ok {
			web = at
		}
	}
	if grpc == "" || web == "" {
		t.Fatalf("it listens at %q and %q", grpc, web)
	}
	return grpc, web, ended
}
