package pasteapi

import (
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/paste"
)

// options are the options of a paste by name, from query, headers and form.
type options map[string]string

// optionNames are the options; all but the password may be in the query.
func optionNames() []string {
	return []string{"lifetime", "burn", "reads", "language", "title", "private", "password"}
}

// set takes an option. A second value, from the same place or another, is refused:
// one of the two would be ignored. Errors: Invalid.
func (o options) set(name, value string) error {
	if _, twice := o[name]; twice {
		return mayfly.Errorf(mayfly.Invalid, "there are two values of %s", name).WithHint("send it once: in the query, in a header, or in the form or the JSON")
	}
	o[name] = value
	return nil
}

// readOptions reads the options from query and headers. Errors: Invalid.
func readOptions(c *httpapi.Call) (options, error) {
	o := options{}
	for name, values := range c.Request.URL.Query() {
		switch {
		case name == "password":
			return nil, mayfly.Errorf(mayfly.Invalid, "the password is in the URL, which logs and histories keep").
				WithHint("choose another password, and send it in the header Mayfly-Password or in the form field password")
		case !slices.Contains(optionNames(), name):
			return nil, unknownOption(name)
		}
		if err := o.set(name, values[0]); err != nil {
			return nil, err
		}
	}
	for _, name := range optionNames() {
		for _, value := range c.Request.Header.Values("Mayfly-" + name) {
			if err := o.set(name, value); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

func unknownOption(name string) error {
	return mayfly.Errorf(mayfly.Invalid, "unknown option %.40q", name).WithHint("the options are " + strings.Join(optionNames(), ", "))
}

// fill puts the options into a draft. Errors: Invalid.
func (h *handlers) fill(d *paste.Draft, o options) error {
	burn, err := o.isSet("burn")
	if err != nil {
		return err
	}
	if d.Private, err = o.isSet("private"); err != nil {
		return err
	}
	d.Reads = 0
	if text := o["reads"]; text != "" {
		if d.Reads, err = strconv.Atoi(text); err != nil || d.Reads < 1 || d.Reads > paste.MaxReads {
			return mayfly.Errorf(mayfly.Invalid, "reads is %.20q", text).WithHint("send a number from 1 to " + strconv.Itoa(paste.MaxReads))
		}
	}
	if burn && d.Reads > 1 {
		return mayfly.Errorf(mayfly.Invalid, "burn means one read, and reads is %d", d.Reads).WithHint("send one of the two")
	}
	if burn {
		d.Reads = 1
	}
	d.Lifetime, d.Password = o["lifetime"], o["password"]
	if title := o["title"]; title != "" {
		d.Title = title
	}
	d.Language = ""
	if name := o["language"]; name != "" {
		known := false
		if d.Language, known = h.pages.languageOf(name); !known {
			return mayfly.Errorf(mayfly.Invalid, "there is no language %.40q", name).WithHint("leave it out to have it found out, or choose one such as go, python, json or text")
		}
	}
	return nil
}

// isSet reads an option that is on or off. Errors: Invalid.
func (o options) isSet(name string) (bool, error) {
	switch text := o[name]; text {
	case "", "0", "false", "off", "no":
		return false, nil
	case "1", "true", "on", "yes":
		return true, nil
	default:
		return false, mayfly.Errorf(mayfly.Invalid, "%s is %.20q", name, text).WithHint("send true or false")
	}
}

// create is POST /. The body is the content, or a form with it.
func (h *handlers) create(c *httpapi.Call) error {
	if err := c.TakeFrom("pastes", h.o.Rate, 1); err != nil {
		return err
	}
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	d := paste.Draft{}
	typ, params, _ := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	switch typ {
	case formType:
		return h.createForm(c, d, o, params["boundary"])
	case urlType:
		text, isForm, err := h.urlForm(c, o)
		if err != nil {
			return err
		}
		d.Content = text
		if isForm {
			typed := &typedText{r: text}
			d.Content = typed
			return h.answerForm(c, o, typed, h.make(c, d, o, nil))
		}
	default:
		d.Content = c.Body
	}
	return h.make(c, d, o, nil)
}

// put is PUT /{name}.
func (h *handlers) put(c *httpapi.Call) error {
	if err := c.TakeFrom("pastes", h.o.Rate, 1); err != nil {
		return err
	}
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	return h.make(c, paste.Draft{Title: c.Request.PathValue("name"), Content: c.Body}, o, nil)
}

// createJSON is POST /v1/pastes.
func (h *handlers) createJSON(c *httpapi.Call) error {
	if err := c.TakeFrom("pastes", h.o.Rate, 1); err != nil {
		return err
	}
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	var in wire.NewPaste
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	given := options{"title": in.Title, "language": in.Language, "lifetime": in.Lifetime, "password": in.Password}
	if in.Reads != 0 {
		given["reads"] = strconv.Itoa(in.Reads)
	}
	for name, is := range map[string]bool{"burn": in.Burn, "private": in.Private} {
		if is {
			given[name] = "true"
		}
	}
	for name, value := range given {
		if value == "" {
			continue
		}
		if err := o.set(name, value); err != nil {
			return err
		}
	}
	return h.make(c, paste.Draft{Content: strings.NewReader(in.Content)}, o, nil)
}

// make creates the paste and answers. rest reads the options that follow the content
// of a form.
func (h *handlers) make(c *httpapi.Call, d paste.Draft, o options, rest func() error) error {
	var err error
	if d.Key, err = c.IdempotencyKey(); err != nil {
		return err
	}
	d.Author = c.Caller.User
	if err := h.fill(&d, o); err != nil {
		return err
	}
	d.Content = &charged{r: d.Content, take: func(n int) error { return c.TakeFrom("paste bytes", h.o.Bytes, n) }}
	if rest != nil {
		d.Rest = func(d *paste.Draft) error {
			if err := rest(); err != nil {
				return err
			}
			return h.fill(d, o)
		}
	}
	p, err := h.pastes.Create(c.Context(), d, func() mayfly.Instant { return c.ReadClock().Steady })
	if err != nil {
		return c.Body.Cause(err)
	}
	c.CountMediaIn()
	return h.created(c, p)
}

// created answers with a paste that was created now, or before with the same key.
func (h *handlers) created(c *httpapi.Call, p paste.Paste) error {
	c.Now = c.ReadClock().Now // it was born after the request arrived
	status := http.StatusCreated
	if p.Again {
		status = http.StatusOK
	} else {
		c.CountBirth()
	}
	shown, token := h.show(c, p), h.pastes.DeleteToken(p.Item.ID)
	shown.SHA256 = hashOfContent(p) // the caller has sent the content
	header := c.Header()
	header.Set("Location", shown.URL)
	header.Set("Mayfly-Delete-Token", token)
	header.Set("Mayfly-Expires", "never")
	if end := p.Item.ID.Deadline(); end != 0 {
		header.Set("Mayfly-Expires", end.String())
	}
	switch {
	case strings.HasPrefix(c.Request.URL.Path, "/v1/") || c.Prefers("text/plain", jsonType, "text/html") == jsonType:
		shown.DeleteToken = token
		return c.JSON(status, shown)
	case c.Prefers("text/plain", jsonType, "text/html") == "text/html":
		header.Set("Content-Security-Policy", h.pages.policy)
		view := createdView{
			URL: shown.URL, RawURL: shown.RawURL, NewURL: "/", DeleteToken: token, Expires: p.Item.ID.Deadline(), Now: c.Now, Password: p.Locked, Burn: p.Reads > 0, Reads: p.Reads,
			DeleteCommand: "curl -X DELETE -H 'Mayfly-Delete-Token: " + token + "' " + shown.URL,
		}
		if !p.Public() {
			view.RawURL = ""
		}
		return c.Send(status, htmlType, h.pages.created(view))
	default:
		return c.Send(status, textType, []byte(shown.URL+"\n"))
	}
}

// show describes a paste to the caller.
func (h *handlers) show(c *httpapi.Call, p paste.Paste) wire.Paste {
	id := p.Item.ID
	out := wire.Paste{
		ID: id, Short: id.Short(), URL: c.AbsoluteURL(h.o.Host, "/"+id.Short()), RawURL: c.AbsoluteURL(h.o.Host, "/raw/"+id.Short()),
		Title: p.Title, Language: p.Language, Type: p.Content.Type, Size: p.Content.Size,
		BornAt: id.Birth(), Lifetime: id.Lifetime(), Locked: p.Locked, Reads: p.Reads, ReadsLeft: max(p.Left, 0), Private: p.Item.Audience == mayfly.OnlyAuthor,
		Held: p.Item.Held,
	}
	if end := id.Deadline(); end != 0 {
		out.ExpiresAt = &end
	}
	if p.Reads == 0 || c.Caller.Viewer().Moderator() { // else short content could be guessed without a read
		out.SHA256 = hashOfContent(p)
	}
	h.carries(c, p)
	return out
}

func hashOfContent(p paste.Paste) string { return hex.EncodeToString(p.Content.SHA256[:]) }

// carries notes that the answer contains a paste, which ends. A held one, which only
// moderators see, does not.
func (h *handlers) carries(c *httpapi.Call, p paste.Paste) {
	if !p.Item.Held {
		c.Carries(p.Item.End())
	}
}

// charged counts bytes against a rate while they are read.
type charged struct {
	r    io.Reader
	take func(int) error
	due  int // bytes that were read and not counted
	err  error
}

// chargeAt is how many bytes are counted at once.
const chargeAt = 256 << 10

func (c *charged) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if c.due += n; c.due >= chargeAt || err != nil && c.due > 0 {
		due := c.due
		c.due = 0
		if c.err = c.take(due); c.err != nil {
			return 0, c.err
		}
	}
	return n, err
}
