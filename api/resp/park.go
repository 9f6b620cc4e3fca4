package resp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// work is the memory that a connection needs while it has commands to execute.
type work struct {
	reply []byte
	steps []step
}

const (
	replyBuffer = 4 << 10 // bytes of answers that are kept for the next ones
	keptSteps   = 64      // commands of a pipeline for which memory is kept
)

func newWork() any {
	return &work{reply: make([]byte, 0, replyBuffer), steps: make([]step, 0, 16)}
}

// park gives away what the connection does not need while its client is silent.
func (c *conn) park() {
	if w := c.work; w != nil {
		if cap(c.reply.buf) > 0 {
			w.reply = c.reply.buf[:0]
		}
		if cap(c.steps) <= keptSteps {
			w.steps = c.steps[:0]
		}
		c.s.works.Put(w)
		c.work, c.reply.buf, c.steps = nil, nil, nil
	}
	if !c.fresh {
		c.parking.state.CompareAndSwap(awake, silent)
	}
}

// wake takes the memory for a command that has begun to arrive.
func (c *conn) wake() {
	if c.parking.state.Load() != awake && c.parking.state.Swap(awake) == moving {
		c.parking.mu.Lock() // after move has set the deadline
		c.moved, c.idle = true, time.Time{}
		c.setDeadline()
		c.parking.mu.Unlock()
	}
	if c.work == nil {
		c.work = c.s.works.Get().(*work)
		c.reply.buf, c.steps = c.work.reply, c.work.steps
	}
}

// parking says whether a connection waits for its client.
type parking struct {
	state atomic.Int32
	mu    sync.Mutex // held while the state becomes moving and the read is ended
}

const (
	awake  = iota
	silent // it waits for its client, in a goroutine that has executed commands
	seen   // and sweep has seen that
	moving // the read is ended, so that it goes on in another goroutine
)

// sweepEvery is how often sweep looks for connections whose clients are silent.
const sweepEvery = time.Second

// sweep ends the reads of connections that have waited since it last looked: each goes
// on in a goroutine with a small stack.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.each((*conn).move)
		}
	}
}

func (c *conn) move() {
	p := &c.parking
	if p.state.CompareAndSwap(silent, seen) || p.state.Load() != seen {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.CompareAndSwap(seen, moving) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // one that was closed has ended its read
	}
}
