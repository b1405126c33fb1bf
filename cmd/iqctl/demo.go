package main

import (
	_ "embed"
	"errors"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/cmd/iqctl/demo"
)

// flightsGz are the flights that left New York in January 2013 (Bureau of Transportation Statistics, public domain).
//
//go:embed flights-2013-01.csv.gz
var flightsGz []byte

// newDemoCommand is the command demo, see its package.
func newDemoCommand() *cobra.Command {
	cmd := demo.NewCommand(flightsGz)
	cmd.Args = exactArgs()
	runE := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := runE(cmd, args)
		if _, ok := errors.AsType[*demo.OptionError](err); ok {
			return usage(cmd, err)
		}
		return err
	}
	return cmd
}
