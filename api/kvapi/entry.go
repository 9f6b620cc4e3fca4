package kvapi

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/kv"
)

const (
	ttlHeader    = "Mayfly-TTL"
	expiryHeader = "Mayfly-Expires-At"

	keep  = "keep"
	never = "never"
)

// get is GET and HEAD of an entry.
func (h *handlers) get(c *httpapi.Call) error {
	space, key, err := h.entry(c)
	if err != nil {
		return err
	}
	at := c.ReadClock()
	found, err := space.Get(c.Context(), at, key)
	if err != nil {
		return failed(err)
	}
	e := found[0]
	if !e.Found {
		return mayfly.NotFound
	}
	if err := h.memory.take(space.Owner(), int64(len(e.Value))); err != nil {
		return err
	}
	defer h.memory.give(space.Owner(), int64(len(e.Value)))
	setEntry(c, e, at.Now)
	if httpapi.Matches(c.Request.Header["If-None-Match"], etag(e)) {
		if e.At(c.ReadClock().Now).Found {
			c.ResponseWriter().WriteHeader(http.StatusNotModified)
			return nil
		}
		return absent(c)
	}
	c.Header().Set("Content-Disposition", "attachment")
	c.Carries(e.Expiry)
	if c.Send(http.StatusOK, bytesType, e.Value) != nil { // it has just expired
		return absent(c)
	}
	return nil
}

// absent takes back what setEntry has said, and returns NotFound.
func absent(c *httpapi.Call) error {
	for _, name := range []string{"ETag", ttlHeader, expiryHeader} {
		c.Header().Del(name)
	}
	return mayfly.NotFound
}

// put is PUT of an entry.
func (h *handlers) put(c *httpapi.Call) error {
	space, key, err := h.entry(c)
	if err != nil {
		return err
	}
	op := kv.Op{Key: key, Action: kv.Set}
	if err := readCondition(c, &op, true); err != nil {
		return err
	}
	until, err := readExpiry(c)
	if err != nil {
		return err
	}
	value, give, err := h.memory.read(c, space.Owner(), int64(space.Settings().MaxValue))
	defer give()
	if err != nil {
		return err
	}
	op.Value = value
	at := c.ReadClock() // the time to live begins when the value is there
	if err := until.set(&op, space.Settings(), at.Now); err != nil {
		return err
	}
	r, err := apply(c.Context(), space, at, op)
	if err != nil {
		return err
	}
	if !r.Done {
		return errUnmet()
	}
	setEntry(c, r.New, at.Now)
	return c.NoContent()
}

// remove is DELETE of an entry.
func (h *handlers) remove(c *httpapi.Call) error {
	space, key, err := h.entry(c)
	if err != nil {
		return err
	}
	op := kv.Op{Key: key, Action: kv.Delete}
	if err := readCondition(c, &op, false); err != nil {
		return err
	}
	r, err := apply(c.Context(), space, c.ReadClock(), op)
	if err != nil {
		return err
	}
	if !r.Done && op.If != kv.Always {
		return errUnmet()
	}
	return c.NoContent()
}

// patch is PATCH of an entry: it touches or increments.
func (h *handlers) patch(c *httpapi.Call) error {
	space, key, err := h.entry(c)
	if err != nil {
		return err
	}
	op := kv.Op{Key: key, Action: kv.Touch}
	if err := readCondition(c, &op, false); err != nil {
		return err
	}
	until, err := readExpiry(c)
	if err != nil {
		return err
	}
	var in wire.KVPatch
	if c.Request.ContentLength != 0 {
		if err := c.ReadJSON(&in); err != nil {
			return err
		}
	}
	if in.Increment != nil {
		op.Action, op.Update, op.KeepExpiry = kv.Update, kv.Increment(*in.Increment), true
	}
	at := c.ReadClock()
	if err := until.set(&op, space.Settings(), at.Now); err != nil {
		return err
	}
	r, err := apply(c.Context(), space, at, op)
	switch {
	case err != nil:
		return err
	case !r.Done && op.If != kv.Always:
		return errUnmet()
	case !r.Done:
		return mayfly.NotFound
	case !r.New.Found: // the expiry was in the past
		return c.NoContent()
	}
	setEntry(c, r.New, at.Now)
	out := wire.KVEntry{Version: versionOf(r.New), ExpiresAt: expiryOf(r.New)}
	if op.Action == kv.Update {
		text := string(r.New.Value)
		out.Value = &text
	}
	return c.JSON(http.StatusOK, out)
}

