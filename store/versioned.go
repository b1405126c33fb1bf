package store

import (
	"bytes"
	"fmt"
	"iter"
	"math"
)

// NoEnd is the ValidTo of a key's latest version.
const NoEnd = math.MaxInt64

// Version is the value that a key had from a time on; the caller owns the bytes.
type Version struct {
	Key       []byte
	ValidFrom int64 // the version's timestamp, in milliseconds
	ValidTo   int64 // the timestamp of the key's next version, at which this one holds no more; NoEnd for the latest
	Value     Value
	Cursor    []byte // for ScanOptions.After, with the same method
}

// VersionedReader reads a versioned store: the newest state, a Snapshot, or an Overlay. What it says depends on what was put
// and on the stream time, never on what is still on disk (Kafka Streams' RocksDBVersionedStore answers a scan of old
// versions from whatever segments are left).
type VersionedReader struct {
	r      Reader
	schema Schema
}

// NewVersionedReader reads r, which must be of a versioned store; else it is a *KindError.
func NewVersionedReader(r Reader) (VersionedReader, error) {
	s := r.Schema()
	return VersionedReader{r, s}, wantKind(s, KindVersioned)
}

// Get returns a key's latest version, however old it is, and whether there is one: not when its latest is a deletion.
func (v VersionedReader) Get(key []byte) (Version, bool, error) {
	return v.at(v.r, key, math.MaxInt64, math.MaxInt64)
}

// GetAsOf returns the version that a key had at a time, in milliseconds, and whether it had one. A time before the stream time
// less the history retention is answered only where the key's latest version covers it.
func (v VersionedReader) GetAsOf(key []byte, ms int64) (Version, bool, error) {
	sn, err := v.r.Pin()
	if err != nil {
		return Version{}, false, err
	}
	defer sn.Release()
	next, err := v.next(sn, key, ms)
	if err != nil || next != NoEnd && ms < v.schema.Horizon(sn.StreamTime()) {
		return Version{}, false, err
	}
	return v.at(sn, key, ms, next)
}

// at is the version at a time, given when the next one begins.
func (v VersionedReader) at(r Reader, key []byte, ms, next int64) (Version, bool, error) {
	for e, err := range r.Scan(versionScan(key, Times{math.MinInt64, ms}, true)) {
		if err != nil || e.Empty {
			return Version{}, false, err
		}
		return v.version(key, next, e), true, nil
	}
	return Version{}, false, nil
}

// next is when the first version after a time begins, or NoEnd.
func (v VersionedReader) next(r Reader, key []byte, ms int64) (int64, error) {
	if ms == math.MaxInt64 {
		return NoEnd, nil
	}
	sc := versionScan(key, Times{ms + 1, math.MaxInt64}, false)
	sc.KeysOnly = true
	for e, err := range r.Scan(sc) {
		if err != nil {
			return 0, err
		}
		return v.schema.timeOf(e.Key), nil
	}
	return NoEnd, nil
}

// floor is when the last version at or before a time begins, or that time.
func (v VersionedReader) floor(r Reader, key []byte, ms int64) (int64, error) {
	sc := versionScan(key, Times{math.MinInt64, ms}, true)
	sc.KeysOnly = true
	for e, err := range r.Scan(sc) {
		if err != nil {
			return 0, err
		}
		return v.schema.timeOf(e.Key), nil
	}
	return ms, nil
}

// versionScan is the scan of a key's versions that begin within times.
func versionScan(key []byte, times Times, reverse bool) Scan {
	return Scan{From: internalKey(key, times.From), To: append(internalKey(key, times.To), 0), Reverse: reverse}
}

// version makes a version of an entry that is not a deletion.
func (v VersionedReader) version(key []byte, next int64, e Entry) Version {
	out := Version{Key: append([]byte{}, key...), ValidFrom: v.schema.timeOf(e.Key), ValidTo: next, Value: e.Value, Cursor: e.Key}
	if e.Value.Bytes != nil { // not in a scan without values
		out.Value.Bytes = versionValue(e.Value.Bytes)
	}
	return out
}

// Versions yields the versions that a key had at any time within times, the oldest first or, in reverse, the latest first
// (Kafka Streams' MultiVersionedKeyQuery). Deletions are not yielded; they end the version before them. Of times before the
// stream time less the history retention, only what the latest version covers is there. An error is the last thing that
// it yields.
func (v VersionedReader) Versions(key []byte, times Times, o ScanOptions) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if times.From > times.To {
			return
		}
		sn, err := v.r.Pin()
		if err != nil {
			yield(Version{}, err)
			return
		}
		defer sn.Release()
		q := versionQuery{v: v, sn: sn, key: key, times: times, o: o, horizon: v.schema.Horizon(sn.StreamTime())}
		if o.After != nil {
			if _, q.after, _, err = v.schema.split(o.After); err != nil {
				yield(Version{}, fmt.Errorf("cursor of %d bytes: %w", len(o.After), err))
				return
			}
		}
		scan := q.forward
		if o.Reverse {
			scan = q.backward
		}
		if err := scan(func(out Version) bool { return yield(out, nil) }); err != nil {
			yield(Version{}, err)
		}
	}
}

// versionQuery is a run of Versions.
type versionQuery struct {
	v       VersionedReader
	sn      *Snapshot
	key     []byte
	times   Times
	o       ScanOptions
	after   int64 // when o.After begins, if there is one
	horizon int64
}

// lowest is the time at which the oldest version that is looked at must hold.
func (q *versionQuery) lowest() int64 {
	return min(max(q.times.From, q.horizon), q.times.To)
}

// covers reports whether a version is one to yield, given when it and the next one begin.
func (q *versionQuery) covers(from, next int64) bool {
	if from > q.times.To {
		return false
	}
	return next == NoEnd || q.times.To >= q.horizon && next > max(q.times.From, q.horizon)
}

