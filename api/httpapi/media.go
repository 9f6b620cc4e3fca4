package httpapi

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// getMedium is GET and HEAD /v1/media/{id}/{object}: with whose eyes is in the
// signature of the URL, or in the token. Either way the gate judges (ST3).
func getMedium(c *call) (err error) {
	id, err := c.item()
	if err != nil {
		return err
	}
	pass, err := c.pass(id)
	if err != nil {
		return err
	}
	object, err := story.ParseObject(c.r.PathValue("object"))
	if err != nil {
		return refusal(id, c.now) // it leads nowhere, for whomever
	}
	viewer := pass.Eyes()
	m, err := c.stories.Medium(c.r.Context(), id, viewer, object, c.now)
	if m != nil {
		c.metrics.verdict(verdictOf(m.Story), err)
	} else {
		c.metrics.verdict("", err)
	}
	if err != nil {
		return noSuchObject(err, id, c.now)
	}
	defer func() {
		if closed := m.Close(); err == nil && closed != nil {
			err = fmt.Errorf("close medium: %w", closed)
		}
	}()
	if !privileged(m.Story, viewer) {
		c.carries(m.Story.Item.End())
	}
	c.mediumHeaders(m, pass)
	return c.serveMedium(m)
}

// refusal is what is said of an id of which nothing may be said (ST2).
func refusal(id mayfly.ID, now mayfly.Instant) error {
	if id.ExpiredAt(now) {
		return mayfly.Gone
	}
	return mayfly.NotFound
}

// noSuchObject makes a medium that is not there look like a story that is not;
// a smaller picture that cannot be made is not there either.
func noSuchObject(err error, id mayfly.ID, now mayfly.Instant) error {
	if kind := kindOf(err); kind == mayfly.NotFound || kind == mayfly.Unsupported {
		return refusal(id, now)
	}
	return err
}

// pass is the signature of the URL, or what a user's token stands for. A URL
// that is forged or over, and one without either, is answered as absence.
func (c *call) pass(id mayfly.ID) (account.Pass, error) {
	query := c.r.URL.Query()
	if query.Has("sig") {
		p, err := c.signer.CheckPass(id, c.r.PathValue("object"), query, c.now)
		if err != nil {
			return p, refusal(id, c.now)
		}
		return p, nil
	}
	viewer := c.who.Viewer()
	if viewer.User().IsZero() && !viewer.Moderator() {
		return account.Pass{}, refusal(id, c.now)
	}
	if err := c.accounts.TakeRead(c.r.Context(), c.who, c.from, c.now); err != nil { // a signed URL was counted when it was given
		return account.Pass{}, err
	}
	return account.Pass{ID: id, Viewer: viewer.User(), Moderator: viewer.Moderator(), Until: c.now}, nil
}

func (c *call) mediumHeaders(m *story.Medium, p account.Pass) {
	h := c.w.Header()
	h["Content-Type"] = []string{m.Type}
	h["Content-Disposition"] = []string{"inline"}
	h["Etag"] = []string{`"` + hex.EncodeToString(m.SHA256[:]) + `"`}
	h["Accept-Ranges"] = []string{"bytes"}
	if m.Story.Item.Audience == mayfly.Everyone && !m.Story.Archived && p.Viewer.IsZero() && !p.Moderator {
		h["Cache-Control"] = []string{cacheControl(c.now, m.Story.Item.End(), p.Until)}
	}
}

// shared is how long a shared cache may keep a story's medium at most (E2).
const shared = 60 * time.Second

// cacheControl lets caches keep what anybody may see, but not past its end: they
// count from when they got it, and clocks differ, so that two seconds are left.
// A URL is not kept longer than it is good either.
func cacheControl(now, end, until mayfly.Instant) string {
	left := shared
	if end != 0 {
		if end.Sub(now) < 3*time.Second {
			return "private, no-store"
		}
		left = min(left, end.Sub(now)-2*time.Second)
	}
	seconds := int(min(left, until.Sub(now)) / time.Second)
	if seconds < 1 {
		return "private, no-store"
	}
	return fmt.Sprintf("public, max-age=%d, s-maxage=%d, stale-while-revalidate=0, stale-if-error=0", seconds, seconds)
}

// serveMedium answers with the medium, or the part of it that was asked for.
func (c *call) serveMedium(m *story.Medium) error {
	h, tag := c.w.Header(), c.w.Header()["Etag"][0]
	if matches(c.r.Header["If-None-Match"], tag) {
		if c.late() {
			return mayfly.Gone
		}
		h.Del("Content-Type")
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, whole, err := rangeOf(c.r.Header, tag, m.Size)
	if err != nil {
		if c.late() {
			return mayfly.Gone
		}
		c.fail416(err, m.Size)
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
	h.Set("Content-Length", strconv.FormatInt(part.length(), 10))
	return c.stream(status, io.LimitReader(m, part.length()), part.length())
}

// stream sends the bytes. The first of them are read before the first byte of
// the answer goes out, so that what cannot be read is still told as a problem.
func (c *call) stream(status int, r io.Reader, length int64) error {
	if c.late() {
		return mayfly.Gone
	}
	if c.w.head {
		c.w.WriteHeader(status)
		return nil
	}
	buf := c.chunks.take()
	defer c.chunks.give(buf)
	n, err := io.ReadFull(r, buf[:min(int64(len(buf)), length)])
	if err != nil {
		return short(err)
	}
	if c.late() {
		return mayfly.Gone
	}
	c.w.WriteHeader(status)
	if _, err := c.w.Write(buf[:n]); err != nil {
		c.gone = err
		return nil
	}
	sent := int64(n)
	for sent < length {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), length-sent)])
		if err != nil {
			return short(err)
		}
		if _, err := c.w.Write(buf[:n]); err != nil {
			c.gone = err // the client has what it wanted, or went away
			return nil
		}
		sent += int64(n)
	}
	c.metrics.mediaBytes.WithLabelValues("out").Add(float64(sent))
	return nil
}

func short(err error) error {
	if kindOf(err) != 0 {
		return err
	}
	return mayfly.Errorf(mayfly.Corrupt, "a medium ended early: %w", err)
}
