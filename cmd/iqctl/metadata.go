package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func newMetadataCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metadata",
		Short: "Show the stores, who hosts what, and where a key lives",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStoresCommand(a), newInstancesCommand(a), newKeyCommand(a), newMetadataWatchCommand(a))
	return cmd
}

func newStoresCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stores",
		Short: "List the stores with their partitions, formats and partitioner",
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.stores(cmd.Context()) },
	}
}

type storeJSON struct {
	Name             string   `json:"name"`
	Partitions       int32    `json:"partitions"`
	ActualPartitions int32    `json:"actual_partitions"`
	Kind             string   `json:"kind"`
	KeySerde         string   `json:"key_serde"`
	ValueSerde       string   `json:"value_serde"`
	Partitioner      string   `json:"partitioner"`
	Changelog        string   `json:"changelog"`
	SourceTopics     []string `json:"source_topics"`
}

func (a *app) stores(ctx context.Context) error {
	ctx, c, done, err := a.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer done()
	stores, err := c.Stores(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(stores, func(x, y *iqv1.StoreInfo) int { return strings.Compare(x.GetName(), y.GetName()) })
	shapes, rows := make([]storeJSON, 0, len(stores)), [][]string{}
	for _, s := range stores {
		shapes = append(shapes, storeJSON{
			Name: s.GetName(), Partitions: s.GetPartitions(), ActualPartitions: s.GetActualPartitions(), Kind: s.GetKind(), KeySerde: s.GetKeySerde(),
			ValueSerde: s.GetValueSerde(), Partitioner: s.GetPartitioner(), Changelog: s.GetChangelog(), SourceTopics: append([]string{}, s.GetSourceTopics()...),
		})
		rows = append(rows, []string{
			s.GetName(), partitionsText(s), s.GetKind(), s.GetKeySerde(), s.GetValueSerde(), s.GetPartitioner(), s.GetChangelog(),
			strings.Join(s.GetSourceTopics(), ","),
		})
	}
	if a.json() {
		return printJSON(a.out, map[string]any{"stores": shapes})
	}
	p := &printer{w: a.out}
	if len(rows) == 0 {
		p.line("no stores")
		return p.err
	}
	p.table([]string{"STORE", "PARTITIONS", "KIND", "KEY", "VALUE", "PARTITIONER", "CHANGELOG", "SOURCES"}, rows)
	return p.err
}

// partitionsText shows a topic whose partition count has changed, since reads are refused then.
func partitionsText(s *iqv1.StoreInfo) string {
	text := strconv.Itoa(int(s.GetPartitions()))
	if have := s.GetActualPartitions(); have != 0 && have != s.GetPartitions() {
		text += fmt.Sprintf(" (topic has %d)", have)
	}
	return text
}

func newInstancesCommand(a *app) *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use:   "instances",
		Short: "List the nodes with the store partitions that each holds",
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.instances(cmd.Context(), store) },
	}
	cmd.Flags().StringVar(&store, "store", "", "only nodes that host this store, and only its partitions")
	return cmd
}

type instanceJSON struct {
	nodeSummary
	shape.Holdings
}

func (a *app) instances(ctx context.Context, store string) error {
	ctx, c, done, err := a.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer done()
	instances, err := c.Instances(ctx, store)
	if err != nil {
		return err
	}
	slices.SortStableFunc(instances, byNode)
	shapes, rows := make([]instanceJSON, 0, len(instances)), [][]string{}
	for _, i := range instances {
		shapes = append(shapes, instanceShape(i))
		rows = append(rows, []string{i.GetNode(), i.GetAddress(), i.GetRack(), shape.StateOf(i), held(i, store, true), held(i, store, false)})
	}
	if a.json() {
		return printJSON(a.out, map[string]any{"instances": shapes})
	}
	p := &printer{w: a.out}
	if len(rows) == 0 {
		p.line("no nodes")
		return p.err
	}
	p.table([]string{"NODE", "ADDRESS", "RACK", "STATE", "ACTIVE", "STANDBY"}, rows)
	return p.err
}

