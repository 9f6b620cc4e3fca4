package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mayflyhq/mayfly"
)

// responseWriter is an http.ResponseWriter that knows when its first byte was
// sent and how much followed, and that gives up a slow reader (C9).
type responseWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	head     bool // the request is a HEAD: no body is sent
	status   int
	bytes    int64
	timeout  time.Duration
	deadline time.Time     // for the reader, as it was last set
	waited   time.Duration // for the reader
	first    func()        // called once, right before the first byte
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if status >= 200 {
		w.status = status
		w.allow(time.Now(), w.timeout) // an answer without a body waits for its reader too
		w.first()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write gives the reader time in proportion to what it has read: one that reads
// slower than leastSpeed is given up, and so is one that stops. Bytes in buffers
// on the way count as read, and earn no time.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.bytes += int64(len(p))
	if w.head {
		return len(p), nil
	}
	begun := time.Now()
	w.allow(begun, w.timeout+min(allowance(int64(len(p))), allowance(w.bytes)-w.waited))
	n, err := w.ResponseWriter.Write(p)
	w.waited += time.Since(begun)
	return n, err
}

// allow gives up the reader after a time. Setting a deadline costs, so that one that
// is nearly the same stays.
func (w *responseWriter) allow(now time.Time, lasts time.Duration) {
	if deadline := now.Add(lasts); deadline.Sub(w.deadline).Abs() > w.timeout/100 {
		_ = w.control.SetWriteDeadline(deadline) // a connection without deadlines has no slow reader
		w.deadline = deadline
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answerTimeout is how long an answer may wait for its reader. The answer to a
// request whose body was not read is sent only after the server has given that
// body up, so it gets the time of both.
func answerTimeout(r *http.Request, timeout time.Duration) time.Duration {
	if r.ContentLength != 0 {
		return 2 * timeout
	}
	return timeout
}

// leastSpeed is how many bytes a second a client must read or send, beyond the
// time that it has anyway.
const leastSpeed = 16 << 10

// allowance is how long so many bytes may take.
func allowance(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / leastSpeed * float64(time.Second))
}

// Carries notes that the answer contains something that ends for the caller. It
// is not called for authors and moderators, for whom nothing ends.
func (c *Call) Carries(end mayfly.Instant) {
	if end != 0 && (c.ends == 0 || end < c.ends) {
		c.ends = end
	}
}

// Restart forgets what the answer carries and reads the clock again, so that an
// answer of which a part has ended can be made once more without that part.
func (c *Call) Restart() { c.Now, c.ends = c.api.clock.Read().Now, 0 }

// isLate reports, right before the first byte, whether something that the answer
// contains has ended since it was decided on. Such an answer is not sent (I4).
func (c *Call) isLate() bool {
	c.sentAt = c.api.clock.Read().Now
	return c.ends != 0 && c.sentAt >= c.ends
}

// measureLateness counts answers that contain something past its end. It uses the
// reading of the clock by which isLate has decided.
func (c *Call) measureLateness() {
	if c.ends == 0 || c.w.status >= 400 {
		return
	}
	at := c.sentAt
	if at == 0 {
		at = c.api.clock.Read().Now
	}
	if at >= c.ends {
		c.api.metrics.servedAfterDeadline.Inc()
	}
}

// JSON answers with v.
func (c *Call) JSON(status int, v any) error {
	buf := c.api.buffers.take()
	defer c.api.buffers.give(buf)
	if err := encode(buf, v); err != nil {
		return err
	}
	c.sendJSON(status, buf.Bytes())
	return nil
}

// Deliver answers with v, which contains items, and an ETag. If one of the items
// has ended meanwhile it sends nothing and returns Gone (I4).
func (c *Call) Deliver(status int, v any) error {
	buf := c.api.buffers.take()
	defer c.api.buffers.give(buf)
	if err := encode(buf, v); err != nil {
		return err
	}
	body := buf.Bytes()
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	known := !c.route.Changes() && Matches(c.Request.Header["If-None-Match"], tag)
	zipped := c.compress && !known && len(body) > leastZipped && acceptsGzip(c.Request.Header["Accept-Encoding"])
	if zipped {
		zip := c.api.buffers.take()
		defer c.api.buffers.give(zip)
		if err := c.api.zippers.zip(zip, body); err != nil {
			return err
		}
		body, tag = zip.Bytes(), "W/"+tag // other bytes than those without gzip
	}
	if c.isLate() {
		return mayfly.Gone
	}
	c.w.Header()["Etag"] = []string{tag}
	if known {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if zipped {
		c.set("Content-Encoding", "gzip")
	}
	c.sendJSON(status, body)
	return nil
}

// Send answers with a body of any type. If something that it contains has ended
// meanwhile it sends nothing and returns Gone (I4).
func (c *Call) Send(status int, typ string, body []byte) error {
	if c.isLate() {
		return mayfly.Gone
	}
	c.send(status, typ, body)
	return nil
}

// NoContent answers with 204.
func (c *Call) NoContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Matches reports whether one of the tags of an If-None-Match is tag; weak tags
// compare like strong ones there.
func Matches(headers []string, tag string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

func encode(buf *bytes.Buffer, v any) error {
	if v, ok := v.(interface {
		AppendJSON(b []byte) ([]byte, error)
	}); ok {
		text, err := v.AppendJSON(buf.AvailableBuffer())
		buf.Write(text)
		return err
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // the answer is no page: nosniff, and a type of its own
	if err := enc.Encode(v); err != nil {
		return mayfly.Errorf(mayfly.Corrupt, "encode answer: %w", err)
	}
	return nil
}

func (c *Call) sendJSON(status int, body []byte) {
	c.send(status, jsonType, body)
}

// send sends a whole answer. That the client is gone is no error of ours.
func (c *Call) send(status int, typ string, body []byte) {
	c.set("Content-Type", typ)
	c.set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
}

// buffers is a pool of buffers in which answers are encoded.
type buffers struct{ pool sync.Pool }

func (b *buffers) take() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		buf.Reset()
		return buf
	}
	return bytes.NewBuffer(make([]byte, 0, 4<<10))
}

// maxPooledBuffer is the largest buffer that is kept: a tray of a thousand authors fits.
const maxPooledBuffer = 256 << 10

func (b *buffers) give(buf *bytes.Buffer) {
	if buf.Cap() <= maxPooledBuffer {
		b.pool.Put(buf)
	}
}

// leastZipped is the size up to which an answer is sent as it is: it fits into a packet.
const leastZipped = 1 << 10

// Compress makes Deliver send gzip to a client that accepts it. It is for long answers
// that contain nothing of the request: otherwise their length would tell a stranger who
// makes a browser send requests whether a guess is in the answer.
func (c *Call) Compress() {
	c.compress = true
	c.Header().Add("Vary", "Accept-Encoding") // beside what CORS has set
}

// acceptsGzip reports whether Accept-Encoding names gzip, and not to refuse it.
func acceptsGzip(headers []string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			name, params, _ := strings.Cut(one, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, weighted := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			return !weighted || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}

// zippers is a pool of compressors.
type zippers struct{ pool sync.Pool }

// zip appends the bytes to buf, compressed.
func (z *zippers) zip(buf *bytes.Buffer, body []byte) error {
	w, ok := z.pool.Get().(*gzip.Writer)
	if !ok {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	}
	defer z.pool.Put(w)
	w.Reset(buf)
	_, err := w.Write(body)
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("compress the answer: %w", err)
	}
	return nil
}

// chunks is a pool of buffers through which media are copied.
type chunks struct{ pool sync.Pool }

const chunkSize = 64 << 10

func (c *chunks) take() []byte {
	if buf, ok := c.pool.Get().(*[chunkSize]byte); ok {
		return buf[:]
	}
	return new([chunkSize]byte)[:]
}

func (c *chunks) give(buf []byte) { c.pool.Put((*[chunkSize]byte)(buf)) }
