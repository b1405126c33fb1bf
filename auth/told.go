package auth

import (
	"context"
	"errors"
	"slices"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// isAbout says whether a rule is about a store.
func (g *grants) isAbout(store string) bool {
	return slices.ContainsFunc(g.rules, func(r *rule) bool { return r.covers(store) })
}

// confineError leaves out of an error of a handler the stores that no rule is about: who asks for one that there is not is told
// of those that there are.
func (g *grants) confineError(err error) error {
	if iqerr.ReasonOf(err) != iqv1.Reason_REASON_STORE_UNKNOWN {
		return err
	}
	told, ok := errors.AsType[*iqerr.StoreUnknownError](iqerr.FromStatus(err))
	if !ok {
		return err
	}
	own := &iqerr.StoreUnknownError{Store: told.Store}
	for _, s := range told.Known {
		if g.isAbout(s) {
			own.Known = append(own.Known, s)
		}
	}
	return iqerr.Status(own)
}

// ConfineError is what the caller of a stream of lookups gets to see of the error of one. The error of a call, or of a whole
// stream, needs no such care.
func ConfineError(ctx context.Context, err error) error {
	s := sessionOf(ctx)
	if s == nil || err == nil {
		return err
	}
	return s.now.grants.confineError(err)
}

// confineStores leaves the stores that a rule of the caller is about.
func confineStores(g *grants, answer any) any {
	all, ok := answer.(*iqv1.ListStoresResponse)
	if !ok {
		return &iqv1.ListStoresResponse{}
	}
	own := &iqv1.ListStoresResponse{}
	for _, s := range all.GetStores() {
		if g.isAbout(s.GetName()) {
			own.Stores = append(own.Stores, s)
		}
	}
	return own
}

// confineExplained leaves out of an explanation the other stores that it names.
func confineExplained(_ *grants, answer any) any {
	e, ok := answer.(*iqv1.ExplainResponse)
	if !ok {
		return &iqv1.ExplainResponse{}
	}
	if e.GetReason() == iqv1.Reason_REASON_STORE_UNKNOWN {
		return &iqv1.ExplainResponse{Reason: e.GetReason(), Error: "the store is unknown"}
	}
	return e
}
