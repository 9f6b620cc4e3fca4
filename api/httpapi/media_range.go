package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// bytesRange are the bytes from first to last, both included.
type bytesRange struct{ first, last int64 }

func (r bytesRange) length() int64 { return r.last - r.first + 1 }

var errRange = errors.New("the range lies outside of the medium")

// rangeOf is the part of size bytes that the headers ask for. What is no range
// of bytes, or several at once, is answered with the whole, as RFC 9110 allows;
// so is a range of what has another tag (If-Range).
func rangeOf(h http.Header, tag string, size int64) (part bytesRange, whole bool, err error) {
	all := bytesRange{0, size - 1}
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
		if last == 0 {
			return all, false, errRange
		}
		return bytesRange{max(0, size-last), size - 1}, false, nil
	case first >= size:
		return all, false, errRange
	case to == "":
		return bytesRange{first, size - 1}, false, nil
	case last < first:
		return all, true, nil
	default:
		return bytesRange{first, min(last, size-1)}, false, nil
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
		return 1<<63 - 1, true // beyond every medium
	}
	return n, true
}

// fail416 says how large the medium is, to whoever may see it.
func (c *call) fail416(err error, size int64) {
	p := problemOf(mayfly.Wrap(mayfly.Invalid, err, "ask for bytes that are there; Content-Range says how many"))
	p.Status = http.StatusRequestedRangeNotSatisfiable
	h := c.w.Header()
	h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "private, no-store")
	h.Del("Etag")
	c.send(p.Status, problemBytes(p))
}
