package topology

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// changelogSlack is added to a store's retention where the changelog's configuration follows from it, for clocks that
// differ and records that come late: Kafka Streams' default of windowstore.changelog.additional.retention.ms, and its
// constant for versioned stores.
const changelogSlack = 24 * time.Hour

// faults returns what is wrong with kind, window size and retention.
func (s *StoreSpec) faults() []string {
	var all []string
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	duration := func(what string, d time.Duration) {
		switch {
		case d == 0:
			fault("%s is required for a %s store", what, s.Kind)
		case d < time.Millisecond:
			fault("%s %s is less than 1ms", what, d)
		case d > 3*maxWindowTime: // what the retention of sliding windows may be
			fault("%s %s is more than %s", what, d, 3*maxWindowTime)
		case d%time.Millisecond != 0:
			fault("%s %s is no whole number of milliseconds", what, d)
		}
	}
	if s.Kind > Versioned {
		fault("kind %s is not known", s.Kind)
		return all
	}
	switch {
	case s.Kind == Window:
		duration("window size", s.WindowSize)
	case s.WindowSize != 0:
		fault("window size %s is for window stores, not %s", s.WindowSize, s.Kind)
	}
	switch {
	case s.Kind == KeyValue && s.Retention != 0:
		fault("retention %s is of no use for a %s store", s.Retention, s.Kind)
	case s.Kind == Session || s.Kind == Versioned || s.Kind == Window && s.Retention != 0:
		duration("retention", s.Retention)
	case s.Kind == KeyValue, s.Kind == Window:
	}
	if s.Kind == Window && s.Retention > 0 && s.Retention < s.WindowSize {
		fault("retention %s is less than the window size, %s", s.Retention, s.WindowSize)
	}
	return all
}

// cleanupPolicy is that of the changelog topic.
func (s *StoreSpec) cleanupPolicy() string {
	switch s.Kind {
	case Window, Session:
		return "compact,delete"
	case KeyValue, Versioned:
	}
	return "compact"
}

// changelogConfig returns the configuration of the changelog topic.
func (s *StoreSpec) changelogConfig() map[string]string {
	kept := strconv.FormatInt((s.Retention + changelogSlack).Milliseconds(), 10)
	config := map[string]string{
		"cleanup.policy":         s.cleanupPolicy(),
		"retention.ms":           "-1",
		"message.timestamp.type": "CreateTime",
	}
	switch s.Kind {
	case Window, Session:
		config["retention.ms"] = kept
	case Versioned:
		config["min.compaction.lag.ms"] = kept
	case KeyValue:
	}
	maps.Copy(config, s.ChangelogConfig)
	return config
}
