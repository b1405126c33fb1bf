package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/assign"
	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/topology"
)

// Replica mode: a node that runs no tasks and follows the changelogs of an application that runs elsewhere. It differs from
// a node with a topology in this:
//
//   - The tasks are those of the stores followed, each store a sub-topology of its own. They are planned by the same
//     function; whom the plan makes the active has nothing but the first copy (withoutActives).
//   - The nodes have a group of their own and read the application's: its committed input offsets tell what a copy has seen.
//   - Nothing is written: no topic is made, no transaction begun, nobody fenced.

// application is the name that routers and callers know the stores' application by.
func (c Config) application() string {
	switch {
	case c.Replica != nil:
		return c.Replica.Application
	case c.Topology != nil:
		return c.Topology.Application()
	}
	return ""
}

// groupID is the consumer group that the node is a member of.
func (c Config) groupID() string {
	if c.Replica != nil {
		return c.Replica.GroupID()
	}
	return c.application()
}

// standbys is the number of copies beside the first one of each task.
func (c Config) standbys() int {
	if c.Replica != nil {
		return c.Replica.Copies() - 1
	}
	return c.Standbys
}

// reads and writes are the topics that the tasks read and write; other tools see the former.
func (c Config) reads() []string {
	if c.Replica != nil {
		return nil
	}
	return inputTopics(c.Topology)
}

func (c Config) writes() []string {
	if c.Replica != nil {
		return nil
	}
	return writtenTopics(c.Topology)
}

// replicaFaults is what is wrong with Topology and Replica.
func (c Config) replicaFaults() error {
	switch {
	case c.Replica == nil && c.Topology == nil:
		return errors.New(`node: Topology "": is required, unless Replica is given`)
	case c.Replica != nil && c.Topology != nil:
		return fmt.Errorf("node: Replica %q: cannot be given together with Topology", c.Replica.Application)
	case c.Replica == nil:
		return nil
	}
	if err := c.Replica.Validate(); err != nil {
		return fmt.Errorf("node: Replica %q: %w", c.Replica.Application, err)
	}
	return nil
}

// prepareFollowed waits until what is to be followed is there, and returns the task table and the catalog of its topics. It
// fails when a topic cannot be followed as it is configured, or when ctx ends.
func prepareFollowed(ctx context.Context, cfg Config, cl *kgo.Client, log *slog.Logger) (*taskTable, *kafka.Catalog, error) {
	inspector := kafka.NewInspector(cl, log)
	for tries := 0; ; tries++ {
		plan, err := resolve(ctx, inspector, *cfg.Replica)
		var waiting string
		if err == nil {
			waiting, err = settleFollowed(plan)
		}
		var fatal *kafka.TopicError
		switch {
		case errors.As(err, &fatal) || ctx.Err() != nil:
			return nil, nil, errors.Join(err, ctx.Err())
		case err == nil && waiting == "":
			tellPlan(log, plan)
			table, topics := newFollowTable(plan)
			cat := kafka.NewCatalog(cl, log, topics)
			if err = cat.Refresh(ctx); err == nil {
				return table, cat, nil
			}
		}
		if tries%waitLogEvery == 0 {
			if err != nil {
				log.Warn("waiting for Kafka", slog.String("brokers", strings.Join(cfg.Brokers, ",")), slog.Any("error", err))
			} else {
				log.Warn("waiting for what is to be followed", slog.String("for", waiting), slog.String("application", cfg.application()))
			}
		}
		if !kafka.Sleep(ctx, waitForTopics) {
			return nil, nil, ctx.Err()
		}
	}
}

func resolve(ctx context.Context, k *kafka.Inspector, c follow.Config) (follow.Plan, error) {
	facts, err := follow.Read(ctx, k, c)
	if err != nil {
		return follow.Plan{}, err
	}
	return follow.Resolve(c, facts), nil
}

