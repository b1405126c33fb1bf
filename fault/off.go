//go:build !fault

package fault

// The faults, none of which is on. What each does is in on.go.
const (
	LagOffByOne          = false
	ApplyBeforeCommit    = false
	LeaseIgnored         = false
	PromiseUnchecked     = false
	GenerationIgnored    = false
	PositionBeforeData   = false
	RestoreToLSO         = false
	MarkerNotCounted     = false
	PolicyNotRejudged    = false
	TokenOfOtherAccepted = false
)
