package node

import (
	"slices"
	"sync"

	"github.com/iqgate/iqgate/metadata"
)

// A suspicion is what one router says of a node that it has lost.
type suspicion struct {
	node        metadata.NodeID
	address     string
	incarnation metadata.Incarnation
	refused     bool // the address refuses connections: the process is gone
}

// A word is what one router says now.
type word struct {
	lost     []suspicion // replaced, never written
	relieved bool        // this node drains, and all that it holds is served elsewhere
}

// words are what each router says whose stream of answers is open. A router without a stream has no say: it may be the one
// that is cut off.
type words struct {
	changed *news
	mu      struct {
		sync.Mutex
		said map[*stream]word
	}
}

// A stream is one stream of a router's answers.
type stream struct{ router string }

func newWords() *words {
	s := &words{changed: newNews()}
	s.mu.said = make(map[*stream]word)
	return s
}

// tell keeps what a router says on a stream; it replaces what it said before.
func (s *words) tell(from *stream, w word) {
	s.mu.Lock()
	old, known := s.mu.said[from]
	s.mu.said[from] = w
	s.mu.Unlock()
	if !known || old.relieved != w.relieved || !slices.Equal(old.lost, w.lost) {
		s.changed.announce()
	}
}

// end takes away the say of a stream that has ended.
func (s *words) end(of *stream) {
	s.mu.Lock()
	delete(s.mu.said, of)
	s.mu.Unlock()
	s.changed.announce()
}

// lost is whom each router has lost.
func (s *words) lost() [][]suspicion {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all [][]suspicion
	for _, w := range s.mu.said {
		all = append(all, w.lost)
	}
	return all
}

// relieved says how many routers have a say and whether all of them say that this node is relieved.
func (s *words) relieved() (routers int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = true
	for _, w := range s.mu.said {
		all = all && w.relieved
	}
	return len(s.mu.said), all
}

// agreed are the members of the group that every router has lost, by node. One router that still hears a node is enough
// to leave it alone, and so is one that never heard it; the session timeout is left then. A node that is a member under
// another address was started anew. Self is never among them.
func agreed(self metadata.NodeID, hosts []metadata.Host, said [][]suspicion) []suspicion {
	var lost []suspicion
	if len(said) == 0 {
		return nil
	}
	for _, h := range hosts {
		if h.Node == self {
			continue
		}
		sum := suspicion{node: h.Node}
		all := true
		for _, list := range said {
			i := slices.IndexFunc(list, func(s suspicion) bool { return s.node == h.Node })
			if i < 0 || sum.address != "" && (list[i].incarnation != sum.incarnation || list[i].address != sum.address) {
				all = false // one router hears it, or they speak of different processes
				break
			}
			sum.address, sum.incarnation = list[i].address, list[i].incarnation
			sum.refused = sum.refused || list[i].refused
		}
		if all && (h.Address == "" || h.Address == sum.address) {
			lost = append(lost, sum)
		}
	}
	return lost
}

// told says whether any router has lost the process.
func told(said [][]suspicion, id eviction) bool {
	return slices.ContainsFunc(said, func(list []suspicion) bool {
		return slices.ContainsFunc(list, func(s suspicion) bool { return s.node == id.node && s.incarnation == id.incarnation })
	})
}

// turn is this node's place, from 0, among the members that nobody suspects: the first removes the lost ones from the
// group, and the others only if they are still there after their time. One that any router suspects may not act at all.
func turn(self metadata.NodeID, hosts []metadata.Host, said [][]suspicion) int {
	place := 0
	for _, h := range hosts {
		suspect := slices.ContainsFunc(said, func(list []suspicion) bool {
			return slices.ContainsFunc(list, func(s suspicion) bool { return s.node == h.Node })
		})
		if h.Node < self && !suspect {
			place++
		}
	}
	return place
}
