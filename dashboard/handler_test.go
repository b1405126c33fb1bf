package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

func ask(t *testing.T, d *Dashboard, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	d.ServeHTTP(w, r)
	return w
}

func oneNodeView(t *testing.T) func() *metadata.View {
	t.Helper()
	v := readView(t, oneNode)
	return func() *metadata.View { return v }
}

// TestThePageAsksNothingOfOthers: every file that it names is here, none is elsewhere, and the browser is told to allow no more.
func TestThePageAsksNothingOfOthers(t *testing.T) {
	d := newDashboard(t, Config{View: oneNodeView(t)})
	page := ask(t, d, http.MethodGet, "/")
	if page.Code != http.StatusOK || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("the page: %d %v", page.Code, page.Header())
	}
	if csp := page.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self';") || strings.Contains(csp, "unsafe") {
		t.Errorf("Content-Security-Policy: %s", csp)
	}
	named := regexp.MustCompile(`(?:src|href)="([^"#]+)"`)
	imported := regexp.MustCompile(`from "\./([^"]+)"`)
	files := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(page.Body.String(), -1) {
		files[m[1]] = true
	}
	for file := range files {
		w := ask(t, d, http.MethodGet, "/"+file)
		if w.Code != http.StatusOK || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
		for _, m := range imported.FindAllStringSubmatch(w.Body.String(), -1) {
			if more := "dashboard/" + m[1]; ask(t, d, http.MethodGet, "/"+more).Code != http.StatusOK {
				t.Errorf("%s imports %s, which is not there", file, more)
			}
		}
	}
	all, err := assets.ReadDir("assets")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	elsewhere := regexp.MustCompile(`https?://[^\s"']+|@import|url\(`)
	for _, f := range all {
		content, err := assets.ReadFile("assets/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range elsewhere.FindAllString(string(content), -1) {
			if !strings.HasPrefix(link, "http://www.w3.org/") { // the name of SVG
				t.Errorf("%s names %s", f.Name(), link)
			}
		}
		if strings.Contains(string(content), " style=") || strings.Contains(string(content), "innerHTML") {
			t.Errorf("%s has a style that the policy forbids, or text that becomes markup", f.Name())
		}
	}
}

// TestAFileThatTheBrowserHasIsNotSentAgain.
func TestAFileThatTheBrowserHasIsNotSentAgain(t *testing.T) {
	d := newDashboard(t, Config{View: oneNodeView(t)})
	first := ask(t, d, http.MethodGet, "/dashboard/app.js")
	if first.Header().Get("Content-Type") != "text/javascript; charset=utf-8" || first.Header().Get("ETag") == "" {
		t.Errorf("header %v", first.Header())
	}
	again := ask(t, d, http.MethodGet, "/dashboard/app.js", "If-None-Match: "+first.Header().Get("ETag"))
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("%d, %d bytes", again.Code, again.Body.Len())
	}
}

func TestPartitionInFull(t *testing.T) {
	d := newDashboard(t, Config{View: oneNodeView(t)})
	w := ask(t, d, http.MethodGet, "/dashboard/partition?store=s&partition=0")
	var got Detail
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.End != 9 || len(got.Replicas) != 1 || got.Replicas[0].Position != 9 {
		t.Errorf("%v: %s", err, w.Body)
	}
	for target, want := range map[string]string{
		"/dashboard/partition?store=s&partition=one": `partition: \"one\" must be a whole number`,
		"/dashboard/partition?partition=1":           `store: \"\" must be a store's name`,
		"/dashboard/partition?store=s&partition=7":   "7",
		"/dashboard/partition?store=x&partition=0":   `x`,
	} {
		if w := ask(t, d, http.MethodGet, target); w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/dashboard/nothing", "/other", "/dashboard/"} {
		if w := ask(t, d, http.MethodGet, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if w := ask(t, d, http.MethodPost, "/"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestRefusalsSayWhatTheCallerMaySee, and an error of the router's own does not.
func TestRefusalsSayWhatTheCallerMaySee(t *testing.T) {
	var err error
	d := newDashboard(t, Config{View: oneNodeView(t), Authorize: func(*http.Request, string) error { return err }})
	for _, target := range []string{"/dashboard/partition?store=s&partition=0", "/dashboard/events"} {
		err = &RefusedError{Status: http.StatusUnauthorized, Refusal: Refusal{Reason: "UNAUTHENTICATED", Message: "who are you"}}
		if w := ask(t, d, http.MethodGet, target); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || !strings.Contains(w.Body.String(), "who are you") {
			t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
		err = errors.New("a secret")
		if w := ask(t, d, http.MethodGet, target); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(t, d, http.MethodGet, "/"); w.Code != http.StatusOK {
		t.Errorf("the page itself: %d", w.Code)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	err := Config{Interval: time.Millisecond, MaxStreams: -1}.Validate()
	for _, want := range []string{"View: is required", "Interval: 1ms must be at least 50ms", "MaxStreams: -1 must be"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New takes it")
	}
}