// entry opens the namespace and reads the key that the path or the query has.
func (h *handlers) entry(c *httpapi.Call) (*kv.Space, string, error) {
	space, err := h.open(c, 1)
	if err != nil {
		return nil, "", err
	}
	key := c.Request.PathValue("key")
	if strings.HasSuffix(c.Request.URL.Path, "/keys") && key == "" {
		if err := onlyQuery(c, "key64"); err != nil {
			return nil, "", err
		}
		if !c.Request.URL.Query().Has("key64") {
			return nil, "", mayfly.Errorf(mayfly.Invalid, "there is no key").WithHint("send it in the path behind /keys/, or as key64 in base64url")
		}
		if key, err = decode("key64", c.Request.URL.Query().Get("key64")); err != nil {
			return nil, "", err
		}
	} else if err := onlyQuery(c); err != nil {
		return nil, "", err
	} else if key == "" {
		return nil, "", mayfly.Errorf(mayfly.Invalid, "the key is empty").WithHint("send the empty key as /keys?key64=")
	}
	return space, key, checkKey(key, space.Settings())
}

// checkKey returns TooLarge for a key that the namespace cannot have.
func checkKey(key string, s kv.Settings) error {
	if len(key) > s.MaxKey {
		return mayfly.Errorf(mayfly.TooLarge, "the key has %d bytes; %d are allowed", len(key), s.MaxKey).WithHint("choose a shorter key, such as a hash of this one")
	}
	return nil
}

// onlyQuery refuses a parameter of the query that would be ignored, such as a time to
// live in the wrong place.
func onlyQuery(c *httpapi.Call, names ...string) error {
	for name := range c.Request.URL.Query() {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			return mayfly.Errorf(mayfly.Invalid, "unknown parameter %.40q of the query", name).WithHint("see /openapi.json; the time to live is the header " + ttlHeader)
		}
	}
	return nil
}

// decode reads bytes in base64url without padding.
func decode(name, text string) (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", mayfly.Errorf(mayfly.Invalid, "%s is not base64url", name).WithHint("encode the bytes with - and _ for + and /, without = at the end")
	}
	return string(b), nil
}

func errUnmet() error {
	return mayfly.Wrap(mayfly.Conflict, httpapi.ErrPrecondition, "read the entry again, and decide anew")
}

// readCondition reads If-Match, and where the operation can make an entry
// If-None-Match. Errors: Invalid.
func readCondition(c *httpapi.Call, op *kv.Op, makes bool) error {
	const hint = "send one ETag of this entry with its quotes, or *"
	match, none := c.Request.Header["If-Match"], c.Request.Header["If-None-Match"]
	switch {
	case len(match)+len(none) > 1:
		return mayfly.Errorf(mayfly.Invalid, "there are two conditions").WithHint("send If-Match or If-None-Match, once")
	case len(none) == 1 && !makes:
		return mayfly.Errorf(mayfly.Invalid, "If-None-Match has no meaning here").WithHint("send If-Match")
	case len(none) == 1 && strings.TrimSpace(none[0]) != "*":
		return mayfly.Errorf(mayfly.Invalid, "If-None-Match is %.40q", none[0]).WithHint("send *: only if there is no entry")
	case len(none) == 1:
		op.If = kv.IfAbsent
	case len(match) == 1 && strings.TrimSpace(match[0]) == "*":
		op.If = kv.IfPresent
	case len(match) == 1:
		text := strings.TrimSpace(match[0])
		if len(text) < 3 || text[0] != '"' || text[len(text)-1] != '"' {
			return mayfly.Errorf(mayfly.Invalid, "If-Match is %.40q", text).WithHint(hint)
		}
		version, err := parseVersion(text[1 : len(text)-1])
		if err != nil {
			return mayfly.Errorf(mayfly.Invalid, "If-Match is %.40q", text).WithHint(hint)
		}
		op.If, op.Version = kv.IfVersion, version
	}
	return nil
}

