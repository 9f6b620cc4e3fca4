package pasteapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/product/paste"
)

// partHeader is the most bytes of headers between two parts of a form, and maxField
// those of an option.
const (
	partHeader = 16 << 10
	maxField   = 4 << 10
)

// form is a multipart body that is read from the connection part by part. Its
// content is the first part named file or text that is not empty.
type form struct {
	in      *multipart.Reader
	body    *httpapi.Body
	options options
}

// createForm creates a paste from a form. The content is stored while it comes; the
// options may stand before it or behind it.
func (h *handlers) createForm(c *httpapi.Call, d paste.Draft, o options, boundary string) error {
	if boundary == "" || len(boundary) > 70 {
		return mayfly.Errorf(mayfly.Invalid, "the form has no boundary").WithHint("let your HTTP library write the Content-Type")
	}
	f := &form{in: multipart.NewReader(c.Body, boundary), body: c.Body, options: o}
	content, name, err := f.content()
	var typed *typedText
	if err == nil {
		if _, isText := content.(*unixLines); isText {
			typed = &typedText{r: content}
			content = typed
		}
		if d.Content, d.Title = content, name; content == nil {
			d.Content = strings.NewReader("")
		}
		err = h.make(c, d, o, func() error {
			second, _, err := f.content()
			if err == nil && second != nil {
				err = mayfly.Errorf(mayfly.Invalid, "the form has two contents").WithHint("send a text or a file, not both")
			}
			return err
		})
	}
	return h.answerForm(c, o, typed, c.Body.Cause(err))
}

// content reads options up to the next part with content and returns that, with the
// name of its file; nil at the end of the form.
func (f *form) content() (io.Reader, string, error) {
	for {
		f.body.Bound(partHeader)
		part, err := f.in.NextPart()
		f.body.Bound(-1)
		if err == io.EOF { // not wrapped: a wrapped EOF is a form without its end
			_, err = io.Copy(io.Discard, f.body) // fails if the body is shorter than its Content-Length
			return nil, "", err
		}
		if err != nil {
			return nil, "", badForm(err)
		}
		name := part.FormName()
		if name == "file" || name == "text" || name == "content" {
			in := bufio.NewReader(partReader{part})
			if _, err := in.Peek(1); err == io.EOF {
				continue // an empty field of a browser's form
			}
			if name == "text" { // browsers send a text area with CRLF
				return &unixLines{in: in}, "", nil
			}
			return in, fileName(part.FileName()), nil
		}
		if !slices.Contains(optionNames(), name) {
			return nil, "", unknownOption(name)
		}
		value, err := io.ReadAll(io.LimitReader(partReader{part}, maxField+1))
		if err != nil {
			return nil, "", err
		}
		if len(value) > maxField {
			return nil, "", mayfly.Errorf(mayfly.TooLarge, "the field %s has more than %d bytes", name, maxField).WithHint("send less")
		}
		if len(value) > 0 { // an empty field of a form was not filled in
			if err := f.options.set(name, string(value)); err != nil {
				return nil, "", err
			}
		}
	}
}

// fileName returns the name of a file without folders; empty for none.
func fileName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if name == "." || name == "/" || name == "-" || name == ".." {
		return ""
	}
	return name
}

func badForm(err error) error {
	if httpapi.KindOf(err) != 0 {
		return err
	}
	return mayfly.Errorf(mayfly.Invalid, "the form cannot be parsed: %v", err).WithHint("send every part complete, and the end of the form")
}

// partReader turns the errors of a part into errors of the form.
type partReader struct{ part *multipart.Part }

func (p partReader) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && err != io.EOF {
		err = badForm(err)
	}
	return n, err
}

// unixLines reads lines that end in CRLF as lines that end in LF.
type unixLines struct{ in *bufio.Reader }

func (u *unixLines) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	out := p[:0]
	for i := range n {
		if p[i] == '\r' {
			next := byte(0)
			if i+1 < n {
				next = p[i+1]
			} else if peeked, err := u.in.Peek(1); err == nil {
				next = peeked[0]
			}
			if next == '\n' {
				continue
			}
		}
		out = append(out, p[i])
	}
	if len(out) == 0 && n > 0 && err == nil { // a lone CR before its LF
		return u.Read(p)
	}
	return len(out), err
}

