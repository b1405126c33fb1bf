package serve

import (
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/tally"
)

// Config is what a Server is made with. All fields are required unless they say otherwise; who makes it has checked them.
type Config struct {
	// NodeID, Address and Application name the node, where callers reach it, and the application that it runs.
	NodeID      string
	Address     string
	Application string
	// Followed says that the stores are another application's and only followed: no replica here is ever an active.
	Followed bool
	// Partitioners knows the partitioners that stores name; nil for the built-in ones.
	Partitioners *partitioner.Registry

	// DefaultPolicy is the mode of a request without a policy.
	DefaultPolicy iqv1.ReadPolicy_Mode
	// LagSampleMaxAge is how old the end of a changelog may be to judge an offset lag by.
	LagSampleMaxAge time.Duration
	// ReportInterval is the time between two reports to each router, which callers are told.
	ReportInterval time.Duration
	// MaxInFlight bounds the reads that are under way at a time, those that wait among them, but not watches; half as many may
	// wait for a commit. MaxWaiting, MaxScans and MaxWatches bound the requests that asked to wait, the scans and counts that
	// run, and the watches that are open. More are OVERLOADED.
	MaxInFlight int
	MaxWaiting  int
	MaxScans    int
	MaxWatches  int
	// ScanIdle is how long the reader of a scan or watch may take nothing.
	ScanIdle time.Duration
	Log      *slog.Logger
	// Requests counts what callers ask, and Reads the partitions that are read for them; nil for counters of the server's own.
	Requests *tally.Requests
	Reads    *tally.Reads

	// Node returns the node's side, nil until Kafka and the application's topics are there. From then on it is always the
	// same.
	Node func() Node
	// News returns a channel that is closed by the next change of a position, role or state, or was by one that the
	// caller's look at them sees. Roles does the same without positions, but for assignments and stores too.
	News  func() <-chan struct{}
	Roles func() <-chan struct{}
}

// A Server answers queries of what its node holds and of the application's metadata. Any goroutine may use it.
type Server struct {
	cfg      Config
	closing  atomic.Bool
	inFlight atomic.Int32
	settling atomic.Int32 // of those in flight, wait for a commit
	waiting  atomic.Int64
	scans    atomic.Int64 // scans and counts that run
	watches  watches
	ending   chan struct{} // closed by EndLookups
}

// New makes a server; it starts nothing.
func New(cfg Config) *Server {
	if cfg.Requests == nil {
		cfg.Requests = tally.NewRequests()
	}
	if cfg.Reads == nil {
		cfg.Reads = tally.NewReads()
	}
	return &Server{cfg: cfg, ending: make(chan struct{})}
}

// Register adds the query and the metadata service to a gRPC server, which must use mux.Codec.
func (s *Server) Register(srv grpc.ServiceRegistrar) {
	srv.RegisterService(mux.Service(s.lookup), &queryServer{Server: s, stream: mux.Server{Handler: s.lookup, Stopping: s.ending}})
	iqv1.RegisterMetadataServiceServer(srv, &metadataServer{Server: s})
}

// Close refuses new requests with CLOSING. Those that wait and the streams notice with the next news, which the caller
// announces.
func (s *Server) Close() { s.closing.Store(true) }

// Closing says whether Close was called.
func (s *Server) Closing() bool { return s.closing.Load() }

// EndLookups ends the streams of lookups once what was read of them is answered; a gRPC server that stops waits for streams. It
// may be called once.
func (s *Server) EndLookups() { close(s.ending) }

// NotHosted is the refusal of a store partition that is not here: it names whom the newest assignment names.
func (s *Server) NotHosted(id metadata.Partition) error { return s.notHosted(s.node(), id) }

// InFlight is how many reads run; watches do not count.
func (s *Server) InFlight() int32 { return s.inFlight.Load() }

// Load is what is under way: reads, those of them that asked to wait, scans with counts, and watches of state.
func (s *Server) Load() (inFlight, waiting, scans, watches int64) {
	return int64(s.inFlight.Load()), s.waiting.Load(), s.scans.Load(), s.watches.open.Load()
}

func (s *Server) node() Node { return s.cfg.Node() }