// parseVersion reads a version as versionOf writes it.
func parseVersion(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, mayfly.Errorf(mayfly.Invalid, "invalid version %.40q", text).WithHint("send it as you have got it")
	}
	return n, nil
}

// expiry is what a request says about the expiry of an entry.
type expiry struct {
	given       bool
	keep, never bool
	ttl         time.Duration
	at          mayfly.Instant
}

// readExpiry reads the headers about the expiry. Errors: Invalid.
func readExpiry(c *httpapi.Call) (expiry, error) {
	ttl, at := c.Request.Header.Values(ttlHeader), c.Request.Header.Values(expiryHeader)
	switch {
	case len(ttl)+len(at) > 1:
		return expiry{}, mayfly.Errorf(mayfly.Invalid, "there are two expiries").WithHint("send " + ttlHeader + " or " + expiryHeader + ", once")
	case len(ttl) == 1:
		return parseTTL(ttl[0])
	case len(at) == 1:
		var instant mayfly.Instant
		if err := instant.UnmarshalText([]byte(strings.TrimSpace(at[0]))); err != nil {
			return expiry{}, err
		}
		return expiryAt(instant)
	}
	return expiry{}, nil
}

func parseTTL(text string) (expiry, error) {
	switch text = strings.TrimSpace(text); text {
	case keep:
		return expiry{given: true, keep: true}, nil
	case never:
		return expiry{given: true, never: true}, nil
	}
	ttl, err := kv.ParseTTL(text)
	return expiry{given: true, ttl: ttl}, err
}

// expiryAt is an expiry at an instant. The zero one, which is what an empty text is read
// as, would be never. Errors: Invalid.
func expiryAt(at mayfly.Instant) (expiry, error) {
	if at == 0 {
		return expiry{}, mayfly.Errorf(mayfly.Invalid, "the expiry is empty").WithHint("write it like 2026-01-31T18:00:00.000Z, or leave it out")
	}
	return expiry{given: true, at: at}, nil
}

// set gives an operation its expiry at now. Errors: Invalid.
func (e expiry) set(op *kv.Op, s kv.Settings, now mayfly.Instant) error {
	switch {
	case op.Action == kv.Touch && (!e.given || e.keep):
		return mayfly.Errorf(mayfly.Invalid, "there is nothing to change").WithHint("send a new expiry, or an increment")
	case e.never && op.Action != kv.Touch && (s.DefaultTTL > 0 || s.LongestTTL > 0):
		return mayfly.Errorf(mayfly.Invalid, "the namespace gives every new entry a time to live").WithHint("choose one, or leave it out")
	case e.keep:
		op.KeepExpiry = true
	case e.ttl > 0:
		op.Expiry = now.Add(e.ttl)
	default:
		op.Expiry = e.at
	}
	return nil
}

// setEntry sets the headers that describe an entry; one that is absent has none.
func setEntry(c *httpapi.Call, e kv.Entry, now mayfly.Instant) {
	if !e.Found {
		return
	}
	h := c.Header()
	h.Set("ETag", etag(e))
	if e.Expiry != 0 {
		h.Set(expiryHeader, e.Expiry.String())
		h.Set(ttlHeader, kv.FormatTTL(e.Expiry.Sub(now)))
	}
}

func etag(e kv.Entry) string { return `"` + versionOf(e) + `"` }

// versionOf returns the version of an entry as a text: programs that keep numbers as
// floats would change it.
func versionOf(e kv.Entry) string {
	if !e.Found {
		return ""
	}
	return strconv.FormatUint(e.Version, 10)
}

// expiryOf returns the expiry of an entry; nil: it has none.
func expiryOf(e kv.Entry) *mayfly.Instant {
	if !e.Found || e.Expiry == 0 {
		return nil
	}
	return &e.Expiry
}
