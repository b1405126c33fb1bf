//go:build synctests

package integration

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc/test/bufconn"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/gateway"
	"github.com/iqgate/iqgate/gateway/local"
	"github.com/iqgate/iqgate/integration/bubble"
)

// httpSide is the HTTP side of a router of a cluster, over a network in memory.
type httpSide struct {
	t      *testing.T
	client *http.Client
	scheme string
	end    func()
}

// serveHTTP starts the HTTP side of a router. Its end must come before the router's.
func serveHTTP(t *testing.T, r *bubble.Router, security *auth.Security, trust *tls.Config) *httpSide {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	calls := local.New(security.Interceptors())
	r.Register(calls)
	config, err := security.HTTPConfig()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Calls: calls, Listener: listener, TLS: config, KeepAlive: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	transport := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
		TLSClientConfig: trust,
	}
	s := &httpSide{t: t, client: &http.Client{Transport: transport}, scheme: "http"}
	if trust != nil {
		s.scheme = "https"
	}
	s.end = func() {
		t.Helper()
		cancel()
		transport.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		calls.Wait() // nothing of a caller who has gone is left
	}
	return s
}

// do asks for a path.
func (s *httpSide) do(ctx context.Context, method, path, body string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.scheme+"://r1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	return s.client.Do(r)
}

// ask gives the status and the body as JSON; lines of several are a list.
func (s *httpSide) ask(method, path, body string, header http.Header) (int, []map[string]any) {
	s.t.Helper()
	resp, err := s.do(s.t.Context(), method, path, body, header)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var all []map[string]any
	for d := json.NewDecoder(resp.Body); ; {
		var v map[string]any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return resp.StatusCode, all
		} else if err != nil {
			s.t.Fatalf("%s %s: %v", method, path, err)
		}
		all = append(all, v)
	}
}

// get asks for one object, and fails the test when there is none.
func (s *httpSide) get(path string) map[string]any {
	s.t.Helper()
	code, all := s.ask(http.MethodGet, path, "", nil)
	if code != http.StatusOK || len(all) != 1 {
		s.t.Fatalf("%s: status %d: %v", path, code, all)
	}
	return all[0]
}

// dig follows names and indexes into a value.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// newHTTPKinds is a cluster with a router, two nodes and a store of every kind, each with the same records.
func newHTTPKinds(t *testing.T) (*fixture, *httpSide, map[string]*bubble.Node) {
	t.Helper()
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 2}, Topology: kinds, Routers: []string{"r1"}, Log: verboseLog(t)})
	f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client()}
	r := f.StartRouter("r1")
	nodes := map[string]*bubble.Node{"a": f.StartNode("a"), "b": f.StartNode("b")}
	for i, value := range []string{"one", "two", "three"} {
		f.putAt("alice", value, t0+int64(i)*1000)
	}
	f.putAt("bob", "four", t0+61_000)
	s := serveHTTP(t, r, nil, nil)
	s.waitFor("/v1/lag", "two copies of each partition at the end", func(v map[string]any) bool {
		replicas, _ := v["replicas"].([]any)
		return len(replicas) == 2*2*5 && !slices.ContainsFunc(replicas, func(r any) bool {
			return dig(r, "state") != "running" || dig(r, "offset_lag") != 0.0
		})
	})
	s.waitFor("/v1/stores/counts/keys/alice", "all of alice is counted", func(v map[string]any) bool { return v["value"] == 3.0 })
	s.waitFor("/v1/stores/counts/keys/bob", "bob is counted", func(v map[string]any) bool { return v["value"] == 1.0 })
	return f, s, nodes
}

// putAt writes a record with a timestamp.
func (f *fixture) putAt(key, value string, ms int64) {
	f.t.Helper()
	if err := f.cl.ProduceSync(f.ctx, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(ms)}).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// waitFor asks until the answer is as it must become.
