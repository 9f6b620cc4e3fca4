package pasteapi

import (
	"fmt"
	"html"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"

	"github.com/mayflyhq/mayfly/test/pace"
)

func testHighlighter(t testing.TB) *highlighter {
	t.Helper()
	h, err := newHighlighter()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// patient is a highlighter whose runs may take as long as a busy machine needs.
func patient(t testing.TB) *highlighter {
	h := testHighlighter(t)
	h.limit = 30 * time.Second
	return h
}

// asText returns HTML without its tags, with its entities resolved.
func asText(t testing.TB, r rendered) string {
	t.Helper()
	return html.UnescapeString(tags().ReplaceAllString(string(r.HTML), ""))
}

// wantText fails the test unless the page shows the text of the source, and each
// tag in it is one of ours.
func wantText(t testing.TB, r rendered, source []byte) {
	t.Helper()
	text, _ := shown(source)
	if got := asText(t, r); got != text {
		t.Fatalf("%s (plain %v): the page shows %.300q, the source is %.300q", r.Language, r.Plain, got, text)
	}
	if rest := tags().ReplaceAllString(string(r.HTML), ""); strings.ContainsAny(rest, "<>\"'") {
		t.Fatalf("the source %.300q makes markup that is not ours: %.300q", source, rest)
	}
	if got := strings.Count(string(r.HTML), "<div "); got != r.Lines || r.Lines != strings.Count(text, "\n") {
		t.Fatalf("%d divs and Lines is %d for %d lines", got, r.Lines, strings.Count(text, "\n"))
	}
}

// tags matches the tags that a highlighter writes.
func tags() *regexp.Regexp {
	return regexp.MustCompile(`<div id=L\d+>|</div>|<a href=#L\d+>|</a>|<span class=[a-z]{1,2}>|</span>|<bdi data-c=U\+[0-9A-F]{4,5}>|</bdi>`)
}

func TestLanguagesAreKnownByNameAndAlias(t *testing.T) {
	h := testHighlighter(t)
	for name, want := range map[string]string{
		"go": "go", "golang": "go", "Go": "go", "GO": "go", "c++": "cpp", "C#": "csharp", "sh": "bash", "py": "python", "text": "text", "plain": "text",
		"javascript": "js", "typescript": "ts", "tsx": "ts", "dockerfile": "docker", "yml": "", "brainfuck": "", "": "", "<script>": "", "Markdown": "markdown", "md": "markdown",
	} {
		if got, ok := h.languageOf(name); got != want || ok != (want != "") {
			t.Errorf("languageOf(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, l := range h.options() {
		if got, ok := h.languageOf(l.Value); !ok || got != l.Value || len(l.Value) > 20 {
			t.Errorf("%q is offered and stored as %q (%v)", l.Value, got, ok)
		}
	}
}

func TestTheLanguageIsChosenThenByNameThenGuessed(t *testing.T) {
	h := patient(t)
	const program = "package main\n\nfunc main() { println(\"hello\") }\n"
	for _, c := range []struct{ source, language, filename, want string }{
		{program, "", "", "Go"},
		{program, "rust", "main.go", "Rust"},
		{program, "text", "main.go", "Plain text"},
		{program, "no-such", "x.py", "Python"},
		{program, "", "x.yml", "YAML"},
		{program, "", "Dockerfile", "Dockerfile"},
		{program, "", "x.php", "PHP"},
		{program, "", "page.svg", "XML"},
		{program, "", "notes.unknown", "Go"},
		{program, "", "x.golang", "Go"},
		{"#!/usr/bin/env python3\nprint(1)\n", "", "", "Python"},
		{"#!/bin/sh\necho 1\n", "", "", "Bash"},
		{"{\"a\": [1, 2]}\n", "", "", "JSON"},
		{"<!DOCTYPE html>\n<p>\n", "", "", "HTML"},
		{"diff --git a/x b/x\n--- a/x\n+++ b/x\n", "", "", "Diff"},
		{"#include <stdio.h>\nint main(void) { return 0; }\n", "", "", "C"},
		{"SELECT id FROM pastes WHERE deadline < 5;\n", "", "", "SQL"},
		{"def f(x):\n    return x\n", "", "", "Python"},
		{"Dear Ana,\n\nthe package arrives on Monday.\n", "", "", "Plain text"},
		{"", "", "", "Plain text"},
	} {
		if got := h.highlight([]byte(c.source), c.language, c.filename); got.Language != c.want || got.Why != "" {
			t.Errorf("%.20q with language %q, file %q is %s (%s), want %s", c.source, c.language, c.filename, got.Language, got.Why, c.want)
		}
	}
}

func TestTokensHaveClasses(t *testing.T) {
	r := patient(t).highlight([]byte("package main // begin\nvar s = \"a<b\"\n"), "go", "")
	const want = `<div id=L1><a href=#L1></a><span class=k>package</span> main <span class=c>// begin` + "\n</span>"
	if got := string(r.HTML); !strings.Contains(got, `<span class=k>package</span>`) || !strings.Contains(got, `<span class=c>// begin</span>`) ||
		!strings.Contains(got, `<span class=s>&#34;a&lt;b&#34;</span>`) || r.Lines != 2 {
		t.Errorf("HTML is %s, want something like %s", got, want)
	}
}

func TestASourceIsShownAsItIs(t *testing.T) {
	h := patient(t)
	for name, source := range hostile() {
		for _, language := range []string{"", "text", "go", "html", "js", "json", "markdown", "php", "bash", "make"} {
			r := h.highlight([]byte(source), language, "")
			wantText(t, r, []byte(source))
			if strings.Contains(string(r.HTML), "<script") || strings.Contains(string(r.HTML), "<svg") || strings.Contains(string(r.HTML), "<img") {
				t.Errorf("%s as %q: %s", name, language, r.HTML)
			}
		}
	}
}

// hostile are sources that try to be more than text.
func hostile() map[string]string {
	return map[string]string{
		"script":         "<script>alert(1)</script>\n",
		"end of page":    "</div></div></main></body></html><script src=//example.org></script>",
		"svg":            "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"><script>alert(1)</script></svg>",
		"attribute":      "\" onmouseover=\"alert(1)\" x='\n' onfocus='alert(1)' autofocus='",
		"image":          "<img src=x onerror=alert(1)>\n<iframe srcdoc='<script>alert(1)</script>'>",
		"entity":         "&lt;script&gt; &#60;b&#62; &amp; &",
		"template":       "{{.}} ${1} `x` <% %> <?php echo 1 ?>",
		"comment":        "<!-- --><!--><!DOCTYPE html><![CDATA[ ]]>",
		"bidi":           "if access != \"user\u202e \u2066// check\u2069 \u2066\" {\n\u200f\u061c",
		"invisible":      "a\u200bb\u00adc\ufeffd\u2028e\u2029f\U000e0041",
		"control":        "nul \x00 escape \x1b[31m bell \a delete \x7f carriage\rreturn\r\nend \u0085",
		"invalid":        "a\xffb\xc3(\xed\xa0\x80)\xf4\x90\x80\x80 \xf0\x9f\x98",
		"line breaks":    "\n\n\r\n\r\n\r",
		"no line break":  "a",
		"only space":     "   \t \t\n \n",
		"emoji and text": "héllo 👩‍👩‍👧 日本語 עברית العربية\n",
	}
}

func TestControlCharactersAreVisible(t *testing.T) {
	h := testHighlighter(t)
	r := h.highlight([]byte("a\u202eb\x00c\xffd\x1be\r\n"), "text", "")
	if got, want := string(r.HTML), "<div id=L1><a href=#L1></a>a<bdi data-c=U+202E>\u202e</bdi>b\u2400c\ufffdd\u241be\n</div>"; got != want {
		t.Errorf("HTML is %q, want %q", got, want)
	}
}

func TestASourceBeyondALimitIsPlainText(t *testing.T) {
	pace.Heavy(t, "highlights 512 KiB")
	h := patient(t)
	const line = "var x = 1 // a line of Go\n"
	for name, c := range map[string]struct {
		source string
		why    string
		cut    bool
	}{
		"512 KiB":                        {strings.Repeat(line, maxHighlighted/len(line)+1)[:maxHighlighted], "", false},
		"512 KiB and a byte":             {strings.Repeat(line, maxHighlighted/len(line)+1)[:maxHighlighted] + "x", "larger than 512 KiB", true},
		"a line of 2,048 characters":     {"// " + strings.Repeat("é", 2045) + "\n", "", false},
		"a line of 2,049 characters":     {"// " + strings.Repeat("é", 2046) + "\n", "more than 2,048 characters", false},
		"50,000 lines":                   {strings.Repeat("//\n", 50_000), "", false},
		"50,001 lines":                   {strings.Repeat("//\n", 50_000) + "x", "more than 50,000 lines", true},
		"half a character at 512 KiB":    {strings.Repeat("a", maxHighlighted-1) + "é", "larger than 512 KiB", true},
		"invalid characters at 512 KiB":  {strings.Repeat("\xff", maxHighlighted+10), "larger than 512 KiB", true},
		"first half of one at the limit": {strings.Repeat("a", maxHighlighted-3) + "👩", "larger than 512 KiB", true},
	} {
		r := h.highlight([]byte(c.source), "go", "")
		if r.Plain != (c.why != "") || !strings.Contains(r.Why, c.why) || r.Cut != c.cut {
			t.Errorf("%s: plain %v, why %q, cut %v", name, r.Plain, r.Why, r.Cut)
		}
		wantText(t, r, []byte(c.source))
		if text, _ := shown([]byte(c.source)); strings.HasPrefix(name, "half") && strings.Contains(text, "\ufffd") {
			t.Errorf("%s: half a character is shown", name)
		}
	}
}

// A lexer of chroma can loop for ever on a source. One of those that do stands for
// all here: it is not in our list, but a language that is may have the same fault.
func TestALexerThatMakesNoProgressIsEnded(t *testing.T) {
	h := testHighlighter(t)
	if lexers.Get("Jungle") == nil {
		t.Fatal("chroma has no lexer Jungle")
	}
	jungle, err := limited("Jungle")
	if err != nil {
		t.Fatal(err)
	}
	for name, lexer := range map[string]chroma.Lexer{"Jungle": jungle, "made up": limitedRules(t, chroma.Rules{
		"root": {{Pattern: `(?=\S)`, Type: chroma.None, Mutator: chroma.Push("a")}},
		"a":    {{Pattern: `(?=\S)`, Type: chroma.None, Mutator: chroma.Push("b")}},
		"b":    {{Pattern: ``, Mutator: chroma.Pop(1)}},
	})} {
		if _, err := tokens(lexer, "/\n", time.Now().Add(time.Hour)); err == nil || !strings.Contains(err.Error(), errStanding.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(h.slots) != 0 {
		t.Error("a slot is still taken")
	}
}

func limitedRules(t *testing.T, rules chroma.Rules) chroma.Lexer {
	t.Helper()
	rules["mayfly limits"] = []chroma.Rule{{Mutator: limits{}}}
	lexer, err := chroma.NewLexer(&chroma.Config{Name: "made up"}, func() chroma.Rules { return rules })
	if err != nil {
		t.Fatal(err)
	}
	return lexer
}

// An expression that backtracks exponentially is stopped, the page is answered in
// time, and the abandoned run ends and gives its slot back.
func TestARunThatTakesTooLongIsAbandonedAndEnds(t *testing.T) {
	h := testHighlighter(t)
	lexer := limitedRules(t, chroma.Rules{"root": {
		{Pattern: `(a+)+b`, Type: chroma.Keyword}, {Pattern: `(a|aa)+c`, Type: chroma.Keyword}, {Pattern: `.|\n`, Type: chroma.Text},
	}})
	start := time.Now()
	_, err := h.bounded(lexer, strings.Repeat("a", 2000)+"\n")
	answered := time.Since(start)
	if err == nil || answered > 10*h.limit {
		t.Fatalf("%v after %s", err, answered)
	}
	for range cap(h.slots) { // waits for the abandoned run
		select {
		case h.slots <- struct{}{}:
		case <-time.After(time.Minute):
			t.Fatal("the abandoned run does not end")
		}
	}
	t.Logf("answered after %s, ended after %s", answered, time.Since(start))
}

func TestWithAllHighlightersBusyASourceIsPlainText(t *testing.T) {
	h := testHighlighter(t)
	for range cap(h.slots) {
		h.slots <- struct{}{}
	}
	source := []byte("package main\n")
	if r := h.highlight(source, "go", ""); !r.Plain || !r.Busy || r.Why == "" {
		t.Errorf("%+v", r)
	}
	<-h.slots
	if r := h.highlight(source, "go", ""); r.Plain || r.Busy {
		t.Errorf("%+v", r)
	}
}

// Sources that are made to be slow or large take bounded time and memory, whatever
// language they are said to be in.
func TestPathologicalSourcesTakeBoundedTimeAndMemory(t *testing.T) {
	pace.Heavy(t, "renders many large pages")
	h := testHighlighter(t)
	for _, c := range []struct {
		name   string
		source string
		plain  bool // in every language
	}{
		{"10 MiB of lines", strings.Repeat("func f(x int) string { return \"x\" }\n", 10<<20/36), true},
		{"10 MiB of line breaks", strings.Repeat("\n", 10<<20), true},
		{"10 MiB of ampersands", strings.Repeat("&", 10<<20), true},
		{"one line of 5 MB", strings.Repeat("x = [1, 2]; ", 5_000_000/12), true},
		{"100,000 nested brackets", strings.Repeat("(", 100_000) + strings.Repeat(")", 100_000), true},
		{"100,000 nested brackets in lines", strings.Repeat(strings.Repeat("([{", 300)+"\n", 112), false},
		{"quotes", strings.Repeat("\"'`\n", 100_000), false},
		{"slashes and stars", strings.Repeat("/*/**//\n", 60_000), false},
		{"angle brackets", strings.Repeat("<<<<a<a<\n", 50_000), false},
		{"fences", strings.Repeat("```go\n", 80_000), false},
	} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start, slowest, largest := time.Now(), time.Duration(0), 0
		names := []string{"go", "js", "markdown", "html", "cpp", "ruby"}
		for _, language := range names {
			one := time.Now()
			r := h.highlight([]byte(c.source), language, "")
			slowest, largest = max(slowest, time.Since(one)), max(largest, len(r.HTML))
			if c.plain && !r.Plain {
				t.Errorf("%s is highlighted as %s", c.name, language)
			}
			if language == names[0] {
				wantText(t, r, []byte(c.source))
			}
		}
		runtime.ReadMemStats(&after)
		t.Logf("%-34s slowest of %d languages %5d ms, largest page %6d KiB, allocated %4d MiB in %s", c.name, len(names), slowest.Milliseconds(), largest>>10, (after.TotalAlloc-before.TotalAlloc)>>20, time.Since(start).Round(time.Millisecond))
		if most := 20 * time.Second; slowest > most {
			t.Errorf("%s: %s, want at most %s even on a busy machine", c.name, slowest, most)
		}
		if largest > maxMarkup+1<<20 {
			t.Errorf("%s: a page of %d bytes", c.name, largest)
		}
	}
	for range cap(h.slots) { // every run ends
		select {
		case h.slots <- struct{}{}:
		case <-time.After(time.Minute):
			t.Fatal("an abandoned run does not end")
		}
	}
}

// Every language shows every source as it is, and no lexer needs one that we do not
// have.
func TestEveryLanguageShowsEverySource(t *testing.T) {
	pace.Heavy(t, "compiles every lexer")
	h := patient(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	random := rand.New(rand.NewPCG(seed, 0))
	highlighted := 0
	for _, l := range h.options() {
		for range 8 {
			source := snippet(random)
			r := h.highlight([]byte(source), l.Value, "")
			wantText(t, r, []byte(source))
			if !r.Plain {
				highlighted++
			} else if l.Value != plainShort {
				t.Logf("seed %d: %q as %s: %s", seed, source, l.Label, r.Why)
			}
		}
	}
	t.Logf("seed %d: %d languages, %d sources highlighted", seed, len(h.options()), highlighted)
	if highlighted < 8*len(h.options())-20 {
		t.Errorf("seed %d: only %d sources of %d languages were highlighted", seed, highlighted, len(h.options()))
	}
}

func snippet(random *rand.Rand) string {
	words := strings.Split("if|else|for|func|def|class|return|<a href=\"x\">|</a>|<script>|</script>|<style>|\"text\"|'c'|\"|'|`|```|/*|*/|//|#|--|{|}|(|)|[|]|<|>|=|+|-|&|;|:|,|.|\\|$x|@y|%z|0x1f|3.14|\n|\n|\n|\n    |\t| | | |é|日本|\u202e|\x00|\xff|<<EOF|EOF|<?php|?>|{{|}}|---|import|end|fn|let|var|A|b", "|")
	var b strings.Builder
	for range 5 + random.IntN(60) {
		b.WriteString(words[random.IntN(len(words))])
	}
	return b.String()
}

func FuzzASourceIsShownAsItIs(f *testing.F) {
	h := testHighlighter(f)
	for _, source := range hostile() {
		for _, language := range []string{"", "go", "html", "markdown", "yaml", "text"} {
			f.Add([]byte(source), language)
		}
	}
	f.Fuzz(func(t *testing.T, source []byte, language string) {
		wantText(t, h.highlight(source, language, ""), source)
	})
}

func BenchmarkHighlight(b *testing.B) {
	h := patient(b)
	source, err := os.ReadFile("highlight.go")
	if err != nil {
		b.Fatal(err)
	}
	for _, language := range []string{"go", "text"} {
		b.Run(language, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				if r := h.highlight(source, language, ""); r.Why != "" {
					b.Fatal(fmt.Sprint(r.Why))
				}
			}
		})
	}
}