// emit yields a version unless it is none; it reports whether to go on.
func (q *versionQuery) emit(e Entry, next int64, yield func(Version) bool) bool {
	return e.Empty || !q.covers(q.v.schema.timeOf(e.Key), next) || yield(q.v.version(q.key, next, e))
}

// forward goes from the version at the lowest time up. Each is yielded when the next one is seen.
func (q *versionQuery) forward(yield func(Version) bool) error {
	from, err := q.v.floor(q.sn, q.key, q.lowest())
	if err != nil {
		return err
	}
	sc := versionScan(q.key, Times{from, math.MaxInt64}, false)
	sc.KeysOnly = q.o.KeysOnly
	if q.o.After != nil {
		sc.narrow(append(internalKey(q.key, q.after), 0), sc.To)
	}
	var pending *Entry
	for e, err := range q.sn.Scan(sc) {
		if err != nil {
			return err
		}
		from := q.v.schema.timeOf(e.Key)
		if pending != nil && !q.emit(*pending, from, yield) {
			return nil
		}
		pending = &e
		if from > q.times.To {
			return nil
		}
	}
	if pending != nil {
		q.emit(*pending, NoEnd, yield)
	}
	return nil
}

// backward goes from the version at the highest time down.
func (q *versionQuery) backward(yield func(Version) bool) error {
	top := q.times.To
	if q.o.After != nil && q.after <= top {
		if q.after == math.MinInt64 {
			return nil
		}
		top = q.after - 1
	}
	next, err := q.v.next(q.sn, q.key, top)
	if err != nil {
		return err
	}
	sc := versionScan(q.key, Times{math.MinInt64, top}, true)
	sc.KeysOnly = q.o.KeysOnly
	for e, err := range q.sn.Scan(sc) {
		if err != nil {
			return err
		}
		if !q.emit(e, next, yield) {
			return nil
		}
		if next = q.v.schema.timeOf(e.Key); next <= q.lowest() {
			return nil
		}
	}
	return nil
}

// FetchRange yields, for each of a range of keys, the version that GetAsOf gives at a time (math.MaxInt64: the latest, as
// Get), in the order of the keys or against it. It reads all versions on its way.
func (v VersionedReader) FetchRange(keys KeyRange, ms int64, o ScanOptions) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		sn, err := v.r.Pin()
		if err != nil {
			yield(Version{}, err)
			return
		}
		defer sn.Release()
		g := versionGroup{v: v, ms: ms, reverse: o.Reverse, horizon: v.schema.Horizon(sn.StreamTime()), yield: yield}
		for e, err := range sn.Scan(v.schema.scan(keys, o)) {
			if err != nil {
				yield(Version{}, err)
				return
			}
			if !g.add(e) {
				return
			}
		}
		g.end()
	}
}

// Count is the number of versions that FetchRange yields. It reads no values.
func (v VersionedReader) Count(keys KeyRange, ms int64) (int64, error) {
	return count(v.FetchRange(keys, ms, ScanOptions{KeysOnly: true}))
}

// versionGroup finds the version at a time among those of a key, which come one after another.
type versionGroup struct {
	v       VersionedReader
	ms      int64
	reverse bool
	horizon int64
	yield   func(Version, error) bool

	key   []byte // what the internal keys of the group begin with
	found *Entry // the last version at or before ms
	next  int64  // when the first version after ms begins
}

// add takes the next entry; it reports whether to go on.
func (g *versionGroup) add(e Entry) bool {
	key := e.Key[:max(0, len(e.Key)-timeBytes)]
	if g.key == nil || !bytes.Equal(key, g.key) {
		if !g.end() {
			return false
		}
		g.key, g.found, g.next = key, nil, NoEnd
	}
	at := g.v.schema.timeOf(e.Key)
	switch {
	case at <= g.ms && (g.found == nil || !g.reverse):
		g.found = &e
	case at > g.ms && (g.next == NoEnd || g.reverse):
		g.next = at
	}
	return true
}

// end yields what the group has.
func (g *versionGroup) end() bool {
	if g.found == nil || g.found.Empty || g.next != NoEnd && g.ms < g.horizon {
		return true
	}
	key, _, _, err := g.v.schema.parse(g.found.Key)
	if err != nil {
		g.yield(Version{}, corruptf("%w", err))
		return false
	}
	out := g.v.version(key, g.next, *g.found)
	out.Cursor = g.v.schema.edge(key, !g.reverse)
	return g.yield(out, nil)
}

// VersionedStore is a task's versioned store: what its Overlay shows, and writes to it.
type VersionedStore struct {
	VersionedReader
	o *Overlay
}

// NewVersionedStore reads and writes an overlay over a versioned store; over another it is a *KindError.
func NewVersionedStore(o *Overlay) (VersionedStore, error) {
	r, err := NewVersionedReader(o)
	return VersionedStore{r, o}, err
}

// Put writes the value that a key has from a time on, in milliseconds; nil says that it has none (as Delete). The versions
// of a key may come in any order; one at the time of another takes its place. It reports whether the version is kept: one
// older than the stream time less the history retention is refused, and to be counted as dropped.
func (v VersionedStore) Put(key, value []byte, timestamp int64) (kept bool) {
	c := version(internalKey(key, timestamp), value, timestamp)
	if !v.o.admits(c.Key) {
		return false
	}
	v.o.Put(c.Key, c.Value, timestamp)
	return true
}

// Delete says that a key has no value from a time on. It reports whether that is kept, as Put.
func (v VersionedStore) Delete(key []byte, timestamp int64) (kept bool) {
	return v.Put(key, nil, timestamp)
}
