package remind

import "sync/atomic"

// Budget bounds retries to a tenth of what is done for the first time (L10). A
// nil Budget has no bound. Safe for concurrent use.
type Budget struct{ tenths atomic.Int64 }

// The budget holds so many retries at most, and at the start: a quiet node can
// still try again.
const maxBudget = 1_000

// NewBudget is a full budget.
func NewBudget() *Budget {
	b := &Budget{}
	b.tenths.Store(10 * maxBudget)
	return b
}

// Earn adds a retry for every ten items that were done.
func (b *Budget) Earn(items int) {
	if b == nil {
		return
	}
	if sum := b.tenths.Add(int64(items)); sum > 10*maxBudget {
		b.tenths.CompareAndSwap(sum, 10*maxBudget)
	}
}

// spend takes a retry out of the budget, if there is one.
func (b *Budget) spend() bool {
	if b == nil {
		return true
	}
	for {
		sum := b.tenths.Load()
		if sum < 10 {
			return false
		}
		if b.tenths.CompareAndSwap(sum, sum-10) {
			return true
		}
	}
}
