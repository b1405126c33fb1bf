package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// minInterval bounds Config.Interval: nobody reads faster.
const minInterval = 50 * time.Millisecond

//go:embed assets
var assets embed.FS

// Router is what the page says of the router itself.
type Router struct {
	// Name is how nodes hear it.
	Name string `json:"router"`
	// Version is what it was built from.
	Version string `json:"version"`
	// DefaultPolicy is for lookups that name none.
	DefaultPolicy string `json:"default_policy"`
}

// ReadLog tells what reads meet. Its methods do not block and may be called at once.
type ReadLog interface {
	// Counts are all reads since the router began. They never go back.
	Counts() Counts
	// Recent are the newest lookups that were kept, the oldest first. The list is the caller's.
	Recent() []Read
}

// Config is what a dashboard is made of. The zero value of each field but View means its default.
type Config struct {
	// View gives the newest view. Required.
	View func() *metadata.View
	// Router gives what the page says of the router. Default: nothing.
	Router func() Router
	// Reads tells what reads meet. Default: the page shows none.
	Reads ReadLog
	// Authorize says whether whoever made a request may read the metadata of a store, or of all when it is empty. Anything but
	// nil is a refusal: a *RefusedError when the caller is to see its words. It is called for each event of a stream again.
	// Default: everybody may.
	Authorize func(r *http.Request, store string) error
	// Interval is the least time between two events of a stream. Default 250ms, at least 50ms.
	Interval time.Duration
	// MaxStreams is how many pages may be open at once; more are refused. Default 32.
	MaxStreams int
	// Logger takes what no caller may see. Default: slog.Default.
	Logger *slog.Logger
}

// Validate reports every field that makes no sense, by name and value.
func (c Config) Validate() error {
	var errs []error
	if c.View == nil {
		errs = append(errs, errors.New("View: is required")) //nolint:staticcheck // a field's name
	}
	if c.Interval != 0 && c.Interval < minInterval {
		errs = append(errs, fmt.Errorf("Interval: %s must be at least %s", c.Interval, minInterval)) //nolint:staticcheck // a field's name
	}
	if c.MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("MaxStreams: %d must be more than 0", c.MaxStreams))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = 250 * time.Millisecond
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 32
	}
	if c.Router == nil {
		c.Router = func() Router { return Router{} }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Refusal says why a request for the page's data is not answered.
type Refusal struct {
	// Reason is in the words of the wire.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// RefusedError is a refusal that the caller may see the words of.
type RefusedError struct {
	// Status is the HTTP status.
	Status int
	Refusal
}

// Error is the message.
func (e *RefusedError) Error() string { return e.Message }

// Dashboard answers the page's requests: the page at /, all else below /dashboard/. It is an http.Handler.
type Dashboard struct {
	config   Config
	routes   http.Handler
	editions editions
	streams  atomic.Int64 // open
	closing  chan struct{}
	close    func()
}

// New makes a dashboard. It starts nothing.
func New(c Config) (*Dashboard, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("dashboard configuration: %w", err)
	}
	d := &Dashboard{config: c.withDefaults(), closing: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closing) })
	d.editions.config = &d.config
	mux := http.NewServeMux()
	page, err := newAsset("index.html")
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", page)
	files, err := assets.ReadDir("assets")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		a, err := newAsset(f.Name())
		if err != nil {
			return nil, err
		}
		mux.Handle("GET /dashboard/"+f.Name(), a)
	}
	mux.HandleFunc("GET /dashboard/events", d.events)
	mux.HandleFunc("GET /dashboard/partition", d.partition)
	d.routes = mux
	return d, nil
}

// Close ends all streams. Others are answered still.
func (d *Dashboard) Close() { d.close() }

// ServeHTTP answers one request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	d.routes.ServeHTTP(w, r)
}

// asset is one of the page's files.
type asset struct {
	content   []byte
	mediaType string
	tag       string
}

func newAsset(name string) (*asset, error) {
	content, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	a := &asset{content: content, tag: strconv.Quote(hex.EncodeToString(sum[:8]))}
	switch ext := path.Ext(name); ext { // without the system's own table, which may say anything
	case ".js":
		a.mediaType = "text/javascript; charset=utf-8"
	case ".css":
		a.mediaType = "text/css; charset=utf-8"
	default:
		a.mediaType = mime.TypeByExtension(ext)
	}
	return a, nil
}

// ServeHTTP sends the file, unless the caller has it.
func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // ask each time, so that a new router's page is whole
	h.Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.mediaType)
	h.Set("Content-Length", strconv.Itoa(len(a.content)))
	_, _ = w.Write(a.content)
}

// partition tells all of one partition.
func (d *Dashboard) partition(w http.ResponseWriter, r *http.Request) {
	id := metadata.Partition{Store: r.URL.Query().Get("store")}
	text := r.URL.Query().Get("partition")
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		d.refuse(w, invalid("partition", text, "must be a whole number"))
		return
	}
	id.Partition = int32(number)
	if id.Store == "" {
		d.refuse(w, invalid("store", "", "must be a store's name"))
		return
	}
	if err := d.authorize(r, id.Store); err != nil {
		d.refuse(w, err)
		return
	}
	detail, err := MakeDetail(d.config.View(), id, time.Now())
	if err != nil {
		d.refuse(w, &RefusedError{Status: http.StatusNotFound, Refusal: Refusal{Reason: "NOT_FOUND", Message: err.Error()}})
		return
	}
	answer(w, http.StatusOK, detail)
}

func invalid(field, value, want string) *RefusedError {
	return &RefusedError{Status: http.StatusBadRequest, Refusal: Refusal{Reason: "INVALID", Message: fmt.Sprintf("%s: %q %s", field, value, want)}}
}

func (d *Dashboard) authorize(r *http.Request, store string) error {
	if d.config.Authorize == nil {
		return nil
	}
	return d.config.Authorize(r, store)
}

// refusedOf is an error as the caller gets it.
func refusedOf(err error) *RefusedError {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	return &RefusedError{Status: http.StatusInternalServerError, Refusal: Refusal{Reason: "INTERNAL", Message: "the router failed; its log says how"}}
}

func (d *Dashboard) refuse(w http.ResponseWriter, err error) {
	refused := refusedOf(err)
	if refused.Status == http.StatusInternalServerError {
		d.config.Logger.Error("a request of the dashboard failed", slog.Any("error", err))
	}
	if refused.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if refused.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(reconnectAfter/time.Second)))
	}
	answer(w, refused.Status, refused.Refusal)
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(mustEncode(v), '\n'))
}
