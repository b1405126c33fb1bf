package topology

import (
	"fmt"
	"iter"
	"strconv"
	"time"
)

// WindowsKind is how an aggregate cuts time.
type WindowsKind uint8

// The kinds of windows.
const (
	// NoWindows is one aggregate for each key, over all time.
	NoWindows WindowsKind = iota
	// TumblingWindows follow one another without gaps: [0, size), [size, 2*size) and so on (Kafka Streams' TimeWindows).
	TumblingWindows
	// HoppingWindows overlap: one begins at each multiple of the advance (Kafka Streams' TimeWindows.advanceBy).
	HoppingWindows
	// SlidingWindows are made by the records: for each record at t the window [t-difference, t], and the window that begins
	// right after it, [t+1, t+1+difference], once a record falls into it. Both ends are included (KIP-450, Kafka Streams'
	// SlidingWindows). Of a record with t < difference the first is [0, difference] instead, since no window begins before
	// 1970. A record costs a write for each of the key's windows that hold it, up to two for each record that is at most the
	// difference away: for busy keys and long differences take HoppingWindows.
	SlidingWindows
	// SessionWindows reach from a record to another as long as no two neighbours are further apart than the inactivity gap.
	// Both ends are included. A record between two sessions may join them (Kafka Streams' SessionWindows).
	SessionWindows
)

// String returns the kind's word in YAML.
func (k WindowsKind) String() string {
	switch k {
	case NoWindows:
		return "none"
	case TumblingWindows:
		return "tumbling"
	case HoppingWindows:
		return "hopping"
	case SlidingWindows:
		return "sliding"
	case SessionWindows:
		return "session"
	}
	return "windows(" + strconv.Itoa(int(k)) + ")"
}

// windowsKinds are the kinds that cut time, in the order in which they are listed to people.
func windowsKinds() []WindowsKind {
	return []WindowsKind{TumblingWindows, HoppingWindows, SlidingWindows, SessionWindows}
}

// maxWindowsPerRecord is how many windows of a hopping aggregate may hold one record; each is a write to the store.
const maxWindowsPerRecord = 10_000

// Windows says how an aggregate cuts time. The zero value is no windows. All durations are whole milliseconds.
type Windows struct {
	// Kind of the windows.
	Kind WindowsKind
	// Size is the length of tumbling and hopping windows, the greatest time difference of sliding ones, the inactivity gap of
	// sessions. At least 1ms.
	Size time.Duration
	// Advance is the time between the beginnings of two hopping windows: from 1ms to Size, and Size/Advance is at most
	// 10,000. Not for the others.
	Advance time.Duration
	// Grace is how long after its end a window takes records, by stream time. Default 0, as in Kafka Streams'
	// ofSizeWithNoGrace: a record whose window has ended is late.
	Grace time.Duration
	// Retention is how long windows are kept and can be read, by stream time. Default the least allowed, which is Kafka
	// Streams' default too; see [Windows.MinRetention].
	Retention time.Duration
}

// Tumbling returns tumbling windows of that size.
func Tumbling(size time.Duration) Windows { return Windows{Kind: TumblingWindows, Size: size} }

// Hopping returns hopping windows of that size, one at each multiple of advance.
func Hopping(size, advance time.Duration) Windows {
	return Windows{Kind: HoppingWindows, Size: size, Advance: advance}
}

// Sliding returns sliding windows of records that are at most difference apart.
func Sliding(difference time.Duration) Windows {
	return Windows{Kind: SlidingWindows, Size: difference}
}

// Sessions returns sessions that end with a pause of more than gap.
func Sessions(gap time.Duration) Windows { return Windows{Kind: SessionWindows, Size: gap} }

// WithGrace returns the windows with that grace.
func (w Windows) WithGrace(d time.Duration) Windows {
	w.Grace = d
	return w
}

// WithRetention returns the windows with that retention.
func (w Windows) WithRetention(d time.Duration) Windows {
	w.Retention = d
	return w
}

// MinRetention is the least time for which the store must keep windows, so that none goes while it may still change: size
// + grace, for sessions gap + grace, and for sliding windows twice the difference + grace, since a record may make the
// window that begins after another one.
func (w Windows) MinRetention() time.Duration {
	if w.Kind == SlidingWindows {
		return 2*w.Size + w.Grace
	}
	return w.Size + w.Grace
}

