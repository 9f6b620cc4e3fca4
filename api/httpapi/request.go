package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

const jsonType = "application/json"

// checkPath refuses every path that could be read in two ways: what a proxy let
// through as one path must not be another path here.
func checkPath(r *http.Request) error {
	if r.URL.RawPath == "" && isPlain(r.URL.Path) { // nearly all are
		return nil
	}
	path, raw := r.URL.Path, strings.ToLower(r.URL.EscapedPath())
	switch {
	case !strings.HasPrefix(path, "/"), !utf8.ValidString(path):
	case strings.Contains(path, "//"), strings.ContainsAny(path, "\\\x00\r\n\t"):
	case strings.Contains(raw, "%2f"), strings.Contains(raw, "%5c"), strings.Contains(raw, "%2e"), strings.Contains(raw, "%25"):
	case strings.Contains(path+"/", "/../"), strings.Contains(path+"/", "/./"):
	default:
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "the path is ambiguous").WithHint("write it as /openapi.json does: single slashes, no dots, no needless escapes")
}

// isPlain reports whether a path has only letters, digits, - and _ between single
// slashes, and dots after one of them.
func isPlain(path string) bool {
	before := byte(0)
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '/' && before != '/', c == '.' && before != '/' && before != '.':
		default:
			return false
		}
		before = path[i]
	}
	return strings.HasPrefix(path, "/")
}

// checkQuery refuses a query of which a part would be ignored: one that cannot be
// parsed, or a parameter that occurs twice.
func checkQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return mayfly.Errorf(mayfly.Invalid, "the query cannot be parsed").WithHint("escape special characters: % is %25, ; is %3B")
	}
	for name, all := range values {
		if len(all) > 1 {
			return mayfly.Errorf(mayfly.Invalid, "%.40q occurs twice in the query", name).WithHint("send it once")
		}
	}
	return nil
}

// checkBody refuses a body that cannot be accepted before any of it is read.
func (c *Call) checkBody() error {
	if c.route.MaxBody == 0 {
		return nil
	}
	if c.Request.ContentLength > c.route.MaxBody {
		return mayfly.Errorf(mayfly.TooLarge, "the body has %d bytes; %d are allowed", c.Request.ContentLength, c.route.MaxBody).WithHint("send less")
	}
	if encoding := c.Request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return mayfly.Errorf(mayfly.Unsupported, "a body in %.20q is not accepted", encoding).WithHint("send it without Content-Encoding")
	}
	return nil
}

// Body is the body of a request. It is bounded, and reading fails when the client
// sends too slowly, on the whole or because it has stopped: a client that was fast
// before earns no longer pause (C9). It remembers why it failed, so that the
// answer can say that instead of what the reader made of it.
type Body struct {
	from    io.Reader
	control *http.ResponseController
	timeout time.Duration
	waited  time.Duration // for the client
	read    int64
	max     int64 // bytes in all
	budget  int64 // bytes until the end of a header inside the body; negative: not bounded
	failed  error
	ended   bool // nothing more can be read

	paid   int64        // bytes that the caller's rate was charged for
	charge func() error // charges for bytesPerWrite more; nil: bytes cost nothing
}

// bytesPerWrite is how many bytes of a body one write of a caller's rate covers (C3).
const bytesPerWrite = 8 << 20

func newBody(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) *Body {
	b := &Body{from: r.Body, control: http.NewResponseController(w), timeout: timeout, max: limit, budget: -1, ended: r.ContentLength == 0}
	if r.ContentLength != 0 { // the server reads a body that no handler reads before it answers: it must not wait for ever
		_ = b.control.SetReadDeadline(time.Now().Add(timeout))
	}
	return b
}

// Read reads the next bytes of the body.
func (b *Body) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	begun := time.Now()
	_ = b.control.SetReadDeadline(begun.Add(b.timeout + min(0, allowance(b.read)-b.waited))) // a connection without deadlines has no slow client
	n, err := b.from.Read(p)
	b.waited += time.Since(begun)
	b.read += int64(n)
	b.ended = err != nil
	for b.charge != nil && b.read > b.paid+bytesPerWrite { // the first ones are covered by the request
		b.paid += bytesPerWrite
		if err := b.charge(); err != nil {
			return n, b.fail(err)
		}
	}
	if b.budget >= 0 {
		if b.budget -= int64(n); b.budget < 0 {
			return n, b.fail(mayfly.Errorf(mayfly.TooLarge, "the header of a part is too long").WithHint("send only name and type of a part"))
		}
	}
	switch {
	case b.read > b.max:
		return n, b.fail(mayfly.Errorf(mayfly.TooLarge, "the body has more than %d bytes", b.max).WithHint("send less"))
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // or the server would take the end of the deadline for the end of the client
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, b.fail(mayfly.Errorf(mayfly.Invalid, "the body was sent too slowly").WithHint("send it faster, or in smaller uploads"))
	case err != nil:
		return n, b.fail(mayfly.Errorf(mayfly.Invalid, "the body ended early: %w", err).WithHint("send it again, complete"))
	}
	return n, nil
}

