package pasteapi

import (
	"errors"
	"fmt"
	"html/template"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

const (
	maxHighlighted = 512 << 10 // bytes; a longer source is plain text, and this much of it is on its page
	maxLine        = 2048      // characters; a source with a longer line is plain text
	maxLines       = 50_000    // lines on a page
	maxMarkup      = 8 << 20   // bytes of HTML; a source of more tokens is plain text
	highlightTime  = 250 * time.Millisecond
	matchTime      = 50 * time.Millisecond // of one regular expression at one place
	maxStanding    = 1000                  // matches in a row that consume nothing
)

// rendered is a source made into HTML.
type rendered struct {
	HTML     template.HTML // a div for each line, which starts with the link of its number
	Lines    int           // that are in HTML
	Language string        // shown name, "Plain text" when plain
	Short    string        // canonical short name, "text" when plain
	Plain    bool
	Why      string // why a source is plain text although it has a language; "" otherwise
	Cut      bool   // HTML is the beginning of the source only
	Busy     bool   // plain only because all highlighters were busy: not to be cached
}

// highlighter makes sources into HTML. The lexers of chroma are neither
// cancellable nor proven to end on every source, so each of ours is a copy with
// limits (see limits), and a source that takes too long is shown as plain text. At
// most GOMAXPROCS sources are worked on at once.
type highlighter struct {
	lexers *chroma.LexerRegistry
	known  map[string]*language // by short name, alias and name in lower case
	hints  []hint
	slots  chan struct{}
	limit  time.Duration
}

func newHighlighter() (*highlighter, error) {
	h := &highlighter{
		lexers: chroma.NewLexerRegistry(), known: map[string]*language{}, hints: hints(),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), limit: highlightTime,
	}
	plain := &language{short: plainShort, shown: plainShown}
	h.known[plainShort], h.known["plain"], h.known["txt"], h.known["plaintext"] = plain, plain, plain, plain
	for _, names := range languages() {
		lexer, err := limited(names[2])
		if err != nil {
			return nil, err
		}
		l := &language{names[0], names[1], h.lexers.Register(lexer)}
		h.known[l.short] = l
	}
	for _, lexer := range h.lexers.Lexers { // a short name comes before another language's alias
		own := h.byLexer(lexer)
		for _, alias := range append(slices.Clone(lexer.Config().Aliases), lexer.Config().Name, own.shown) {
			if alias = strings.ToLower(alias); h.known[alias] == nil {
				h.known[alias] = own
			}
		}
	}
	return h, nil
}

// highlight makes a source into HTML. The language is one that an author or a
// reader chose; "" finds it by the file name, then by the content. A source that is
// larger than 512 KiB, has a line of more than 2,048 characters or takes more than
// 250 ms is plain text, and no more than its first 512 KiB are on the page (P3).
func (h *highlighter) highlight(source []byte, name, filename string) rendered {
	text, cut := shown(source)
	l := h.choose(text, name, filename)
	if l == nil || l.lexer == nil {
		return plain(text, "", cut)
	}
	switch {
	case len(source) > maxHighlighted:
		return plain(text, "it is larger than 512 KiB", cut)
	case cut:
		return plain(text, "it has more than 50,000 lines", cut)
	case longLine(text):
		return plain(text, "it has a line of more than 2,048 characters", cut)
	}
	out, err := h.bounded(l.lexer, text)
	switch {
	case errors.Is(err, errBusy):
		r := plain(text, "the server is busy; reload the page in a moment", cut)
		r.Busy = true
		return r
	case errors.Is(err, errSlow):
		return plain(text, "highlighting it takes too long", cut)
	case err != nil:
		return plain(text, "it cannot be highlighted as "+l.shown, cut)
	}
	return rendered{HTML: template.HTML(out.html()), Lines: out.line, Language: l.shown, Short: l.short} //nolint:gosec // lines escapes every character
}

func plain(text, why string, cut bool) rendered {
	var out lines
	out.write("", text)
	return rendered{HTML: template.HTML(out.html()), Lines: out.line, Language: plainShown, Short: plainShort, Plain: true, Why: why, Cut: cut} //nolint:gosec // lines escapes every character
}

var (
	errBusy = errors.New("all highlighters are busy")
	errSlow = errors.New("highlighting takes too long")
	errLost = errors.New("the lexer changes the text")
	errMany = errors.New("too many tokens")
)

// bounded highlights in another goroutine and returns after the time limit at the
// latest. A run that is given up ends at its next token, and keeps its slot until
// then.
func (h *highlighter) bounded(lexer chroma.Lexer, text string) (*lines, error) {
	timer := time.NewTimer(h.limit)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
	case <-timer.C:
		return nil, errBusy
	}
	type result struct {
		out *lines
		err error
	}
	started, done := make(chan struct{}), make(chan result, 1)
	go func() {
		defer func() { <-h.slots }()
		_, err := lexer.Tokenise(rootState(), "") // compiles the lexer at its first use
		close(started)
		var out *lines
		if err == nil {
			out, err = tokens(lexer, text, time.Now().Add(h.limit))
		}
		done <- result{out, err}
	}()
	<-started
	timer.Reset(h.limit)
	select {
	case r := <-done:
		return r.out, r.err
	case <-timer.C:
		return nil, errSlow
	}
}

