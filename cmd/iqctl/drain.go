package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func newDrainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drain NODE",
		Short: "Make a node hand its tasks over and end, without anybody noticing",
		Long: `drain makes a node hand its tasks over to caught-up nodes, serve until they have taken over, leave the group and end,
as SIGTERM does, and prints how it goes. NODE is the node's id, as status shows it. A drain that has begun goes on if the command
is ended.

-o json prints an object a line; the last one has "done": true. Exit code 0 says that the node has let go of everything, 5 that
it could not be reached, 1 that no router knows it.`,
		Example: "  iqctl drain node-2\n  iqctl drain node-2 -o json",
		Args:    exactArgs("NODE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.drain(cmd.Context(), args[0]) },
	}
}

// drainJSON is one message of a drain.
type drainJSON struct {
	Node        string `json:"node"`
	ActiveTasks int32  `json:"active_tasks"`
	Relieved    bool   `json:"relieved"`
	Done        bool   `json:"done"`
}

func (a *app) drain(ctx context.Context, node string) error {
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	p := &printer{w: a.out}
	last := ""
	err = c.Drain(ctx, node, func(m *iqv1.DrainResponse) {
		text := drainText(node, m)
		if text == last { // nodes tell again and again how far they are
			return
		}
		last = text
		if !a.json() {
			p.line(text)
		} else if p.err == nil {
			p.err = printLine(a.out, drainJSON{Node: node, ActiveTasks: m.GetActiveTasks(), Relieved: m.GetRelieved(), Done: m.GetDone()})
		}
	})
	if err != nil {
		return err
	}
	return p.err
}

func drainText(node string, m *iqv1.DrainResponse) string {
	switch {
	case m.GetDone():
		return node + " has let go of everything and ends"
	case m.GetActiveTasks() == 1:
		return node + " runs 1 task"
	case m.GetActiveTasks() > 0:
		return fmt.Sprintf("%s runs %d tasks", node, m.GetActiveTasks())
	case !m.GetRelieved():
		return node + " runs no task any more, and serves until others have taken over"
	default:
		return node + " is served for by others, and leaves"
	}
}
