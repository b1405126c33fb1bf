package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/client"
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
			missing = clusterOf(instances).missing(r.o.Nodes, min(r.o.Standbys, r.o.Nodes-1))
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

// partition is a store's partition.
type partition struct {
	store  string
	number int32
}

// A cluster is who holds what, as the router sees it.
type cluster struct {
	nodes   []nodeView           // by name
	actives map[partition]string // the node of the running active
	running map[partition]int    // running standbys
}

// nodeView is one node: its replicas by what they are, and the largest lags of the running standbys.
type nodeView struct {
	name                               string
	alive, suspect                     bool
	active, standby, restoring, paused int
	lagOffsets                         int64
	lagTime                            time.Duration
}

func clusterOf(instances []*iqv1.Instance) *cluster {
	c := &cluster{actives: map[partition]string{}, running: map[partition]int{}}
	for _, in := range instances {
		v := nodeView{name: in.GetNode(), alive: in.GetAlive(), suspect: in.GetSuspect()}
		for _, s := range in.GetReplicas() {
			p := partition{s.GetStore(), s.GetPartition()}
			switch s.GetState() {
			case iqv1.ReplicaState_REPLICA_STATE_RUNNING:
				if s.GetRole() == iqv1.Role_ROLE_ACTIVE {
					v.active++
					if v.alive && !v.suspect && s.GetLeaseValid() {
						c.actives[p] = v.name
					}
					continue
				}
				v.standby++
				if v.alive && !v.suspect {
					c.running[p]++
				}
				v.lagOffsets = max(v.lagOffsets, s.GetOffsetLag())
				v.lagTime = max(v.lagTime, s.GetTimeLag().AsDuration())
			case iqv1.ReplicaState_REPLICA_STATE_RESTORING:
				v.restoring++
			case iqv1.ReplicaState_REPLICA_STATE_SUSPENDED:
				v.paused++
			case iqv1.ReplicaState_REPLICA_STATE_CLOSED, iqv1.ReplicaState_REPLICA_STATE_UNSPECIFIED:
			}
		}
		c.nodes = append(c.nodes, v)
	}
	slices.SortFunc(c.nodes, func(a, b nodeView) int { return cmp.Compare(a.name, b.name) })
	return c
}

// missing says what the cluster lacks of so many nodes and standbys, or nothing.
func (c *cluster) missing(nodes, standbys int) string {
	alive := 0
	for _, v := range c.nodes {
		if v.alive {
			alive++
		}
	}
	if alive < nodes {
		return fmt.Sprintf("nodes: %d of %d report", alive, nodes)
	}
	all := len(storeNames) * partitions
	copies := 0
	for _, n := range c.running {
		copies += min(n, standbys)
	}
	if len(c.actives) < all || copies < all*standbys {
		return fmt.Sprintf("replicas: %d of %d actives and %d of %d standbys are running", len(c.actives), all, copies, all*standbys)
	}
	return ""
}

// find gives the view of a node.
func (c *cluster) find(name string) (nodeView, bool) {
	i := slices.IndexFunc(c.nodes, func(v nodeView) bool { return v.name == name })
	if i < 0 {
		return nodeView{}, false
	}
	return c.nodes[i], true
}

// busiest is the node with the most actives, of equal ones the first by name.
func (c *cluster) busiest() (name string, of []partition) {
	held := map[string][]partition{}
	for p, n := range c.actives {
		held[n] = append(held[n], p)
	}
	for n, ps := range held {
		if len(ps) > len(of) || len(ps) == len(of) && strings.Compare(n, name) < 0 {
			name, of = n, ps
		}
	}
	slices.SortFunc(of, func(a, b partition) int {
		return cmp.Or(cmp.Compare(a.store, b.store), cmp.Compare(a.number, b.number))
	})
	return name, of
}

// String is the node in a few words.
func (v nodeView) String() string {
	switch {
	case !v.alive:
		return "gone"
	case v.suspect:
		return "does not answer"
	case v.active+v.standby+v.restoring+v.paused == 0:
		return "joining"
	}
	text := fmt.Sprintf("active %d, standby %d", v.active, v.standby)
	if v.restoring > 0 {
		text += fmt.Sprintf(", restoring %d", v.restoring)
	}
	if v.paused > 0 {
		text += fmt.Sprintf(", suspended %d", v.paused)
	}
	if v.standby > 0 {
		text += fmt.Sprintf("; behind %s offsets / %s", thousands(v.lagOffsets), short(v.lagTime))
	}
	return text
}