func rootState() *chroma.TokeniseOptions { return &chroma.TokeniseOptions{State: "root"} }

// tokens highlights a text. A lexer that panics, which is how chroma reports
// errors, or that does not return the text as it was is an error.
func tokens(lexer chroma.Lexer, text string, end time.Time) (out *lines, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lexer %s: %v", lexer.Config().Name, p)
		}
	}()
	next, err := lexer.Tokenise(rootState(), text)
	if err != nil {
		return nil, err
	}
	out = &lines{}
	rest := text
	for n := 0; ; n++ {
		token := next()
		if n%16 == 0 && time.Now().After(end) {
			return nil, errSlow
		}
		if token == chroma.EOF {
			break
		}
		var same bool
		if rest, same = strings.CutPrefix(rest, token.Value); !same {
			return nil, errLost
		}
		out.write(class(token.Type), token.Value)
		if len(out.b) > maxMarkup {
			return nil, errMany
		}
	}
	if rest != "" {
		return nil, errLost
	}
	return out, nil
}

// limited returns a copy of a lexer of chroma with limits.
func limited(name string) (chroma.Lexer, error) {
	lexer := lexers.Get(name)
	if name == lexers.HTML.Config().Name {
		lexer = lexers.HTML
	}
	if lexer == nil || lexer.Config().Name != name {
		return nil, fmt.Errorf("pasteapi: chroma has no lexer %q", name)
	}
	original, ok := lexer.SetRegistry(lexers.GlobalLexerRegistry).(*chroma.RegexLexer) // where it was; this reaches the lexer inside a wrapper
	if !ok {
		return nil, fmt.Errorf("pasteapi: lexer %q cannot be limited", name)
	}
	return chroma.NewLexer(original.Config(), func() chroma.Rules {
		rules := original.MustRules().Clone()
		rules["mayfly limits"] = []chroma.Rule{{Mutator: limits{}}}
		return rules
	})
}

// limits is a rule that matches nothing. When its lexer is compiled it sets the
// time of each match and guards each emitter, and removes itself.
type limits struct{}

func (limits) Mutate(*chroma.LexerState) error { return nil }

// MutateLexer changes the rules when they are compiled.
func (limits) MutateLexer(rules chroma.CompiledRules, state string, _ int) error {
	delete(rules, state)
	for _, list := range rules {
		for _, rule := range list {
			rule.Regexp.MatchTimeout = matchTime
			if _, done := rule.Type.(guard); !done {
				rule.Type = guard{rule.Type}
			}
		}
	}
	return nil
}

// guard is an emitter that ends a lexer which makes no progress: some have states
// that call each other without consuming a character, for ever on some sources.
type guard struct{ next chroma.Emitter }

type standing struct{ pos, matches int }

var errStanding = errors.New("the lexer makes no progress")

// Emit returns the tokens of a match.
func (g guard) Emit(groups []string, state *chroma.LexerState) chroma.Iterator {
	if groups[0] == "" {
		at, _ := state.Get(standing{}).(standing)
		if at.pos != state.Pos {
			at = standing{pos: state.Pos}
		}
		if at.matches++; at.matches > maxStanding {
			panic(errStanding)
		}
		state.Set(standing{}, at)
	}
	if g.next == nil {
		return func() chroma.Token { return chroma.EOF }
	}
	return g.next.Emit(groups, state)
}

// class returns the CSS class of a type of token; "" for ordinary text.
func class(t chroma.TokenType) string {
	switch t {
	case chroma.NameFunction, chroma.NameFunctionMagic:
		return "f"
	case chroma.NameClass, chroma.NameException, chroma.NameNamespace, chroma.KeywordType:
		return "y"
	case chroma.NameBuiltin, chroma.NameBuiltinPseudo, chroma.NameConstant, chroma.KeywordConstant, chroma.LiteralDate:
		return "b"
	case chroma.NameTag, chroma.NameEntity, chroma.NameLabel:
		return "g"
	case chroma.NameAttribute, chroma.NameProperty:
		return "a"
	case chroma.NameDecorator, chroma.CommentPreproc, chroma.CommentPreprocFile, chroma.CommentHashbang:
		return "d"
	case chroma.NameVariable, chroma.NameVariableClass, chroma.NameVariableGlobal, chroma.NameVariableInstance, chroma.NameVariableMagic:
		return "v"
	case chroma.LiteralStringEscape, chroma.LiteralStringInterpol, chroma.LiteralStringRegex, chroma.LiteralStringSymbol:
		return "e"
	case chroma.OperatorWord:
		return "k"
	case chroma.GenericDeleted, chroma.GenericError, chroma.GenericTraceback:
		return "x"
	case chroma.GenericInserted:
		return "i"
	case chroma.GenericHeading, chroma.GenericSubheading:
		return "h"
	case chroma.GenericStrong:
		return "st"
	case chroma.GenericEmph:
		return "em"
	case chroma.GenericPrompt:
		return "p"
	}
	switch t.SubCategory() {
	case chroma.LiteralString:
		return "s"
	case chroma.LiteralNumber:
		return "n"
	}
	switch t.Category() {
	case chroma.Keyword:
		return "k"
	case chroma.Comment:
		return "c"
	case chroma.Operator, chroma.Punctuation:
		return "p"
	}
	return ""
}

