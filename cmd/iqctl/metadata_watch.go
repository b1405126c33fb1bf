package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func newMetadataWatchCommand(a *app) *cobra.Command {
	var (
		store    string
		interval time.Duration
		lags     bool
		count    int64
	)
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print each change of who hosts what, as it comes",
		Long: `watch prints the nodes, replicas and stores, and then each change of them: nodes that come, go, drain or fall silent,
replicas that change their role or state, and stores; with --lags also how far behind each replica is. It goes on until Ctrl-C or
--count lines, at another router when one breaks off.

-o json prints each message as an object a line: "instances" are those that changed, and "snapshot" says that what was told
before is void.`,
		Example: "  iqctl metadata watch\n  iqctl metadata watch --store by-dest --lags --lag-interval 1s",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 0 || count < 0 {
				return usage(cmd, errors.New("--lag-interval and --count must not be negative"))
			}
			return a.watchMetadata(cmd.Context(), store, interval, lags, count)
		},
	}
	f := cmd.Flags()
	f.StringVar(&store, "store", "", "only this store, and the nodes that host it")
	f.DurationVar(&interval, "lag-interval", time.Second, "the shortest time between two reports of lags alone, from 10ms")
	f.BoolVar(&lags, "lags", false, "print lags too")
	f.Int64Var(&count, "count", 0, "end after so many lines, in JSON messages (default: never)")
	return cmd
}

// metadataJSON is one message of a metadata watch.
type metadataJSON struct {
	Version   int64          `json:"version"`
	Snapshot  bool           `json:"snapshot"`
	Instances []instanceJSON `json:"instances"`
	Gone      []string       `json:"gone"`
	Stores    []string       `json:"stores"`
}

func (a *app) watchMetadata(ctx context.Context, store string, interval time.Duration, lags bool, most int64) error {
	ended := ctx // by Ctrl-C
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	p := &printer{w: a.out}
	told := facts{}
	var n int64
	for m, err := range c.WatchMetadata(ctx, store, interval) {
		if err != nil {
			if errors.Is(err, context.Canceled) && ended.Err() != nil {
				return nil
			}
			return err
		}
		lines := told.changes(m, lags)
		if a.json() {
			if err := printLine(a.out, metadataShape(m)); err != nil {
				return err
			}
			lines = []string{""} // it counts as one
		}
		for _, line := range lines {
			if !a.json() {
				p.line(line)
			}
			if n++; n == most || p.err != nil {
				return p.err
			}
		}
	}
	return p.err
}

func metadataShape(m *iqv1.WatchMetadataResponse) metadataJSON {
	s := metadataJSON{Version: m.GetVersion(), Snapshot: m.GetSnapshot(), Instances: []instanceJSON{}, Gone: append([]string{}, m.GetGone()...), Stores: []string{}}
	for _, i := range m.GetInstances() {
		s.Instances = append(s.Instances, instanceShape(i))
	}
	for _, st := range m.GetStores() {
		s.Stores = append(s.Stores, st.GetName())
	}
	return s
}

// facts are what a metadata watch has told, each in words, by what it is about: a node, a replica, a store.
type facts map[string]fact

type fact struct {
	text string
	node string // whose it is; empty for stores
}

// changes takes a message in, and gives a line for each fact that it has changed.
func (f facts) changes(m *iqv1.WatchMetadataResponse, lags bool) []string {
	now := maps.Clone(f)
	if m.GetSnapshot() {
		clear(now)
	}
	forget := func(node string) {
		maps.DeleteFunc(now, func(_ string, x fact) bool { return x.node == node })
	}
	if len(m.GetStores()) > 0 {
		forget("")
	}
	for _, s := range m.GetStores() {
		now["store "+s.GetName()] = fact{text: fmt.Sprintf("%s partitions, %s, partitioner %s", partitionsText(s), s.GetKind(), s.GetPartitioner())}
	}
	for _, id := range m.GetGone() {
		forget(id)
	}
	for _, i := range m.GetInstances() {
		forget(i.GetNode())
		state := shape.StateOf(i)
		if i.GetDraining() {
			state += ", draining"
		}
		now["node "+i.GetNode()] = fact{fmt.Sprintf("%s at %s, generation %d", state, i.GetAddress(), i.GetGeneration()), i.GetNode()}
		for _, r := range i.GetReplicas() {
			text := iqerr.RoleName(r.GetRole()) + ", " + iqerr.StateName(r.GetState())
			if lag := iqerr.Lag(r); lags && lag != "" {
				text += ", " + lag + " behind"
			}
			now[fmt.Sprintf("replica %s/%s on %s", r.GetStore(), strconv.Itoa(int(r.GetPartition())), i.GetNode())] = fact{text, i.GetNode()}
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, ok := now[name]; !ok {
			lines = append(lines, name+": gone")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := f[name]; !ok || was.text != now[name].text {
			lines = append(lines, name+": "+now[name].text)
		}
	}
	clear(f)
	maps.Copy(f, now)
	return lines
}
