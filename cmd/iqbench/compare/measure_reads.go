package compare

import (
	"context"
	"encoding/hex"
	"os"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

// The load that rates are measured with.
const loadConns, loadInFlight = 4, 16

// figure4x16 names what a load of many lookups gives (cpu is what its servers use for each), figure1x1 what one of a single lookup gives; empty for none.
type (
	figure4x16 struct{ rate, p99, cpu string }
	figure1x1  struct{ p50 string }
)

// reads measures lookups at the first of some servers, with many and with one in flight, as far as they are needed. The other
// servers take part in answering.
func (r *run) reads(ctx context.Context, what string, servers []*member, requests [][]byte, many figure4x16, one figure1x1) error {
	address := servers[0].address
	if r.wants(many.rate, many.p99, many.cpu) {
		if err := r.many(ctx, what, servers, requests, false, many); err != nil {
			return err
		}
	}
	if one.p50 != "" && r.wants(one.p50) {
		res, err := load{conns: 1, inFlight: 1, warm: r.size.warm, length: r.size.oneLength}.run(ctx, address, requests)
		if err != nil {
			return err
		}
		r.sayLatency(what, res)
		r.give(one.p50, micros(res.p50))
	}
	return nil
}

// many measures with many in flight.
func (r *run) many(ctx context.Context, what string, servers []*member, requests [][]byte, stream bool, names figure4x16) error {
	before, err := cpuOf(servers)
	if err != nil {
		return err
	}
	l := load{conns: loadConns, inFlight: loadInFlight, warm: r.size.warm, length: r.size.length, stream: stream}
	res, err := l.run(ctx, servers[0].address, requests)
	if err != nil {
		return err
	}
	after, err := cpuOf(servers)
	if err != nil {
		return err
	}
	cpu := micros(after-before) / float64(res.all)
	r.sayRate(what, res, cpu)
	r.give(names.cpu, cpu)
	r.give(names.rate, res.rate)
	r.give(names.p99, micros(res.p99))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// nodeReads asks a node.
type nodeReads struct{}

func (nodeReads) gives() []string { return []string{fNodeRate, fNodeP99, fNodeCPU, fNodeOneP50} }

func (nodeReads) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	return r.reads(ctx, "a node", []*member{s.node}, r.requests, figure4x16{fNodeRate, fNodeP99, fNodeCPU}, figure1x1{fNodeOneP50})
}

// routerReads asks a router in front of that node.
type routerReads struct{}

func (routerReads) gives() []string {
	return []string{fRouterRate, fRouterP99, fRouterCPU, fRouterOneP50}
}

func (routerReads) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	return r.reads(ctx, "through the router", []*member{s.router, s.node}, r.requests, figure4x16{fRouterRate, fRouterP99, fRouterCPU}, figure1x1{fRouterOneP50})
}

// nodeLookups asks a node over Lookups streams.
type nodeLookups struct{}

func (nodeLookups) gives() []string { return []string{fLookupsRate, fLookupsCPU} }

func (nodeLookups) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	return r.lookups(ctx, "a node, over streams", []*member{s.node}, fLookupsRate, fLookupsCPU)
}

// routerLookups asks a router in front of that node over Lookups streams.
type routerLookups struct{}

func (routerLookups) gives() []string { return []string{fRouterLookupsRate, fRouterLookupsCPU} }

func (routerLookups) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	return r.lookups(ctx, "through the router, over streams", []*member{s.router, s.node}, fRouterLookupsRate, fRouterLookupsCPU)
}

// lookups measures what reads measures with many in flight, over streams in place of calls.
func (r *run) lookups(ctx context.Context, what string, servers []*member, rate, cpu string) error {
	return r.many(ctx, what, servers, r.requests, true, figure4x16{rate: rate, cpu: cpu})
}

// streamsReads asks Kafka Streams for what the instance asked has.
type streamsReads struct{}

func (streamsReads) gives() []string { return []string{fStreamsRate, fStreamsP99, fStreamsCPU} }

func (streamsReads) take(ctx context.Context, r *run) error {
	m, err := r.localStreams(ctx)
	if err != nil {
		return err
	}
	return r.reads(ctx, "Kafka Streams, local", []*member{m}, r.requests, figure4x16{fStreamsRate, fStreamsP99, fStreamsCPU}, figure1x1{})
}

// remoteReads asks Kafka Streams for what another instance has.
type remoteReads struct{}

func (remoteReads) gives() []string { return []string{fRemoteRate, fRemoteP99, fRemoteCPU} }

func (remoteReads) take(ctx context.Context, r *run) error {
	pair, err := r.remoteStreams(ctx)
	if err != nil {
		return err
	}
	return r.reads(ctx, "Kafka Streams, remote", pair.members, pair.requests, figure4x16{fRemoteRate, fRemoteP99, fRemoteCPU}, figure1x1{})
}

// echoReads asks a bare server that answers as the node does.
type echoReads struct{}

func (echoReads) gives() []string { return []string{fEchoRate, fEchoP99, fEchoCPU} }

func (echoReads) take(ctx context.Context, r *run) error {
	m, err := r.echo(ctx)
	if err != nil {
		return err
	}
	return r.reads(ctx, "bare echo", []*member{m}, r.requests, figure4x16{fEchoRate, fEchoP99, fEchoCPU}, figure1x1{})
}

// proxyReads asks a bare proxy in front of the node.
type proxyReads struct{}

func (proxyReads) gives() []string { return []string{fProxyRate, fProxyP99, fProxyCPU} }

func (proxyReads) take(ctx context.Context, r *run) error {
	s, err := r.routed(ctx)
	if err != nil {
		return err
	}
	m, err := subject(r, "proxy", func() (*member, error) { return r.bareServer(ctx, "proxy", s.node.address) })
	if err != nil {
		return err
	}
	return r.reads(ctx, "bare proxy", []*member{m, s.node}, r.requests, figure4x16{fProxyRate, fProxyP99, fProxyCPU}, figure1x1{})
}

// echo starts a bare server that answers with a reply of the node's, or gives the group's.
func (r *run) echo(ctx context.Context) (*member, error) {
	return subject(r, "echo", func() (*member, error) {
		s, err := r.routed(ctx)
		if err != nil {
			return nil, err
		}
		cc, err := dial(s.node.address)
		if err != nil {
			return nil, err
		}
		defer cc.Close() //nolint:errcheck // nothing is lost
		reply, err := lookup(ctx, cc, r.sample[0])
		if err != nil {
			return nil, err
		}
		text, err := echoReply(reply)
		if err != nil {
			return nil, err
		}
		return r.bareServer(ctx, "echo", hex.EncodeToString(text))
	})
}

// bareServer starts one of the bare servers, which are processes of this executable.
func (r *run) bareServer(ctx context.Context, name, argument string) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	m := &member{name: name, address: address, spec: process.Spec{
		Path: self, Args: []string{"compare", name, address, argument}, Log: r.file(name + ".log"),
	}}
	if err := r.start(m); err != nil {
		return nil, err
	}
	return m, r.awaitServing(ctx, m, r.sample[:1])
}
