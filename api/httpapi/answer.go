package httpapi

import (
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
)

// answer is a response on its way: it knows when its first byte went out and how
// much has gone, and gives a slow reader up (C9).
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	head    bool // answers a HEAD: no body goes out
	status  int
	bytes   int64
	within  time.Duration
	waited  time.Duration // for the reader
	first   func()        // is called once, right before the first byte
}

func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	if status >= 200 {
		a.status = status
		_ = a.control.SetWriteDeadline(time.Now().Add(a.within)) // an answer without a body waits for its reader too
		a.first()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write gives the reader time by what it has taken: who takes less than
// leastSpeed is given up, and so is who takes nothing any more: what lies in
// buffers on the way counts as taken, and buys no time.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.bytes += int64(len(p))
	if a.head {
		return len(p), nil
	}
	begun := time.Now()
	_ = a.control.SetWriteDeadline(begun.Add(a.within + min(paid(int64(len(p))), paid(a.bytes)-a.waited))) // a writer without deadlines has no slow reader behind it
	n, err := a.ResponseWriter.Write(p)
	a.waited += time.Since(begun)
	return n, err
}

// answerWithin is how long an answer may wait for its reader. With a body that
// nobody has read it begins to wait when it is written, and goes out when the
// server has given that body up: it must not be over by then.
func answerWithin(r *http.Request, within time.Duration) time.Duration {
	if r.ContentLength != 0 {
		return 2 * within
	}
	return within
}

// leastSpeed is how many bytes a second a client must take or send, beyond the
// time that it has anyway.
const leastSpeed = 16 << 10

func paid(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / leastSpeed * float64(time.Second))
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// carries notes that the answer shows something that ends to somebody for whom
// it then ends; who wrote it, and moderators, are not among them.
func (c *call) carries(end mayfly.Instant) {
	if end != 0 && (c.ends == 0 || end < c.ends) {
		c.ends = end
	}
}

// late says, at the instant of the first byte, whether something that the
// answer carries has ended since it was judged. Such an answer is not sent (I4).
func (c *call) late() bool {
	c.sentAt = c.clock.Read().Now
	return c.ends != 0 && c.sentAt >= c.ends
}

// measure is served_after_deadline: every first byte of every answer is held
// against what it carries, by the same reading that late has decided by.
func (c *call) measure() {
	if c.ends == 0 || c.w.status >= 400 {
		return
	}
	at := c.sentAt
	if at == 0 {
		at = c.clock.Read().Now
	}
	if at >= c.ends {
		c.metrics.servedAfterDeadline.Inc()
	}
}
