package walk

import (
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Progress is how far a walk is in a shard, for operators and metrics.
type Progress struct {
	Walk      string
	Shard     mayfly.Shard
	Held      bool           // this process walks the shard
	Watermark mayfly.Instant // everything due up to here is done for good
	Cursor    mayfly.Instant // everything due up to here was looked at
	Lag       time.Duration  // from the cursor to what is due now
	Done      uint64         // items acted on by this process
	Parked    uint64         // items left to a reminder by this process
	ETA       time.Duration  // until a backlog is done; 0 without one, negative when it grows or is not known yet
}

// report is what Progress is made from. Other goroutines read it.
type report struct {
	mu      sync.Mutex
	p       Progress
	target  mayfly.Instant
	started mayfly.Instant // of the pass
	from    mayfly.Instant // cursor at its start
	speed   float64        // milliseconds of deadline walked per millisecond, smoothed
}

func (r *report) hold(held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Held = held
}

// aim notes what is due, whether or not the pass holds the shard.
func (r *report) aim(target mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// forget begins a tenure: the speed of the last one means nothing.
func (r *report) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started, r.speed = 0, 0
}

func (r *report) begin(now, cursor mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started != 0 && now > r.started {
		r.speed = smooth(r.speed, float64(r.p.Cursor-r.from)/float64(now-r.started))
	}
	r.started, r.from = now, cursor
}

func smooth(old, now float64) float64 {
	if old == 0 {
		return now
	}
	return old*0.7 + now*0.3
}

func (r *report) did(items, parked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Done += uint64(items)
	r.p.Parked += uint64(parked)
}

func (r *report) end(cursor, done mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Cursor, r.p.Watermark = cursor, done
}

// Progress returns how far the walk is.
func (w *Walker) Progress() Progress {
	w.report.mu.Lock()
	defer w.report.mu.Unlock()
	p := w.report.p
	p.Walk, p.Shard = w.walk.Name, w.shard.number
	if p.Cursor != 0 {
		p.Lag = max(0, w.report.target.Sub(p.Cursor))
	}
	p.ETA = eta(p.Lag, w.report.speed)
	return p
}

// eta returns how long it takes to catch up at a speed, while the target moves on.
func eta(lag time.Duration, speed float64) time.Duration {
	switch {
	case lag < time.Second:
		return 0
	case speed <= 1:
		return -1
	default:
		return time.Duration(float64(lag) / (speed - 1))
	}
}