func (s *httpSide) waitFor(path, what string, is func(map[string]any) bool) {
	s.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		code, all := s.ask(http.MethodGet, path, "", nil)
		if code == http.StatusOK && is(all[0]) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: not within a minute: %d %v", what, code, all)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// TestHTTPReadsEveryKindOfStore against a whole cluster: each kind by each way of reading it.
func TestHTTPReadsEveryKindOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := newHTTPKinds(t)
		defer f.Close()
		defer f.cl.Close()
		defer s.end()

		v := s.get("/v1/stores/tab/keys/alice")
		if v["value"] != "three" || v["found"] != true || dig(v, "served", "role") != "active" || v["timestamp_ms"] != float64(t0+2000) {
			t.Errorf("a table: %v", v)
		}
		if v := s.get("/v1/stores/tab/keys/nobody"); v["found"] != false || v["value"] != nil || dig(v, "served", "node") == nil {
			t.Errorf("a key that is not there: %v", v)
		}
		if v := s.get(fmt.Sprintf("/v1/stores/ver/keys/alice?as_of=%d", t0+1500)); v["value"] != "two" || v["valid_until_ms"] != float64(t0+2000) {
			t.Errorf("a version: %v", v)
		}
		if v := s.get(fmt.Sprintf("/v1/stores/win/keys/alice?window_start_ms=%d", t0)); v["value"] != 3.0 {
			t.Errorf("a window: %v", v)
		}
		if v := s.get(fmt.Sprintf("/v1/stores/sess/keys/alice?window_start_ms=%d&session_end_ms=%d", t0, t0+2000)); v["value"] != 3.0 {
			t.Errorf("a session: %v", v)
		}
		if code, all := s.ask(http.MethodGet, "/v1/stores/win/keys/alice", "", nil); code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(all), "window_start_ms") {
			t.Errorf("a window without its start: %d %v", code, all)
		}
		_, all := s.ask(http.MethodPost, "/v1/stores/counts/mget", `{"keys":["bob","nobody","alice"]}`, http.Header{"Content-Type": {"application/json"}})
		if dig(all[0], "results", 0, "value") != 1.0 || dig(all[0], "results", 1, "found") != false || dig(all[0], "results", 2, "value") != 3.0 || dig(all[0], "failed") != 0.0 {
			t.Errorf("many keys: %v", all)
		}
		for path, want := range map[string]string{
			"/v1/stores/counts/scan":              "alice=3 bob=1 end 2",
			"/v1/stores/counts/scan?reverse=true": "bob=1 alice=3 end 2",
			"/v1/stores/counts/scan?prefix=b":     "bob=1 end 1",
			"/v1/stores/win/keys/alice/windows":   fmt.Sprintf("alice=3@%d..%d end 1", t0, t0+60_000),
			"/v1/stores/sess/keys/bob/sessions":   fmt.Sprintf("bob=1@%d..%d end 1", t0+61_000, t0+61_000),
			"/v1/stores/ver/keys/alice/versions":  fmt.Sprintf("alice=one@%d..%d alice=two@%d..%d alice=three@%d end 3", t0, t0+1000, t0+1000, t0+2000, t0+2000),
			"/v1/stores/sess/scan?times=..1":      "end 0",
		} {
			if got := s.lines(path); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		// Page by page it is the same.
		var pages []string
		for token := ""; ; {
			_, all := s.ask(http.MethodGet, "/v1/stores/counts/scan?limit=1&page_token="+token, "", nil)
			if len(all) == 2 {
				pages = append(pages, fmt.Sprint(all[0]["key"]))
			}
			next, more := dig(all[len(all)-1], "end", "page_token").(string)
			if !more {
				break
			}
			token = next
		}
		if got := strings.Join(pages, " "); got != "alice bob" {
			t.Errorf("by pages: %s", got)
		}
		if v := s.get("/v1/stores/counts/count"); v["count"] != 2.0 {
			t.Errorf("a count: %v", v)
		}
		if v := s.get("/v1/stores"); dig(v, "stores", 0, "name") != "counts" || dig(v, "stores", 4, "kind") != "window" {
			t.Errorf("the stores: %v", v)
		}
		if v := s.get("/v1/nodes"); dig(v, "nodes", 1, "node") != "b" || dig(v, "nodes", 0, "state") != "alive" {
			t.Errorf("the nodes: %v", v)
		}
		if v := s.get("/v1/stores/counts/keys/alice/metadata"); dig(v, "partitions", 0, "active", "role") != "active" {
			t.Errorf("where a key is: %v", v)
		}
		if code, all := s.ask(http.MethodGet, "/v1/stores/counts/scan?page_token=AAAA", "", nil); code != http.StatusBadRequest {
			t.Errorf("a token that is none: %d %v", code, all)
		}
	})
}

