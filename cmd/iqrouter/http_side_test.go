//go:build http

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/cmd/internal/embedded"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/topology"
)

// Tests against the program on real sockets, with a node and a Kafka in this process: 'make test-http'. They need curl, jq and a
// Python that can make a virtual environment.

// httpTopology has a store of every kind.
const httpTopology = `
application: shop
sources:
  - {topic: orders, format: json}
tables:
  - {store: last-order, source: orders}
  - {store: order-history, source: orders, versioned: {history: 24h}}
aggregates:
  - {store: orders-by-customer, source: orders, count: true}
  - {store: orders-per-minute, source: orders, count: true, window: {tumbling: 60s, grace: 1h}}
  - {store: visits, source: orders, count: true, window: {session: 5m, grace: 1h}}
`

// orders are the records, by customer and milliseconds after the first.
var orders = []struct {
	customer string
	at       int64
	value    string
}{
	{"alice", 0, `{"customer":"alice","item":"tea","total":4.5}`},
	{"bob", 1000, `{"customer":"bob","item":"milk","total":1.2}`},
	{"alice", 2000, `{"customer":"alice","item":"sugar","total":2}`},
	{"carol", 65_000, `{"customer":"carol","item":"bread","total":3.1}`},
	{"alice", 70_000, `{"customer":"alice","item":"jam","total":5.25}`},
}

