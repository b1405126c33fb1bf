// Package store keeps the state of tasks: a store partition in a Badger database of its own (KV), and the uncommitted
// writes of a transaction over it (Overlay). A store is of one of four kinds: key-value, window, session or versioned.
//
// It owns what is on disk, how it survives a crash, and what a read sees. It knows nothing of Kafka: a position is
// the next changelog offset to apply, and who calls Apply (a task after its commit, a restore, a standby's tail)
// sees to it that what it applies was committed (I1) and that it is alone (I3; a second writer gets ErrTwoWriters).
//
// # Steps and visibility
//
// The database is in managed mode: each entry carries a timestamp that we choose, and a read names the timestamp that
// it wants to see. Apply writes all its changes at one new timestamp (the changelog position + 1, or the last
// timestamp + 1 when that is larger), then the position, and then publishes the timestamp. Reads use the published
// one only, so they see all of an Apply or nothing, although a large Apply is many Badger transactions. A read at
// "latest" would see torn batches.
//
// Badger may discard versions below its discard timestamp, which it forgets at each start. It is set after Open and
// after each Apply to the oldest timestamp that a running read or an unreleased Snapshot pins, and so is never above
// the position. The pins are counters; no lock is taken on the way of a read.
//
// # Crashes
//
// The position entry goes into the last Badger transaction of an Apply, sent when all others are acknowledged, so
// a position is never ahead of the data (I2). A process that dies in the middle leaves entries above the position.
// Open finds them (the database's newest timestamp is above the position's), and undoes them: it writes, above all
// of them, the value that each touched key has at the position. The same happens in a living store before the
// Apply after one that failed. So the state after Open is exactly that of the position, and the replay may cut its
// batches anywhere: without the undo, an entry left over from offsets 10 to 20 would show in a replayed batch that
// ends at 15 as soon as its timestamp is passed, which is right only while the changelog below it is unchanged.
//
// Applies without changes move the position in memory, and in the database at the next Apply with changes, every 64
// moves, and at Close. After a crash the position is then a little low, which costs a replay of nothing.
//
// # What is checked when a store opens
//
// A marker file beside the database says whether there must be one, and whether it was closed. Open refuses as
// ErrCorrupt: a database that opens empty or is gone although the marker knows of it, a database without a marker,
// a position entry that does not fit its own timestamp, and data below the position that went missing
// (witness.go: numbered entries among the data, the newest of which must all be there). Another identity is an
// IdentityError. After a power loss (not after a mere kill), with SyncWrites off, an older log may be missing while a
// newer one is there; so the marker remembers the boot id, and what was not closed before a reboot is refused.
// A large value whose file is gone, or that does not fit its checksum, is found when it is read: a stored value is never
// empty, Badger's answer is.
//
// Badger itself trusts its files: it ends the process, deletes newer tables, or answers "no such key" when they are damaged. So
// Open looks at all of them first (inspect.go): the manifest whole, every table there with a sound index, logs whole, after an
// orderly end exactly the files that were there; and the blocks of tables that it does not know, by size, time and end, from
// an earlier look. A disk that rots without a trace in a file's time is found by Scrub, not by a Get.
// Empty log files, which a kill during a rotation leaves and with which Badger does not open, are removed first.
//
// What is refused is to be removed (Remove), or moved aside for somebody to look at (Quarantine), and rebuilt from its changelog. Whether the position lies within the
// changelog is for the caller to judge.
//
// # Copies
//
// An Export is the state at one position, read in short portions and sent as a stream of bytes (snapshot_wire.go); an Import
// makes a store of it in a directory of its own, by Badger's StreamWriter, several times as fast as by Apply. The entries
// get one timestamp, the position follows them, and only when all of that is on disk does the marker say that there is a
// store. Adopt puts it into the place of another. A copy has what reads of the source see at the position and nothing else:
// no older versions, nothing of a later Apply, nothing that is expired.
//
// # Closing
//
// Badger unmaps its files in Close whatever still reads, and the next read kills the process. Each call therefore
// passes a gate that counts it. Close shuts the gate, scans end at their next entry with ErrClosed, and the database
// is closed when the count is zero. A reader that does not come back (a scan whose consumer is stuck) delays that:
// after Options.DrainTimeout Close returns ErrDrain and the last call out closes the database.
//
// # Keys and values
//
// Any key and any value up to 64 MiB is kept (1 MiB in memory). Keys are prefixed, long keys are hashed, ranges are in
// the byte order of the whole keys (keys.go). A put of nothing is an empty value; a delete is Badger's delete marker.
//
// # Kinds
//
// All kinds are one machine: a KV maps keys to values, and a Schema (kind, window size, retention; part of the identity)
// says what the keys are. A codec stands between three forms of the same thing:
//
//	what users see         internal key                changelog record (Kafka Streams 4.x)
//	key                    key                         key = value
//	key, window start      key' 00 01 start            key start 00000000 = value
//	key, session           key' 00 01 end start        key end start = value
//	key, version from      key' 00 01 timestamp        key = value, the record's timestamp is the version's
//
// Internal keys sort by key, then by time, whatever bytes the keys have (timekey.go), so every query of a kind is a range
// of the KV: WindowReader, SessionReader, VersionedReader and KeyValueReader are thin readers of any Reader (the newest
// state, a Snapshot, an Overlay), and WindowStore, SessionStore and VersionedStore also write to an Overlay. Crash safety,
// whole visibility, undo and witnesses are the KV's and know nothing of kinds. Schema.FromChangelog and Schema.ToChangelog
// are the way from and to records; Schema.Coalesce leaves the last of each internal key in a batch, since the last by
// record key would lose versions. A deletion of a version is itself a version and stored as one; a deleted window or
// session is gone.
//
// # Stream time and retention
//
// The stream time of a partition is the largest window start, session end or version timestamp that was put or deleted.
// It is in the position entry, and so moves in the same step as the data; an overlay adds what its own writes moved,
// which nobody else sees before the commit. No wall clock and no Badger TTL takes part: what a read answers is a function
// of the changes up to the position, alike on active, standby, restored and reopened stores.
//
// A window or session at or before stream time - retention is hidden by the readers of the KV and of the overlay, in raw
// ranges too. Writes of such are dropped (Schema.Admit), which Put of a WindowStore tells its caller. Of a versioned store
// nothing is hidden by its key alone: the latest version of a key is always there; an older one is until it ended at or
// before stream time - retention; a version put below that is refused. VersionedReader judges by the versions and the
// stream time of one pinned state. In one transaction the versions go to the changelog in the order of their times: a
// store that takes them one by one then refuses none that the overlay took.
//
// What is hidden for good is deleted later, in portions with the Applies (purge.go), without a tombstone in the changelog.
//
// Kafka's compaction may remove the record that moved the stream time last, or the latest of several versions of a key when
// an older one was put after it. Kafka Streams has the same limits and sets a changelog's min.compaction.lag.ms and
// retention.ms so that they do not matter within the retention.
//
// # Scans
//
// Ranges of keys include both ends unless told otherwise (KeyRange), times include both (Times), nil is no bound. A scan
// without values (ScanOptions.KeysOnly) reads none, and a filter by time is asked before the value is read. Each entry has
// a cursor, which is its internal key: a scan goes on behind it on any replica, in the state that it finds there. A scan
// that is cut short by Close ends with ErrClosed; one that is left holds nothing. Stats estimates the number of entries from
// Badger's tables, Count counts.
//
// # Bytes
//
// What a read returns belongs to the caller. What Apply and Overlay are given is copied or written before they return.
package store
