package pasteapi

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func testPages(t testing.TB) *pages {
	t.Helper()
	p, err := newPages()
	if err != nil {
		t.Fatal(err)
	}
	p.limit = 30 * time.Second
	return p
}

const sampleNow mayfly.Instant = 1_794_963_600_000

// sample is a page with the data of an example.
type sample struct {
	name string
	body []byte
}

// samples returns every page in every form.
func samples(t testing.TB, p *pages) []sample {
	t.Helper()
	source, err := os.ReadFile("cache.go")
	if err != nil {
		t.Fatal(err)
	}
	const id, url = "0CqkQ8yTgJ4bXw2Zr5mNva", "https://paste.example.org"
	view := func(title, text, language string) pasteView {
		return pasteView{
			ID: id, Title: title, URL: "/" + id, RawURL: "/raw/" + id, DownloadURL: "/dl/" + id, NewURL: "/", Size: int64(len(text)),
			Created: sampleNow - 3_600_000, Expires: sampleNow.Add(23 * time.Hour), Now: sampleNow, Text: p.highlight([]byte(text), language, title),
		}
	}
	long := view("access.log", strings.Repeat("127.0.0.1 - - [18/Nov/2026:00:33:12 +0000] \"GET /v1/stories/019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43 HTTP/1.1\" 200 5120 \"-\" \"curl/8.5.0\" and a rather long end of the line\n", 1200), "")
	hostileText := ""
	for _, text := range hostile() {
		hostileText += text + "\n"
	}
	large := view("", strings.Repeat(strings.Repeat("0123456789 ", 20)+"\n", 50_000), "go")
	binary := view("photo.raw", "", "")
	binary.Binary, binary.Size = true, 3_456_789
	last := view("", "the password of the router is hunter2\n", "")
	last.Limited, last.RawURL, last.DownloadURL, last.URL, last.Expires = true, "", "", "", 0
	form := formView{
		Lifetimes: []lifetimeOption{{"10m", "10 minutes"}, {"2h", "2 hours"}, {"1d", "1 day"}, {"30d", "30 days"}, {"1y", "1 year"}},
		Languages: p.options(), Anonymous: true, MaxBytes: 10 << 20, PublicURL: url, Values: map[string]string{"lifetime": "1d"},
	}
	wrong := form
	wrong.General = "The paste was not created."
	wrong.Values = map[string]string{"text": "</textarea><script>alert(1)</script>\n\n x", "title": "\"><b>", "lifetime": "never", "burn": "true"}
	wrong.Errors = map[string]string{
		"text": "a paste needs some content: write a text or choose a file", "file": "dump.sql has 11.2 MiB; at most 10 MiB are allowed", "title": "a title has at most 200 characters",
		"lifetime": "pastes on this server expire after at most one year", "password": "a password has at most 128 characters", "language": "the language is not known", "burn": "a paste is burned or has a number of reads, not both",
	}
	users := form
	users.Anonymous = false
	created := createdView{URL: url + "/" + id, RawURL: url + "/raw/" + id, NewURL: "/", DeleteToken: "mfd_7hQ2pXw9KcVb31NzrTgYe0", DeleteCommand: "curl -X DELETE -H 'Mayfly-Delete: mfd_7hQ2pXw9KcVb31NzrTgYe0' " + url + "/" + id, Expires: sampleNow.Add(90 * time.Minute), Now: sampleNow}
	burned := created
	burned.Burn, burned.Password, burned.RawURL = true, true, ""
	return []sample{
		{"new", p.form(form)},
		{"new-errors", p.form(wrong)},
		{"new-users", p.form(users)},
		{"created", p.created(created)},
		{"created-burn", p.created(burned)},
		{"paste", p.paste(view("cache.go", string(source), ""))},
		{"paste-long", p.paste(long)},
		{"paste-hostile", p.paste(view("<script>alert(1)</script> "+strings.Repeat("long", 40), hostileText, "html"))},
		{"paste-large", p.paste(large)},
		{"paste-binary", p.paste(binary)},
		{"paste-empty", p.paste(view("", "", ""))},
		{"paste-last-read", p.paste(last)},
		{"password", p.ask(askView{ID: id, Password: true, Action: "/" + id, NewURL: "/"})},
		{"password-wrong", p.ask(askView{ID: id, Title: "notes.txt", Password: true, Wrong: true, Action: "/" + id, NewURL: "/", Burn: true, Reads: 1})},
		{"burn", p.ask(askView{ID: id, Burn: true, Reads: 1, Action: "/" + id, NewURL: "/", Download: true})},
		{"burn-file", p.ask(askView{ID: id, Title: "photo.raw", Burn: true, Reads: 1, Action: "/" + id, NewURL: "/", Download: true, FileOnly: true})},
		{"reads", p.ask(askView{ID: id, Burn: true, Reads: 7, Action: "/" + id, NewURL: "/", Error: "it was read for the last time a moment ago"})},
	}
}

