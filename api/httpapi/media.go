package httpapi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/edge"
)

// Media is an object that ServeMedia sends. The caller closes what it reads from.
type Media struct {
	io.ReadSeeker
	Type   string
	Size   int64
	SHA256 [32]byte
	// End is when the object ends for the caller; 0: it does not end.
	End mayfly.Instant
	// Cache is how long shared caches may keep the object at most; 0: no cache may.
	// ServeMedia never lets a cache keep it past End.
	Cache time.Duration
	// URLUntil is when the URL stops being valid, past which no cache keeps the
	// object either; 0: it stays valid.
	URLUntil mayfly.Instant
	// Keys are the names by which the edge purges the object.
	Keys CacheKeys
	// Download is the name of the file as which a browser saves the object; empty: it
	// shows the object.
	Download string
}

// CacheKeys name an answer at the edge: what is purged for an item or for a user
// takes it out of the cache, whatever its URL is.
type CacheKeys struct {
	Item  mayfly.ID     // zero: it is of no item
	Owner mayfly.UserID // zero: it has none
}

func (k CacheKeys) String() string {
	switch {
	case k.Owner.IsZero():
		return edge.ItemKey(k.Item)
	case k.Item.IsZero():
		return edge.OwnerKey(k.Owner)
	}
	return edge.ItemKey(k.Item) + " " + edge.OwnerKey(k.Owner)
}

// ServeMedia answers GET or HEAD with an object, or with the range of it that is
// asked for. It sends nothing of an object that has ended meanwhile (I4).
func (c *Call) ServeMedia(m Media) error {
	c.Carries(m.End)
	h, tag := c.w.Header(), etag(m.SHA256)
	c.set("Content-Type", m.Type)
	c.set("Content-Disposition", disposition(m.Download))
	c.set("Etag", tag)
	c.set("Accept-Ranges", "bytes")
	if Matches(c.Request.Header["If-None-Match"], tag) {
		if c.isLate() {
			return mayfly.Gone
		}
		c.cacheMedia(m)
		h.Del("Content-Type")
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, whole, err := rangeOf(c.Request.Header, tag, m.Size)
	if err != nil {
		if c.isLate() {
			return mayfly.Gone
		}
		c.failRange(err, m.Size)
		return nil
	}
	status := http.StatusOK
	if !whole {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.first, part.last, m.Size))
		if _, err := m.Seek(part.first, io.SeekStart); err != nil {
			return err
		}
	}
	c.set("Content-Length", strconv.FormatInt(part.length(), 10))
	return c.copyMedia(status, m, part.length())
}

func etag(sum [32]byte) string {
	var tag [66]byte
	tag[0], tag[65] = '"', '"'
	hex.Encode(tag[1:], sum[:])
	return string(tag[:])
}

