package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of the port.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	stopTimeout   = time.Second // for answers that are under way
	maxScrapes    = 4           // at a time; more are refused
	maxLevelBytes = 256         // of what PUT /loglevel takes
)

// A Config says what a port shows. All fields are required.
type Config struct {
	// Address is where to listen, host:port; port 0 takes a free one.
	Address string
	// Metrics are the program's.
	Metrics prometheus.Gatherer
	// Status says whether the program is ready at now.
	Status func(now time.Time) Status
	// Level is the log's, which the port changes.
	Level *slog.LevelVar
	// Log takes what the port has to say.
	Log *slog.Logger
}

// A Server is the port. Listen makes one; Run answers.
type Server struct {
	cfg      Config
	listener net.Listener
	started  atomic.Bool // it was ready once
}

// Listen takes the address, so that one that is in use is an error at once. It starts nothing.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("admin %q: %w", cfg.Address, err)
	}
	return &Server{cfg: cfg, listener: l}, nil
}

// Address is where it listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Run answers until ctx ends, and returns when nothing runs any more. On nil it does nothing.
func (s *Server) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	srv := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	s.cfg.Log.Info("the admin port answers", slog.String("address", s.Address().String()))
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(stopped)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if srv.Shutdown(last) != nil {
			_ = srv.Close() // a profile that takes longer
		}
	})
	err := srv.Serve(s.listener)
	if !end() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the admin port: %w", err)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelError), MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]bool{"alive": true}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status := s.status()
		answer(w, codeOf(status.Ready), status)
	})
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) {
		status := s.status()
		answer(w, codeOf(s.started.Load()), status)
	})
	mux.HandleFunc("GET /loglevel", func(w http.ResponseWriter, _ *http.Request) { s.answerLevel(w) })
	mux.HandleFunc("PUT /loglevel", s.setLevel)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// status is the program's now.
func (s *Server) status() Status {
	status := s.cfg.Status(time.Now())
	if status.Ready {
		s.started.Store(true)
	}
	return status
}

func codeOf(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// answer sends what as JSON.
func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what) // whoever asked has gone
}

// level is the log's level on this port.
type level struct {
	Level string `json:"level"`
}

func (s *Server) answerLevel(w http.ResponseWriter) {
	answer(w, http.StatusOK, level{strings.ToLower(s.cfg.Level.Level().String())})
}

// setLevel takes a level's name alone, or as JSON.
func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevelBytes))
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprintf("level: %v", err)})
		return
	}
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "{") {
		var given level
		if err := json.Unmarshal(body, &given); err != nil {
			answer(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprintf("level: %v", err)})
			return
		}
		text = given.Level
	}
	to, err := ParseLevel(text)
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprintf("level %q %v", text, err)})
		return
	}
	from := s.cfg.Level.Level()
	s.cfg.Level.Set(to)
	s.cfg.Log.Log(r.Context(), max(to, slog.LevelInfo), "log level changed", slog.String("from", from.String()), slog.String("to", to.String()), slog.String("by", r.RemoteAddr))
	s.answerLevel(w)
}

// ParseLevel reads a level of the log.
func ParseLevel(text string) (slog.Level, error) {
	switch text {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, errors.New("must be debug, info, warn or error")
}
