package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/human"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// errDiffers ends a verify that found something. All that is to be said has been printed.
var errDiffers = errors.New("differs")

// verifyFlags are those of verify.
type verifyFlags struct {
	store     string
	partition int32
	rate      int64
	quick     bool
}

func newVerifyCommand(a *app) *cobra.Command {
	f := verifyFlags{partition: -1}
	cmd := &cobra.Command{
		Use:   "verify NODE",
		Short: "Compare a node's replicas with their changelogs and with other nodes",
		Long: `verify compares each replica of a node with what a rebuild from its changelog would give, its files with their
checksums, and its state with that of the other nodes that have one, while all of them serve. NODE is the node's id, as status
shows it; iqctl must reach the nodes at the addresses that they advertise. A replica whose files are damaged is put into
quarantine and rebuilt.

Of each replica it prints the position up to which it was compared, how many ENTRIES it shows, how many of them differ from the
CHANGELOG, and how many other nodes have the same state (OTHERS). Two states at different positions are compared without
the keys that the changelog changes between them.

-o json prints an object a line. Exit code 0 says that all is equal, 8 that something differs or is damaged.`,
		Example: "  iqctl verify node-2\n  iqctl verify node-2 --store by-dest --partition 3 -o json",
		Args:    exactArgs("NODE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVar(&f.store, "store", "", "only this store")
	cmd.Flags().Int32Var(&f.partition, "partition", -1, "only this partition")
	cmd.Flags().Int64Var(&f.rate, "rate", 0, "bytes a second that the node may read from disk, and from Kafka (default 32 MiB, which is the most)")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "compare with other nodes alone")
	return cmd
}

// verifyJSON is one replica.
type verifyJSON struct {
	Store        string           `json:"store"`
	Partition    int32            `json:"partition"`
	Node         string           `json:"node"`
	Role         string           `json:"role"`
	Position     int64            `json:"position"`
	Entries      int64            `json:"entries"`
	Differences  int64            `json:"differences"`
	First        []differenceJSON `json:"first_differences,omitempty"`
	ChangedSince int64            `json:"changed_since"`
	Others       []otherJSON      `json:"others"`
	Equal        bool             `json:"equal"`
	Error        string           `json:"error,omitempty"`
}

type differenceJSON struct {
	Kind    string `json:"kind"`
	KeyHex  string `json:"key_hex"`
	StartMS *int64 `json:"start_ms,omitempty"`
	EndMS   *int64 `json:"end_ms,omitempty"`
}

type otherJSON struct {
	Node     string `json:"node"`
	Position int64  `json:"position"`
	Compared int64  `json:"compared"`
	LeftOut  int64  `json:"left_out"`
	Digest   string `json:"digest,omitempty"`
	Equal    bool   `json:"equal"`
	Error    string `json:"error,omitempty"`
}

func (a *app) verify(ctx context.Context, node string, f verifyFlags) error {
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	instances, err := c.Instances(ctx, "")
	if err != nil {
		return err
	}
	v := &verifying{a: a, f: f, clients: make(map[string]*client.Client)}
	defer v.close()
	at := slices.IndexFunc(instances, func(in *iqv1.Instance) bool { return in.GetNode() == node })
	if at < 0 {
		return fmt.Errorf("node %q is not known", node)
	}
	if !instances[at].GetAlive() {
		return &iqerr.NotReadyError{Node: node, Waiting: "it is not alive"}
	}
	replicas := slices.Clone(instances[at].GetReplicas())
	slices.SortStableFunc(replicas, shape.ByPartition)
	replicas = slices.DeleteFunc(replicas, func(r *iqv1.ReplicaStatus) bool {
		return f.store != "" && r.GetStore() != f.store || f.partition >= 0 && r.GetPartition() != f.partition
	})
	if len(replicas) == 0 {
		return fmt.Errorf("node %q has no such replica", node)
	}
	var results []verifyJSON
	bar := a.newProgress()
	defer bar.clear()
	for n, r := range replicas {
		v.progress = func(m *iqv1.VerifyReplicaResponse) {
			bar.show(n, len(replicas), fmt.Sprintf("%s/%d: %s records, %d MiB of tables", r.GetStore(), r.GetPartition(), human.Thousands(m.GetRecords()), m.GetTableBytes()>>20))
		}
		v.progress(nil) // nothing yet
		res := v.replica(ctx, instances[at], r, others(instances, node, r))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		results = append(results, res)
		if a.json() {
			if err := printLine(a.out, res); err != nil {
				return err
			}
		}
	}
	bar.clear()
	if !a.json() {
		if err := a.printVerified(results); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(results, func(r verifyJSON) bool { return !r.Equal }) {
		return errDiffers
	}
	return nil
}

// others are the nodes beside one that have a running replica of a partition.
func others(instances []*iqv1.Instance, node string, of *iqv1.ReplicaStatus) (all []*iqv1.Instance) {
	for _, in := range instances {
		if in.GetNode() == node || !in.GetAlive() {
			continue
		}
		for _, r := range in.GetReplicas() {
			if r.GetStore() == of.GetStore() && r.GetPartition() == of.GetPartition() && r.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING {
				all = append(all, in)
			}
		}
	}
	return all
}

// verifying is one command's connections to nodes, by address.
type verifying struct {
	a       *app
	f       verifyFlags
	clients map[string]*client.Client

	progress func(*iqv1.VerifyReplicaResponse) // of the replica that is being verified
}

func (v *verifying) close() {
	for _, c := range v.clients {
		_ = c.Close()
	}
}

func (v *verifying) client(address string) (*client.Client, error) {
	if c := v.clients[address]; c != nil {
		return c, nil
	}
	c, err := v.a.clientOf([]string{address})
	if err == nil {
		v.clients[address] = c
	}
	return c, err
}

// replica verifies one replica.
func (v *verifying) replica(ctx context.Context, in *iqv1.Instance, r *iqv1.ReplicaStatus, rest []*iqv1.Instance) verifyJSON {
	res := verifyJSON{
		Store: r.GetStore(), Partition: r.GetPartition(), Node: in.GetNode(), Role: iqerr.RoleName(r.GetRole()), Position: r.GetPosition(),
		Others: []otherJSON{}, Equal: true,
	}
	fail := func(err error) verifyJSON {
		res.Equal, res.Error = false, oneLine(err.Error())
		return res
	}
	c, err := v.client(in.GetAddress())
	if err != nil {
		return fail(err)
	}
	if !v.f.quick {
		got, err := c.VerifyReplica(ctx, &iqv1.VerifyReplicaRequest{Store: r.GetStore(), Partition: r.GetPartition(), MaxBytesPerSecond: v.f.rate}, v.progress)
		if err != nil {
			return fail(err)
		}
		res.Position, res.Entries, res.Differences, res.ChangedSince = got.GetPosition(), got.GetEntries(), got.GetDifferences(), got.GetChangedSince()
		for _, d := range got.GetFirst() {
			res.First = append(res.First, differenceJSON{differenceName(d.GetKind()), hex.EncodeToString(d.GetKey()), d.StartMs, d.EndMs})
		}
		res.Equal = res.Differences == 0
	}
	if len(rest) > 0 {
		if err := v.compare(ctx, c, &res, rest); err != nil {
			return fail(err)
		}
	}
	return res
}

// compare compares the replica's state with others'.
func (v *verifying) compare(ctx context.Context, c *client.Client, res *verifyJSON, rest []*iqv1.Instance) error {
	nodes := []*client.Client{c}
	for _, in := range rest {
		other, err := v.client(in.GetAddress())
		if err != nil {
			return err
		}
		nodes = append(nodes, other)
	}
	states, equal := client.CompareReplicas(ctx, res.Store, res.Partition, nodes)
	own := states[0]
	if own.Err != nil {
		return own.Err
	}
	if v.f.quick {
		res.Position, res.Entries = own.Status.GetPosition(), own.Entries+own.LeftOut
	}
	for i, s := range states[1:] {
		o := otherJSON{Node: rest[i].GetNode(), Position: s.Status.GetPosition(), Compared: s.Entries, LeftOut: s.LeftOut, Digest: hex.EncodeToString(s.Digest)}
		if s.Err != nil {
			o.Error = oneLine(s.Err.Error())
		} else {
			o.Equal = slices.Equal(s.Digest, own.Digest)
		}
		res.Others = append(res.Others, o)
	}
	res.Equal = res.Equal && equal
	return nil
}

func differenceName(k iqv1.VerifyDifference_Kind) string {
	name := strings.TrimPrefix(k.String(), "KIND_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

func (a *app) printVerified(results []verifyJSON) error {
	p := &printer{w: a.out}
	var rows [][]string
	for _, r := range results {
		log, same, asked := strconv.FormatInt(r.Differences, 10)+" differ", 0, 0
		if r.Differences == 0 {
			log = "equal"
		}
		for _, o := range r.Others {
			if asked++; o.Equal {
				same++
			}
		}
		nodes := fmt.Sprintf("%d of %d equal", same, asked)
		if r.Error != "" {
			log, nodes = "failed", "-"
		}
		rows = append(rows, []string{
			r.Store, strconv.Itoa(int(r.Partition)), r.Role, strconv.FormatInt(r.Position, 10), strconv.FormatInt(r.Entries, 10), log, nodes,
		})
	}
	p.table([]string{"STORE", "PARTITION", "ROLE", "POSITION", "ENTRIES", "CHANGELOG", "OTHERS"}, rows)
	for _, r := range results {
		where := fmt.Sprintf("%s/%d: ", r.Store, r.Partition)
		if r.Error != "" {
			p.line(where + r.Error)
		}
		for _, d := range r.First {
			at := ""
			if d.StartMS != nil {
				at = fmt.Sprintf(" from %d", *d.StartMS)
			}
			p.line(where + d.Kind + " key 0x" + d.KeyHex + at)
		}
		for _, o := range r.Others {
			if !o.Equal {
				p.line(where + o.Node + ": " + cmp.Or(o.Error, "another state"))
			}
		}
	}
	return p.err
}
