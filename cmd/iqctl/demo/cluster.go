package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/cmd/internal/human"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	nodePrefix = "node-"
	// The shortest session that a Kafka with its defaults allows, so that the run is not one long wait for it.
	sessionTimeout   = 6 * time.Second
	rebalanceTimeout = 5 * time.Second

	readyTimeout = time.Minute
	readyPoll    = 50 * time.Millisecond
	readySay     = 5 * time.Second
	askTimeout   = 2 * time.Second // one question about the cluster
)

// startCluster starts router and nodes and waits until every store partition has its active and its standbys.
func (r *run) startCluster(ctx context.Context) error {
	file := filepath.Join(r.dir, "flights.yaml")
	if err := os.WriteFile(file, []byte(r.names.yaml()), 0o600); err != nil {
		return err
	}
	c, err := spawn(r.dir, "router", "demo", "router")
	if err != nil {
		return err
	}
	r.fleet.add(c)
	if r.router, err = c.listens(ctx); err != nil {
		return err
	}
	r.screen.event("router at " + r.router)
	if r.client, err = client.New([]string{r.router}); err != nil {
		return err
	}
	var started []*child
	for i := range r.o.Nodes {
		c, err := r.startNode(nodePrefix + strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		started = append(started, c)
	}
	for _, c := range started {
		address, err := c.listens(ctx)
		if err != nil {
			return err
		}
		r.screen.event(fmt.Sprintf("%s at %s, process %d", c.name, address, c.cmd.Process.Pid))
	}
	return r.awaitCluster(ctx)
}

// startNode starts a node, on the state that its name may have left.
func (r *run) startNode(name string) (*child, error) {
	c, err := spawn(r.dir, name, "demo", "node",
		"--node-id", name, "--topology", filepath.Join(r.dir, "flights.yaml"), "--brokers", r.brokers, "--routers", r.router,
		"--state-dir", filepath.Join(r.dir, name), "--listen", "127.0.0.1:0", "--standbys", strconv.Itoa(r.o.Standbys),
		"--session-timeout", sessionTimeout.String(), "--rebalance-timeout", rebalanceTimeout.String(),
	)
	if err != nil {
		return nil, err
	}
	r.fleet.add(c)
	r.nodes[name] = c
	return c, nil
}

func (r *run) awaitCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	said := time.Now()
	for {
		missing := "the router's answer"
		if instances, err := r.instances(ctx); err == nil {
			missing = cluster.Of(instances).Missing(r.o.Nodes, len(storeNames)*partitions, min(r.o.Standbys, r.o.Nodes-1))
		}
		if missing == "" {
			return nil
		}
		if now := time.Now(); now.Sub(said) >= readySay {
			said = now
			r.screen.event("waiting for " + missing)
		}
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w: waiting for %s; see the logs in %s", err, missing, r.dir)
			}
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (r *run) instances(ctx context.Context) ([]*iqv1.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.client.Instances(ctx, "")
}

// describe is a node in a few words.
func describe(v cluster.Node) string {
	switch {
	case !v.Alive:
		return "gone"
	case v.Suspect:
		return "does not answer"
	case v.Active+v.Standby+v.Restoring+v.Paused == 0:
		return "joining"
	}
	text := fmt.Sprintf("active %d, standby %d", v.Active, v.Standby)
	if v.Restoring > 0 {
		text += fmt.Sprintf(", restoring %d", v.Restoring)
	}
	if v.Paused > 0 {
		text += fmt.Sprintf(", suspended %d", v.Paused)
	}
	if v.Standby > 0 {
		text += fmt.Sprintf("; behind %s offsets / %s", human.Thousands(v.LagOffsets), human.Short(v.LagTime))
	}
	return text
}