// settleFollowed says what is still waited for, or fails when a configured store cannot be served however long one waits. A
// store that was merely found is left out.
func settleFollowed(plan follow.Plan) (waiting string, err error) {
	var absent []string
	for _, f := range plan.Stores {
		for _, p := range f.Problems {
			switch {
			case p.Severity != follow.Refusal || !f.Configured:
			case p.Absent:
				absent = append(absent, p.Text)
			default:
				err = errors.Join(err, &kafka.TopicError{Topic: f.Spec.Changelog, Why: "store " + f.Spec.Name + ": " + p.Text})
			}
		}
	}
	if err == nil && len(absent) == 0 && len(plan.Served()) == 0 {
		absent = []string{"a changelog that can be followed"}
	}
	return strings.Join(absent, "; "), err
}

// tellPlan writes into the log what is followed and what is left out.
func tellPlan(log *slog.Logger, plan follow.Plan) {
	for _, p := range plan.Problems {
		log.Warn("the application", slog.String("problem", p.Text))
	}
	for _, f := range plan.Stores {
		said := log.With(slog.String("store", f.Spec.Name), slog.String("topic", f.Spec.Changelog))
		if f.Served() {
			said.Info("following", slog.String("kind", f.Spec.Kind.String()), slog.Int("partitions", int(f.Partitions)),
				slog.Duration("retention", f.Spec.Retention), slog.String("inputs", strings.Join(f.Inputs, ",")))
		}
		for _, p := range f.Problems {
			switch p.Severity {
			case follow.Refusal:
				said.Warn("not followed", slog.String("because", p.Text))
			case follow.Warning:
				said.Warn("may be wrong", slog.String("problem", p.Text))
			case follow.Note:
			}
		}
	}
}

// newFollowTable lays the tasks of the stores that are served out: each store is a sub-topology of its own, so that its
// partitions are spread by themselves. It also returns the topics to keep an eye on.
func newFollowTable(plan follow.Plan) (*taskTable, []string) {
	table := &taskTable{
		followed: true,
		byStore:  make(map[metadata.Partition]*taskInfo),
		counts:   make(map[string]int32),
		stores:   make(map[string]topology.StoreSpec),
	}
	list := &taskList{byID: make(map[metadata.TaskID]*taskInfo)}
	var topics []string
	for _, f := range plan.Served() {
		sub := &topology.Subtopology{ID: f.Spec.Subtopology, Stores: []topology.StoreSpec{f.Spec}, SourceTopics: f.Inputs}
		if !slices.Contains(f.Inputs, f.Spec.Changelog) { // its partitions count, but nobody asks for its offsets
			sub.SourceTopics = append([]string{f.Spec.Changelog}, f.Inputs...)
		}
		topics = append(topics, sub.SourceTopics...)
		table.stores[f.Spec.Name], table.counts[f.Spec.Name] = f.Spec, f.Partitions
		for p := range f.Partitions {
			info := newTaskInfo(sub, p)
			info.own = f.Own
			info.inputs = slices.DeleteFunc(info.inputs, func(tp metadata.TopicPartition) bool { return !slices.Contains(f.Inputs, tp.Topic) })
			table.byStore[info.stores[0].id] = info
			list.byID[info.id] = info
			list.plan = append(list.plan, assign.Task{ID: info.id, Stateful: true})
		}
	}
	slices.SortFunc(list.plan, func(a, b assign.Task) int { return a.ID.Compare(b.ID) })
	table.all.Store(list)
	slices.Sort(topics)
	return table, slices.Compact(topics)
}

// withoutActives is a membership as a node in replica mode sees it: what the plan calls a task's active is one more copy. The
// plan itself stays what it is, so that the next round finds each first copy where it was. The argument is not written.
func withoutActives(a *group.Membership) *group.Membership {
	b := *a
	b.Given = copiesOnly(a.Given)
	b.Claimed, b.Before = nil, nil
	b.Assignment.Lost = nil
	b.Assignment.Hosts = slices.Clone(a.Assignment.Hosts)
	for i := range b.Assignment.Hosts {
		h := &b.Assignment.Hosts[i]
		h.Active, h.Standby = nil, joined(h.Active, h.Standby)
	}
	return &b
}

func copiesOnly(g assign.Given) assign.Given {
	g.Active, g.Standby = nil, joined(g.Active, g.Standby)
	return g
}

func joined(a, b []metadata.TaskID) []metadata.TaskID {
	all := slices.Concat(a, b)
	slices.SortFunc(all, metadata.TaskID.Compare)
	return slices.Compact(all)
}