// disposition returns the header Content-Disposition, with the name encoded as
// RFC 5987 has it where that is needed.
func disposition(name string) string {
	if name == "" {
		return "inline"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}

// CacheShared lets shared caches keep the answer for at most the given time, and
// never past its end (0: it does not end). It is called right before the answer is
// sent: caches count from when they get it, so an answer that took long to make must
// not be dated from when the request came.
func (c *Call) CacheShared(keys CacheKeys, end mayfly.Instant, most time.Duration) {
	c.Carries(end)
	c.cacheAt(c.api.clock.Read().Now, keys, end, most)
}

// cacheMedia is CacheShared for an object, by the reading of the clock that isLate
// has just made.
func (c *Call) cacheMedia(m Media) {
	most := m.Cache
	if m.URLUntil != 0 {
		most = min(most, m.URLUntil.Sub(c.sentAt))
	}
	c.cacheAt(c.sentAt, m.Keys, m.End, most)
}

func (c *Call) cacheAt(now mayfly.Instant, keys CacheKeys, end mayfly.Instant, most time.Duration) {
	control := cacheControl(now, end, most)
	c.set("Cache-Control", control)
	if !c.api.o.Edge || control == noStore {
		return
	}
	c.set("Surrogate-Key", keys.String())
	if end != 0 {
		// Seconds, which is what a VCL reads: by it our Varnish refuses an answer that
		// came too late on a slow way.
		c.set("Mayfly-Until", inSeconds(end))
	}
}

// inSeconds writes an instant in seconds with three decimals.
func inSeconds(at mayfly.Instant) string {
	b := strconv.AppendInt(make([]byte, 0, 24), int64(at/1000), 10)
	rest := strconv.AppendInt(nil, int64(1000+at%1000), 10)
	rest[0] = '.'
	return string(append(b, rest...))
}

// maxBrowserCache is how long a browser may keep an answer: it cannot be purged (ST5).
const maxBrowserCache = 60

// cacheControl allows caches to keep an answer, but not past its end: they count
// from when they got it, and clocks differ, so two seconds are left (E2).
func cacheControl(now, end mayfly.Instant, most time.Duration) string {
	if end != 0 {
		if end.Sub(now) < 3*time.Second {
			return noStore
		}
		most = min(most, end.Sub(now)-2*time.Second)
	}
	seconds := int(most / time.Second)
	if seconds < 1 {
		return noStore
	}
	return "public, max-age=" + strconv.Itoa(min(seconds, maxBrowserCache)) + ", s-maxage=" + strconv.Itoa(seconds) + ", stale-while-revalidate=0, stale-if-error=0"
}

// copyMedia sends the bytes. It reads the first of them before it sends anything,
// so that an object that cannot be read is answered with a problem.
func (c *Call) copyMedia(status int, m Media, length int64) error {
	if c.isLate() {
		return mayfly.Gone
	}
	if c.w.head {
		c.cacheMedia(m)
		c.w.WriteHeader(status)
		return nil
	}
	buf := c.api.chunks.take()
	defer c.api.chunks.give(buf)
	n, err := io.ReadFull(m, buf[:min(int64(len(buf)), length)])
	if err != nil {
		return endedEarly(err)
	}
	if c.isLate() {
		return mayfly.Gone
	}
	c.cacheMedia(m)
	c.w.WriteHeader(status)
	if _, err := c.w.Write(buf[:n]); err != nil {
		return nil //nolint:nilerr // the client has what it wanted, or is gone
	}
	sent := int64(n)
	for sent < length {
		n, err := io.ReadFull(m, buf[:min(int64(len(buf)), length-sent)])
		if err != nil {
			return endedEarly(err)
		}
		if _, err := c.w.Write(buf[:n]); err != nil {
			return nil //nolint:nilerr // the client has what it wanted, or is gone
		}
		sent += int64(n)
	}
	c.meter.mediaOut().Add(float64(sent))
	return nil
}

func endedEarly(err error) error {
	if KindOf(err) != 0 {
		return err
	}
	return mayfly.Errorf(mayfly.Corrupt, "a medium ended early: %w", err)
}

// byteRange is the bytes from first to last, both included.
type byteRange struct{ first, last int64 }

func (r byteRange) length() int64 { return r.last - r.first + 1 }

var errRange = errors.New("the range is outside of the medium")

// rangeOf returns the part of size bytes that the headers ask for. Anything but
// one range of bytes is answered with the whole, as RFC 9110 allows; so is a range
// of another version (If-Range).
func rangeOf(h http.Header, tag string, size int64) (part byteRange, whole bool, err error) {
	all := byteRange{0, size - 1}
	text, ok := strings.CutPrefix(h.Get("Range"), "bytes=")
	if !ok || strings.Contains(text, ",") || len(h["Range"]) > 1 {
		return all, true, nil
	}
	if other := h.Get("If-Range"); other != "" && other != tag {
		return all, true, nil
	}
	from, to, ok := strings.Cut(strings.TrimSpace(text), "-")
	first, firstOK := position(from)
	last, lastOK := position(to)
	switch {
	case !ok || !firstOK || !lastOK || from == "" && to == "":
		return all, true, nil
	case from == "": // the last bytes
		if last == 0 || size == 0 {
			return all, false, errRange
		}
		return byteRange{max(0, size-last), size - 1}, false, nil
	case first >= size:
		return all, false, errRange
	case to == "":
		return byteRange{first, size - 1}, false, nil
	case last < first:
		return all, true, nil
	default:
		return byteRange{first, min(last, size-1)}, false, nil
	}
}

// position reads digits and nothing else; the empty text is 0.
func position(text string) (int64, bool) {
	if text == "" {
		return 0, true
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1<<63 - 1, true // behind the end of every medium
	}
	return n, true
}

// failRange answers 416 with the size of the object.
func (c *Call) failRange(err error, size int64) {
	p := problemOf(mayfly.Wrap(mayfly.Invalid, err, "ask for bytes that exist; Content-Range says how many there are"))
	p.Status = http.StatusRequestedRangeNotSatisfiable
	h := c.w.Header()
	h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	h.Set("Cache-Control", noStore)
	h.Del("Etag")
	c.sendProblem(p)
}
