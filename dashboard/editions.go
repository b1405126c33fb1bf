package dashboard

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// editions makes pages, for all who look at one.
type editions struct {
	config *Config

	mu struct {
		sync.Mutex
		newest   *edition
		restores restores
		reads    readCourse
	}
}

// edition is the state of everything at one moment, and the pages that were made of it.
type edition struct {
	at       time.Time
	view     *metadata.View
	restores []Restore
	reads    Reads
	recent   []Read

	mu struct {
		sync.Mutex
		before map[string]*Page // by store, of the edition before this one
		pages  map[string]*shown
	}
}

// shown is a page as readers get it.
type shown struct {
	page *Page
	// before is the page of the edition before; nil when nobody looked at it. change tells the difference, encoded once for
	// all who have seen that one; it is nil when there is none.
	before *Page
	change func() []byte
}

// at gives the newest edition, made anew when it is older than half an Interval.
func (e *editions) at(now time.Time) *edition {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.mu.newest
	if old != nil && now.Sub(old.at) < e.config.Interval/2 {
		return old
	}
	v := e.config.View()
	next := &edition{at: now, view: v, recent: []Read{}, reads: Reads{Course: []Point{}}, restores: e.mu.restores.observe(v, now)}
	if e.config.Reads != nil {
		recent := e.config.Reads.Recent()
		next.recent, next.reads = recent[max(0, len(recent)-maxListed):], e.mu.reads.observe(e.config.Reads.Counts(), now)
	}
	next.mu.pages = map[string]*shown{}
	if old != nil {
		next.mu.before = old.pages()
	}
	e.mu.newest = next
	return next
}

func (e *edition) pages() map[string]*Page {
	e.mu.Lock()
	defer e.mu.Unlock()
	pages := make(map[string]*Page, len(e.mu.pages))
	for store, s := range e.mu.pages {
		pages[store] = s.page
	}
	return pages
}

// show gives the page of one store, or of all when store is empty. Who may see one store alone is not told of the reads of
// others.
func (e *edition) show(store string) *shown {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.mu.pages[store]; s != nil {
		return s
	}
	p := MakePage(e.view, store, e.at)
	if store == "" {
		p.Restores, p.Reads, p.Recent = e.restores, e.reads, e.recent
	} else {
		for _, r := range e.restores {
			if r.Store == store {
				p.Restores = append(p.Restores, r)
			}
		}
		for _, r := range e.recent {
			if r.Store == store {
				p.Recent = append(p.Recent, r)
			}
		}
	}
	s := &shown{page: p, before: e.mu.before[store]}
	s.change = sync.OnceValue(func() []byte { return e.encodeChange(s.before, p) })
	e.mu.pages[store] = s
	return s
}

// snapshotEvent and changeEvent are what a stream sends. NowMs is the router's clock, in milliseconds since 1970, by which the
// times of reads are told.
type snapshotEvent struct {
	NowMs int64 `json:"now_ms"`
	Router
	Page *Page `json:"page"`
}

type changeEvent struct {
	NowMs int64 `json:"now_ms"`
	Change
}

func (e *edition) encodeSnapshot(p *Page, r Router) []byte {
	return mustEncode(snapshotEvent{NowMs: e.at.UnixMilli(), Router: r, Page: p})
}

// encodeChange is nil when nothing changed.
func (e *edition) encodeChange(older, newer *Page) []byte {
	if older == nil {
		return nil
	}
	c := Diff(older, newer)
	if c.Empty() {
		return nil
	}
	return mustEncode(changeEvent{NowMs: e.at.UnixMilli(), Change: c})
}

// mustEncode writes what has no type that JSON lacks.
func mustEncode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
