package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeTimeout bounds what a shell waits for the names of stores and nodes; without an answer there is nothing to choose from.
const completeTimeout = 500 * time.Millisecond

// A nameSource gives the names that stand for a word of a command's usage.
type nameSource func(ctx context.Context, a *app) ([]string, error)

// nameSources are those words of usages for which a router knows the names.
var nameSources = map[string]nameSource{"STORE": storeNames, "NODE": nodeNames}

// complete has shells complete the names of stores and nodes, where a usage asks for one, and the words of flags.
func (a *app) complete(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args)+1 >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.names(cmd, nameSources[words[len(args)+1]])
	}
	register := func(flag string, complete cobra.CompletionFunc) {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, complete) // it is there, and registered once
		}
	}
	register("output", cobra.FixedCompletions([]string{"table", "json", outputRaw}, cobra.ShellCompDirectiveNoFileComp))
	register("policy", cobra.FixedCompletions([]string{"strong", "active", "any", "max_staleness=", "max_offset_lag="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	register("router", cobra.NoFileCompletions)
	register("store", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.names(cmd, storeNames)
	})
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
}

// names asks a router. A shell that completes shows no errors, so there is none.
func (a *app) names(cmd *cobra.Command, source nameSource) ([]string, cobra.ShellCompDirective) {
	if source == nil || a.load(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	names, err := source(ctx, a)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func storeNames(ctx context.Context, a *app) (names []string, _ error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing was written
	stores, err := c.Stores(ctx)
	for _, s := range stores {
		names = append(names, s.GetName())
	}
	return names, err
}

func nodeNames(ctx context.Context, a *app) (names []string, _ error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing was written
	instances, err := c.Instances(ctx, "")
	for _, i := range instances {
		names = append(names, i.GetNode())
	}
	return names, err
}
