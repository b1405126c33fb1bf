package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/auth/authtest"
	"github.com/iqgate/iqgate/dashboard"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/routing"
)

// TestTheDashboardHasTheRulesOfTheMetadata, by token and by certificate, on the program's own port: the page is everybody's, what it
// shows is for whoever may watch the metadata, of all stores or of the one that is asked for.
func TestTheDashboardHasTheRulesOfTheMetadata(t *testing.T) {
	dir, ca, signer := t.TempDir(), authtest.NewCA(t, "acme"), authtest.NewSigner(t, "ES256", "k1")
	caFile := authtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	rules := authtest.WriteFile(t, dir, "rules.yaml", []byte(`
tokens: {issuer: https://login.acme.com, audience: [iqgate]}
rules:
  - {who: ["sub:one"], allow: [metadata], stores: [orders]}
  - {who: ["sub:all", "cn:operator"], allow: [metadata], stores: ["*"]}
  - {who: ["sub:reader"], allow: [read], stores: ["*"]}
`))
	keys := authtest.WriteFile(t, dir, "keys.json", authtest.KeySet(t, signer))
	cert, key := ca.Issue(t, authtest.Holder{CN: "iqrouter", DNS: []string{"router"}}).Write(t, dir, "router")
	ctx, cancel := context.WithCancel(t.Context())
	_, address, ended := startWithHTTP(t, ctx, "--tls-cert", cert, "--tls-key", key, "--tls-ca", caFile, "--auth-rules", rules, "--auth-keys", keys)
	defer func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("exit %d", code)
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	operator, operatorKey := ca.Issue(t, authtest.Holder{CN: "operator"}).Write(t, dir, "operator")
	pair, err := tls.LoadX509KeyPair(operator, operatorKey)
	if err != nil {
		t.Fatal(err)
	}
	token := func(subject string) string {
		return signer.Token(t, map[string]any{"iss": "https://login.acme.com", "aud": "iqgate", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()})
	}
	for _, c := range []struct {
		path, subject string
		certificate   bool
		want          int
		says          string
	}{
		{path: "/", want: http.StatusOK, says: "<title>iqgate</title>"},
		{path: "/dashboard/app.js", want: http.StatusOK},
		{path: "/dashboard/events", want: http.StatusUnauthorized, says: `"reason":"UNAUTHENTICATED"`},
		{path: "/dashboard/events", subject: "all", want: http.StatusOK, says: "event: snapshot"},
		{path: "/dashboard/events", certificate: true, want: http.StatusOK, says: "event: snapshot"},
		{path: "/dashboard/events", subject: "one", want: http.StatusForbidden, says: `"reason":"PERMISSION_DENIED"`},
		{path: "/dashboard/events?store=orders", subject: "one", want: http.StatusOK, says: "event: snapshot"},
		{path: "/dashboard/events?store=others", subject: "one", want: http.StatusForbidden},
		{path: "/dashboard/events", subject: "reader", want: http.StatusForbidden},
		{path: "/dashboard/partition?store=orders&partition=0", subject: "reader", want: http.StatusForbidden},
		{path: "/dashboard/partition?store=orders&partition=0", subject: "one", want: http.StatusNotFound},
	} {
		config := &tls.Config{RootCAs: roots, ServerName: "router", MinVersion: tls.VersionTLS13}
		if c.certificate {
			config.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.subject != "" {
			req.Header.Set("Authorization", "Bearer "+token(c.subject))
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := firstPart(resp.Body)
		if resp.StatusCode != c.want || !strings.Contains(text, c.says) || c.want != http.StatusOK && strings.Contains(text, "snapshot") {
			t.Errorf("%s as %q: %d %s", c.path, c.subject, resp.StatusCode, text)
		}
		cancel()
		_ = resp.Body.Close()
		client.CloseIdleConnections()
	}
}

// firstPart is a body to its end, or to the first empty line of a stream that has none.
func firstPart(body io.Reader) string {
	var b strings.Builder
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\n" && strings.Contains(b.String(), "data: ") {
			return b.String()
		}
	}
}

// TestReadsAreToldInThePagesWords, one that was answered and one that was not.
func TestReadsAreToldInThePagesWords(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	got := readOf(&router.RecentRead{
		Sequence: 3, Began: at, Took: 1500 * time.Microsecond, Store: "s", Partition: 4, Policy: routing.Unbounded(routing.ModeAny),
		Node: "b", Role: metadata.RoleStandby, Found: true, TimeLag: 120 * time.Millisecond, OffsetLag: 7,
		Attempts: []*iqv1.Attempt{{Node: "a", Message: "broken"}},
	})
	want := dashboard.Read{
		Sequence: 3, AtMs: at.UnixMilli() + 1, Store: "s", Partition: 4, Policy: "any", Node: "b", Role: "standby", Found: true,
		Offsets: 7, LagMs: 120, TookMs: 1.5, Attempts: []dashboard.Attempt{{Node: "a", Message: "broken"}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = readOf(&router.RecentRead{
		Sequence: 4, Began: at, Store: "s", Partition: routing.NoPartition, Policy: routing.Unbounded(routing.ModeStrong), Reason: "NO_ACTIVE", Message: "none",
		TimeLag: metadata.LagUnknown, OffsetLag: metadata.LagUnknown,
	})
	want = dashboard.Read{Sequence: 4, AtMs: at.UnixMilli(), Store: "s", Partition: -1, Policy: "strong", Reason: "NO_ACTIVE", Message: "none", Offsets: -1, LagMs: -1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