// startShop starts everything, and gives the address of the HTTP side once all orders can be read there.
func startShop(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	// part runs until the test ends; the last one that was begun ends first, since nodes need their broker to the end.
	part := func(run func(ctx context.Context) error) {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() {
			cancel(node.ErrStopNow) // nobody is left to hand tasks over to
			<-done
		})
	}
	out, in := io.Pipe()
	part(func(ctx context.Context) error { return embedded.Run(ctx, in) })
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, broker, _ := strings.Cut(strings.TrimSpace(string(line[:n])), embedded.Listening)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for _, o := range orders {
		r := &kgo.Record{Topic: "orders", Key: []byte(o.customer), Value: []byte(o.value), Timestamp: time.UnixMilli(1_700_000_040_000 + o.at)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	listening := make(chan [2]string)
	part(func(ctx context.Context) error {
		grpc, web, ended := startWithHTTP(t, ctx)
		listening <- [2]string{grpc, web}
		if code := <-ended; code != exitOK {
			return fmt.Errorf("the router's exit code is %d", code)
		}
		return nil
	})
	at := <-listening
	grpc, web := at[0], at[1]
	for _, id := range []string{"a", "b"} {
		cfg, err := topology.LoadYAML([]byte(httpTopology))
		if err != nil {
			t.Fatal(err)
		}
		topo, err := cfg.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := node.New(node.Config{
			NodeID: id, Topology: topo, Brokers: []string{broker}, StateDir: t.TempDir(), Listen: "127.0.0.1:0", Routers: []string{grpc},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		part(n.Run)
	}
	want := `"count":3,`
	for end := time.Now().Add(2 * time.Minute); ; {
		if bytes.Contains(get(t, "http://"+web+"/v1/stores/orders-by-customer/count"), []byte(want)) &&
			bytes.Contains(get(t, "http://"+web+"/v1/stores/orders-by-customer/keys/alice"), []byte(`"value":3,`)) &&
			bytes.Count(get(t, "http://"+web+"/v1/lag"), []byte(`"state":"running"`)) == 2*2*5 {
			return web
		}
		if time.Now().After(end) {
			t.Fatalf("not ready within two minutes: %s", get(t, "http://"+web+"/v1/lag"))
		}
		<-time.After(100 * time.Millisecond)
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url) //nolint:gosec // an address of this process's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var rewrite = flag.Bool("rewrite", false, "write the outputs in docs/http.md again")

// docAddress is where the HTTP side is in the documentation.
const docAddress = "localhost:8080"

// volatile is what differs from run to run in outputs: lags, ports, positions, ages.
var volatile = []*regexp.Regexp{
	regexp.MustCompile(`"(node|address|page_token)": ?"[^"]*"`),
	regexp.MustCompile(`"(time_lag_ms|sample_age_ms|last_heard_ms|elapsed_ms|position|end_position|offset|generation|incarnation|in_flight|offset_lag)": ?[0-9.]+`),
	regexp.MustCompile(`(?m)^(Date|Iqgate-Node|Iqgate-Position|Iqgate-Time-Lag-Ms|Iqgate-Offset-Lag): .*$`),
	regexp.MustCompile(`[0-9]+@[0-9]+`),
	regexp.MustCompile(`"(sampleAge|timeLag|best_time_lag)": ?"[^"]*"`),
}

func steady(text string) string {
	for _, v := range volatile {
		text = v.ReplaceAllStringFunc(text, func(s string) string {
			name, _, _ := strings.Cut(s, ":")
			return name + ": *"
		})
	}
	return text
}

// TestTheCommandsOfTheDocumentationSayWhatItSays runs each line of docs/http.md that begins with "$ " and compares what it
// prints, but for what differs from run to run.
func TestTheCommandsOfTheDocumentationSayWhatItSays(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is needed: %v", tool, err)
		}
	}
	const path = "../../docs/http.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	address := startShop(t)
	var doc strings.Builder
	inBlock, commands := false, 0
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		doc.WriteString(line)
		if strings.HasPrefix(line, "```") {
			inBlock = strings.TrimSpace(line) == "```console"
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok || !inBlock {
			continue
		}
		for strings.HasSuffix(command, "\\\n") {
			i++
			doc.WriteString(lines[i])
			command += lines[i]
		}
		var want strings.Builder
		for i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "$ ") && !strings.HasPrefix(lines[i+1], "```") {
			i++
			want.WriteString(lines[i])
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(command, docAddress, address))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s%v: %s", command, err, out)
		}
		got := strings.ReplaceAll(strings.ReplaceAll(string(out), address, docAddress), "\r\n", "\n")
		if !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if steady(got) != steady(want.String()) {
			if !*rewrite {
				t.Errorf("$ %sprints\n%s\nand not\n%s", command, got, want.String())
			}
			doc.WriteString(got)
		} else {
			doc.WriteString(want.String())
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands", commands)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// schemathesisVersion is the one whose findings are known.
const schemathesisVersion = "4.32.5"

// TestSchemathesisFindsNothing has schemathesis read the OpenAPI document and ask all that it allows, and what it does not.
func TestSchemathesisFindsNothing(t *testing.T) {
	tool := schemathesis(t)
	address := startShop(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(config, []byte(schemathesisConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "--config-file", config, "run", "http://"+address+"/openapi.json", "--url", "http://"+address, "--seed", "1",
		"--max-examples", "20", "--request-timeout", "10")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

// schemathesis is the program, installed into the user's cache once.
func schemathesis(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(cache, "iqgate", "schemathesis-"+schemathesisVersion)
	tool := filepath.Join(venv, "bin", "schemathesis")
	if _, err := os.Stat(filepath.Join(venv, "complete")); err == nil {
		return tool
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", venv},
		{filepath.Join(venv, "bin", "pip"), "install", "--quiet", "schemathesis==" + schemathesisVersion},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(venv, "complete"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return tool
}

// schemathesisConfig: each route asks a store of its kind. The timeout is short, since a watch ends by it alone.
// What parameters may not be given together no document can say, so 400 is right for some that it allows; 503 and 504 are what
// a read meets that nobody can answer in its time.
const schemathesisConfig = `
[parameters]
"path.store" = "last-order"
"query.timeout" = "100ms"

[[operations]]
include-operation-id = "windows"
parameters = { "path.store" = "orders-per-minute" }

[[operations]]
include-operation-id = "sessions"
parameters = { "path.store" = "visits" }

[[operations]]
include-operation-id = "versions"
parameters = { "path.store" = "order-history" }

[[operations]]
include-operation-id = "watch"
checks = { negative_data_rejection = { enabled = false } } # it takes a timeout that is replaced for one that was sent

[checks]
positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "410", "412", "503", "504"]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]
`