// lines are the lines of a scan in short.
func (s *httpSide) lines(path string) string {
	s.t.Helper()
	code, all := s.ask(http.MethodGet, path, "", nil)
	if code != http.StatusOK {
		return fmt.Sprint(code, all)
	}
	var b strings.Builder
	for _, v := range all {
		if end := dig(v, "end"); end != nil {
			fmt.Fprintf(&b, "end %.0f", dig(end, "rows"))
			continue
		}
		fmt.Fprintf(&b, "%v=%v", v["key"], v["value"])
		if v["start_ms"] != nil {
			fmt.Fprintf(&b, "@%.0f", v["start_ms"])
		}
		if v["end_ms"] != nil {
			fmt.Fprintf(&b, "..%.0f", v["end_ms"])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// TestHTTPPoliciesHoldAsTheyDoForGRPC: by whom a read is served, or why it is not, while all is well and when the nodes are cut off from Kafka.
func TestHTTPPoliciesHoldAsTheyDoForGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, nodes := newHTTPKinds(t)
		defer f.Close()
		defer f.cl.Close()
		defer s.end()
		const key = "/v1/stores/counts/keys/alice"
		position := s.get(key)
		offset := fmt.Sprintf("in/%.0f@%.0f", dig(position, "input_position", 0, "partition"), dig(position, "input_position", 0, "offset"))
		for policy, want := range map[string]string{
			"": "200", "?policy=strong": "200", "?policy=active": "200", "?policy=any": "200", "?max_staleness=1m": "200", "?max_offset_lag=0": "200",
			"?policy=any&prefer=least_loaded": "200", "?policy=any&at_least=" + offset: "200", "?policy=strong&at_least=" + offset: "200",
			"?read_uncommitted=true":               "200",
			"?policy=any&at_least=in/0@99,in/1@99": "412 POSITION_NOT_REACHED",
			"?max_staleness=0s":                    "200", // the active is not behind
		} {
			if got := s.outcome(key + policy); got != want {
				t.Errorf("%q: %s, want %s", policy, got, want)
			}
		}
		for _, n := range nodes { // leases run out, and nobody knows the changelogs' ends any more
			n.Kafka().Freeze()
		}
		<-time.After(10 * time.Second)
		for policy, want := range map[string]string{
			"?policy=any": "200", "?max_staleness=1m": "200", "?policy=active": "503 NO_ACTIVE", "?policy=strong": "503 NO_ACTIVE", "": "503 NO_ACTIVE",
			"?max_staleness=1s": "412 STALE", "?max_offset_lag=1000": "412 STALE", "?policy=any&partition=7": "400 INVALID",
		} {
			if got := s.outcome(key + policy); got != want {
				t.Errorf("without Kafka, %q: %s, want %s", policy, got, want)
			}
		}
		v := s.get(key + "?policy=any")
		if lag, _ := dig(v, "served", "time_lag_ms").(float64); lag < 5000 || v["value"] != 3.0 {
			t.Errorf("by whom is left: %v", v)
		}
		_, all := s.ask(http.MethodGet, key+"?max_staleness=1s", "", nil)
		if refusals := dig(all[0], "details", 1); dig(refusals, "candidates", 0, "replica", "timeLag") == nil {
			t.Errorf("a refusal without the lag: %v", all[0])
		}
		if v := s.get(key + "/explain?policy=strong"); v["reason"] != "NO_ACTIVE" {
			t.Errorf("an explanation: %v", v)
		}
		for _, n := range nodes {
			n.Kafka().Thaw()
		}
		if got := s.outcome(key + "?policy=active&wait=1m"); got != "200" {
			t.Errorf("with patience: %s", got)
		}
	})
}

// outcome is the status and the reason of an answer.
func (s *httpSide) outcome(path string) string {
	s.t.Helper()
	code, all := s.ask(http.MethodGet, path, "", nil)
	if code == http.StatusOK {
		return "200"
	}
	return fmt.Sprint(code, " ", dig(all[0], "details", 0, "reason"))
}

// event is a server-sent event.
type event struct{ id, name, data string }

// followPatience is how long follow waits for what must come: comments keep a watch alive for ever.
const followPatience = 10 * time.Minute

