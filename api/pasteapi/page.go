package pasteapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

//go:embed page_*.html page.css page.js
var pageFiles embed.FS

// pages renders the pages of pastes.
type pages struct {
	*highlighter
	templates *template.Template
	languages []languageOption
	policy    string // the Content-Security-Policy of every page
}

// pasteView is the page of a paste.
type pasteView struct {
	ID, Title        string
	URL              string // of the page itself: the choice of a language goes there; "" offers none
	RawURL           string // "" offers no raw text, as for a paste that was just burned
	DownloadURL      string
	NewURL           string // where another paste is made
	Size             int64
	Created, Expires mayfly.Instant // Expires is 0 for never
	Now              mayfly.Instant
	Text             rendered
	Binary           bool // the content is no text: Text is not shown
	Limited          bool // the reads are limited: ReadsLeft remain after this one
	ReadsLeft        int
}

// askView is the page that asks before a paste is shown.
type askView struct {
	ID       string
	Title    string
	Password bool
	Burn     bool
	Reads    int    // how many reads remain, if Burn
	Wrong    bool   // the password was wrong
	Error    string // another error
	Action   string // where the form is posted to
	Download bool   // offer a second button, name "as", value "download"
	FileOnly bool   // the second button only: a page cannot show all of it
	NewURL   string
}

// formView is the page on which a paste is made.
type formView struct {
	Values    map[string]string // by field: text, title, lifetime, language, burn
	Errors    map[string]string // by field, shown beside it; also file and password
	Lifetimes []lifetimeOption
	Languages []languageOption
	Anonymous bool // callers without a token may make pastes; without it the page has no form
	MaxBytes  int64
	PublicURL string // without a slash at its end
	General   string // an error of no field
	Long      bool   // the text was too long to be repeated
}

// lifetimeOption is a lifetime to choose; Value is what the option lifetime takes.
type lifetimeOption struct{ Value, Label string }

// languageOption is a language to choose; Value is its short name.
type languageOption struct{ Value, Label string }

// createdView is the page after a paste was made by the form.
type createdView struct {
	URL, RawURL   string // RawURL "" for none
	NewURL        string
	DeleteToken   string // shown once; "" if there is none
	DeleteCommand string // a shell command that deletes the paste; "" for none
	Expires, Now  mayfly.Instant
	Password      bool
	Burn          bool
	Reads         int
}

func newPages() (*pages, error) {
	h, err := newHighlighter()
	if err != nil {
		return nil, err
	}
	style, err := pageFiles.ReadFile("page.css")
	if err != nil {
		return nil, fmt.Errorf("pasteapi: %w", err)
	}
	script, err := pageFiles.ReadFile("page.js")
	if err != nil {
		return nil, fmt.Errorf("pasteapi: %w", err)
	}
	p := &pages{highlighter: h, languages: h.options()}
	p.templates, err = template.New("pages").Option("missingkey=zero").Funcs(template.FuncMap{
		"style":  func() template.CSS { return template.CSS(style) }, //nolint:gosec // it is embedded
		"script": func() template.JS { return template.JS(script) },  //nolint:gosec // it is embedded
		"size":   sizeText, "count": countText, "instant": instantText, "expires": expiresText, "digits": digits, "sentence": capital, "languageOptions": p.languageOptions,
	}).ParseFS(pageFiles, "page_*.html")
	if err != nil {
		return nil, fmt.Errorf("pasteapi: %w", err)
	}
	p.policy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
		"; img-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
	return p, nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// paste returns the page of a paste.
func (p *pages) paste(v pasteView) []byte { return p.render("page_paste.html", v) }

// ask returns the page that asks for the password of a paste, or before a read that
// counts.
func (p *pages) ask(v askView) []byte { return p.render("page_ask.html", v) }

// form returns the page on which a paste is made.
func (p *pages) form(v formView) []byte { return p.render("page_form.html", v) }

// created returns the page after a paste was made by the form.
func (p *pages) created(v createdView) []byte { return p.render("page_created.html", v) }

func (p *pages) render(name string, view any) []byte {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, view); err != nil {
		panic(fmt.Sprintf("pasteapi: page %s: %v", name, err)) // cannot happen: a view has every field, and a buffer takes every write
	}
	return b.Bytes()
}

// options returns every language that can be chosen, by its shown name.
func (h *highlighter) options() []languageOption {
	var all []languageOption
	for _, names := range languages() {
		all = append(all, languageOption{names[0], names[1]})
	}
	slices.SortFunc(all, func(a, b languageOption) int {
		return strings.Compare(strings.ToLower(a.Label), strings.ToLower(b.Label))
	})
	return append([]languageOption{{plainShort, plainShown}}, all...)
}

// languageOptions returns the options of a list of languages with one of them chosen.
// It is written by hand because a template takes longer for it than for the rest of
// the page.
func (p *pages) languageOptions(chosen string) template.HTML {
	var b strings.Builder
	for _, l := range p.languages {
		b.WriteString(`<option value="`)
		b.WriteString(html.EscapeString(l.Value))
		if b.WriteByte('"'); l.Value == chosen {
			b.WriteString(" selected")
		}
		b.WriteByte('>')
		b.WriteString(html.EscapeString(l.Label))
		b.WriteString("</option>")
	}
	return template.HTML(b.String()) //nolint:gosec // it is escaped
}

// sizeText returns a size as people write it.
func sizeText(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " bytes"
	case n < 1<<20:
		return oneDigit(float64(n)/(1<<10)) + " KiB"
	default:
		return oneDigit(float64(n)/(1<<20)) + " MiB"
	}
}

func oneDigit(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// countText returns a number and its noun: "1 line", "12,000 lines".
func countText(n int, noun string) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if n != 1 {
		noun += "s"
	}
	return text + " " + noun
}

// instantText returns an instant as people write it.
func instantText(i mayfly.Instant) string { return i.Time().Format("2 January 2006, 15:04 UTC") }

// expiresText says in words when a paste expires.
func expiresText(deadline, now mayfly.Instant) string {
	if deadline == 0 {
		return "Never expires"
	}
	return "Expires in " + durationText(deadline.Sub(now))
}

// durationText returns a duration in words, in one unit, rounded down so that it
// promises no more than there is. The script of the pages counts in the same words.
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return countText(int(max(d, 0)/time.Second), "second")
	case d < 2*time.Hour:
		return countText(int(d/time.Minute), "minute")
	case d < 2*day:
		return countText(int(d/time.Hour), "hour")
	case d < 730*day:
		return countText(int(d/day), "day")
	default:
		return countText(int(d/(365*day)), "year")
	}
}

// digits returns how many digits a number of lines has.
func digits(n int) int { return len(strconv.Itoa(n)) }

// capital returns the text of an error as people write it, with a capital letter.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
