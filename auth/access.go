package auth

import (
	"bytes"
	"time"
)

// An Action is a kind of thing that a caller may do.
type Action string

const (
	// Read is Get, MultiGet, Scan and Count.
	Read Action = "read"
	// Watch is Watch.
	Watch Action = "watch"
	// Metadata is who hosts what and how far behind.
	Metadata Action = "metadata"
	// Control is what changes the cluster, such as Drain, or makes its nodes work hard. It is about no store.
	Control Action = "control"
	// Report is a node's report to a router. The rules' list of nodes allows it, and nothing else does.
	Report Action = "report"
	// Peer is what nodes and routers ask of one another. The rules' lists of nodes and routers allow it, and nothing else does.
	Peer Action = "peer"
)

// An Access is one thing that a call wants to do.
type Access struct {
	Action Action
	// Store is the store's name; empty for all stores, and for what is about none.
	Store string
	// Keys are the ranges of keys that are asked for; none for all keys.
	Keys []Range
	// Node is, for Report and Peer, the node that the caller says it is; empty when it does not say.
	Node string
}

// A Range is the keys from From to before To, in byte order. A nil To is no bound, and From has none when it is empty.
type Range struct {
	From, To []byte
}

// Point is the range of one key.
func Point(key []byte) Range { return Range{From: key, To: after(key)} }

// Prefixed is the range of the keys that begin with prefix.
func Prefixed(prefix []byte) Range { return Range{From: prefix, To: successor(prefix)} }

// after is the smallest key that is larger than key.
func after(key []byte) []byte { return append(bytes.Clone(key), 0) }

// successor is the smallest key that is larger than all keys that begin with prefix; nil when there is none.
func successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			s := bytes.Clone(prefix[:i+1])
			s[i]++
			return s
		}
	}
	return nil
}

// within says whether every key of r begins with prefix. It is so for a range without keys.
func (r Range) within(prefix []byte) bool {
	if r.To != nil && bytes.Compare(r.From, r.To) >= 0 {
		return true
	}
	end := successor(prefix)
	return bytes.Compare(r.From, prefix) >= 0 && (end == nil || r.To != nil && bytes.Compare(r.To, end) <= 0)
}

// A Principal is who calls.
type Principal struct {
	// Names are what the credentials call their holder, each with its kind: "uri:spiffe://acme/node/a", "dns:a.acme.com",
	// "cn:a" of a certificate, "sub:alice" and "group:readers" of a token. The first one names it in logs.
	Names []string
	// Expires is when the credentials end; zero when that is not known.
	Expires time.Time
}

// String is the principal's first name.
func (p Principal) String() string {
	if len(p.Names) == 0 {
		return "nobody"
	}
	return p.Names[0]
}

// maxNames bounds the names of a principal: groups are many in some tokens, and a router passes them on.
const maxNames = 256