// lines writes text as HTML, one div for each line.
type lines struct {
	b     []byte
	line  int    // that have begun
	open  bool   // a line is open
	class string // of the open span
}

func (l *lines) write(class, text string) {
	for text != "" {
		part, after, broken := strings.Cut(text, "\n")
		l.begin()
		if part != "" {
			l.span(class)
			l.b = appendEscaped(l.b, part)
		}
		if text = after; broken {
			l.end()
		}
	}
}

func (l *lines) begin() {
	if l.open {
		return
	}
	l.line++
	l.open = true
	l.b = append(l.b, "<div id=L"...)
	l.b = strconv.AppendInt(l.b, int64(l.line), 10)
	l.b = append(l.b, "><a href=#L"...)
	l.b = strconv.AppendInt(l.b, int64(l.line), 10)
	l.b = append(l.b, "></a>"...)
}

func (l *lines) span(class string) {
	if class == l.class {
		return
	}
	if l.class != "" {
		l.b = append(l.b, "</span>"...)
	}
	if l.class = class; class != "" {
		l.b = append(append(append(l.b, "<span class="...), class...), '>')
	}
}

func (l *lines) end() {
	if l.open {
		l.span("")
		l.b = append(l.b, "\n</div>"...) // the line break is for those who select and copy
		l.open = false
	}
}

func (l *lines) html() string {
	l.end()
	return string(l.b)
}

// appendEscaped appends text in which no character is markup. Characters that
// reverse the order of others or are invisible stand alone in a bdi, which isolates
// them, with their number to be shown.
func appendEscaped(b []byte, text string) []byte {
	from := 0
	for i, r := range text {
		entity := ""
		switch {
		case r == '<':
			entity = "&lt;"
		case r == '>':
			entity = "&gt;"
		case r == '&':
			entity = "&amp;"
		case r == '"':
			entity = "&#34;"
		case r == '\'':
			entity = "&#39;"
		case r < 0x80 || !invisible(r):
			continue
		default:
			entity = fmt.Sprintf("<bdi data-c=U+%04X>%c</bdi>", r, r)
		}
		b = append(append(b, text[from:i]...), entity...)
		from = i + utf8.RuneLen(r)
	}
	return append(b, text[from:]...)
}

// invisible reports whether a character changes how others are shown or cannot be
// seen: C1 controls, bidirectional controls, zero width characters and separators.
func invisible(r rune) bool {
	switch {
	case 0x80 <= r && r <= 0x9f, 0x202a <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f, r == 0x2028, r == 0x2029,
		r == 0xad, r == 0x61c, r == 0x180e, r == 0x200b, r == 0x200e, r == 0x200f, r == 0xfeff, 0xfff9 <= r && r <= 0xfffb,
		0xe0000 <= r && r <= 0xe007f:
		return true
	}
	return false
}

// shown returns the beginning of a source as the text that its page shows, and
// whether that is not all of it: each line ends with \n, other control characters
// are their pictures, and invalid UTF-8 is U+FFFD.
func shown(source []byte) (text string, cut bool) {
	if len(source) > maxHighlighted {
		source, cut = source[:maxHighlighted], true
		for n := 0; n < utf8.UTFMax && len(source) > 0 && !utf8.Valid(lastRune(source)); n++ {
			source = source[:len(source)-1] // half a character
		}
	}
	var b strings.Builder
	b.Grow(len(source) + 1)
	count := 0
	for i := 0; i < len(source); {
		r, size := utf8.DecodeRune(source[i:])
		i += size
		switch {
		case r == '\r' && i < len(source) && source[i] == '\n':
			continue
		case r == '\n':
			if count++; count == maxLines && i < len(source) {
				b.WriteByte('\n')
				return b.String(), true
			}
		case r < ' ' && r != '\t':
			r += 0x2400
		case r == 0x7f:
			r = 0x2421
		}
		b.WriteRune(r)
	}
	if text = b.String(); text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text, cut
}

// lastRune returns the bytes of the last character, as far as they are there.
func lastRune(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b[len(b)-1:]
}

func longLine(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > maxLine && utf8.RuneCountInString(line) > maxLine {
			return true
		}
	}
	return false
}
