package client

import "strconv"

// Way is how an answer came.
type Way int8

// The ways.
const (
	// WayRouted is through one of the client's targets.
	WayRouted Way = iota
	// WayDirect is from a node that the client has chosen itself, see WithDirect.
	WayDirect
)

// String is the way as logs and metrics write it.
func (w Way) String() string {
	switch w {
	case WayRouted:
		return "routed"
	case WayDirect:
		return "direct"
	default:
		return "way(" + strconv.Itoa(int(w)) + ")"
	}
}

// Detour is why a client in direct mode read through a router.
type Detour int8

// The detours.
const (
	// DetourNone is no detour: the answer came from a node, or the client is not in direct mode.
	DetourNone Detour = iota
	// DetourNoView says that no router has told of any store yet.
	DetourNoView
	// DetourSilent says that the view is older than MaxViewSilence.
	DetourSilent
	// DetourNoPolicy says that the read named no policy: only a router knows its default one.
	DetourNoPolicy
	// DetourPartitioner says that the store's partitioner is not known here, see WithPartitioners.
	DetourPartitioner
	// DetourUndecided says that no replica may answer by the view, or that the view does not know the store or partition.
	DetourUndecided
	// DetourUnanswered says that nodes were asked, or could not be connected to, and none answered.
	DetourUnanswered
)

// String is the detour as logs and metrics write it.
func (d Detour) String() string {
	switch d {
	case DetourNone:
		return "none"
	case DetourNoView:
		return "no_view"
	case DetourSilent:
		return "silent"
	case DetourNoPolicy:
		return "no_policy"
	case DetourPartitioner:
		return "partitioner"
	case DetourUndecided:
		return "undecided"
	case DetourUnanswered:
		return "unanswered"
	default:
		return "detour(" + strconv.Itoa(int(d)) + ")"
	}
}
