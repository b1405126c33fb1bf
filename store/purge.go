package store

import (
	"bytes"
	"errors"
	"iter"
	"math"
)

// What is expired is invisible at once (Schema.Expired), and removed later: an Apply looks at a bounded portion of the
// store and deletes what was expired before it, in its own batch, so that a crash undoes it like everything else. No
// tombstone goes to the changelog; each replica purges by itself, and how far it has come shows nowhere. Since several
// times as many entries are looked at as are written, a round over the store ends before it has grown much.
const (
	purgePerChange = 3       // entries that are looked at for each that is written
	purgeAtLeast   = 512     // small Applies save up for a portion of this many: to begin one costs as much as dozens of entries
	purgeAtMost    = 100_000 // a portion; a large Apply is not followed by a larger one
)

// purger goes round the store. The zero value knows nothing and begins a round as soon as there is a stream time.
type purger struct {
	saved   int    // entries that may be looked at, by the changes so far
	rested  bool   // there is no round; until the horizon reaches due nothing can be expired
	started bool   // a round has a cursor
	cursor  []byte // the next internal key to look at
	due     int64  // while rested: no horizon below this has anything to purge
	lowest  int64  // in a round: what due will be
}

// run deletes a portion of what is expired in the store as reads see it.
func (p *purger) run(s *KV, b *batch, changes int) error {
	schema, st := s.id.Schema, s.cur.Load()
	horizon := schema.Horizon(st.at.StreamTime)
	if !schema.timed() {
		return nil
	}
	p.saved = min(p.saved+purgePerChange*changes, purgeAtMost)
	if p.saved < purgeAtLeast || st.at.StreamTime == NoStreamTime || p.rested && horizon < p.due {
		return nil
	}
	portion := p.saved
	p.saved = 0
	if p.rested || !p.started {
		*p = purger{started: true, lowest: math.MaxInt64}
	}
	done := true
	prev := purgeEntry{}
	for e, err := range s.withExpired(st.ts, Scan{From: p.cursor, KeysOnly: true}) {
		if errors.Is(err, ErrClosed) {
			return nil // the Apply goes on
		}
		if err != nil {
			return err
		}
		if portion--; portion < 0 {
			done = false
			break
		}
		if err := p.judge(b, schema, prev, e.Key, horizon); err != nil {
			return err
		}
		prev = purgeEntry{e.Key, e.Empty}
		p.cursor = e.Key // not judged yet: it is looked at again
	}
	if !done {
		return nil
	}
	if err := p.judge(b, schema, prev, nil, horizon); err != nil {
		return err
	}
	*p = purger{rested: true, due: p.lowest}
	return nil
}

// withExpired scans what is in the database, whether or not it is expired. The caller is inside the gate.
func (s *KV) withExpired(ts uint64, sc Scan) iter.Seq2[Entry, error] {
	always := &applied{ts: ts, at: Checkpoint{StreamTime: math.MinInt64}}
	return func(yield func(Entry, error) bool) { s.scan(always, sc, yield) }
}

// purgeEntry is an entry that awaits its successor.
type purgeEntry struct {
	key   []byte // nil: none
	empty bool
}

// judge deletes an entry that is expired at a horizon, given the key that follows it, or remembers when it may be.
func (p *purger) judge(b *batch, schema Schema, e purgeEntry, next []byte, horizon int64) error {
	if e.key == nil {
		return nil
	}
	ends := schema.endOf(e.key, e.empty, next)
	if ends <= horizon {
		return b.delete(encodeKey(nil, e.key))
	}
	p.lowest = min(p.lowest, ends)
	return nil
}

// endOf is the time at and above which a horizon hides an entry for good: of a version it is when the next one of its key
// begins, and of the last one never, except that one at which the key was absent is as good as none.
func (s Schema) endOf(key []byte, empty bool, next []byte) int64 {
	if s.Kind != KindVersioned {
		return s.timeOf(key)
	}
	n := len(key) - timeBytes
	if len(next) == len(key) && bytes.Equal(next[:n], key[:n]) {
		return s.timeOf(next)
	}
	if empty {
		return s.timeOf(key)
	}
	return math.MaxInt64
}

// wrote takes note of a write, which may lie behind the cursor, and may end the version before it.
func (p *purger) wrote(s Schema, key []byte) {
	if !s.timed() {
		return
	}
	at := s.timeOf(key)
	p.due, p.lowest = min(p.due, at), min(p.lowest, at)
}
