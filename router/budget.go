package router

import "sync/atomic"

// The retry budget: of each hundred reads, retryPercent may be asked once more of another replica, and retryBurst more at
// once, so that the reads under way when a node dies all find the next one and a cluster in trouble is not asked twice
// for everything.
const (
	retryPercent = 10
	retryBurst   = 1000
)

// The hedge budget: of each hundred reads, hedgePercent may be asked of a second replica early.
const (
	hedgePercent = 5
	hedgeBurst   = 10
)

// budget is a token bucket that reads fill. Its unit is a hundredth of a token, so that a percentage is a whole number.
type budget struct {
	percent, most int64
	level         atomic.Int64
	spent, denied atomic.Int64 // tokens that were taken, and that were wanted in vain
}

func newBudget(percent, burst int64) *budget {
	b := &budget{percent: percent, most: burst * 100}
	b.level.Store(b.most)
	return b
}

// earn counts a read.
func (b *budget) earn() {
	for {
		level := b.level.Load()
		if level >= b.most || b.level.CompareAndSwap(level, min(b.most, level+b.percent)) {
			return
		}
	}
}

// spend takes a token, if there is one.
func (b *budget) spend() bool {
	for {
		level := b.level.Load()
		if level < 100 {
			b.denied.Add(1)
			return false
		}
		if b.level.CompareAndSwap(level, level-100) {
			b.spent.Add(1)
			return true
		}
	}
}