// maxInMemory is how many bytes a form in the encoding of URLs, or JSON, may have:
// they are decoded in memory. Larger content is sent as bytes or as multipart.
const maxInMemory = 4 << 20

// urlForm tells a form from the bytes of a file: curl sends both with the type of a
// form. A form has known names only, and the text among them; it has no spaces, line
// breaks or other bytes that a form encodes. It returns the text, or the bytes. What
// is no form, and was meant as one, is refused: as bytes it would be shown to anyone,
// with its password. Errors: Invalid, TooLarge.
func (h *handlers) urlForm(c *httpapi.Call, o options) (content io.Reader, isForm bool, err error) {
	in := bufio.NewReaderSize(c.Body, 64)
	head, _ := in.Peek(16) // the body returns its error again
	if name, _, found := bytes.Cut(head, []byte("=")); !found || !isFormName(string(name)) {
		return in, false, nil
	}
	all, err := io.ReadAll(io.LimitReader(in, maxInMemory+1))
	if err != nil {
		return nil, false, c.Body.Cause(err)
	}
	isEncoded := !slices.ContainsFunc(all, func(b byte) bool { return b <= ' ' || b >= 0x7f })
	if len(all) > maxInMemory { // too large for a form, whose text would have to be in memory
		if isEncoded || meantAsForm(all) {
			return nil, false, errFormTooLarge()
		}
		return &noForm{r: io.MultiReader(bytes.NewReader(all), in)}, false, nil
	}
	values, err := url.ParseQuery(string(all))
	unknown := ""
	for name := range values {
		if !isFormName(name) {
			unknown = name
		}
	}
	switch {
	case isEncoded && err == nil && unknown == "" && values.Has("text"):
	case !meantAsForm(all):
		return bytes.NewReader(all), false, nil
	case !isEncoded || err != nil:
		return nil, false, mayfly.Errorf(mayfly.Invalid, "the form is not encoded").WithHint("encode it, as curl --data-urlencode does, or send " + otherwise)
	case unknown != "":
		return nil, false, unknownOption(unknown)
	default:
		return nil, false, mayfly.Errorf(mayfly.Invalid, "the form has no field text").WithHint("send the content in the field text, or send " + otherwise)
	}
	for name, given := range values {
		for _, value := range given {
			if name == "text" || value == "" {
				continue
			}
			if err := o.set(name, value); err != nil {
				return nil, false, err
			}
		}
	}
	if len(values["text"]) > 1 {
		return nil, false, mayfly.Errorf(mayfly.Invalid, "the form has two texts").WithHint("send one")
	}
	return &unixLines{in: bufio.NewReader(strings.NewReader(values.Get("text")))}, true, nil
}

func isFormName(name string) bool { return name == "text" || slices.Contains(optionNames(), name) }

// meantAsForm reports whether a body that begins with the name of a field was meant as
// a form: the text and an option are in it, or an option is followed by a field in its line.
func meantAsForm(body []byte) bool {
	if bytes.HasPrefix(body, []byte("text=")) {
		return hasOption(body)
	}
	value, _, more := bytes.Cut(body, []byte("&"))
	return more && !bytes.ContainsAny(value, "\r\n") || bytes.Contains(body, []byte("&text="))
}

// hasOption reports whether a field with the name of an option follows another field.
func hasOption(body []byte) bool {
	return slices.ContainsFunc(optionNames(), func(name string) bool { return bytes.Contains(body, []byte("&"+name+"=")) })
}

const otherwise = "multipart (curl -F), or bytes with another Content-Type"

func errFormTooLarge() error {
	return mayfly.Errorf(mayfly.TooLarge, "the form has more than %d bytes", maxInMemory).WithHint("send " + otherwise)
}

// noForm reads a large body that begins with the name of a field, and fails when a
// later field shows that it was meant as a form.
type noForm struct {
	r    io.Reader
	seen []byte // the end of what was read, in which the name of a field may have begun
	err  error
}

func (f *noForm) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.r.Read(p)
	const longest = len("&language=")
	if f.seen = append(f.seen, p[:n]...); hasOption(f.seen) || bytes.Contains(f.seen, []byte("&text=")) {
		f.err = errFormTooLarge()
		return 0, f.err
	}
	f.seen = append(f.seen[:0], f.seen[max(0, len(f.seen)-longest):]...)
	return n, err
}