// follow reads events until enough says so, then goes away.
func (s *httpSide) follow(path string, header http.Header, enough func(seen []event) bool) []event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), followPatience)
	defer cancel()
	resp, err := s.do(ctx, http.MethodGet, path, "", header)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
	}
	var seen []event
	var e event
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" || e.id != "" {
				seen = append(seen, e)
			}
			if e = (event{}); enough(seen) {
				return seen
			}
		}
	}
	return seen
}

// changes are the keys and values of entries.
func changes(seen []event) (list []string) {
	for _, e := range seen {
		if e.name == "entry" {
			var v map[string]any
			if err := json.Unmarshal([]byte(e.data), &v); err != nil {
				return []string{err.Error()}
			}
			list = append(list, fmt.Sprintf("%v=%v", v["key"], v["value"]))
		}
	}
	return list
}

// lastID is the id that a caller would come back with.
func lastID(seen []event) (id string) {
	for _, e := range seen {
		if e.id != "" {
			id = e.id
		}
	}
	return id
}

// TestHTTPWatchGoesOnFromItsLastEvent: nothing is lost between a caller's going and its coming back, through another router and
// after the node that served it has died; and nothing of it is left when it has gone.
func TestHTTPWatchGoesOnFromItsLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, nodes := newHTTPKinds(t)
		defer f.Close()
		defer f.cl.Close()
		const path = "/v1/stores/tab/watch?policy=any"
		seen := s.follow(path, nil, func(seen []event) bool {
			return strings.Count(fmt.Sprint(seen), "current") == 2
		})
		got := changes(seen)
		slices.Sort(got)
		if strings.Join(got, " ") != "alice=three bob=four" {
			t.Fatalf("what is there: %v", seen)
		}
		if n := strings.Count(lastID(seen), "@"); n != 2 {
			t.Fatalf("the last id is %q", lastID(seen))
		}
		f.putAt("alice", "five", t0+70_000)
		f.putAt("alice", "six", t0+71_000)
		s.waitFor("/v1/stores/tab/keys/alice", "six is there", func(v map[string]any) bool { return v["value"] == "six" })
		served := fmt.Sprint(dig(s.get("/v1/stores/tab/keys/alice"), "served", "node"))
		nodes[served].Kill()
		resumed := s.follow(path, http.Header{"Last-Event-Id": {lastID(seen)}}, func(seen []event) bool { return slices.Contains(changes(seen), "alice=six") })
		if got := changes(resumed); got[len(got)-1] != "alice=six" || slices.Contains(got, "bob=four") {
			t.Errorf("from %q on: %v", lastID(seen), resumed)
		}
		all := s.follow(path+"&key=alice&count=1", nil, func([]event) bool { return false })
		if last := all[len(all)-1]; last.name != "end" {
			t.Errorf("after count: %v", all)
		}
		timed := s.follow(path+"&changes_only=true&timeout=5s", nil, func([]event) bool { return false })
		if last := timed[len(timed)-1]; last.name != "end" {
			t.Errorf("after the timeout: %v", timed)
		}
		// The end of the HTTP side is an event, so that the caller knows where to go on from.
		ended := make(chan []event, 1)
		go func() { ended <- s.follow(path, nil, func([]event) bool { return false }) }()
		<-time.After(2 * time.Second)
		s.end()
		seen = <-ended
		if last := seen[len(seen)-1]; last.name != "error" || !strings.Contains(last.data, "CLOSING") {
			t.Errorf("at the end: %v", seen)
		}
	})
}

