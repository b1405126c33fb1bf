package iqnode

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// crashVariable, set to "<step>:<n>", kills the process as kill -9 would when it reaches one of the node's steps for the
// n-th time. Only fault tests set it.
const crashVariable = "IQNODE_CRASH_AT"

// crashSteps are the steps of node/steps.go.
var crashSteps = []string{
	"produce", "flush", "offsets", "end", "sent", "apply", "applied", "open", "restore",
	"fence", "committed", "ends", "take", "revoke", "released",
}

// crashPlan says where to crash; the zero value says nowhere.
type crashPlan struct {
	step func(step string) error // nil for nowhere
}

// crashAt is what the environment says of it.
func crashAt(env []string) (text string) {
	for _, line := range env {
		if value, ok := strings.CutPrefix(line, crashVariable+"="); ok {
			text = value
		}
	}
	return text
}

func parseCrashPlan(text string) (crashPlan, error) {
	if text == "" {
		return crashPlan{}, nil
	}
	at, count, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 || !slices.Contains(crashSteps, at) {
		return crashPlan{}, fmt.Errorf("%s %q: must be <step>:<n>, with a step of %s and n from 1", crashVariable, text, strings.Join(crashSteps, ", "))
	}
	var reached atomic.Int64
	return crashPlan{step: func(step string) error {
		if step == at && reached.Add(1) == n {
			crash()
		}
		return nil
	}}, nil
}

// crash ends the process as kill -9 does, and does not return.
func crash() {
	if p, err := os.FindProcess(os.Getpid()); err == nil && p.Kill() == nil {
		select {} // until the signal is there
	}
	os.Exit(137)
}
