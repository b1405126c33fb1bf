package tally

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// Policy is the mode of a read's policy. Its numbers are those of the wire's ReadPolicy.Mode.
type Policy int8

// The policies; the one without a name is of reads that were refused before it was known.
const (
	Strong Policy = iota + 1
	Active
	Bounded
	Any
	policies
)

// String is the policy as a label has it.
func (p Policy) String() string {
	switch p {
	case Strong:
		return "strong"
	case Active:
		return "active"
	case Bounded:
		return "bounded"
	case Any:
		return "any"
	case policies:
	}
	return "none"
}

// known is p, or the policy without a name for one of a later version.
func (p Policy) known() Policy {
	if p < 0 || p >= policies {
		return 0
	}
	return p
}

// noRole is the role of no replica, and roles how many there are with it.
const (
	noRole metadata.Role = 0
	roles                = metadata.RoleWarmup + 1
)

// RoleName is a role as a label has it: none where no replica has answered.
func RoleName(r metadata.Role) string {
	if r == noRole {
		return "none"
	}
	return r.String()
}

// Other is the store that reads of stores are counted under which the application does not have.
const Other = "other"

// maxStores bounds the stores that are counted each by its name.
const maxStores = 1000

// Reads counts reads of partitions of stores: a Get is one, and another call one for each partition that it reads.
// NewReads makes one.
type Reads struct {
	mu     sync.Mutex // held to make counters
	byName atomic.Pointer[map[string]*StoreReads]
	other  *StoreReads
}

// NewReads makes counters that know no store.
func NewReads() *Reads {
	r := &Reads{other: newStoreReads(Other)}
	r.byName.Store(&map[string]*StoreReads{})
	return r
}

// Know makes counters for stores that the application has, as long as there are fewer than 1000.
func (r *Reads) Know(names ...string) {
	known := *r.byName.Load()
	if len(known) >= maxStores || !slices.ContainsFunc(names, func(name string) bool { return known[name] == nil }) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[string]*StoreReads, len(names))
	maps.Copy(next, *r.byName.Load())
	for _, name := range names {
		if next[name] == nil && len(next) < maxStores && name != Other {
			next[name] = newStoreReads(name)
		}
	}
	r.byName.Store(&next)
}

// Of are the counters of a store, those of Other when it is not known. They stay the same for as long as the store is known.
func (r *Reads) Of(store string) *StoreReads {
	if s := (*r.byName.Load())[store]; s != nil {
		return s
	}
	return r.other
}

// Stores are the counters of all stores, by name, Other last.
func (r *Reads) Stores() []*StoreReads {
	known := *r.byName.Load()
	all := make([]*StoreReads, 0, len(known)+1)
	for _, s := range known {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *StoreReads) int { return strings.Compare(a.Store, b.Store) })
	return append(all, r.other)
}

// StoreReads counts the reads of one store.
type StoreReads struct {
	Store string

	served    [policies][roles]atomic.Int64
	refused   [policies][outcomes]atomic.Int64
	stale     atomic.Int64
	staleness [roles]*Histogram
}

func newStoreReads(name string) *StoreReads {
	s := &StoreReads{Store: name}
	for i := range s.staleness {
		s.staleness[i] = newHistogram(stalenessBounds)
	}
	return s
}

// Served counts a read that a replica has answered: what role it had, and how far it was behind when it was read, in time and in
// changelog offsets; metadata.LagUnknown where it did not know.
func (s *StoreReads) Served(p Policy, role metadata.Role, timeLag time.Duration, offsetLag int64) {
	if role < 0 || role >= roles { // of a later version
		role = noRole
	}
	s.served[p.known()][role].Add(1)
	if offsetLag != 0 {
		s.stale.Add(1)
	}
	if timeLag != metadata.LagUnknown {
		s.staleness[role].Observe(timeLag)
	}
}

// Nowhere counts a read of a key that is in no partition, and which is therefore not found without a look at any.
func (s *StoreReads) Nowhere(p Policy) { s.served[p.known()][noRole].Add(1) }

// Refused counts a read that ended with err.
func (s *StoreReads) Refused(p Policy, err error) { s.refused[p.known()][OutcomeOf(err)].Add(1) }

// Each calls f with each count that is not 0.
func (s *StoreReads) Each(f func(p Policy, role metadata.Role, outcome Outcome, n int64)) {
	for p := range policies {
		for role := range roles {
			if n := s.served[p][role].Load(); n > 0 {
				f(p, role, OK, n)
			}
		}
		for o := range outcomes {
			if n := s.refused[p][o].Load(); n > 0 {
				f(p, noRole, o, n)
			}
		}
	}
}

// Stale is how many reads were answered by a replica that was behind its changelog's end as it knew it, or did not know.
func (s *StoreReads) Stale() int64 { return s.stale.Load() }

// Staleness calls f with how far behind the answers of each role were, for the roles that have answered.
func (s *StoreReads) Staleness(f func(role metadata.Role, d Distribution)) {
	for role := range roles {
		if d := s.staleness[role].Load(); d.Count > 0 {
			f(role, d)
		}
	}
}
