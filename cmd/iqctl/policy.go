package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// readFlags are the flags of the commands that read, or explain a read.
type readFlags struct {
	policy      []string
	prefer      string
	wait        time.Duration
	partition   int32
	atLeast     []string
	uncommitted bool
	keyFormat   string
	valueFormat string
	hex         bool
	// onePartition says that the command has the flag for one partition.
	onePartition bool
}

// add adds the flags of a read of one key.
func (r *readFlags) add(cmd *cobra.Command) {
	r.addPolicy(cmd)
	r.onePartition = true
	cmd.Flags().Int32Var(&r.partition, "partition", 0, "store partition to read (default: the key's own)")
	r.addKeyFormat(cmd)
}

func (r *readFlags) addPolicy(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&r.policy, "policy", nil,
		"strong, active, any, max_staleness=10s, max_offset_lag=100; combined with commas, all must hold (default: the server's)")
	f.StringVar(&r.prefer, "prefer", "", "which replica first, of those within the policy: active, least_loaded, nearest=RACK (default: the server's)")
	f.DurationVar(&r.wait, "wait", 0, "how long the server may hold the read until a replica qualifies")
	f.StringSliceVar(&r.atLeast, "at-least", nil, "input position that the answer must cover: TOPIC/PARTITION@OFFSET, several with commas")
	f.BoolVar(&r.uncommitted, "read-uncommitted", false, "show the active's writes of the open transaction as well")
}

func (r *readFlags) addValueFormat(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.valueFormat, "value-format", "", "how to show the value: "+formatNames()+" (default: the store's value serde)")
}

func (r *readFlags) addHex(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.hex, "hex", false, "keys and values as hexadecimal digits, in and out, whatever the store's serdes")
}

func (r *readFlags) addKeyFormat(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.keyFormat, "key-format", "", "how KEY is written: "+formatNames()+" (default: the store's key serde)")
}

// options turns the flags into read options; a wrong one is a usage error that names it.
func (r *readFlags) options(cmd *cobra.Command) ([]client.ReadOption, error) {
	var opts []client.ReadOption
	mode := ""
	for _, p := range r.policy {
		if !strings.Contains(p, "=") {
			if mode != "" && mode != p {
				return nil, usage(cmd, fmt.Errorf("--policy %q: contradicts %s; give one of them", p, mode))
			}
			mode = p
		}
		o, err := policyOption(p)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--policy %q: %w", p, err))
		}
		opts = append(opts, o)
	}
	if r.prefer != "" {
		o, err := preferOption(r.prefer)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--prefer %q: %w", r.prefer, err))
		}
		opts = append(opts, o)
	}
	if len(r.atLeast) > 0 {
		position := &iqv1.Position{}
		for _, text := range r.atLeast {
			offset, err := parsePartitionOffset(text)
			if err != nil {
				return nil, usage(cmd, fmt.Errorf("--at-least %q: %w", text, err))
			}
			position.Offsets = append(position.Offsets, offset)
		}
		opts = append(opts, client.AtLeast(position))
	}
	if r.wait < 0 {
		return nil, usage(cmd, fmt.Errorf("--wait %s: must not be negative", r.wait))
	}
	if r.wait > 0 {
		opts = append(opts, client.Wait(r.wait))
	}
	if r.onePartition && cmd.Flags().Changed("partition") {
		opts = append(opts, client.Partition(r.partition))
	}
	if r.uncommitted {
		opts = append(opts, client.ReadUncommitted())
	}
	return opts, nil
}

func policyOption(text string) (client.ReadOption, error) {
	name, value, bound := strings.Cut(text, "=")
	switch {
	case name == "strong" && !bound:
		return client.Strong(), nil
	case name == "active" && !bound:
		return client.Active(), nil
	case name == "any" && !bound:
		return client.Any(), nil
	case name == "max_staleness" && bound:
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q must be a duration such as 10s or 500ms, not negative", value)
		}
		return client.MaxStaleness(d), nil
	case name == "max_offset_lag" && bound:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q must be a number of offsets, not negative", value)
		}
		return client.MaxOffsetLag(n), nil
	}
	return nil, errors.New("must be strong, active, any, max_staleness=DURATION or max_offset_lag=N")
}

func preferOption(text string) (client.ReadOption, error) {
	name, rack, _ := strings.Cut(text, "=")
	switch {
	case text == "active":
		return client.PreferActive(), nil
	case text == "least_loaded":
		return client.LeastLoaded(), nil
	case name == "nearest" && rack != "":
		return client.Nearest(rack), nil
	}
	return nil, errors.New("must be active, least_loaded or nearest=RACK")
}

// parsePartitionOffset reads topic/partition@offset. A topic's name has neither sign.
func parsePartitionOffset(text string) (*iqv1.PartitionOffset, error) {
	topic, rest, ok1 := strings.Cut(text, "/")
	number, at, ok2 := strings.Cut(rest, "@")
	partition, err1 := strconv.ParseInt(number, 10, 32)
	offset, err2 := strconv.ParseInt(at, 10, 64)
	if !ok1 || !ok2 || topic == "" || err1 != nil || err2 != nil || partition < 0 || offset < 0 {
		return nil, errors.New("must be TOPIC/PARTITION@OFFSET, such as orders/2@1500")
	}
	return &iqv1.PartitionOffset{Topic: topic, Partition: int32(partition), Offset: offset}, nil
}
