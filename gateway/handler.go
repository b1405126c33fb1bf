package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Handler answers requests. See Gateway.ServeHTTP.
type Handler struct {
	config   Config
	query    iqv1.QueryServiceClient
	metadata iqv1.MetadataServiceClient
	stopping chan struct{} // closed when watches are to end
	stop     sync.Once
}

// documentPath is where the OpenAPI document is.
const documentPath = "/openapi.json"

// bodyTimeout is how long a request's body may take to arrive.
const bodyTimeout = 10 * time.Second

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	now := time.Now()
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(now.Add(bodyTimeout)) // a server that cannot is a test's
	}
	if c := connectionOf(r.Context()); c != nil && c.excess {
		w.Header().Set("Connection", "close")
		fail(h.slow(w), &iqerr.OverloadedError{
			Node: "this router's HTTP side", InFlight: int64(h.config.MaxConnections), Limit: int64(h.config.MaxConnections), RetryAfter: excessRetry,
		})
		return
	}
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/v1/") && path != documentPath {
		if h.config.Rest != nil {
			h.config.Rest.ServeHTTP(w, r)
			return
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	if err := h.serve(h.slow(w), r, path, now); err != nil {
		fail(h.slow(w), err)
	}
}

// serve answers a request. The error is of a request that has got no answer yet.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, path string, now time.Time) error {
	if path == documentPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		answer(w, http.StatusOK, document)
		return nil
	}
	rt, vars, allowed := find(r.Method, path)
	switch {
	case path == documentPath:
		allowed = []string{http.MethodGet, http.MethodHead}
	case rt == nil && allowed == nil:
		return &httpError{http.StatusNotFound, codes.NotFound, "there is no path " + strconv.Quote(clip(path)) + "; " + documentPath + " lists those that there are"}
	}
	if rt == nil {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return &httpError{http.StatusMethodNotAllowed, codes.Unimplemented, "method " + clip(r.Method) + " is not for this path; there are " + strings.Join(allowed, ", ")}
	}
	if r.ContentLength != 0 && rt.body == nil {
		w.Header().Set("Connection", "close") // what comes is not read
		return iqerr.Invalid("body", nil, "this request takes none")
	}
	in := &request{now: now}
	if err := rt.read(in, r, vars); err != nil {
		return err
	}
	ctx := h.context(r)
	if in.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, now.Add(in.timeout))
		defer cancel()
	}
	return rt.serve(&call{Context: ctx, Handler: h, request: in, route: rt, w: w, r: r})
}

// clip keeps a text that the caller has given short.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// connection is what is known of a caller's connection.
type connection struct {
	from   net.Addr
	excess bool // it is one too many
	once   sync.Once
	info   credentials.AuthInfo // nil for plaintext
}

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// context is that of the calls that are made for a request: who is at the other end, and the token that was shown.
func (h *Handler) context(r *http.Request) context.Context {
	c := connectionOf(r.Context())
	if c == nil { // a server that is not Run
		c = &connection{}
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			c.from = net.TCPAddrFromAddrPort(at)
		}
	}
	c.once.Do(func() {
		if r.TLS != nil {
			c.info = auth.Connection(*r.TLS)
		}
	})
	ctx := peer.NewContext(r.Context(), &peer.Peer{Addr: c.from, AuthInfo: c.info})
	if tokens := r.Header.Values("Authorization"); len(tokens) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, metadata.MD{"authorization": tokens})
	}
	return ctx
}

// slowWriter gives a caller StreamIdle to take each part of what is sent.
type slowWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
}

// partBytes is the most that a caller must take within StreamIdle.
const partBytes = 64 << 10

func (h *Handler) slow(w http.ResponseWriter) http.ResponseWriter {
	if s, ok := w.(*slowWriter); ok {
		return s
	}
	return &slowWriter{ResponseWriter: w, control: http.NewResponseController(w), idle: h.config.StreamIdle}
}

// Write implements io.Writer.
func (s *slowWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), partBytes)]
		_ = s.control.SetWriteDeadline(time.Now().Add(s.idle)) // a server that cannot is a test's
		var m int
		m, err = s.ResponseWriter.Write(part)
		n, b = n+m, b[m:]
	}
	return n, err
}

// Unwrap lets http.ResponseController find the writer.
func (s *slowWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// FlushError sends what was written.
func (s *slowWriter) FlushError() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.idle))
	return s.control.Flush()
}

// answer answers with JSON text.
func answer(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(code)
	_, _ = w.Write(append(slices.Clip(body), '\n')) // who has gone needs no answer
}

// reply answers with a shape.
func (c *call) reply(shape any) error {
	body, err := encode(shape)
	if err != nil {
		return err
	}
	answer(c.w, http.StatusOK, bytes.TrimRight(body, "\n"))
	return nil
}

// encode is a shape as JSON on one line, with a line feed.
func encode(shape any) ([]byte, error) {
	var b bytes.Buffer
	err := encodeTo(&b, shape)
	return b.Bytes(), err
}

func encodeTo(w io.Writer, shape any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(shape)
}