func (b *Body) fail(err error) error {
	b.failed = err
	return err
}

// Cause returns why reading the body failed, if it did; else err.
func (b *Body) Cause(err error) error {
	if err != nil && b.failed != nil {
		return b.failed
	}
	return err
}

// BytesRead returns how many bytes were read.
func (b *Body) BytesRead() int64 { return b.read }

// Bound makes reading fail after n more bytes, until it is called again; a
// negative n lifts the bound. It is for headers inside a body.
func (b *Body) Bound(n int64) { b.budget = n }

// What is read of a body that is refused, so that the client gets the answer: most
// clients send everything before they read, and closing the connection under them
// would discard the answer. A caller without a good token may send less.
const (
	drainedOfUser    = 64 << 20
	drainedOfUnknown = 8 << 20
)

// drain reads the rest of a body that is refused, for as long as the client may
// pause within a body, and reports whether it has come to the end. It does not
// begin what is longer than most, or what the client has not begun to send because
// it waits for 100 Continue. Streams of HTTP/2 need none of this.
func (b *Body) drain(r *http.Request, most int64) bool {
	switch {
	case b.ended || r.ProtoMajor > 1:
		return true
	case r.ContentLength-b.read > most || b.read == 0 && r.Header.Get("Expect") != "":
		return false
	}
	_ = b.control.SetReadDeadline(time.Now().Add(b.timeout)) // a connection without deadlines has no slow client
	_, err := io.CopyN(io.Discard, b.from, most+1)           // one more, to see the end
	if b.ended = errors.Is(err, io.EOF); b.ended {
		_ = b.control.SetReadDeadline(time.Time{}) // see Read
	}
	return b.ended
}

// DrainBody reads the rest of the body before the request is refused, so that the
// client gets the answer. The answer is the last
// of its connection if the client still sends.
func (c *Call) DrainBody() {
	most := int64(drainedOfUnknown)
	if c.Caller.Scopes != nil {
		most = drainedOfUser
	}
	if !c.Body.drain(c.Request, most) {
		c.w.Header().Set("Connection", "close")
	}
}

// ReadJSON reads the body into v, a pointer to a struct. It refuses an unknown
// field, and anything behind the value.
func (c *Call) ReadJSON(v any) error {
	if err := c.RequireType(jsonType); err != nil {
		return err
	}
	in, err := io.ReadAll(c.Body)
	if err != nil {
		return c.Body.Cause(err)
	}
	return ParseJSON(in, v)
}

// RequireType refuses a body of another type.
func (c *Call) RequireType(want string) error {
	got := c.Request.Header.Get("Content-Type")
	if typ, _, err := mime.ParseMediaType(got); err != nil || typ != want {
		return mayfly.Errorf(mayfly.Unsupported, "the type of the body is %.80q", got).WithHint("send Content-Type: " + want)
	}
	return nil
}

// ParseJSON reads one object into v, a pointer to a struct.
func ParseJSON(in []byte, v any) error {
	if err := checkJSON(in, reflect.TypeOf(v)); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badJSON(err)
	}
	return nil
}

