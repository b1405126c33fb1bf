package serve

import (
	"errors"
	"fmt"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// A lookup is what a Get, or a MultiGet for each of its keys, asks of a store: a key and, by the store's kind, the window,
// session or time.
type lookup struct {
	key        []byte
	start, end int64  // in milliseconds
	asOf       *int64 // nil for the latest version
}

// found is what a lookup has found.
type found struct {
	value store.Value
	ok    bool
	until *int64 // when the version found ended, nil for the latest and in stores of other kinds
}

// lookupOf checks that a Get names what a store of that kind is read by, and nothing else.
func lookupOf(kind topology.StoreKind, req *query.Get) (lookup, error) {
	window, session := kind == topology.Window, kind == topology.Session
	err := errors.Join(
		checkTime("window_start_ms", req.WindowStartMs, window || session, true, kind),
		checkTime("session_end_ms", req.SessionEndMs, session, true, kind),
		checkTime("as_of_ms", req.AsOfMs, kind == topology.Versioned, false, kind),
	)
	if err != nil {
		return lookup{}, err
	}
	l := lookup{key: req.Key, asOf: req.AsOfMs}
	if req.WindowStartMs != nil {
		l.start = *req.WindowStartMs
	}
	if req.SessionEndMs != nil {
		l.end = *req.SessionEndMs
	}
	if session && l.end < l.start {
		err = iqerr.Invalid("session_end_ms", l.end, fmt.Sprintf("is before window_start_ms %d", l.start))
	}
	return l, err
}

// checkTime refuses a field that is missing, or that is there and not for the kind.
func checkTime(field string, ms *int64, allowed, required bool, kind topology.StoreKind) error {
	switch {
	case ms != nil && !allowed:
		return iqerr.Invalid(field, *ms, fmt.Sprintf("is not for a %s store", kind))
	case ms == nil && allowed && required:
		return iqerr.Invalid(field, "", fmt.Sprintf("must be given for a %s store", kind))
	}
	return nil
}

// inKV looks in the store's newest state and says which that was.
func (l lookup) inKV(kv *store.KV) (found, store.Checkpoint, error) {
	if schema := kv.ID().Schema; schema.Kind != store.KindVersioned {
		v, ok, at, err := kv.Get(l.internal(schema))
		return found{value: v, ok: ok}, at, err
	}
	sn, err := kv.Snapshot()
	if err != nil {
		return found{}, store.Checkpoint{}, err
	}
	defer sn.Release()
	f, err := l.in(sn)
	return f, sn.Checkpoint(), err
}

// in looks in what a reader shows.
func (l lookup) in(r store.Reader) (found, error) {
	schema := r.Schema()
	if schema.Kind != store.KindVersioned {
		v, ok, err := r.Get(l.internal(schema))
		return found{value: v, ok: ok}, err
	}
	versions, err := store.NewVersionedReader(r)
	if err != nil {
		return found{}, err
	}
	var v store.Version
	var ok bool
	if l.asOf == nil {
		v, ok, err = versions.Get(l.key)
	} else {
		v, ok, err = versions.GetAsOf(l.key, *l.asOf)
	}
	if err != nil || !ok {
		return found{}, err
	}
	f := found{value: store.Value{Bytes: v.Value.Bytes, Timestamp: v.ValidFrom}, ok: true}
	if v.ValidTo != store.NoEnd {
		f.until = &v.ValidTo
	}
	return f, nil
}

// internal is the key in a store that is not versioned.
func (l lookup) internal(s store.Schema) []byte {
	switch s.Kind {
	case store.KindWindow:
		return store.WindowKey(l.key, l.start)
	case store.KindSession:
		return store.SessionKey(l.key, l.start, l.end)
	case store.KindKeyValue, store.KindVersioned:
	}
	return l.key
}
