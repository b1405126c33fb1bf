package store

import "iter"

// KeyValueReader reads a key-value store: the newest state, a Snapshot, or an Overlay.
type KeyValueReader struct {
	r      Reader
	schema Schema
}

// NewKeyValueReader reads r, which must be of a key-value store; else it is a *KindError.
func NewKeyValueReader(r Reader) (KeyValueReader, error) {
	s := r.Schema()
	return KeyValueReader{r, s}, wantKind(s, KindKeyValue)
}

// Get returns a key's value and whether the key is there.
func (k KeyValueReader) Get(key []byte) (Value, bool, error) {
	return k.r.Get(key)
}

// FetchRange yields the entries of a range of keys in the byte order of the keys, or against it. An entry's key is its
// cursor. An error is the last thing that it yields.
func (k KeyValueReader) FetchRange(keys KeyRange, o ScanOptions) iter.Seq2[Entry, error] {
	return k.r.Scan(k.schema.scan(keys, o))
}

// Count is the number of entries of a range. It reads no values. KV.Stats estimates the whole store's in no time.
func (k KeyValueReader) Count(keys KeyRange) (int64, error) {
	return count(k.FetchRange(keys, ScanOptions{KeysOnly: true}))
}