func badJSON(err error) error {
	if known := (*mayfly.Error)(nil); errors.As(err, &known) { // an id, an instant, a lifetime: the error says what is wrong
		return known
	}
	var field *json.UnmarshalTypeError
	if errors.As(err, &field) {
		return mayfly.Errorf(mayfly.Invalid, "%s cannot be %s", field.Field, field.Value).WithHint("see /openapi.json")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	return mayfly.Errorf(mayfly.Invalid, "the JSON cannot be parsed: %s", text).WithHint("see /openapi.json")
}

// maxDepth is how deeply JSON may be nested.
const maxDepth = 32

// checkJSON refuses JSON that parsers understand differently. It accepts one
// object in valid UTF-8 whose names are spelled as in the document, none of them
// twice.
func checkJSON(in []byte, t reflect.Type) error {
	if trimmed := bytes.TrimLeft(in, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return mayfly.Errorf(mayfly.Invalid, "the body is not a JSON object").WithHint("send an object, such as {}; see /openapi.json")
	}
	if !utf8.Valid(in) {
		return mayfly.Errorf(mayfly.Invalid, "the body is not UTF-8").WithHint("send JSON in UTF-8")
	}
	c := jsonChecker{in: json.NewDecoder(bytes.NewReader(in)), replaced: bytes.ContainsRune(in, utf8.RuneError) || bytes.Contains(bytes.ToLower(in), []byte(`\ufffd`))}
	c.in.UseNumber()
	if err := c.value(1, t); err != nil {
		return badJSON(err)
	}
	if _, err := c.in.Token(); !errors.Is(err, io.EOF) {
		return mayfly.Errorf(mayfly.Invalid, "there is something behind the JSON object").WithHint("send one object")
	}
	return nil
}

// jsonChecker goes through the tokens of a value.
type jsonChecker struct {
	in       *json.Decoder
	replaced bool // whether U+FFFD was sent as such
}

// value checks a value that is going to be decoded into t; nil: not into a type of ours.
func (c jsonChecker) value(depth int, t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > maxDepth {
		return mayfly.Errorf(mayfly.Invalid, "the JSON is nested too deeply").WithHint("see /openapi.json")
	}
	token, err := c.in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case string:
		return c.text(token)
	case json.Delim:
		seen := map[string]bool{}
		for c.in.More() {
			var inner reflect.Type
			if token == '{' {
				if inner, err = c.name(t, seen); err != nil {
					return err
				}
			} else if t != nil && t.Kind() == reflect.Slice {
				inner = t.Elem()
			}
			if err := c.value(depth+1, inner); err != nil {
				return err
			}
		}
		_, err = c.in.Token()
	}
	return err
}

// name checks the name of a field of t, and returns the type of the field.
func (c jsonChecker) name(t reflect.Type, seen map[string]bool) (reflect.Type, error) {
	token, err := c.in.Token()
	if err != nil {
		return nil, err
	}
	name, _ := token.(string)
	if seen[name] {
		return nil, mayfly.Errorf(mayfly.Invalid, "%.40q occurs twice in an object", name).WithHint("send it once")
	}
	seen[name] = true
	if t == nil || t.Kind() != reflect.Struct {
		return nil, c.text(name)
	}
	names := fieldNames(t)
	at := slices.Index(names, name)
	if at < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "unknown field %.40q", name).WithHint("the fields are " + strings.Join(names, ", "))
	}
	return t.Field(at).Type, c.text(name)
}

// text refuses half of a surrogate pair, which Go's decoder would replace.
func (c jsonChecker) text(s string) error {
	if !c.replaced && strings.ContainsRune(s, utf8.RuneError) {
		return mayfly.Errorf(mayfly.Invalid, "a text contains half of a surrogate pair").WithHint("send both halves")
	}
	return nil
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

const (
	defaultPage = 50
	maxPage     = 200
	maxCursor   = 512
	maxKey      = 255 // bytes of an idempotency key
)

// Page reads cursor and limit from the query.
func (c *Call) Page() (cursor string, limit int, err error) {
	q := c.Request.URL.Query()
	limit = defaultPage
	if text := q.Get("limit"); q.Has("limit") {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return "", 0, mayfly.Errorf(mayfly.Invalid, "invalid limit %.20q", text).WithHint("send a number from 1 to " + strconv.Itoa(maxPage))
		}
	}
	if cursor = q.Get("cursor"); len(cursor) > maxCursor {
		return "", 0, mayfly.Errorf(mayfly.Invalid, "the cursor is too long").WithHint("send next of the page before, unchanged")
	}
	return cursor, limit, nil
}

// QueryInstant reads an instant from the query; without one it returns the
// default.
func (c *Call) QueryInstant(name string, missing mayfly.Instant) (mayfly.Instant, error) {
	text := c.Request.URL.Query().Get(name)
	if text == "" {
		return missing, nil
	}
	var at mayfly.Instant
	err := at.UnmarshalText([]byte(text))
	return at, err
}

// ItemID reads the id that the path has under a name.
func (c *Call) ItemID(name string) (mayfly.ID, error) {
	return mayfly.ParseID(c.Request.PathValue(name))
}

// User reads the user that the path has under a name.
func (c *Call) User(name string) (mayfly.UserID, error) {
	return c.api.accounts.UserNamed(c.Request.PathValue(name))
}

// IdempotencyKey reads the idempotency key; empty if the request has none.
func (c *Call) IdempotencyKey() (string, error) {
	switch keys := c.Request.Header["Idempotency-Key"]; {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxKey:
		return "", mayfly.Errorf(mayfly.Invalid, "invalid Idempotency-Key").WithHint("send one of at most 255 bytes, such as a UUID")
	default:
		return keys[0], nil
	}
}