func TestThePolicyPermitsTheStyleAndTheScriptOfEveryPageAndNothingElse(t *testing.T) {
	p := testPages(t)
	if strings.Contains(p.policy, "unsafe") || !strings.HasPrefix(p.policy, "default-src 'none'; ") || !strings.Contains(p.policy, "form-action 'self'") {
		t.Errorf("policy %s", p.policy)
	}
	for _, s := range samples(t, p) {
		text := string(s.body)
		for _, element := range []string{"style", "script"} {
			found := regexp.MustCompile(`(?s)<`+element+`\b[^>]*>(.*?)</`+element+`>`).FindAllStringSubmatch(text, -1)
			if len(found) != 1 {
				t.Fatalf("%s has %d elements %s", s.name, len(found), element)
			}
			sum := sha256.Sum256([]byte(found[0][1]))
			if want := element + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(p.policy, want) {
				t.Errorf("%s: policy %s, want %s", s.name, p.policy, want)
			}
		}
		for _, forbidden := range []string{" style=", " onclick=", " onload=", "<img", "<link", "http-equiv", "javascript:"} {
			if strings.Contains(tagsOnly(text), forbidden) {
				t.Errorf("%s contains %q", s.name, forbidden)
			}
		}
	}
}

// tagsOnly returns the tags of a page.
func tagsOnly(page string) string {
	return strings.Join(regexp.MustCompile(`<[a-z][^>]*>`).FindAllString(page, -1), "\n")
}

func TestEveryElementOfAPageIsClosed(t *testing.T) {
	p := testPages(t)
	void := map[string]bool{"meta": true, "input": true}
	for _, s := range samples(t, p) {
		var open []string
		text := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>|<path[^>]*/>`).ReplaceAllString(string(s.body), "")
		for _, m := range regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)[^>]*>`).FindAllStringSubmatch(text, -1) {
			switch {
			case void[m[2]]:
			case m[1] == "":
				open = append(open, m[2])
			case len(open) == 0 || open[len(open)-1] != m[2]:
				t.Fatalf("%s: </%s> closes %v", s.name, m[2], open)
			default:
				open = open[:len(open)-1]
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: %v are open at the end", s.name, open)
		}
	}
}

