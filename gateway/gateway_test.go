package gateway

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// rewrites says whether datadriven was asked to write expected outputs.
func rewrites() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}

// TestTheOpenAPIDocumentIsWhatTheRoutesSay: it is made of the tables by which requests are read and answers written.
func TestTheOpenAPIDocumentIsWhatTheRoutesSay(t *testing.T) {
	want, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if rewrites() {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(document) != string(want) {
		t.Error("openapi.json is not what the routes say: run 'make rewrite'")
	}
	if !json.Valid(document) {
		t.Error("openapi.json is no JSON")
	}
}

// TestRequests reads testdata: the input of http is a line with method and target, header lines and, after an empty line, a body.
// The requests that reached the router are printed with "<", then the answer.
func TestRequests(t *testing.T) {
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		t.Helper()
		f := &fake{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "empty" {
				f.empty = !f.empty
				return ""
			}
			var out string
			synctest.Test(t, func(t *testing.T) { out = exchange(t, f, d) })
			return out
		})
	})
}

// shown are the headers that tests print.
var shown = []string{
	"Allow", "Connection", "Content-Type", "Content-Length", "Retry-After", "WWW-Authenticate", headerFound, headerNode, headerRole, headerState, headerPartition,
	headerPosition, headerOffsetLag, headerTimeLag, headerTimestamp,
}

func exchange(t *testing.T, f *fake, d *datadriven.TestData) string {
	t.Helper()
	head, body, _ := strings.Cut(d.Input, "\n\n")
	first, headers, _ := strings.Cut(head, "\n")
	method, target, _ := strings.Cut(first, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, target, nil)
	}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "" {
			r.Header.Add(name, strings.TrimSpace(value))
		}
	}
	w := httptest.NewRecorder()
	newFake(t, f).ServeHTTP(w, r)
	var b strings.Builder
	for _, asked := range f.took() {
		b.WriteString("< " + asked + "\n")
	}
	fmt.Fprintf(&b, "%d %s\n", w.Code, http.StatusText(w.Code))
	for _, name := range shown {
		if name != "Content-Length" || strings.Contains(w.Header().Get("Content-Type"), "octet") {
			for _, v := range w.Header().Values(name) {
				b.WriteString(name + ": " + v + "\n")
			}
		}
	}
	if w.Header().Get("Content-Type") == mediaBytes {
		fmt.Fprintf(&b, "%q\n", w.Body.String())
	} else {
		b.WriteString(w.Body.String())
	}
	return b.String()
}

// TestEveryReasonHasAStatus: each reason of the wire, and what is written of it.
func TestEveryReasonHasAStatus(t *testing.T) {
	seen := map[int][]string{}
	for n := range iqv1.Reason_name {
		name := iqerr.Name(iqv1.Reason(n))
		f := &fake{}
		w := httptest.NewRecorder()
		newFake(t, f).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/stores/counts/keys/error%20"+name, nil))
		var st struct {
			Code    int              `json:"code"`
			Message string           `json:"message"`
			Details []map[string]any `json:"details"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil {
			t.Fatalf("%s: %v: %s", name, err, w.Body)
		}
		if w.Code < 400 || st.Code == 0 || st.Message == "" {
			t.Errorf("%s: %d %+v", name, w.Code, st)
		}
		if name != "UNSPECIFIED" && (len(st.Details) == 0 || st.Details[0]["reason"] != name) {
			t.Errorf("%s: its details are %v", name, st.Details)
		}
		seen[w.Code] = append(seen[w.Code], name)
	}
	if len(seen[http.StatusInternalServerError]) != 1 {
		t.Errorf("faults of the server: %v", seen[http.StatusInternalServerError])
	}
}
