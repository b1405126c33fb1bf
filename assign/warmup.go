package assign

import (
	"cmp"
	"slices"
)

// warmup is a member that should read up a task: to become its active, or to replace another standby.
type warmup struct {
	task, member int
	active       bool
}

// placeWarmups makes the wishes come true as far as MaxWarmups goes: those for actives first, of members
// that leave before others, then those begun, then the ones with the least to read. A member that is a standby of the task needs no warm-up, only to be awaited.
func (p *plan) placeWarmups() {
	for t, m := range p.wanted {
		if m >= 0 {
			p.warming = append(p.warming, warmup{task: t, member: m, active: true})
		}
	}
	slices.SortFunc(p.warming, p.compareWarmups)
	left := p.options.MaxWarmups
	for _, w := range p.warming {
		switch {
		case slices.Contains(p.awaited[w.task], w.member): // wished for twice
			continue
		case slices.Contains(p.standbys[w.task], w.member):
		case left > 0:
			left--
			p.warmups[w.task] = append(p.warmups[w.task], w.member)
		default:
			continue
		}
		p.awaited[w.task] = append(p.awaited[w.task], w.member)
	}
}

func (p *plan) compareWarmups(a, b warmup) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		default:
			return 1
		}
	}
	ra, rb := p.has(a), p.has(b)
	return cmp.Or(
		first(a.active, b.active),
		first(a.active && p.leaves[p.next[a.task]], b.active && p.leaves[p.next[b.task]]),
		first(ra.warmed, rb.warmed),
		first(ra.state && ra.lag >= 0, rb.state && rb.lag >= 0),
		cmp.Compare(ra.lag, rb.lag),
		cmp.Compare(a.task, b.task),
		cmp.Compare(a.member, b.member))
}

// has is the copy that a wish begins with.
func (p *plan) has(w warmup) replica {
	if i, ok := p.find(w.task, w.member); ok {
		return p.copies[w.task][i]
	}
	return replica{member: w.member}
}