func instanceShape(i *iqv1.Instance) instanceJSON {
	return instanceJSON{nodeSummary: summarise(i), Holdings: shape.HoldingsOf(i)}
}

// held lists the store partitions that a node holds as active, or otherwise: "by-carrier 0,2; by-dest 1". Where no
// replica was told it lists the stores alone.
func held(i *iqv1.Instance, store string, active bool) string {
	if !tellsReplicas(i) {
		if active {
			return strings.Join(i.GetActiveStores(), "; ")
		}
		return strings.Join(i.GetStandbyStores(), "; ")
	}
	replicas := slices.SortedStableFunc(slices.Values(i.GetReplicas()), shape.ByPartition)
	var b strings.Builder
	last := ""
	for _, r := range replicas {
		if (r.GetRole() == iqv1.Role_ROLE_ACTIVE) != active || store != "" && r.GetStore() != store {
			continue
		}
		switch {
		case b.Len() == 0:
			b.WriteString(r.GetStore() + " ")
		case r.GetStore() != last:
			b.WriteString("; " + r.GetStore() + " ")
		default:
			b.WriteString(",")
		}
		last = r.GetStore()
		b.WriteString(strconv.Itoa(int(r.GetPartition())))
	}
	return b.String()
}

func newKeyCommand(a *app) *cobra.Command {
	var (
		r           readFlags
		partitioner string
	)
	cmd := &cobra.Command{
		Use:   "key STORE KEY",
		Short: "Show the partition or partitions of a key, with their active and standbys",
		Long: `key shows the partition or partitions of a key, with their active and standbys. With --wait it asks again while the
answer is NOT_READY. --partitioner finds the partitions by another partitioner than the store's, which the server must know.`,
		Example: "  iqctl metadata key by-dest ATL\n  iqctl metadata key by-dest ATL --partitioner crc32",
		Args:    exactArgs("STORE", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.wait < 0 {
				return usage(cmd, fmt.Errorf("--wait %s: must not be negative", r.wait))
			}
			return a.key(cmd.Context(), &r, partitioner, args[0], args[1])
		},
	}
	r.addKeyFormat(cmd)
	r.addHex(cmd)
	cmd.Flags().DurationVar(&r.wait, "wait", 0, "how long to ask again while nobody knows the store yet")
	cmd.Flags().StringVar(&partitioner, "partitioner", "", "find the partitions by this partitioner (default: the store's)")
	return cmd
}

func (a *app) key(ctx context.Context, r *readFlags, partitioner, store, keyText string) error {
	ctx, c, done, err := a.connect(ctx, r.wait)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	key, err := r.key(ctx, c, store, keyText)
	if err != nil {
		return err
	}
	var partitions []*iqv1.KeyPartition
	err = whileNotReady(ctx, r.wait-time.Since(start), func() (iqv1.Reason, error) {
		partitions, err = c.QueryKeyBy(ctx, store, key, partitioner)
		return iqerr.ReasonOf(err), err
	})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, kp := range partitions {
		if kp.GetActive() == nil {
			rows = append(rows, []string{strconv.Itoa(int(kp.GetPartition())), "active", "(nobody)", "", "", "", ""})
		}
		for _, s := range append([]*iqv1.ReplicaStatus{kp.GetActive()}, kp.GetStandbys()...) {
			if s != nil {
				rows = append(rows, []string{
					strconv.Itoa(int(kp.GetPartition())), iqerr.RoleName(s.GetRole()), s.GetNode(), s.GetAddress(), iqerr.StateName(s.GetState()),
					offsetLag(s), timeLag(s),
				})
			}
		}
	}
	if a.json() {
		return printJSON(a.out, map[string]any{"store": store, "key": keyText, "partitions": shape.KeyPartitionsOf(partitions)})
	}
	p := &printer{w: a.out}
	if len(rows) == 0 {
		p.line("no partition: the store's partitioner drops this key")
		return p.err
	}
	p.table([]string{"PARTITION", "ROLE", "NODE", "ADDRESS", "STATE", "OFFSET LAG", "TIME LAG"}, rows)
	return p.err
}
