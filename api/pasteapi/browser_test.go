package pasteapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/fixture/browsertest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// Every page is shown without an error on the console, in both themes and on a
// phone as on a desktop, with nothing cut off or overlapping. With
// MAYFLY_SCREENSHOTS=FOLDER the pages are written there as pictures.
func TestEveryPageFitsItsWindow(t *testing.T) {
	pace.Heavy(t, "starts a browser")
	p := testPages(t)
	all := samples(t, p)
	server := serveSamples(t, p, all)
	tab := browsertest.Open(t).Tab(t)
	looked := 0
	for _, s := range all {
		tab.Open(server + "/" + s.name)
		for _, width := range []int64{390, 1280} {
			for _, theme := range []string{"light", "dark"} {
				tab.Look(width, map[int64]int64{390: 844, 1280: 900}[width], theme)
				for _, wrong := range tab.Layout() {
					t.Errorf("%s, %d px: %s", s.name, width, wrong)
				}
				if folder := os.Getenv("MAYFLY_SCREENSHOTS"); folder != "" {
					tab.Screenshot(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", s.name, width, theme)))
				}
				looked++
			}
		}
	}
	if messages := tab.Console(); len(messages) > 0 {
		t.Errorf("the console has %d messages:\n%s", len(messages), strings.Join(messages, "\n"))
	}
	t.Logf("%d pages looked at", looked)
}

// serveSamples serves pages on loopback, with the policy that they have, and
// returns the URL.
func serveSamples(t *testing.T, p *pages, all []sample) string {
	t.Helper()
	bodies := map[string][]byte{}
	for _, s := range all {
		bodies["/"+s.name] = s.body
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", p.policy)
		_, _ = w.Write(bodies[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestLinesAreLinkedSelectedAndCopied(t *testing.T) {
	pace.Heavy(t, "starts a browser")
	p := testPages(t)
	const source = "package main\n\n// \u202e & <b>\nfunc main() {\n\tprintln(\"a\")\n}\n\n\nvar x = 1\n"
	view := func(expires mayfly.Instant) []byte {
		return p.paste(pasteView{URL: "/x", Text: p.highlight([]byte(source), "go", ""), Expires: expires})
	}
	now := mayfly.InstantOf(time.Now())
	server := serveSamples(t, p, []sample{{"paste", view(now.Add(time.Hour))}, {"ends", view(now.Add(8 * time.Second))}, {"ended", view(now - 1)}})
	tab := browsertest.Open(t).Tab(t)
	marked := func() string {
		return browsertest.Eval[string](tab, `Array.from(document.querySelectorAll("#code .on"), (l) => l.id).join(" ")+" "+location.hash`)
	}
	tab.Open(server + "/ends")
	tab.Open(server + "/paste#L4-L6")
	if got := marked(); got != "L4 L5 L6 #L4-L6" {
		t.Errorf("a link to lines 4 to 6 marks %q", got)
	}
	click := func(line int, shift bool) {
		browsertest.Eval[bool](tab, fmt.Sprintf(`document.querySelector("#L%d > a").dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true, shiftKey: %v}))`, line, shift))
	}
	for _, step := range []struct {
		line  int
		shift bool
		want  string
	}{{3, false, "L3 #L3"}, {5, true, "L3 L4 L5 #L3-L5"}, {2, true, "L2 L3 #L2-L3"}, {9, false, "L9 #L9"}} {
		click(step.line, step.shift)
		if got := marked(); got != step.want {
			t.Errorf("a click on line %d (shift %v) marks %q, want %q", step.line, step.shift, got, step.want)
		}
	}
	for _, hash := range []string{"#L0", "#L99", "#L5-L99", "#L7-L2", "#L", "#LL1", "#L1-", "#<b>", "#L99999999999999999999"} {
		browsertest.Eval[string](tab, fmt.Sprintf("location.hash = %q", hash))
	}
	tab.Wait(`document.querySelectorAll("#code .on").length === 0`)
	browsertest.Eval[string](tab, `location.hash = "#L7-L99"`)
	tab.Wait(`document.querySelectorAll("#code .on").length === 3`)

	// What is copied is the source, by the button and by a selection.
	browsertest.Eval[bool](tab, `(Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => { window.copied = text; }}}), document.querySelector("[data-copy]").click(), true)`)
	tab.Wait(`document.querySelector("[data-copy]").textContent === "Copied"`)
	if got := browsertest.Eval[string](tab, "window.copied"); got != source {
		t.Errorf("the button copies %q, want %q", got, source)
	}
	if got := browsertest.Eval[string](tab, `(getSelection().selectAllChildren(document.querySelector("#code")), getSelection().toString())`); strings.TrimRight(got, "\n") != strings.TrimRight(source, "\n") {
		t.Errorf("a selection is %q, want %q", got, source)
	}
	if got := browsertest.Eval[string](tab, `getComputedStyle(document.querySelector("bdi"), "::before").content`); got != `"U+202E"` {
		t.Errorf("the bidirectional control is shown as %s", got)
	}
	if wide := browsertest.Eval[string](tab, `(() => { const ws = () => getComputedStyle(document.querySelector("#L1")).whiteSpace; const before = ws(); document.querySelector("#wrap").click(); return before + " " + ws(); })()`); wide != "pre pre-wrap" {
		t.Errorf("the check box changes the wrapping from and to %q", wide)
	}

	// The page counts down, and hides its content at the deadline.
	if got := browsertest.Eval[string](tab, `document.querySelector(".expires").textContent`); !strings.HasPrefix(got, "Expires in 59 minutes") {
		t.Errorf("the page says %q", got)
	}
	tab.Open(server + "/ended")
	tab.Wait(`document.querySelector(".expires").textContent === "Expired" && !document.querySelector("#code")`)
	tab.Open(server + "/ends")
	tab.Wait(`document.querySelector(".expires").textContent === "Expired" && !document.querySelector("#code")`)

	// Without the script one line is marked, and no button is there that needs it.
	tab.Scripts(false)
	tab.Open("about:blank")
	tab.Open(server + "/paste#L4")
	const state = `[getComputedStyle(document.querySelector("#L4")).backgroundColor !== getComputedStyle(document.querySelector("#L5")).backgroundColor,
		document.querySelector("[data-copy]").checkVisibility(), document.querySelector(".pick button").checkVisibility(), document.querySelectorAll("#code .on").length].join()`
	if got := browsertest.Eval[string](tab, state); got != "true,false,true,0" {
		t.Errorf("without the script: %s", got)
	}
	if messages := tab.Console(); len(messages) > 0 {
		t.Errorf("the console has %d messages:\n%s", len(messages), strings.Join(messages, "\n"))
	}
}
