package resp

import (
	"net"
	"sync"
	"time"
)

// output sends the answers of a connection. What the client's socket takes at once is
// written by the caller; the rest waits here for a goroutine that sends it: a client that
// sends all of its commands before it reads an answer is read on, up to a limit.
type output struct {
	nc      net.Conn
	socket  *socket // nil: nothing can be written without waiting
	limit   int
	stalled time.Duration
	budget  *Budget

	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // empty if no goroutine sends
	held    int    // bytes of buf taken from the budget
	spare   []byte
	sending bool // a goroutine sends
	failed  bool // the client is gone
}

func newOutput(nc net.Conn, o Options, budget *Budget) *output {
	out := &output{nc: nc, socket: socketOf(nc), limit: o.Output, stalled: o.Stalled, budget: budget}
	out.changed.L = &out.mu
	return out
}

// send sends answers. It waits while too much waits for the client already, and returns
// false if the client is gone, or takes too much memory from the others. paid is how much
// of the budget was taken for the answers already; from now on it is the output's.
func (o *output) send(b []byte, paid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.budget.Return(paid) }()
	if !o.sending && !o.failed && o.socket != nil {
		n, err := o.socket.write(b)
		if err != nil {
			o.fail()
		}
		if b = b[n:]; len(b) == 0 {
			return true
		}
	}
	for !o.failed && len(o.buf) > 0 && len(o.buf)+len(b) > o.limit {
		o.changed.Wait()
	}
	for !o.failed && len(o.buf)+len(b) > freeOfCharge+o.held+paid {
		more := len(o.buf) + len(b) - freeOfCharge - o.held - paid
		if o.budget.Take(more) {
			paid += more
			break
		}
		if len(o.buf) == 0 {
			o.fail()
			break
		}
		o.changed.Wait()
	}
	if o.failed {
		return false
	}
	if len(o.buf) == 0 && cap(b) > replyBuffer { // the caller does not use it again
		o.buf = b
	} else {
		o.buf = append(o.buf, b...)
	}
	if more := len(o.buf) - freeOfCharge - o.held; more > 0 {
		o.held, paid = o.held+more, paid-more
	}
	if o.sending {
		o.changed.Broadcast()
	} else {
		o.sending = true
		go o.run()
	}
	return true
}

// share makes the output take its memory from another budget.
func (o *output) share(to *Budget) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.move(o.held, to)
	o.budget = to
}

// fail gives up on the client; the caller holds mu.
func (o *output) fail() {
	o.failed = true
	o.changed.Broadcast()
	_ = o.nc.Close()
}

// run sends what waits. It ends when nothing does.
func (o *output) run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.failed && len(o.buf) > 0 {
		b, held, budget := o.buf, o.held, o.budget
		o.buf, o.spare, o.held = o.spare[:0], nil, 0
		o.changed.Broadcast()
		o.mu.Unlock()
		err := o.write(b)
		o.mu.Lock()
		budget.Return(held)
		if cap(b) <= freeOfCharge {
			o.spare = b
		}
		if err != nil {
			o.fail()
		}
	}
	o.budget.Return(o.held)
	o.held, o.sending = 0, false
	o.buf, o.spare = nil, nil
	o.changed.Broadcast()
}

// write sends b in pieces: each must be taken within the time of a stalled client.
func (o *output) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 64<<10)
		if err := o.nc.SetWriteDeadline(time.Now().Add(o.stalled)); err != nil {
			return err
		}
		if _, err := o.nc.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return o.nc.SetWriteDeadline(time.Time{})
}

// end sends what waits, and returns when that is done or the client is gone.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.sending {
		o.changed.Wait()
	}
}
