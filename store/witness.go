package store

import (
	"encoding/binary"
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// A witness is a numbered entry among the data, one in every witnessInterval bytes written and one before the first
// after each Open. Number n is kept in slot n modulo witnessSlots, and the position entry says what the newest number
// is. So when a store opens, the last witnessSlots numbers must all be found where they belong. A log, memtable or
// table file that went missing below the position takes its witnesses with it: a memtable holds several, and the
// slots reach back over about eight memtables. Anything older is in tables, which Badger syncs before it lists them
// in its manifest.
const (
	witnessSlots           = 64
	witnessesPerMemtable   = 8
	entryCost              = 128 // what Badger adds to an entry in a memtable, so that many small entries count too
	witnessMinIntervalSize = 16 << 10
)

func (o Options) witnessInterval() int64 {
	return max(witnessMinIntervalSize, o.MemTableBytes/witnessesPerMemtable)
}

func witnessKey(number uint64) []byte {
	return []byte{prefixWitness, byte(number % witnessSlots)}
}

func witnessValue(number uint64) []byte {
	return binary.AppendUvarint(nil, number)
}

// checkWitnesses looks for the newest witnesses up to a number at a timestamp.
func checkWitnesses(db *badger.DB, newest, ts uint64) error {
	txn := db.NewTransactionAt(ts, false)
	defer txn.Discard()
	for age := range min(newest, witnessSlots) {
		want := newest - age
		item, err := txn.Get(witnessKey(want))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return corruptf("data below the position are missing: witness %d of %d is not there", want, newest)
		}
		if err != nil {
			return corruptf("witness %d: %w", want, err)
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return corruptf("witness %d: %w", want, err)
		}
		if have, n := binary.Uvarint(value); n <= 0 || have != want {
			return corruptf("data below the position are missing: witness %d of %d stands in the place of %d", have, newest, want)
		}
	}
	return nil
}
