package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
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
group, and its log says for which. A node that drains hands its tasks over before it ends. A replica that is suspended has a task that stopped, or a node that is dead; those of
nodes that live are named below the table, and the node's log says why. So are input partitions with records that lookups by key
cannot find, because another partitioner than the store's put them there, and sinks whose partitioner has dropped records.`,
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
		state := n.State
		if n.Draining {
			state += ", draining"
		}
		rows = append(rows, []string{
			n.Node, n.Address, n.Rack, state, strconv.FormatInt(n.Generation, 10), n.heard, count(n.Active), count(n.Standby),
			count(n.Restoring), count(n.Suspended), n.worst,
		})
	}
	p.table([]string{"NODE", "ADDRESS", "RACK", "STATE", "GENERATION", "HEARD", "ACTIVE", "STANDBY", "RESTORING", "SUSPENDED", "FURTHEST BEHIND"}, rows)
	p.line(countsText(len(all), counts))
	if text := suspendedText(instances); text != "" {
		p.line(text)
	}
	for _, line := range recordsText(instances) {
		p.line(line)
	}
	return p.err
}

// maxRecordLines bounds the lines about misplaced and dropped records, each.
const maxRecordLines = 16

// recordsText says which input partitions have misplaced records, by the nodes that process them, and which sinks have dropped
// some.
func recordsText(instances []*iqv1.Instance) []string {
	var misplaced, dropped []string
	for _, i := range instances {
		for _, m := range i.GetMisplaced() {
			misplaced = append(misplaced, fmt.Sprintf("misplaced: %s of %s/%d on %s are not where lookups in %s look; the first, at offset %d, belongs in %s",
				recordCount(m.GetRecords()), m.GetTopic(), m.GetPartition(), i.GetNode(), m.GetStore(), m.GetFirstOffset(), expectedText(m.GetExpected())))
		}
		for _, d := range i.GetDropped() {
			dropped = append(dropped, fmt.Sprintf("dropped: %s for %s by the partitioner of sink %s on %s", recordCount(d.GetRecords()), d.GetTopic(), d.GetSink(), i.GetNode()))
		}
	}
	return append(clipped(misplaced), clipped(dropped)...)
}

func clipped(lines []string) []string {
	if more := len(lines) - maxRecordLines; more > 0 {
		return append(lines[:maxRecordLines], fmt.Sprintf("and %d more", more))
	}
	return lines
}

func recordCount(n int64) string {
	if n == 1 {
		return "1 record"
	}
	return strconv.FormatInt(n, 10) + " records"
}

func expectedText(partitions []int32) string {
	if len(partitions) == 0 {
		return "no partition"
	}
	var names []string
	for _, p := range partitions {
		names = append(names, strconv.Itoa(int(p)))
	}
	return "partition " + strings.Join(names, " and ")
}

func byNode(a, b *iqv1.Instance) int { return strings.Compare(a.GetNode(), b.GetNode()) }

func countsText(total int, counts map[string]int) string {
	text := fmt.Sprintf("%d nodes", total)
	if total == 1 {
		text = "1 node"
	}
	var parts []string
	for _, state := range []string{shape.Alive, shape.Suspect, shape.Dead} {
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
		for _, r := range slices.SortedStableFunc(slices.Values(i.GetReplicas()), shape.ByPartition) {
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

// nodeSummary is a node in one row.
type nodeSummary struct {
	shape.Member

	Active       *int     `json:"active"`
	Standby      *int     `json:"standby"`
	Restoring    *int     `json:"restoring"`
	Suspended    *int     `json:"suspended"`
	MaxOffsetLag *int64   `json:"max_offset_lag"`
	MaxTimeLagMs *float64 `json:"max_time_lag_ms"`

	Misplaced []misplacedJSON `json:"misplaced,omitempty"`
	Dropped   []droppedJSON   `json:"dropped,omitempty"`

	heard, worst string
}

type misplacedJSON struct {
	Store       string  `json:"store"`
	Topic       string  `json:"topic"`
	Partition   int32   `json:"partition"`
	Records     int64   `json:"records"`
	FirstOffset int64   `json:"first_offset"`
	FirstKey    string  `json:"first_key"`
	Expected    []int32 `json:"expected"`
}

type droppedJSON struct {
	Sink    string `json:"sink"`
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// summarise counts replicas, warm-ups as standbys. A node that is not alive has no lags: the last ones it told are old.
// A node that was asked tells of its own replicas; of the others it knows the stores and no counts.
func summarise(i *iqv1.Instance) nodeSummary {
	n := nodeSummary{Member: shape.MemberOf(i), heard: duration(i.GetLastHeard()), worst: unknown}
	for _, m := range i.GetMisplaced() {
		n.Misplaced = append(n.Misplaced, misplacedJSON{
			Store: m.GetStore(), Topic: m.GetTopic(), Partition: m.GetPartition(), Records: m.GetRecords(), FirstOffset: m.GetFirstOffset(),
			FirstKey: asBytes(m.GetFirstKey()), Expected: append([]int32{}, m.GetExpected()...),
		})
	}
	for _, d := range i.GetDropped() {
		n.Dropped = append(n.Dropped, droppedJSON{Sink: d.GetSink(), Topic: d.GetTopic(), Records: d.GetRecords()})
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
		n.MaxOffsetLag, n.MaxTimeLagMs, n.worst = worst.OffsetLag, shape.Millis(worst.GetTimeLag()), orUnknown(iqerr.Lag(worst))
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
