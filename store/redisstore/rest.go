package redisstore

import (
	"errors"
	"sync/atomic"
	"time"
)

// errResting says that a server has failed a moment ago and is not asked.
var errResting = errors.New("the server has just failed and is given a rest")

// rest spares callers the wait for a server that has just failed: for a while
// nobody asks it, and then one at a time.
type rest struct{ until atomic.Int64 } // elapsed time; 0 when the server answers

// ask says whether the server may be asked at now. While it is in doubt, whoever
// may ask keeps the others out for as long as a rest.
func (r *rest) ask(now, lasts time.Duration) bool {
	until := r.until.Load()
	if until == 0 {
		return true
	}
	return int64(now) >= until && r.until.CompareAndSwap(until, int64(now+lasts))
}

func (r *rest) answered() {
	if r.until.Load() != 0 {
		r.until.Store(0)
	}
}

func (r *rest) failed(now, lasts time.Duration) { r.until.Store(max(1, int64(now+lasts))) }
