package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/wire"
)

// Parameters of the connection to a router.
const (
	routerPing       = 10 * time.Second // keepalive; a router permits pings from 5s on
	routerPingWait   = 3 * time.Second
	routerRedialMin  = 100 * time.Millisecond
	routerRedialMax  = 500 * time.Millisecond
	reportingWell    = 5 * time.Second  // a stream that lasted as long was a good one
	fullReportEvery  = 10 * time.Second // so that whatever went wrong heals
	leavingReportMax = time.Second      // how long a closing node tries to say so
)

// A reporter keeps one stream of reports to one router: a full one first, then what changed at once and the lags each
// interval. It redials for as long as the node lives; a router that is down costs nothing but that.
type reporter struct {
	n       *Node
	address string
}

// run reports until ctx ends, and then says that the node is leaving.
func (r *reporter) run(ctx context.Context) error {
	opts := append(r.n.cfg.Security.DialOptions(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: routerRedialMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: routerRedialMax},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: routerPing, Timeout: routerPingWait, PermitWithoutStream: true}),
		grpc.WithDisableServiceConfig(),
	)
	target := r.address // resolved by DNS again at each connection
	if r.n.cfg.Dial != nil {
		target = "passthrough:///" + r.address
		opts = append(opts, grpc.WithContextDialer(r.n.cfg.Dial))
	}
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		return fmt.Errorf("router %s: %w", r.address, err)
	}
	defer func() { _ = cc.Close() }()
	failures, said := 0, ""
	for ctx.Err() == nil {
		began := time.Now()
		err := r.stream(ctx, iqv1.NewControlServiceClient(cc))
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > reportingWell {
			failures, said = 0, ""
		}
		failures++
		if text := fmt.Sprint(err); text != said { // once for each cause
			said = text
			r.n.log.Warn("cannot report to a router; trying again", slog.String("router", r.address), slog.Any("error", err))
		}
		if !kafka.Sleep(ctx, routerRedialMin) {
			return nil
		}
		awaitReady(ctx, cc, min(kafka.Backoff(failures), routerRedialMax))
	}
	return nil
}

// awaitReady waits until the connection is there, at most so long: two pauses, the client library's and our own, would add
// up, and a router that has come back would know nothing of this node for as long.
func awaitReady(ctx context.Context, cc *grpc.ClientConn, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for state := cc.GetState(); state != connectivity.Ready; state = cc.GetState() {
		if state == connectivity.Idle {
			cc.Connect()
		}
		if !cc.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// stream reports over one stream until it breaks.
func (r *reporter) stream(ctx context.Context, cl iqv1.ControlServiceClient) error {
	// The stream outlives ctx by the leaving report.
	sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopWatching := context.AfterFunc(ctx, func() { time.AfterFunc(leavingReportMax, cancel) }) // a silent router holds nothing up
	defer stopWatching()
	st, err := cl.Heartbeat(sctx)
	if err != nil {
		return err
	}
	full := make(chan struct{}, 1)
	broken := make(chan error, 1)
	go func() {
		from := &stream{router: r.address}
		defer r.n.words.end(from)
		for {
			resp, err := st.Recv()
			if err != nil {
				broken <- err
				return
			}
			if resp.GetFullReport() {
				kafka.Poke(full)
			}
			r.n.words.tell(from, word{lost: suspicionsOf(resp.GetSuspects()), relieved: resp.GetRelieved()})
		}
	}()
	tick := time.NewTicker(r.n.cfg.ReportInterval)
	defer tick.Stop()
	wantFull, lastFull := true, time.Now()
	var had *metadata.HostMap
	replicas, version := 0, int64(0)
	for {
		changed := r.n.roles.wait()
		hosts := r.n.hostMap()
		// A partial report cannot say that a replica is gone, so fewer replicas or another map make a full one.
		now := len(r.n.replicaList())
		stores := r.n.storesVersion()
		wantFull = wantFull || now < replicas || hosts != had || stores != version || time.Since(lastFull) >= fullReportEvery
		req := r.n.report(wantFull)
		if wantFull {
			lastFull = time.Now()
		}
		had, replicas, version = hosts, now, stores
		if err := st.Send(req); err != nil {
			select {
			case err = <-broken:
			case <-time.After(routerRedialMin):
			}
			return err
		}
		wantFull = false
		select {
		case <-tick.C:
		case <-changed:
		case <-full:
			wantFull = true
		case err := <-broken:
			return err
		case <-ctx.Done():
			bye := r.n.report(true)
			bye.Leaving = true
			if st.Send(bye) == nil && st.CloseSend() == nil {
				<-broken //nolint:errcheck // the router has read it, or the bound has passed
			}
			return nil
		}
	}
}

// report is one report: every replica with its lag, and in a full one the stores and the host map too.
func (n *Node) report(full bool) *iqv1.HeartbeatRequest {
	now := time.Now()
	req := &iqv1.HeartbeatRequest{
		Node: n.cfg.NodeID, Incarnation: int64(n.incarnation), Sequence: n.sequence.Add(1), Application: n.application,
		Address: n.address, Rack: n.cfg.Rack, Full: full,
		Interval: durationpb.New(n.cfg.ReportInterval), InFlight: n.serving.InFlight(),
		Draining: n.drain.begun(), Version: n.cfg.Version,
	}
	up := n.up.Load()
	if up == nil {
		return req
	}
	for _, r := range up.replicas.list() {
		rep := r.Report(now)
		rep.Lag.Position = max(0, rep.Lag.Position) // a store that is not open yet has applied nothing
		req.Replicas = append(req.Replicas, wire.Status("", "", rep))
		if rep.Input != nil {
			req.Inputs = append(req.Inputs, &iqv1.ReplicaInput{Store: rep.Store, Partition: rep.Partition.Partition, InputPosition: wire.Position(rep.Input)})
		}
	}
	req.Misplaced, req.Dropped = wire.Misplaced(up.tasks.met.misplaced()), wire.Dropped(up.tasks.met.dropped())
	hm := up.hosts.Load()
	if hm != nil {
		req.Generation = int64(hm.Generation)
	}
	if full {
		if hm != nil {
			req.Hosts = wire.HostMap(*hm)
		}
		for _, info := range up.StoreInfos() {
			req.Stores = append(req.Stores, wire.Store(info))
		}
	}
	return req
}
