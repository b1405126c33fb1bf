package auth

import (
	"slices"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/iqerr"
)

// Decide says whether a principal may do all that a call wants: nil, or an *iqerr.DeniedError for the first access that no
// rule allows. The same rules, principal and accesses always give the same answer.
func Decide(r *Rules, p Principal, wants []Access) error {
	return r.grants(p).allow(wants)
}

// grants are what the rules say of one principal, so that a call need not look at the rules of others.
type grants struct {
	nodes  []string // the ids that it may report for
	router bool
	rules  []*rule
}

// grants picks the rules for a principal.
func (r *Rules) grants(p Principal) *grants {
	g := &grants{router: anyMatches(r.routers, p.Names...)}
	for _, pattern := range r.nodes {
		for _, name := range p.Names {
			if id, ok := pattern.node(name); ok && !slices.Contains(g.nodes, id) {
				g.nodes = append(g.nodes, id)
			}
		}
	}
	for _, rule := range r.rules {
		if anyMatches(rule.who, p.Names...) {
			g.rules = append(g.rules, rule)
		}
	}
	return g
}

func (g *grants) allow(wants []Access) error {
	for i := range wants {
		if err := g.allowOne(&wants[i]); err != nil {
			return err
		}
	}
	return nil
}

func (g *grants) allowOne(a *Access) error {
	denied := &iqerr.DeniedError{Action: string(a.Action), Store: a.Store}
	switch a.Action {
	case Report:
		switch {
		case slices.Contains(g.nodes, a.Node), fault.TokenOfOtherAccepted && len(g.nodes) > 0:
			return nil
		case len(g.nodes) > 0:
			denied.Problem = "these credentials are of another node"
		default:
			denied.Problem = "only nodes report"
		}
		return denied
	case Peer:
		switch {
		case a.Node != "" && slices.Contains(g.nodes, a.Node), a.Node == "" && (g.router || len(g.nodes) > 0):
			return nil
		case len(g.nodes) > 0:
			denied.Problem = "these credentials are of another node"
			return denied
		}
		denied.Problem = "only nodes and routers ask this of one another"
		return denied
	case Control:
		if slices.ContainsFunc(g.rules, func(r *rule) bool { return slices.Contains(r.allow, Control) }) {
			return nil
		}
		return denied
	case Read, Watch, Metadata:
	default:
		return denied
	}
	// Several rules may allow the keys of one access together, each range by one of them.
	var prefixes [][]byte
	for _, r := range g.rules {
		if !slices.Contains(r.allow, a.Action) || !r.covers(a.Store) {
			continue
		}
		if len(r.keys) == 0 {
			return nil
		}
		prefixes = append(prefixes, r.keys...)
	}
	if len(prefixes) == 0 {
		return denied
	}
	inside := func(keys Range) bool { return slices.ContainsFunc(prefixes, keys.within) }
	if len(a.Keys) > 0 && !slices.ContainsFunc(a.Keys, func(keys Range) bool { return !inside(keys) }) {
		return nil
	}
	denied.Problem = "only keys with certain prefixes are allowed, and all that is asked for must lie within one of them"
	return denied
}

// covers says whether the rule is about a store; the empty name stands for all stores.
func (r *rule) covers(store string) bool {
	if store == "" {
		return slices.ContainsFunc(r.stores, func(p pattern) bool { return p.open && p.text == "" })
	}
	return anyMatches(r.stores, store)
}