// TestHTTPCallersAreJudgedAsThoseOfGRPC: by certificate or token, each by the same rules.
func TestHTTPCallersAreJudgedAsThoseOfGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		trust := func(p *authtest.Pair) *tls.Config {
			c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), ServerName: "r1"}
			c.RootCAs.AppendCertsFromPEM(s.ca.PEM)
			if p != nil {
				pair, err := tls.X509KeyPair(p.Cert, p.Key)
				if err != nil {
					t.Fatal(err)
				}
				c.Certificates = []tls.Certificate{pair}
			}
			return c
		}
		security := s.security("r1-http", routerHolder, "rules.yaml")
		admin := s.ca.Issue(t, authtest.Holder{CN: "admin"})
		bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
		const secret = "/v1/stores/counts/keys/" + secretKey
		for _, c := range []struct {
			name   string
			pair   *authtest.Pair
			path   string
			header http.Header
			want   string
		}{
			{"nothing", nil, secret, nil, "401 UNAUTHENTICATED"},
			{"nothing, for the stores", nil, "/v1/stores", nil, "401 UNAUTHENTICATED"},
			{"a certificate", &admin, secret, nil, "200"},
			{"a token", nil, secret, bearer(s.tokenOf("reader")), "200"},
			{"a token wins over a certificate", &admin, secret, bearer(s.tokenOf("other")), "403 PERMISSION_DENIED"},
			{"a token of another's store", nil, secret, bearer(s.tokenOf("other")), "403 PERMISSION_DENIED"},
			{"a token of nobody", nil, secret, bearer(s.tokenOf("nobody")), "403 PERMISSION_DENIED"},
			{"another key", nil, "/v1/stores/counts/keys/bob", bearer(s.tokenOf("reader")), "403 PERMISSION_DENIED"},
			{"another key by a scan", nil, "/v1/stores/counts/scan", bearer(s.tokenOf("reader")), "403 PERMISSION_DENIED"},
			{"its own keys by a scan", nil, "/v1/stores/counts/scan?prefix=al", bearer(s.tokenOf("reader")), "200"},
			{"another key by a watch", nil, "/v1/stores/counts/watch?count=1", bearer(s.tokenOf("reader")), "403 PERMISSION_DENIED"},
			{"lags of all", nil, "/v1/lag", bearer(s.tokenOf("reader")), "403 PERMISSION_DENIED"},
			{"an unknown store", nil, "/v1/stores/none/keys/k", bearer(s.tokenOf("reader")), "403 PERMISSION_DENIED"},
			{"no token", nil, secret, http.Header{"Authorization": {"Basic cmVhZGVyOg=="}}, "401 UNAUTHENTICATED"},
			{"a token that is none", nil, secret, bearer("x"), "401 UNAUTHENTICATED"},
			{"two tokens", nil, secret, http.Header{"Authorization": {"Bearer a", "Bearer b"}}, "401 UNAUTHENTICATED"},
			{"the names of another caller", nil, secret, http.Header{"Iqgate-Caller-Bin": {"Y246YWRtaW4="}}, "401 UNAUTHENTICATED"},
			{"the document", nil, "/openapi.json", nil, "200"},
		} {
			h := serveHTTP(t, s.router, security, trust(c.pair))
			resp, err := h.do(t.Context(), http.MethodGet, c.path, "", c.header)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			got := fmt.Sprint(resp.StatusCode)
			if resp.StatusCode != http.StatusOK {
				var v any
				_ = json.Unmarshal(text, &v)
				got += fmt.Sprint(" ", dig(v, "details", 0, "reason"))
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s: %s", c.name, got, c.want, text)
			}
			if resp.StatusCode != http.StatusOK && strings.Contains(string(text), secretValue) {
				t.Errorf("%s: the error tells a value: %s", c.name, text)
			}
			if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: nothing says what is accepted", c.name)
			}
			h.end()
		}
	})
}

// TestHTTPWatchEndsWithItsToken: a token that has run out lets nothing more through.
func TestHTTPWatchEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecured(t)
		defer s.Close()
		s.start()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(s.ca.PEM)
		h := serveHTTP(t, s.router, s.security("r1-http", routerHolder, "rules.yaml"), &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "r1"})
		defer h.end()
		token := s.signer.Token(t, claims("reader", time.Minute))
		cl := s.Client()
		defer cl.Close()
		late := time.AfterFunc(3*time.Minute, func() { _ = bubble.Produce(t.Context(), cl, "in", secretKey, "late") })
		defer late.Stop()
		seen := h.follow("/v1/stores/counts/watch?prefix="+url.QueryEscape("al"), http.Header{"Authorization": {"Bearer " + token}}, func([]event) bool { return false })
		if last := seen[len(seen)-1]; last.name != "error" || !strings.Contains(last.data, "UNAUTHENTICATED") {
			t.Errorf("the last event is %v", last)
		}
		if n := len(changes(seen)); n != 1 {
			t.Errorf("%d entries: %v", n, seen)
		}
	})
}
