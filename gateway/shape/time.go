package shape

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ParseTime reads a time: RFC 3339, milliseconds since the epoch, or a duration before now, with or without a minus sign. The
// error says so, without the text.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil && !strings.HasPrefix(text, "--") {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, errors.New("must be RFC 3339 such as 2026-01-31T12:00:00Z, milliseconds since the epoch, or how long ago such as -5m")
	}
	return t, nil
}