func TestAFormKeepsWhatWasEnteredAndSaysWhatIsWrongBesideTheField(t *testing.T) {
	p := testPages(t)
	body := string(p.form(formView{
		Anonymous: true, MaxBytes: 10 << 20, Lifetimes: []lifetimeOption{{"10m", "10 minutes"}, {"1d", "1 day"}}, Languages: p.options(),
		Values: map[string]string{"text": "\n</textarea>x", "title": `a"b`, "lifetime": "1d", "language": "go", "burn": "true", "password": "secret"},
		Errors: map[string]string{"title": "too <long>"},
	}))
	for _, want := range []string{
		"autofocus>\n\n&lt;/textarea&gt;x</textarea>", `value="a&#34;b" aria-invalid="true" aria-describedby="title-error"`, `id="title-error" role="alert">Too &lt;long&gt;</p>`,
		`<option value="1d" selected>`, `<option value="go" selected>`, `name="burn" value="true" checked`, `enctype="multipart/form-data"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if empty := string(p.form(formView{Anonymous: true})); strings.ContainsAny(empty, "\ufffd") || strings.Contains(empty, `role="alert">`) && !strings.Contains(empty, `id="file-error" role="alert" hidden></p>`) {
		t.Error("a form without values and errors shows some")
	}
	for _, unwanted := range []string{"secret", `id="text-error"`} {
		if strings.Contains(body, unwanted) {
			t.Errorf("the page contains %q", unwanted)
		}
	}
}

func TestAPageSaysWhenItsPasteExpires(t *testing.T) {
	for left, want := range map[time.Duration]string{
		-time.Second: "Expires in 0 seconds", 0: "Expires in 0 seconds", time.Second: "Expires in 1 second", 119 * time.Second: "Expires in 119 seconds",
		2*time.Minute - time.Millisecond: "Expires in 119 seconds", 2 * time.Minute: "Expires in 2 minutes", 119*time.Minute + 59*time.Second: "Expires in 119 minutes",
		2 * time.Hour: "Expires in 2 hours", 47 * time.Hour: "Expires in 47 hours", 48 * time.Hour: "Expires in 2 days", 729 * 24 * time.Hour: "Expires in 729 days", 1000 * 24 * time.Hour: "Expires in 2 years",
	} {
		if got := expiresText(sampleNow.Add(left), sampleNow); got != want {
			t.Errorf("%s left: %q, want %q", left, got, want)
		}
	}
	if got := expiresText(0, sampleNow); got != "Never expires" {
		t.Errorf("without a deadline: %q", got)
	}
	p := testPages(t)
	if body := string(p.paste(pasteView{Expires: sampleNow, Now: sampleNow - 5000})); !strings.Contains(body, `datetime="`+html.EscapeString(sampleNow.String())+`"`) || !strings.Contains(body, "Expires in 5 seconds") {
		t.Error("the page does not have the deadline for programs and in words")
	}
}

func TestSizesAndCountsAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 10 << 20: "10 MiB", 11_639_194: "11.1 MiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 lines", 1: "1 line", 999: "999 lines", 1000: "1,000 lines", 1234567: "1,234,567 lines"} {
		if got := countText(n, "line"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Texts have a contrast of at least 4.5 : 1 to what is behind them, controls of at
// least 3 : 1, in both themes (WCAG 2.2, AA).
func TestColoursHaveEnoughContrast(t *testing.T) {
	style, err := pageFiles.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(style, -1)
	if len(themes) != 2 {
		t.Fatalf("the style has %d themes", len(themes))
	}
	for theme, m := range themes {
		colours := map[string]float64{}
		for _, c := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllSubmatch(m[1], -1) {
			colours[string(c[1])] = luminance(t, string(c[2]))
		}
		check := func(least float64, text string, behind ...string) {
			for _, name := range behind {
				light, dark := max(colours[text], colours[name]), min(colours[text], colours[name])
				if got := (light + 0.05) / (dark + 0.05); got < least {
					t.Errorf("theme %d: %s on %s has a contrast of %.2f, want %.1f", theme, text, name, got, least)
				}
			}
		}
		for _, text := range strings.Fields("ink soft mark k y s e n c f b d v x i") {
			check(4.5, text, "card", "paper", "wash")
		}
		check(4.5, "bad", "card", "paper")
		check(4.5, "on-mark", "mark", "mark-over")
		check(4.5, "note-ink", "note")
		check(3, "edge", "card")
	}
}

// luminance returns the relative luminance of a colour as WCAG defines it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	part := func(shift int) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.03928 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
}
