package pasteapi

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/paste"
)

// idLength is how many characters an id has in the URL of a paste.
const idLength = 22

// asked is what a request for a paste asks for.
type asked struct {
	id        mayfly.ID
	extension string // of the URL; empty without
	password  string
	counted   bool // a POST, which may use up a read
	download  bool
}

// readAsked reads id, extension and password of a request. What cannot be the id of
// a paste is answered like one that does not exist.
func (h *handlers) readAsked(c *httpapi.Call) (a asked, err error) {
	name, extension, _ := strings.Cut(c.Request.PathValue("name"), ".")
	if len(name) != idLength { // no paste can have this address
		return a, httpapi.ErrNoRoute
	}
	if a.id, err = mayfly.ParseID(name); err != nil {
		return a, mayfly.NotFound
	}
	a.extension = extension
	a.counted = c.Request.Method == http.MethodPost
	var given []string
	if a.counted {
		form, err := readForm(c)
		if err != nil {
			return a, err
		}
		given, a.download = form["password"], form.Get("as") == "download"
	}
	given = slices.Concat(given, c.Request.Header.Values("Mayfly-Password"))
	if len(given) > 1 {
		return a, mayfly.Errorf(mayfly.Invalid, "there are two passwords").WithHint("send it once: in the header Mayfly-Password, or in the form field password")
	}
	if c.Request.URL.RawQuery != "" && c.Request.URL.Query().Has("password") {
		return a, mayfly.Errorf(mayfly.Invalid, "the password is in the URL, which logs and histories keep").WithHint("send it in the header Mayfly-Password, or in the form field password")
	}
	if len(given) == 1 && given[0] != "" {
		a.password = given[0]
	}
	return a, h.takeTry(c, a)
}

// readForm reads the form of a POST that reads; without a body it is empty.
func readForm(c *httpapi.Call) (url.Values, error) {
	in, err := io.ReadAll(c.Body)
	if err != nil {
		return nil, c.Body.Cause(err)
	}
	if len(in) == 0 {
		return nil, nil
	}
	if err := c.RequireType(urlType); err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(in))
	if err != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "the form cannot be parsed").WithHint("send the fields password and as, or nothing")
	}
	return form, nil
}

// read is GET, HEAD and POST /{name}: a page for browsers, JSON for those that
// prefer it, else the bytes.
func (h *handlers) read(c *httpapi.Call) error {
	c.Header().Add("Vary", "Accept") // beside what CORS has set
	a, err := h.readAsked(c)
	if err != nil {
		return err
	}
	switch typ := c.Prefers("text/plain", "text/html", jsonType); {
	case a.download:
		return h.serve(c, a)
	case typ == "text/html":
		return h.page(c, a)
	case typ == jsonType && !a.counted:
		return h.describeAs(c, a)
	default:
		return h.serve(c, a)
	}
}

// readRaw is GET, HEAD and POST /raw/{name}.
func (h *handlers) readRaw(c *httpapi.Call) error {
	a, err := h.readAsked(c)
	if err != nil {
		return err
	}
	return h.serve(c, a)
}

// download is GET, HEAD and POST /dl/{name}.
func (h *handlers) download(c *httpapi.Call) error {
	a, err := h.readAsked(c)
	if err != nil {
		return err
	}
	a.download = true
	return h.serve(c, a)
}

// open opens a paste; a counted request uses up a read if they are limited.
func (h *handlers) open(c *httpapi.Call, a asked) (in *paste.Content, err error) {
	viewer := c.Caller.Viewer()
	if a.counted {
		in, err = h.pastes.Claim(c.Context(), a.id, viewer, a.password, func() mayfly.Instant { return c.ReadClock().Now })
		c.Now = c.ReadClock().Now
	} else {
		in, err = h.openUncounted(c, a)
	}
	h.noteTry(c, a, err)
	c.CountVerdict("serve", err)
	return in, err
}

// openUncounted opens a paste without using up a read. The bytes of a small public
// paste are kept in memory; whether it may be seen is asked of the gate every time.
func (h *handlers) openUncounted(c *httpapi.Call, a asked) (*paste.Content, error) {
	viewer := c.Caller.Viewer()
	p, err := h.pastes.Open(c.Context(), a.id, viewer, a.password, c.Now)
	if err != nil {
		return nil, err
	}
	if !p.Public() || p.Content.Size > maxKeptContent {
		return h.pastes.ReadOpened(c.Context(), p, viewer, c.Now)
	}
	text, known := h.cache.content(a.id)
	if !known {
		in, err := h.pastes.ReadOpened(c.Context(), p, viewer, c.Now)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(in) // and compares its hash
		if err := errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		text = string(all)
		h.cache.putContent(a.id, text, c.Now)
	}
	return &paste.Content{ReadSeekCloser: inMemory{strings.NewReader(text)}, Paste: p}, nil
}

