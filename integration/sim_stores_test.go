//go:build synctests

package integration

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/history"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// The stores of the simulated application. Each run has simLatest and one of the others.
const (
	simLatest   = "latest"   // the last sequence number of each key
	simCounts   = "counts"   // the number of records of each key or, through a repartition topic, of each group
	simWindows  = "windows"  // the number of records of each key in each window
	simSessions = "sessions" // the number of records of each key in each session
	simVersions = "versions" // the last sequence numbers of each key by the records' timestamps
)

// What windows, sessions and versions are: long ones outlive the run and every jump of the clock, short ones do not.
const (
	simWindow    = 2 * time.Second
	simGap       = 700 * time.Millisecond
	simLongKept  = 24 * time.Hour
	simShortKept = 5 * time.Second
	simLate      = 3 * time.Second // at most, are records behind the producers' clock
)

func (p simPlan) stores() []string { return []string{simLatest, p.other} }

func (p simPlan) kept() time.Duration {
	if p.shortKept {
		return simShortKept
	}
	return simLongKept
}

func (p simPlan) topology() string {
	text := `
application: app
sources:
  - topic: in
    format: csv
    columns: [group, sequence]
tables:
  - {store: latest, source: in, value: sequence}
`
	grace := p.kept() - simWindow
	switch p.other {
	case simVersions:
		text += fmt.Sprintf("  - {store: versions, source: in, value: sequence, versioned: {history: %s}}\n", p.kept())
	case simWindows:
		text += fmt.Sprintf("aggregates:\n  - {store: windows, source: in, count: true, window: {tumbling: %s, grace: %s, retention: %s}}\n", simWindow, grace, p.kept())
	case simSessions:
		text += fmt.Sprintf("aggregates:\n  - {store: sessions, source: in, count: true, window: {session: %s, grace: %s, retention: %s}}\n", simGap, grace, p.kept())
	case simCounts:
		text += "aggregates:\n  - store: counts\n    source: in\n    count: true\n"
		if p.groups {
			text += "    group_by: group\n"
		}
	}
	return text
}

// kinds are the stores that are not key-value ones.
func (p simPlan) kinds() map[string]history.Kind {
	forms := map[string]history.Form{simWindows: history.Window, simSessions: history.Session, simVersions: history.Versioned}
	if form, ok := forms[p.other]; ok {
		return map[string]history.Kind{p.other: {Form: form, Retention: p.kept()}}
	}
	return nil
}

// keyed are the stores of which a key has one value at most: Get and MultiGet take it without a time.
func (p simPlan) keyed() []string {
	if p.other == simWindows || p.other == simSessions {
		return []string{simLatest}
	}
	return p.stores()
}

// plain are the key-value stores.
func (p simPlan) plain() []string {
	if p.other == simCounts {
		return p.stores()
	}
	return []string{simLatest}
}

// keyOf chooses a key of a store.
func (p simPlan) keyOf(store string, n int) string {
	if store == simCounts && p.groups {
		return fmt.Sprintf("g%d", n%simGroups)
	}
	return fmt.Sprintf("k%d", n%p.keys)
}

// simCommit is a changelog record, as Kafka Streams writes those of each kind.
func simCommit(store string, rec *kgo.Record) history.Commit {
	c := history.Commit{Partition: history.Partition{Store: store, Partition: rec.Partition}, Offset: rec.Offset, Deleted: rec.Value == nil, Value: simValue(store, rec.Value)}
	key := rec.Key
	millis := func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
	switch store {
	case simWindows: // key, start, sequence
		key = rec.Key[:len(rec.Key)-12]
		c.Start = millis(rec.Key[len(key):])
	case simSessions: // key, end, start
		key = rec.Key[:len(rec.Key)-16]
		c.Start, c.End = millis(rec.Key[len(key)+8:]), millis(rec.Key[len(key):])
	case simVersions:
		c.Start = rec.Timestamp.UnixMilli()
	}
	c.Key = string(key)
	return c
}

// simRow is a row as the history has it.
func simRow(store string, row *iqv1.Row) history.Row {
	e := history.Entry{Key: string(row.GetKey()), Start: row.GetStartMs()}
	if store == simSessions {
		e.End = row.GetEndMs()
	}
	return history.Row{Entry: e, Value: simValue(store, row.GetValue())}
}

// simValue is a stored value as text.
func simValue(store string, value []byte) string {
	if store != simLatest && store != simVersions && len(value) == 8 {
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(value)), 10)
	}
	return string(value)
}

// A simRecord is an input record that was acknowledged.
type simRecord struct {
	history.Input
	group string
	at    int64 // its timestamp
}

// wanted is the right last value of each entry of each store; nothing of a store that keeps what it has for seconds, since
// what it holds depends on what came late. The caller holds the lock.
func (w *simWorld) wanted() []history.Commit {
	all := make(map[history.Partition]map[history.Entry]history.Commit)
	put := func(store string, e history.Entry, value string, deleted bool) {
		p := history.Partition{Store: store, Partition: w.partitionOf(e.Key)}
		if all[p] == nil {
			all[p] = make(map[history.Entry]history.Commit)
		}
		if deleted {
			value = ""
		}
		all[p][e] = history.Commit{Partition: p, Entry: e, Value: value, Deleted: deleted}
	}
	count := make(map[history.Entry]int)
	times := make(map[string][]int64) // by key
	for _, in := range w.mu.records {
		put(simLatest, history.Entry{Key: in.Key}, in.Value, in.Deletes)
		switch w.plan.other {
		case simCounts:
			key := in.Key
			if w.plan.groups {
				key = in.group
			}
			count[history.Entry{Key: key}]++
		case simWindows:
			count[history.Entry{Key: in.Key, Start: in.at - in.at%simWindow.Milliseconds()}]++
		case simSessions:
			times[in.Key] = append(times[in.Key], in.at)
		case simVersions:
			if !w.plan.shortKept {
				put(simVersions, history.Entry{Key: in.Key, Start: in.at}, in.Value, in.Deletes)
			}
		}
	}
	if w.plan.other != simCounts && w.plan.shortKept {
		count, times = nil, nil
	}
	for key, at := range times {
		slices.Sort(at)
		for len(at) > 0 {
			n := 1
			for n < len(at) && at[n]-at[n-1] <= simGap.Milliseconds() {
				n++
			}
			count[history.Entry{Key: key, Start: at[0], End: at[n-1]}] = n
			at = at[n:]
		}
	}
	for e, n := range count {
		put(w.plan.other, e, strconv.Itoa(n), false)
	}
	var list []history.Commit
	for _, entries := range all {
		list = slices.AppendSeq(list, maps.Values(entries))
	}
	slices.SortFunc(list, func(a, b history.Commit) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Partition.Partition, b.Partition.Partition), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start))
	})
	return list
}