// StoreKind is the kind of store that holds the windows.
func (w Windows) StoreKind() StoreKind {
	switch w.Kind {
	case TumblingWindows, HoppingWindows, SlidingWindows:
		return Window
	case SessionWindows:
		return Session
	case NoWindows:
	}
	return KeyValue
}

// in returns the spec as that of a store for the windows.
func (w Windows) in(spec StoreSpec) StoreSpec {
	spec.Kind = w.StoreKind()
	if spec.Kind == Window {
		spec.WindowSize = w.Size
	}
	if spec.Retention == 0 {
		spec.Retention = w.Retention
	}
	if spec.Retention == 0 && spec.Kind != KeyValue {
		spec.Retention = w.MinRetention()
	}
	return spec
}

// windowFault is what is wrong with a field of Windows, by its word in YAML.
type windowFault struct {
	field, text string
}

// maxWindowTime bounds each duration of windows, so that no sum of them overflows.
const maxWindowTime = 50 * 365 * 24 * time.Hour

// faults returns everything that is wrong. The size goes by the kind's name.
func (w Windows) faults() []windowFault {
	var all []windowFault
	fault := func(field, format string, args ...any) {
		all = append(all, windowFault{field, fmt.Sprintf(format, args...)})
	}
	switch {
	case w.Kind == NoWindows:
		fault("", "one of tumbling, hopping, sliding, session is required")
		return all
	case w.Kind > SessionWindows:
		fault("", "%s is not known", w.Kind)
		return all
	}
	size := w.Kind.String()
	duration := func(field string, d, least time.Duration) {
		switch {
		case d < least:
			fault(field, "%s is less than %s", d, least)
		case d > maxWindowTime:
			fault(field, "%s is more than %s", d, maxWindowTime)
		case d%time.Millisecond != 0:
			fault(field, "%s is no whole number of milliseconds", d)
		}
	}
	duration(size, w.Size, time.Millisecond)
	duration("grace", w.Grace, 0)
	switch {
	case w.Kind != HoppingWindows && w.Advance != 0:
		fault("advance", "%s is for hopping windows, not %s", w.Advance, w.Kind)
	case w.Kind == HoppingWindows:
		duration("advance", w.Advance, time.Millisecond)
	}
	if len(all) > 0 {
		return all
	}
	if w.Advance > w.Size {
		fault("advance", "%s is more than the size, %s", w.Advance, w.Size)
	} else if w.Kind == HoppingWindows && w.Size > maxWindowsPerRecord*w.Advance {
		fault("advance", "%s would put each record into more than %d windows of %s", w.Advance, maxWindowsPerRecord, w.Size)
	}
	if w.Retention != 0 {
		duration("retention", w.Retention, time.Millisecond)
		if text := w.tooShort(w.Retention); text != "" {
			fault("retention", "%s", text)
		}
	}
	return all
}

// tooShort says why a store may not keep the windows for retention alone, or nothing.
func (w Windows) tooShort(retention time.Duration) string {
	if retention >= w.MinRetention() {
		return ""
	}
	least := "the size"
	switch w.Kind {
	case SlidingWindows:
		least = "twice the difference"
	case SessionWindows:
		least = "the gap"
	case NoWindows, TumblingWindows, HoppingWindows:
	}
	return fmt.Sprintf("%s is less than %s and the grace, %s", retention, least, w.MinRetention())
}

// starts yields the beginnings of the tumbling or hopping windows that hold a timestamp, in ascending order. None is
// negative (Kafka Streams' TimeWindows.windowsFor).
func (w Windows) starts(timestamp int64) iter.Seq[int64] {
	size, advance := w.Size.Milliseconds(), w.Size.Milliseconds()
	if w.Kind == HoppingWindows {
		advance = w.Advance.Milliseconds()
	}
	return func(yield func(int64) bool) {
		first := max(0, timestamp-size+advance) / advance * advance
		for start := first; start <= timestamp; start += advance {
			if !yield(start) {
				return
			}
		}
	}
}