// maxKeptContent is the size up to which the bytes of a paste are kept in memory.
const maxKeptContent = 16 << 10

// inMemory is content in memory.
type inMemory struct{ *strings.Reader }

// Close does nothing.
func (inMemory) Close() error { return nil }

// serve answers with the bytes. Nothing that a browser could run is sent as what it
// is (C4).
func (h *handlers) serve(c *httpapi.Call, a asked) (err error) {
	in, err := h.open(c, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return h.send(c, a, in)
}

// send answers with the bytes of an open paste.
func (h *handlers) send(c *httpapi.Call, a asked, in *paste.Content) error {
	p := in.Paste
	c.Header().Set("X-Robots-Tag", "noindex")
	m := httpapi.Media{ReadSeeker: in, Type: servedType(p.Content.Type), Size: p.Content.Size, SHA256: p.Content.SHA256, Keys: keysOf(p)}
	if !p.Item.Held && !a.counted { // what a claim has opened is the reader's, also if the paste ends before it is sent
		m.End = p.Item.End()
	}
	if p.Public() && !a.counted {
		m.Cache = maxSharedCache
	}
	if a.download {
		m.Download = downloadName(p)
	}
	if a.counted { // a read that was used up is answered whole, not with a part or with 304
		for _, name := range []string{"Range", "If-Range", "If-None-Match"} {
			c.Request.Header.Del(name)
		}
	}
	return c.ServeMedia(m)
}

func keysOf(p paste.Paste) httpapi.CacheKeys {
	return httpapi.CacheKeys{Item: p.Item.ID, Owner: p.Item.Owner}
}

// servedType returns the type that content is sent as: text as plain text, HTML and
// SVG too; pictures as what they are; everything else as bytes.
func servedType(detected string) string {
	typ, _, _ := strings.Cut(detected, ";")
	switch {
	case strings.HasPrefix(typ, "text/"):
		return textType
	case slices.Contains(pictureTypes(), typ):
		return typ
	default:
		return "application/octet-stream"
	}
}

// pictureTypes are the types that are sent as what they are.
func pictureTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// downloadName returns the name of the file as which a paste is saved.
func downloadName(p paste.Paste) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, p.Title), ". ")
	if name == "" {
		name = p.Item.ID.Short()
	}
	if !strings.Contains(name, ".") && servedType(p.Content.Type) == textType {
		name += ".txt"
	}
	return name
}

// page answers with the page of a paste, or with the page that asks before it is
// shown.
func (h *handlers) page(c *httpapi.Call, a asked) error {
	header := c.Header()
	header.Set("X-Robots-Tag", "noindex")
	if language := c.Request.URL.Query().Get("language"); language != "" {
		a.extension = language
	}
	if a.extension != "" {
		known := false
		if a.extension, known = h.pages.languageOf(a.extension); !known {
			a.extension = ""
		}
	}
	in, err := h.open(c, a)
	if ask, status, isAsked := askFirst(err); isAsked {
		ask.ID, ask.Action, ask.NewURL, ask.Download = a.id.Short(), c.Request.URL.Path, "/", true
		c.Carries(a.id.Deadline())
		header.Set("Content-Security-Policy", h.pages.policy)
		return c.Send(status, htmlType, h.pages.ask(ask))
	}
	if err != nil {
		return err
	}
	if a.counted && !in.Paste.Public() { // it may have been the last read: all of it is sent, on the page or as a file
		fits, err := fitsPage(in)
		if err == nil && !fits {
			a.download = true
			err = h.send(c, a, in)
		}
		if err != nil || !fits {
			return errors.Join(err, in.Close())
		}
	}
	view, err := h.view(c, a, in)
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	body := h.pages.paste(view)
	header.Set("Content-Security-Policy", h.pages.policy)
	switch {
	case in.Paste.Public() && !a.counted:
		c.CacheShared(keysOf(in.Paste), in.Paste.Item.End(), maxSharedCache)
	case !a.counted:
		h.carries(c, in.Paste)
	}
	return c.Send(http.StatusOK, htmlType, body)
}

// mayFitPage reports whether a page can show all of a paste, as far as its type and
// its size tell.
func mayFitPage(p paste.Paste) bool {
	return servedType(p.Content.Type) == textType && p.Content.Size <= maxHighlighted
}

// fitsPage reports whether a page can show all of an open content. It keeps in memory
// what it has to read for that.
func fitsPage(in *paste.Content) (bool, error) {
	if !mayFitPage(in.Paste) {
		return false, nil
	}
	all, err := io.ReadAll(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return false, err
	}
	in.ReadSeekCloser = inMemory{strings.NewReader(string(all))}
	_, cut := shown(all)
	return !cut && utf8.Valid(all), nil
}

