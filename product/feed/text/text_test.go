package text_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/feed/text"
)

func TestATextHasAtMost280CharactersAsAReaderCountsThem(t *testing.T) {
	const family, zalgo = "👨‍👩‍👧‍👦", "e\u0301\u0302\u0303"
	for name, c := range map[string]struct {
		text string
		want mayfly.Kind // 0: accepted
	}{
		"280 letters":              {strings.Repeat("a", 280), 0},
		"281 letters":              {strings.Repeat("a", 281), mayfly.Invalid},
		"281 letters and a space":  {strings.Repeat("a", 280) + " ", 0},
		"280 letters with marks":   {strings.Repeat(zalgo, 280), 0},
		"281 letters with marks":   {strings.Repeat(zalgo, 281), mayfly.Invalid},
		"160 families":             {strings.Repeat(family, 160), 0},
		"280 flags":                {strings.Repeat("🇩🇪", 280), 0},
		"281 flags":                {strings.Repeat("🇩🇪", 281), mayfly.Invalid},
		"280 Devanagari syllables": {strings.Repeat("नि", 280), 0},
		"4 KiB":                    {"a" + strings.Repeat("\u0301", 2047), 0},
		"a byte over 4 KiB":        {"aa" + strings.Repeat("\u0301", 2047) + "a", mayfly.TooLarge},
		"4 MB of combining marks":  {strings.Repeat("\u0301", 2<<20), mayfly.TooLarge},
		"a NUL":                    {"a\x00b", mayfly.Invalid},
		"no UTF-8":                 {"a\xffb", mayfly.Invalid},
	} {
		got, err := text.Clean(c.text)
		if c.want == 0 && (err != nil || got != strings.TrimSpace(c.text)) || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("%s: %d bytes, %v; want kind %v", name, len(got), err, c.want)
		}
	}
}

func TestATextIsCleanedAsCaptionsAre(t *testing.T) {
	for in, want := range map[string]string{
		"  sea\r\nand sand\t\n ":           "sea\nand sand", // a tab is a control character
		"a\u202eb\u2066c\u2069":            "abc",           // overrides and isolates
		"שלום\u200f, world":                "שלום\u200f, world",
		"<script>alert(1)</script> & <b>x": "<script>alert(1)</script> & <b>x",
		"\u202e\u202e":                     "",
	} {
		if got, err := text.Clean(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestMentionsHashtagsAndLinksInManyScripts(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"@ana and @Ben_2":              "@ana @ben_2",
		".@ana!":                       "@ana",
		"(@ana)":                       "@ana",
		"＠ana":                         "@ana",
		"ana@example.org":              "",
		"@ana@example.org":             "",
		"@an @ana":                     "@ana",
		"@" + strings.Repeat("a", 30):  "@" + strings.Repeat("a", 30),
		"@" + strings.Repeat("a", 31):  "",
		"@anaë":                        "",
		"日本@ana":                       "",
		"日本 @ana、":                     "@ana",
		"@@ana":                        "",
		"/@ana":                        "",
		"#sea #Sea #SEA":               "#sea #sea #sea",
		"#straße #STRASSE":             "#strasse #strasse",
		"#café #cafe\u0301":            "#café #café",
		"＃海 #海の日":                      "#海 #海の日",
		"#привет #ΚΌΣΜΟΣ":              "#привет #κόσμοσ",
		"#مرحبا #می\u200cخواهم":        "#مرحبا #می\u200cخواهم",
		"#नमस्ते":                      "#नमस्ते",
		"#l\u00b7l #one\u00b7":         "#l·l #one",
		"#1 #1st #2026_plan #_":        "#1st #2026_plan",
		"a#b &#39; ##x /#top":          "",
		"#\ufe0f\u20e3 #\ufe0f\u20e3x": "",
		"#a#b":                         "#a",
		"#sea.#sand":                   "#sea #sand",
		"#" + strings.Repeat("я", 101): "",
		"#" + strings.Repeat("я", 100): "#" + strings.Repeat("я", 100),
		"see https://example.org.":     "https://example.org",
		"(https://example.org/a_(b))":  "https://example.org/a_(b)",
		"HTTPS://EXAMPLE.org/A?b=c#d,": "HTTPS://EXAMPLE.org/A?b=c#d",
		"https://example.org/@ana#x":   "https://example.org/@ana#x",
		"http://müller.example/ß":      "http://müller.example/ß",
		"“https://example.org/x”":      "https://example.org/x",
		"<a href=\"https://e.org\">":   "https://e.org",
		"https:// http:/x https://…":   "",
		"xhttps://example.org":         "",
		"https://例え.テスト/道、次":           "https://例え.テスト/道、次",
		"https://[::1]/x":              "https://[::1]/x",
		"@ana: #sea at https://e.org/": "@ana #sea https://e.org/",
	} {
		var got []string
		last := 0
		for _, e := range text.Parse(in) {
			if e.Start < last || e.End <= e.Start {
				t.Errorf("%q: %+v overlaps", in, e)
			}
			last = e.End
			got = append(got, map[text.Kind]string{text.Mention: "@", text.Hashtag: "#"}[e.Kind]+e.Name(in))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzParseStaysInsideOfTheText(f *testing.F) {
	f.Add("@ana #sea https://example.org/(x)")
	f.Fuzz(func(t *testing.T, in string) {
		clean, err := text.Clean(in)
		if err != nil {
			return
		}
		last := 0
		for _, e := range text.Parse(clean) {
			if e.Start < last || e.End > len(clean) || e.End <= e.Start || e.Name(clean) == "" {
				t.Fatalf("%q: %+v", clean, e)
			}
			last = e.End
		}
		text.Hosts(clean)
	})
}

func TestABlockedHostIsFoundHoweverItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	write := func(content string, at time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Unix(1_800_000_000, 0)
	write("# bad ones\nevil.example\nmüller.example # umlaut\n\n  Shouting.EXAMPLE \n", begun)
	var problems []error
	b, err := text.OpenBlocklist(path, func(err error) { problems = append(problems, err) })
	if err != nil {
		t.Fatal(err)
	}
	blocked := []string{
		"https://evil.example", "http://EVIL.example./x", "evil.example", "https://a.b.evil.example:8080/", "https://good.example@evil.example/",
		`https:\\evil.example`, "https://evil。example", "https://evil%2Eexample/", "https://ev\u00adil.example", "https://ｅｖｉｌ.example",
		"https://xn--mller-kva.example", "https://MÜLLER.example", "see shouting.example!", "//evil.example/x", "(evil.example)",
	}
	for _, in := range blocked {
		if err := b.Check(in); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"", "https://good.example", "https://notevil.example", "https://evil.example.good.org", "evil", "https://example/evil"} {
		if err := b.Check(in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
	write("good.example\n", begun.Add(time.Second))
	if b.Check("https://good.example") == nil || b.Check("https://evil.example") != nil {
		t.Error("the changed file was not read")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if b.Check("https://good.example") == nil || len(problems) != 1 {
		t.Errorf("without its file the list is forgotten, or no problem: %v", problems)
	}
	if _, err := text.OpenBlocklist(path, nil); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a missing file: %v", err)
	}
	var none *text.Blocklist
	if none.Check("https://evil.example") != nil {
		t.Error("no list blocks")
	}
	if hosts := text.Hosts("a.b c"); !slices.Equal(hosts, []string{"a.b"}) {
		t.Errorf("%q", hosts)
	}
}