// maxTyped is how many bytes of a text are repeated in a form with an error.
const maxTyped = 256 << 10

// typedText keeps the beginning of the text of a form while it is read.
type typedText struct {
	r    io.Reader
	text []byte // at most one byte more than maxTyped
}

func (t *typedText) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.text = append(t.text, p[:min(n, maxTyped+1-len(t.text))]...)
	return n, err
}

// repeat returns the text, also what no one has read of it; long reports that it is
// too long to be repeated.
func (t *typedText) repeat() (text string, long bool) {
	if t == nil {
		return "", false
	}
	_, _ = io.CopyN(io.Discard, t, int64(maxTyped+1-len(t.text))) // a body that ends early has an error of its own
	if len(t.text) > maxTyped {
		return "", true
	}
	return string(t.text), false
}

// answerForm shows a browser what was wrong with its form, beside the field, and the
// text again; other callers get the problem.
func (h *handlers) answerForm(c *httpapi.Call, o options, typed *typedText, err error) error {
	status := 0
	switch httpapi.KindOf(err) {
	case mayfly.Invalid:
		status = http.StatusBadRequest
	case mayfly.TooLarge:
		status = http.StatusRequestEntityTooLarge
	}
	if err == nil || status == 0 || c.Prefers("text/plain", jsonType, "text/html") != "text/html" {
		return err
	}
	view := h.formView(c)
	for name, value := range o {
		if name != "password" {
			view.Values[name] = value
		}
	}
	view.Values["text"], view.Long = typed.repeat()
	if view.Values["burn"] == "false" {
		view.Values["burn"] = ""
	}
	field, text := fieldOf(err)
	if field == "" {
		view.General = text
	} else {
		view.Errors[field] = text
	}
	c.DrainBody()
	c.Header().Set("Content-Security-Policy", h.pages.policy)
	return c.Send(status, htmlType, h.pages.form(view))
}

// fieldOf returns the field of the form that an error is about, and what to say.
func fieldOf(err error) (field, text string) {
	var e *mayfly.Error
	if !errors.As(err, &e) || e.Err == nil {
		return "", "That did not work."
	}
	text = e.Err.Error()
	for _, about := range []struct{ word, field string }{
		{"lifetime", "lifetime"},
		{"expire", "lifetime"},
		{"language", "language"},
		{"title", "title"},
		{"password", "password"},
		{"reads", "burn"},
		{"empty", "text"},
		{"more than", "file"},
	} {
		if strings.Contains(text, about.word) {
			return about.field, sentence(text)
		}
	}
	return "", sentence(text)
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// newPage is GET /.
func (h *handlers) newPage(c *httpapi.Call) error {
	header := c.Header()
	header.Set("Content-Security-Policy", h.pages.policy)
	header.Set("Cache-Control", "no-cache")
	return c.Send(http.StatusOK, htmlType, h.pages.form(h.formView(c)))
}

func (h *handlers) formView(c *httpapi.Call) formView {
	v := formView{
		Values: map[string]string{"lifetime": h.rules.Default.String()}, Errors: map[string]string{}, Languages: h.pages.languages,
		Anonymous: h.rules.Anonymous, MaxBytes: h.rules.MaxSize, PublicURL: strings.TrimSuffix(c.AbsoluteURL(h.o.Host, "/"), "/"),
	}
	offered := false
	for _, text := range []string{"10m", "1h", "12h", "1d", "3d", "7d", "30d", "90d", "1y"} {
		l, err := mayfly.ParseLifetime(text)
		if err != nil || l.Duration() < h.rules.Shortest.Duration() || l.Duration() > h.rules.Longest.Duration() {
			continue
		}
		offered = offered || l == h.rules.Default
		v.Lifetimes = append(v.Lifetimes, lifetimeOption{l.String(), durationText(l.Duration())})
	}
	if !offered {
		v.Lifetimes = append([]lifetimeOption{{h.rules.Default.String(), durationText(h.rules.Default.Duration())}}, v.Lifetimes...)
	}
	if h.rules.Never {
		v.Lifetimes = append(v.Lifetimes, lifetimeOption{"never", "Never"})
	}
	return v
}
