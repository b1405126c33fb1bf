package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// lineWith reads lines until one has text, and returns what follows the text.
func lineWith(t *testing.T, from *bufio.Reader, text string) string {
	t.Helper()
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("no line with %q: %v", text, err)
		}
		if _, rest, ok := strings.Cut(strings.TrimSpace(line), text); ok {
			return rest
		}
	}
}

// TestOperatorsSeeARouterBecomeReady: a router that no node has reported to is alive and not ready; with the first report of
// stores it is, and its metrics say who reported.
func TestOperatorsSeeARouterBecomeReady(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stdout := io.Pipe()
	said, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--suspect-after", "1m", "--node-timeout", "1m"}, nil, stdout, stderr)
		_ = stdout.Close()
		_ = stderr.Close()
	}()
	log := bufio.NewReader(said)
	admin := "http://" + lineWith(t, log, `msg="the admin port answers" address=`)
	go func() { _, _ = io.Copy(io.Discard, log) }()
	address := lineWith(t, bufio.NewReader(out), "iqrouter listening at ")
	ask := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // of a test
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := ask("/healthz"); code != http.StatusOK {
		t.Errorf("it is not alive: %d %s", code, text)
	}
	if code, text := ask("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "the first report of a node") {
		t.Errorf("%d %s", code, text)
	}

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	stream, err := iqv1.NewControlServiceClient(conn).Heartbeat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&iqv1.HeartbeatRequest{
		Node: "a", Address: "127.0.0.1:1", Full: true, Sequence: 1, Stores: []*iqv1.StoreInfo{{Name: "s", Partitions: 3, ActualPartitions: 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil { // the report is in the view
		t.Fatal(err)
	}
	if code, text := ask("/startupz"); code != http.StatusOK || !strings.Contains(text, `"ready":true`) {
		t.Errorf("%d %s", code, text)
	}
	_, text := ask("/metrics")
	for _, want := range []string{
		"iqgate_router_ready 1", `iqgate_router_node_report_age_seconds{node="a"}`, `iqgate_router_store_partitions_without_replica{store="s"} 3`,
		`iqgate_router_reports_total{outcome="ok"} 1`, `iqgate_router_info{application="",router="` + address + `"} 1`, `program="iqrouter"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
