//go:build fault

package fault

import (
	"fmt"
	"os"
)

// The faults; the environment variable IQGATE_FAULT names the one that is on.
var (
	LagOffByOne          = on("LagOffByOne")          // a replica is told to be one offset less behind than it is (I5)
	ApplyBeforeCommit    = on("ApplyBeforeCommit")    // stores show a transaction before Kafka has decided it (I1)
	LeaseIgnored         = on("LeaseIgnored")         // who has had a lease has it for ever (I8)
	PromiseUnchecked     = on("PromiseUnchecked")     // a transaction is committed although a record of it was refused (I9)
	GenerationIgnored    = on("GenerationIgnored")    // the view believes an active of an older generation (I8)
	PositionBeforeData   = on("PositionBeforeData")   // a store writes its position before its data (I2)
	RestoreToLSO         = on("RestoreToLSO")         // restoring ends at the last stable offset (I9)
	MarkerNotCounted     = on("MarkerNotCounted")     // control records do not move a position (I6)
	PolicyNotRejudged    = on("PolicyNotRejudged")    // a node answers whatever the policy, as its caller chose it (I4)
	TokenOfOtherAccepted = on("TokenOfOtherAccepted") // a node's credentials do for a report in the name of another
)

const variable = "IQGATE_FAULT"

// known are the names that on was asked for.
var known = make(map[string]bool)

func on(name string) bool {
	known[name] = true
	return os.Getenv(variable) == name
}

func init() {
	if name := os.Getenv(variable); name != "" && !known[name] {
		fmt.Fprintf(os.Stderr, "%s is %q, which is none of the faults\n", variable, name)
		os.Exit(2)
	}
}
