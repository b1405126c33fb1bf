package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	store = "counts"
	// gcPercent of the processes that do not choose it themselves: the load generator and the bare servers. The product's
	// programs choose the same.
	gcPercent = 400

	topologyYAML = `application: %s
sources:
  - {topic: %s, format: raw, value_serde: string}
aggregates:
  - {store: ` + store + `, source: %[2]s, count: true}
`
	// restorePoll is the time between two looks at how far a restore is.
	restorePoll = 5 * time.Millisecond
	// maxMissedShare of the records, one in so many, may be restored before the first look.
	maxMissedShare = 20
)

// changelogOf is the topic that an application's store is restored from.
func changelogOf(app string) string { return app + "-" + store + "-changelog" }

// node is a node of an application that counts by key, not yet started.
func (r *run) node(app, name, topic string, standbys int, routers ...string) (*member, error) {
	return r.nodeOf(app, name, fmt.Sprintf(topologyYAML, app, topic), standbys, routers...)
}

// nodeOf is a node of an application with a topology, not yet started.
func (r *run) nodeOf(app, name, topology string, standbys int, routers ...string) (*member, error) {
	file := r.file(app + ".yaml")
	if err := os.WriteFile(file, []byte(topology), 0o600); err != nil {
		return nil, err
	}
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--node-id", name, "--topology", file, "--brokers", r.brokers, "--state-dir", r.stateOf(app, name), "--listen", address,
		"--standbys", strconv.Itoa(standbys), "--log-level", "warn",
	}
	if len(routers) > 0 {
		args = append(args, "--routers", strings.Join(routers, ","))
	}
	return &member{name: app + " " + name, address: address, spec: process.Spec{Path: filepath.Join(r.bin, "iqnode"), Args: args, Log: r.file(app + "-" + name + ".log")}}, nil
}

// stateOf is where a node has its stores.
func (r *run) stateOf(app, name string) string { return r.file(app + "-" + name) }

// router starts a router.
func (r *run) router() (*member, error) {
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	m := &member{name: "router", address: address, spec: process.Spec{
		Path: filepath.Join(r.bin, "iqrouter"), Args: []string{"--listen", address, "--name", "router", "--log-level", "warn"}, Log: r.file("router.log"),
	}}
	return m, r.start(m)
}

// fullNode starts a node that reports to a router, and waits until it has processed all of the input.
func (r *run) fullNode(ctx context.Context, routers ...string) (*member, error) {
	app := r.app("node")
	m, err := r.node(app, "node-1", events, 0, routers...)
	if err != nil {
		return nil, err
	}
	if err := r.start(m); err != nil {
		return nil, err
	}
	if _, err := r.awaitProcessed(ctx, m, app); err != nil {
		return nil, err
	}
	return m, r.awaitServing(ctx, m, r.sample)
}

// routed is a node with everything behind a router.
type routed struct{ node, router *member }

// routed starts a router and a node, or gives those that the group has.
func (r *run) routed(ctx context.Context) (routed, error) {
	return subject(r, "routed", func() (routed, error) {
		r.say("starting a router and a node")
		router, err := r.router()
		if err != nil {
			return routed{}, err
		}
		node, err := r.fullNode(ctx, router.address)
		if err != nil {
			return routed{}, err
		}
		return routed{node, router}, r.awaitServing(ctx, router, r.sample)
	})
}

// dialFor connects a client that decodes what it is told.
func dialFor(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// restoreRate follows the restore of a node that was started at begin, by what the node tells: from the moment at which it
// has the first replica until all that the changelog holds is applied. A restore of which the first look has missed more
// than a little counts from begin, which is less than what is true and never more.
func (r *run) restoreRate(ctx context.Context, m *member, app string, begin time.Time) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, servingTimeout, fmt.Errorf("%s is not restored after %s", m.name, servingTimeout))
	defer cancel()
	end, err := r.records(ctx, changelogOf(app))
	if err != nil {
		return 0, err
	}
	cc, err := dialFor(m.address)
	if err != nil {
		return 0, err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	ask := iqv1.NewMetadataServiceClient(cc)
	first := int64(-1)
	var at time.Time
	for {
		actx, cancel := context.WithTimeout(ctx, tryTimeout)
		reply, err := ask.ListLags(actx, &iqv1.ListLagsRequest{Store: store}, grpc.WaitForReady(true))
		cancel()
		now := time.Now()
		var sum int64
		for _, s := range reply.GetReplicas() {
			sum += max(0, s.GetPosition())
		}
		switch {
		case err != nil || len(reply.GetReplicas()) == 0:
		case first < 0 && sum > end/maxMissedShare:
			first, at = 0, begin
		case first < 0:
			first, at = sum, now
		}
		if first >= 0 && sum >= end {
			return float64(sum-first) / now.Sub(at).Seconds(), nil
		}
		if err := m.ended(); err != nil {
			return 0, err
		}
		if !sleep(ctx, restorePoll) {
			return 0, context.Cause(ctx)
		}
	}
}