// askFirst returns the page that asks for a password, or before a read that counts,
// if that is what the error says.
func askFirst(err error) (v askView, status int, is bool) {
	var locked paste.Locked
	var limited paste.ReadsLimited
	switch {
	case errors.As(err, &locked):
		v = askView{Password: true, Wrong: locked.Wrong, Burn: locked.Reads > 0, Reads: locked.Reads}
		status = http.StatusUnauthorized
		if locked.Wrong {
			status = http.StatusForbidden
		}
		return v, status, true
	case errors.As(err, &limited):
		p := limited.Paste
		return askView{Title: p.Title, Password: p.Locked, Burn: true, Reads: p.Left, FileOnly: !mayFitPage(p)}, http.StatusOK, true
	default:
		return v, 0, false
	}
}

// view returns the page of an open paste. What was highlighted for a public paste is
// kept.
func (h *handlers) view(c *httpapi.Call, a asked, in *paste.Content) (pasteView, error) {
	p, id := in.Paste, in.Paste.Item.ID
	v := pasteView{
		ID: id.Short(), Title: p.Title, NewURL: "/", Size: p.Content.Size, Created: id.Birth(), Expires: p.Item.End(), Now: c.Now,
		Binary: servedType(p.Content.Type) != textType, Limited: p.Reads > 0, ReadsLeft: p.Left,
	}
	if p.Public() {
		v.URL, v.RawURL, v.DownloadURL = "/"+id.Short(), "/raw/"+id.Short(), "/dl/"+id.Short()
	}
	if v.Binary {
		return v, nil
	}
	language := a.extension
	if language == "" {
		language = p.Language
	}
	if p.Public() {
		if text, known := h.cache.get(id, language); known {
			v.Text = text
			return v, nil
		}
	}
	source, err := io.ReadAll(io.LimitReader(in, maxHighlighted+1))
	if err != nil {
		return v, err
	}
	v.Text = h.pages.highlight(source, language, p.Title)
	if p.Public() {
		h.cache.put(id, language, v.Text, c.Now)
	}
	return v, nil
}

// describe is GET /v1/pastes/{id}.
func (h *handlers) describe(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	passwords := c.Request.Header.Values("Mayfly-Password")
	a := asked{id: id}
	if len(passwords) > 1 {
		return mayfly.Errorf(mayfly.Invalid, "there are two passwords").WithHint("send it once")
	}
	if len(passwords) == 1 && passwords[0] != "" {
		a.password = passwords[0]
	}
	if err := h.takeTry(c, a); err != nil {
		return err
	}
	return h.describeAs(c, a)
}

func (h *handlers) describeAs(c *httpapi.Call, a asked) error {
	p, err := h.pastes.Open(c.Context(), a.id, c.Caller.Viewer(), a.password, c.Now)
	h.noteTry(c, a, err)
	c.CountVerdict("serve", err)
	if err != nil {
		return err
	}
	return c.Deliver(http.StatusOK, h.show(c, p))
}

// list is GET /v1/me/pastes.
func (h *handlers) list(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	for range listTries {
		pastes, next, err := h.pastes.List(c.Context(), c.Caller.User, cursor, limit, c.Now)
		if err != nil {
			return err
		}
		out := wire.Pastes{Pastes: make([]wire.Paste, len(pastes)), Next: next}
		for i, p := range pastes {
			out.Pastes[i] = h.show(c, p)
		}
		if err := c.Deliver(http.StatusOK, out); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.Restart() // one of them has ended meanwhile
	}
	return mayfly.Errorf(mayfly.Unavailable, "the list changes faster than it is read").WithHint("try again")
}

// listTries is how often a list is read again because a paste of it has ended
// meanwhile.
const listTries = 10

// remove is DELETE /{name} and DELETE /v1/pastes/{id}.
func (h *handlers) remove(c *httpapi.Call) error {
	name := c.Request.PathValue("id")
	if name == "" {
		if name, _, _ = strings.Cut(c.Request.PathValue("name"), "."); len(name) != idLength {
			return mayfly.NotFound
		}
	}
	id, err := mayfly.ParseID(name)
	if err != nil {
		return mayfly.NotFound
	}
	tokens := c.Request.Header.Values("Mayfly-Delete-Token")
	if len(tokens) > 1 {
		return mayfly.Errorf(mayfly.Invalid, "there are two delete tokens").WithHint("send one")
	}
	token := ""
	if len(tokens) == 1 {
		token = tokens[0]
	}
	if err := h.pastes.Delete(c.Context(), id, c.Caller.User, token, c.ReadClock().Steady); err != nil {
		return err
	}
	h.cache.forget(id)
	return c.NoContent()
}
