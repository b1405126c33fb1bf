package query

import (
	"strconv"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
)

// Kind is what the entries of a store are.
type Kind uint8

// The kinds, as nodes name them in metadata.StoreInfo.Kind.
const (
	KeyValue  Kind = iota // a key has a value
	Window                // a key and a window's start have a value
	Session               // a key and a session's start and end have a value
	Versioned             // a key has a value from a time on, until its next version
)

var kindNames = [...]string{KeyValue: "keyvalue", Window: "window", Session: "session", Versioned: "versioned"}

// String is the kind's name in metadata.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// KindOf is the kind of a store. A node that tells none has key-value stores only. The error is an *iqerr.InvalidError.
func KindOf(info *metadata.StoreInfo) (Kind, error) {
	if info.Kind == "" {
		return KeyValue, nil
	}
	for k, name := range kindNames {
		if name == info.Kind {
			return Kind(k), nil
		}
	}
	return 0, iqerr.Invalid("store", info.Name, "is of kind "+strconv.Quote(info.Kind)+", which this server does not know")
}

// serdeJSON is the value serde whose values filter and fields can look into.
const serdeJSON = "json"
