package iqerr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds on what an error shows and carries; the package comment says why.
const (
	maxReplicas      = 16  // candidates and attempts, each
	maxNames         = 32  // store and node names
	maxViolations    = 16  // wrong fields of one request
	maxValueRunes    = 120 // runes of a caller's value in a text
	maxTextBytes     = 512 // bytes of a candidate's or an attempt's own text
	maxPositionParts = 8   // topic partitions of a position in a text
	maxPositionSent  = 64  // topic partitions of a position in the details
)

const ellipsis = "…"

// Describe says in words what a replica is, how far behind it is, and why it may not answer:
// "b (standby, running): 910 offsets behind, more than 50", "b (standby, running) is 910 offsets / 1.2s behind" where
// there is no why, and both where the why is not about a lag. A lag that is not known is left out.
func Describe(c *iqv1.Candidate) string {
	r := c.GetReplica()
	text := r.GetNode() + " " + Standing(r)
	if lag := Lag(r); lag != "" && (c.GetWhy() == "" || c.GetReason() != iqv1.Reason_REASON_STALE) {
		text += " is " + lag + " behind"
	}
	if c.GetWhy() != "" {
		text += ": " + clip(c.GetWhy())
	}
	return text
}

// DescribeAttempt says in words what a replica that was asked said: "asked b: Unavailable after 12ms: connection refused".
func DescribeAttempt(a *iqv1.Attempt) string {
	text := "asked " + a.GetNode() + ": " + a.GetCode()
	if a.GetReason() != "" {
		text += " " + strings.TrimPrefix(a.GetReason(), reasonPrefix)
	}
	if a.GetElapsed() != nil {
		text += " after " + Round(a.GetElapsed().AsDuration()).String()
	}
	if a.GetMessage() != "" {
		text += ": " + clip(a.GetMessage())
	}
	return text
}

// Standing gives a replica's role and state in words: "(standby, running)".
func Standing(r *iqv1.ReplicaStatus) string {
	return "(" + RoleName(r.GetRole()) + ", " + StateName(r.GetState()) + ")"
}

// RoleName gives a role in lower case without the enum's prefix: "standby".
func RoleName(role iqv1.Role) string {
	if role == iqv1.Role_ROLE_UNSPECIFIED {
		return "role unknown"
	}
	return strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
}

// StateName gives a state in lower case without the enum's prefix: "running".
func StateName(state iqv1.ReplicaState) string {
	if state == iqv1.ReplicaState_REPLICA_STATE_UNSPECIFIED {
		return "state unknown"
	}
	return strings.ToLower(strings.TrimPrefix(state.String(), "REPLICA_STATE_"))
}

// Lag gives what is known of a replica's lag in words: "910 offsets / 1.2s", "910 offsets", "1.2s", or nothing.
func Lag(r *iqv1.ReplicaStatus) string {
	var parts []string
	if r != nil && r.OffsetLag != nil {
		unit := " offsets"
		if r.GetOffsetLag() == 1 {
			unit = " offset"
		}
		parts = append(parts, strconv.FormatInt(r.GetOffsetLag(), 10)+unit)
	}
	if r.GetTimeLag() != nil {
		parts = append(parts, Round(r.GetTimeLag().AsDuration()).String())
	}
	return strings.Join(parts, " / ")
}

// Round shortens a duration for people: to 3 digits or so, never to 0 unless it is 0, and upwards, since a lag shown
// must not be smaller than the true one.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	switch {
	case d >= 10*time.Second:
		unit = 100 * time.Millisecond
	case d >= time.Second:
		unit = 10 * time.Millisecond
	case d >= time.Millisecond:
		unit = time.Millisecond
	case d >= time.Microsecond:
		unit = time.Microsecond
	}
	if rest := d % unit; rest > 0 {
		d += unit - rest
	}
	return d
}

// positionText gives a position as "topic/partition@offset, …".
func positionText(p *iqv1.Position) string {
	parts := make([]string, 0, maxPositionParts)
	for _, o := range atMost(p.GetOffsets(), maxPositionParts) {
		parts = append(parts, fmt.Sprintf("%s/%d@%d", o.GetTopic(), o.GetPartition(), o.GetOffset()))
	}
	if more := len(p.GetOffsets()) - maxPositionParts; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// valueText shows a caller's value; strings and bytes are quoted, so that an empty one is seen and nothing unprintable
// reaches a terminal.
func valueText(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return strconv.Quote(clipRunes(v))
	case []byte:
		return strconv.Quote(clipRunes(string(v)))
	case error:
		text = v.Error()
	default:
		text = fmt.Sprint(v)
	}
	return clipRunes(text)
}

func clipRunes(s string) string {
	if utf8.RuneCountInString(s) <= maxValueRunes {
		return s
	}
	count := 0
	for i := range s {
		if count == maxValueRunes {
			return s[:i] + ellipsis
		}
		count++
	}
	return s
}

// clip cuts a text at maxTextBytes, between runes.
func clip(s string) string {
	if len(s) <= maxTextBytes {
		return s
	}
	end := maxTextBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// atMost gives the first n of all.
func atMost[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	return all[:n]
}
