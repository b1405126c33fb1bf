package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func newStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the nodes: alive, suspect or dead, and how far behind their copies are",
		Long: `status shows the nodes: whether they are alive, suspect (heartbeats overdue or a connection refused) or dead; the
newest group generation that each has seen; how many actives and standbys it holds, and how many of those are restoring
or suspended; and the lag of the replica that is furthest behind. A node without any waits for Kafka, its topics or the
group, and its log says for which. A replica that is suspended has a task that stopped, or a node that is dead; those of
nodes that live are named below the table, and the node's log says why.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	ctx, c, done, err := a.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer done()
	instances, err := c.Instances(ctx, "")
	if err != nil {
		return err
	}
	slices.SortStableFunc(instances, byNode)
	all := make([]nodeSummary, 0, len(instances))
	for _, i := range instances {
		all = append(all, summarise(i))
	}
	if a.json() {
		return printJSON(a.out, map[string]any{"instances": all})
	}
	p := &printer{w: a.out}
	if len(all) == 0 {
		p.line("no nodes")
		return p.err
	}
	var rows [][]string
	counts := map[string]int{}
	for _, n := range all {
		counts[n.State]++
		rows = append(rows, []string{
			n.Node, n.Address, n.Rack, n.State, strconv.FormatInt(n.Generation, 10), n.heard, count(n.Active), count(n.Standby),
			count(n.Restoring), count(n.Suspended), n.worst,
		})
	}
	p.table([]string{"NODE", "ADDRESS", "RACK", "STATE", "GENERATION", "HEARD", "ACTIVE", "STANDBY", "RESTORING", "SUSPENDED", "FURTHEST BEHIND"}, rows)
	p.line(countsText(len(all), counts))
	if text := suspendedText(instances); text != "" {
		p.line(text)
	}
	return p.err
}

func byNode(a, b *iqv1.Instance) int { return strings.Compare(a.GetNode(), b.GetNode()) }

func countsText(total int, counts map[string]int) string {
	text := fmt.Sprintf("%d nodes", total)
	if total == 1 {
		text = "1 node"
	}
	var parts []string
	for _, state := range []string{stateAlive, stateSuspect, stateDead} {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return text + ": " + strings.Join(parts, ", ")
}

// maxSuspendedNamed bounds the replicas that the line about suspended ones names.
const maxSuspendedNamed = 16

// suspendedText names the suspended replicas of nodes that live; empty when there is none.
func suspendedText(instances []*iqv1.Instance) string {
	var names []string
	for _, i := range instances {
		for _, r := range slices.SortedStableFunc(slices.Values(i.GetReplicas()), byPartition) {
			if i.GetAlive() && r.GetState() == iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
				names = append(names, fmt.Sprintf("%s/%d (%s) on %s", r.GetStore(), r.GetPartition(), iqerr.RoleName(r.GetRole()), i.GetNode()))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - maxSuspendedNamed; more > 0 {
		names = append(names[:maxSuspendedNamed], fmt.Sprintf("and %d more", more))
	}
	return "suspended: " + strings.Join(names, ", ")
}

// States of a node, as the router sees it.
const (
	stateAlive   = "alive"
	stateSuspect = "suspect"
	stateDead    = "dead"
)

// nodeSummary is a node in one row.
type nodeSummary struct {
	Node         string   `json:"node"`
	Address      string   `json:"address"`
	Rack         string   `json:"rack"`
	State        string   `json:"state"`
	Incarnation  int64    `json:"incarnation"`
	Generation   int64    `json:"generation"`
	LastHeardMs  *float64 `json:"last_heard_ms"`
	Active       *int     `json:"active"`
	Standby      *int     `json:"standby"`
	Restoring    *int     `json:"restoring"`
	Suspended    *int     `json:"suspended"`
	MaxOffsetLag *int64   `json:"max_offset_lag"`
	MaxTimeLagMs *float64 `json:"max_time_lag_ms"`

	heard, worst string
}

// summarise counts replicas, warm-ups as standbys. A node that is not alive has no lags: the last ones it told are old.
// A node that was asked tells of its own replicas; of the others it knows the stores and no counts.
func summarise(i *iqv1.Instance) nodeSummary {
	n := nodeSummary{
		Node: i.GetNode(), Address: i.GetAddress(), Rack: i.GetRack(), State: stateOf(i), Incarnation: i.GetIncarnation(),
		Generation: i.GetGeneration(), LastHeardMs: millis(i.GetLastHeard()), heard: duration(i.GetLastHeard()), worst: unknown,
	}
	if !tellsReplicas(i) {
		return n
	}
	worst := &iqv1.ReplicaStatus{}
	var active, standby, restoring, suspended int
	for _, r := range i.GetReplicas() {
		switch r.GetRole() {
		case iqv1.Role_ROLE_ACTIVE:
			active++
		case iqv1.Role_ROLE_STANDBY, iqv1.Role_ROLE_WARMUP:
			standby++
		case iqv1.Role_ROLE_UNSPECIFIED:
		}
		switch r.GetState() {
		case iqv1.ReplicaState_REPLICA_STATE_RESTORING:
			restoring++
		case iqv1.ReplicaState_REPLICA_STATE_SUSPENDED:
			suspended++
		case iqv1.ReplicaState_REPLICA_STATE_UNSPECIFIED, iqv1.ReplicaState_REPLICA_STATE_RUNNING, iqv1.ReplicaState_REPLICA_STATE_CLOSED:
		}
		if r.OffsetLag != nil && (worst.OffsetLag == nil || r.GetOffsetLag() > worst.GetOffsetLag()) {
			worst.OffsetLag = r.OffsetLag
		}
		if r.GetTimeLag() != nil && (worst.GetTimeLag() == nil || r.GetTimeLag().AsDuration() > worst.GetTimeLag().AsDuration()) {
			worst.TimeLag = r.GetTimeLag()
		}
	}
	n.Active, n.Standby, n.Restoring, n.Suspended = &active, &standby, &restoring, &suspended
	if i.GetAlive() {
		n.MaxOffsetLag, n.MaxTimeLagMs, n.worst = worst.OffsetLag, millis(worst.GetTimeLag()), orUnknown(iqerr.Lag(worst))
	}
	return n
}

// tellsReplicas is false for an instance that hosts stores and of which no replica was told.
func tellsReplicas(i *iqv1.Instance) bool {
	return len(i.GetReplicas()) > 0 || len(i.GetActiveStores())+len(i.GetStandbyStores()) == 0
}

func count(n *int) string {
	if n == nil {
		return unknown
	}
	return strconv.Itoa(*n)
}

func stateOf(i *iqv1.Instance) string {
	switch {
	case !i.GetAlive():
		return stateDead
	case i.GetSuspect():
		return stateSuspect
	}
	return stateAlive
}
