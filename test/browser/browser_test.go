// Package browser tests the pages of pastes in a real browser, against a node with
// all its handlers: what a person does, with the script of the pages and without it,
// and what a hostile paste or site tries.
package browser

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/test/fixture/browsertest"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// site is a node that serves pastes on loopback, and a tab that looks at it.
type site struct {
	*browsertest.Tab
	t     *testing.T
	clock *clock.Manual
	url   string
}

// open starts a node whose clock shows the time of this computer, and stands still.
func open(t *testing.T, browser *browsertest.Browser) *site {
	t.Helper()
	s := &site{Tab: browser.Tab(t), t: t, clock: clock.NewManual(mayfly.InstantOf(time.Now()))}
	n := nodetest.Start(t, nodetest.Options{
		Config: func(c *config.Config) { c.Pastes.Anonymous = true },
		Node:   func(o *node.Options) { o.Source = s.clock.Source() },
	})
	api, err := n.API(node.ServeOptions{Listen: n.Config.Listen, Logger: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Public())
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// eval returns the text that an expression has in the page.
func (s *site) eval(expression string) string {
	s.t.Helper()
	return browsertest.Eval[string](s.Tab, "String("+expression+")")
}

// want fails the test unless an expression in the page is a text.
func (s *site) want(expression, want string) {
	s.t.Helper()
	if got := s.eval(expression); got != want {
		s.t.Errorf("%s is %q, want %q; the page says %.300q", expression, got, want, s.eval("document.body.innerText"))
	}
}

// get asks for a path as curl does, and returns status and body.
func (s *site) get(path string) (int, string) {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// post sends content as curl does, and returns the path of the new paste.
func (s *site) post(query, content string) string {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.url+"/"+query, strings.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	if query, password, found := strings.Cut(query, "#"); found {
		request.URL.RawQuery = strings.TrimPrefix(query, "?")
		request.Header.Set("Mayfly-Password", password)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusCreated {
		s.t.Fatalf("%d %s %v", answer.StatusCode, body, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(body), s.url))
}

// fill enters a text into a field.
func (s *site) fill(field, text string) {
	s.t.Helper()
	s.eval(fmt.Sprintf(`(() => { const field = document.querySelector(%q); field.value = %q; field.dispatchEvent(new Event("change", {bubbles: true})); })()`, field, text))
}

// click clicks, and waits for the page that follows.
func (s *site) click(element string) {
	s.t.Helper()
	s.eval("window.before = true")
	s.eval(fmt.Sprintf("document.querySelector(%q).click()", element))
	s.Wait(`!window.before && document.readyState === "complete"`)
}

// created returns the path of the paste that the page after the form shows.
func (s *site) created() string {
	s.t.Helper()
	s.want(`document.querySelector("h1").textContent`, "Your paste is ready")
	return strings.TrimPrefix(s.eval(`document.querySelector("#url").textContent`), s.url)
}

// quiet fails the test if pages wrote something to the console that is no answer
// with one of the expected statuses.
func (s *site) quiet(statuses ...string) {
	s.t.Helper()
messages:
	for _, message := range s.Console() {
		if strings.Contains(message, "Applying inline style") && strings.Contains(message, "/raw/") {
			continue // the browser's own page around a picture
		}
		if strings.HasPrefix(message, "info: Autofocus processing was blocked") {
			continue // the test was faster with the keyboard than the page
		}
		for _, status := range statuses {
			if strings.Contains(message, "the server responded with a status of "+status) {
				continue messages
			}
		}
		s.t.Errorf("console: %s", message)
	}
}

func TestPastesInABrowser(t *testing.T) {
	pace.Heavy(t, "starts a browser")
	browser := browsertest.Open(t)
	for _, test := range []struct {
		name string
		run  func(*site)
	}{
		{"a paste is created by the form, read, and deleted", createByForm},
		{"a file is dropped and sent byte for byte", dropFile},
		{"a paste is burned by the button and by nothing else", burn},
		{"a password is asked for, and a wrong one is said to be wrong", password},
		{"everything works without script", withoutScript},
		{"an error is shown beside its field and keeps what was entered", errorsBesideFields},
		{"hostile pastes run nothing", hostilePastes},
		{"another site cannot create or burn a paste", otherSite},
		{"a paste that ends is gone", ended},
		{"a language is chosen and lines are linked", languageAndLines},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(open(t, browser))
		})
	}
}

func createByForm(s *site) {
	s.Open(s.url + "/")
	s.fill("#text", "package main\n\nfunc main() {}\n")
	s.fill("#title", "main.go")
	s.fill("#lifetime", s.eval(`document.querySelector("#lifetime").options[1].value`))
	s.click(".send")
	path := s.created()
	token := s.eval(`document.querySelector("#token").textContent`)
	s.click("a.button[href$='" + path + "']")
	s.want(`document.querySelector("h1").textContent`, "main.go")
	s.want(`document.querySelector(".facts span").textContent`, "Go")
	s.want(`document.querySelector("#L1").textContent`, "package main\n")
	s.want(`document.cookie`, "")
	if status, body := s.get("/raw" + path); status != http.StatusOK || body != "package main\n\nfunc main() {}\n" {
		s.t.Errorf("raw: %d %q", status, body)
	}
	request, err := http.NewRequest(http.MethodDelete, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Mayfly-Delete-Token", token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusNoContent {
		s.t.Fatalf("delete with the token of the page: %v %v", answer, err)
	}
	s.Open(s.url + path)
	s.want(`document.querySelector("h1").textContent`, "Not found")
	s.click("a.button")
	s.want(`document.querySelector("h1").textContent`, "New paste")
	s.quiet("404")
}

func dropFile(s *site) {
	s.Open(s.url + "/")
	s.eval(`(() => {
		const files = new DataTransfer();
		files.items.add(new File([new Uint8Array([104, 105, 13, 10, 0, 255, 10])], "bytes.bin"));
		files.items.add(new File(["second"], "second.txt"));
		for (const type of ["dragenter", "dragover"]) document.body.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: files}));
		window.veiled = getComputedStyle(document.querySelector(".veil")).display;
		document.body.dispatchEvent(new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: files}));
	})()`)
	s.want("window.veiled", "grid")
	s.want(`document.querySelector("#file").files.length + document.querySelector("#file").files[0].name`, "1bytes.bin")
	s.want(`document.querySelector("#text").disabled`, "true")
	s.want(`document.querySelector("#title").value`, "bytes.bin")
	s.click(".send")
	path := s.created()
	if status, body := s.get("/raw" + path); status != http.StatusOK || body != "hi\r\n\x00\xff\n" {
		s.t.Errorf("raw: %d %q", status, body)
	}
	s.Open(s.url + path)
	s.want(`document.querySelector("h1").textContent`, "bytes.bin")

	s.Open(s.url + "/")
	s.eval(`(() => {
		const files = new DataTransfer();
		files.items.add(new File([new Uint8Array(11 * 1024 * 1024)], "large.bin"));
		document.body.dispatchEvent(new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: files}));
		document.querySelector("form").requestSubmit();
	})()`)
	s.want(`document.querySelector("#file-error").textContent`, "large.bin has 11.0 MiB; at most 10.0 MiB are allowed")
	s.eval(`document.querySelector("[data-clear]").click()`)
	s.want(`document.querySelector("#file-error").hidden + " " + document.querySelector("#text").disabled`, "true false")
	s.quiet()
}

func burn(s *site) {
	s.Open(s.url + "/")
	s.fill("#text", "once only")
	s.eval(`document.querySelector("input[name=burn]").click()`)
	s.click(".send")
	path := s.created()
	for range 3 {
		s.Open(s.url + path)
		s.want(`document.querySelector("h1").textContent`, "This paste can be read once")
	}
	if _, body := s.get("/raw" + path); strings.Contains(body, "once only") {
		s.t.Errorf("a GET shows %q", body)
	}
	s.click("button[value=page]")
	s.want(`document.querySelector("#L1").textContent.trim()`, "once only")
	s.want(`document.querySelector(".note").textContent.startsWith("This was the last read.")`, "true")
	s.want(`document.querySelectorAll(".tools a").length`, "0")
	s.Open(s.url + path)
	s.want(`document.querySelector("h1").textContent`, "Not found")
	s.quiet("404")
}

func password(s *site) {
	s.Open(s.url + "/")
	s.fill("#text", "a secret")
	s.fill("#password", "correct horse")
	s.click(".send")
	path := s.created()
	s.Open(s.url + path)
	s.want(`document.querySelector("h1").textContent`, "This paste has a password")
	s.want(`document.body.innerText.includes("a secret")`, "false")
	s.fill("#password", "wrong")
	s.click("button[value=page]")
	s.want(`document.querySelector("#password-error").textContent`, "The password is wrong.")
	s.fill("#password", "correct horse")
	s.click("button[value=page]")
	s.want(`document.querySelector("#L1").textContent.trim()`, "a secret")
	s.quiet("401", "403")
}

func withoutScript(s *site) {
	s.Scripts(false)
	s.Open(s.url + "/")
	name := filepath.Join(s.t.TempDir(), "notes.txt")
	if err := os.WriteFile(name, []byte("from a file\r\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Do(chromedp.SetUploadFiles("#file", []string{name}))
	s.click(".send")
	path := s.created()
	if _, body := s.get("/raw" + path); body != "from a file\r\n" {
		s.t.Errorf("raw: %q", body)
	}
	s.Open(s.url + "/")
	s.fill("#text", "\nline 1 </textarea>\nline 2\nline 3")
	s.fill("#title", strings.Repeat("long", 200))
	s.click(".send")
	s.want(`document.querySelector("#title-error") !== null`, "true")
	s.want(`document.querySelector("#text").value`, "\nline 1 </textarea>\nline 2\nline 3")
	s.fill("#text", strings.Repeat("x", 300_000))
	s.click(".send")
	s.want(`document.querySelector("noscript .hint").checkVisibility()`, "true")
	s.fill("#title", "")
	s.fill("#text", "line 1\nline 2\nline 3")
	s.eval(`document.querySelector("input[name=burn]").click()`)
	s.fill("#password", "pw")
	s.click(".send")
	path = s.created()
	s.want(`document.querySelector("[data-copy]").checkVisibility()`, "false")
	s.click("a.button[href$='" + path + "']")
	s.fill("#password", "pw")
	s.click("button[value=page]")
	s.want(`Array.from(document.querySelectorAll("#code > div > div"), (l) => l.textContent).join("")`, "line 1\nline 2\nline 3\n")

	path = s.post("?lifetime=2h", "one\ntwo\n")
	s.Open(s.url + path + "#L2")
	s.want(`getComputedStyle(document.querySelector("#L2")).backgroundColor !== getComputedStyle(document.querySelector("#L1")).backgroundColor`, "true")
	s.want(`document.querySelector(".expires").textContent`, "Expires in 2 hours")
	s.fill("#language", "python")
	s.click(".pick button")
	s.want(`document.querySelector(".facts span").textContent`, "Python")
	s.quiet("400", "401")
}

func errorsBesideFields(s *site) {
	s.Open(s.url + "/")
	s.fill("#title", "kept")
	s.click(".send")
	s.want(`document.querySelector("#text-error") !== null`, "true")
	s.want(`document.querySelector("#title").value`, "kept")
	s.fill("#text", "kept too")
	s.fill("#title", strings.Repeat("long", 200))
	s.click(".send")
	s.want(`document.querySelector("#title-error") !== null`, "true")
	s.want(`document.querySelector("#text").value`, "kept too")
	s.fill("#title", "")
	s.click(".send")
	s.created()
	s.want(`sessionStorage.length`, "0")
	s.Open(s.url + "/")
	s.want(`document.querySelector("#text").value`, "")
	for _, wrong := range s.Layout() {
		s.t.Error(wrong)
	}
	s.quiet("400")
}

func hostilePastes(s *site) {
	const attack = `document.title = "taken"; console.log("taken"); fetch("/taken"); alert(1)`
	for _, content := range []string{
		"<script>" + attack + "</script>", "<svg xmlns='http://www.w3.org/2000/svg' onload='" + attack + "'><script>" + attack + "</script></svg>",
		"<!doctype html><html><body onload='" + attack + "'><img src=x onerror='" + attack + "'>", "</div></main><script>" + attack + "</script>",
		"%PDF-1.4\n<script>" + attack + "</script>", "GIF89a/*<script>*/" + attack + "//</script>", "javascript:" + attack, "\"><script>" + attack + "</script>",
		"\ufeff<script>" + attack + "</script>", "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><script>" + attack + "</script></html>",
	} {
		for _, query := range []string{"?title=x.svg", "?language=html"} {
			path := s.post(query, content)
			for _, form := range []string{path, path + ".html", path + ".svg", "/raw" + path + ".html"} {
				if !s.Opens(s.url + form) {
					continue // it is saved as a file
				}
				if got := s.eval(`document.title.includes("taken")`); got != "false" {
					s.t.Fatalf("%s of %q runs", form, content)
				}
				if typ := s.eval("document.contentType"); strings.HasPrefix(form, "/raw") && typ != "text/plain" && !strings.HasPrefix(typ, "image/") {
					s.t.Errorf("%s of %q is shown as %s", form, content, typ)
				}
			}
		}
		path := s.post("?title=%3Cscript%3Ealert(1)%3C/script%3E&language=js", content)
		s.Open(s.url + path)
		s.want(`document.querySelector("h1").textContent`, "<script>alert(1)</script>")
		s.want(`document.querySelectorAll("main script, main img, main svg, main iframe").length`, "0")
	}
	s.quiet()
}

// otherSite is a page of another origin that posts to ours.
func otherSite(s *site) {
	path := s.post("?burn=true", "keep this")
	action := s.url
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method=post action="%s%s"><input name=text value=planted><button>go</button></form>`, action, r.URL.Path)
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	for _, target := range []string{"/", path} {
		s.Open(elsewhere + target)
		s.click("button")
		s.want(`document.querySelector("h1").textContent !== "Your paste is ready" && !document.querySelector("#code")`, "true")
	}
	s.Open(s.url + path)
	s.click("button[value=page]")
	s.want(`document.querySelector("#L1").textContent.trim()`, "keep this")
	s.quiet("403")
}

func ended(s *site) {
	path := s.post("?lifetime=2h", "short\n")
	s.Open(s.url + path)
	s.want(`document.querySelector("#L1").textContent`, "short\n")
	s.clock.Advance(2*time.Hour - time.Millisecond)
	s.Open(s.url + path)
	s.want(`document.querySelector("#L1").textContent`, "short\n")
	s.clock.Advance(time.Millisecond)
	if status, _ := s.get(path); status != http.StatusGone {
		s.t.Errorf("at the deadline: %d", status)
	}
	s.Open(s.url + path)
	s.want(`document.querySelector("h1").textContent`, "Gone")
	s.want(`document.body.innerText.includes("short")`, "false")
	s.quiet("410")
}

func languageAndLines(s *site) {
	path := s.post("", "a = 1\nb = 2\nc = 3\nd = 4\n")
	s.Open(s.url + path + ".py#L2-L3")
	s.want(`document.querySelector(".facts span").textContent`, "Python")
	s.want(`Array.from(document.querySelectorAll("#code .on"), (l) => l.id).join()`, "L2,L3")
	s.eval("window.before = true")
	s.fill("#language", "ruby")
	s.Wait(`!window.before && document.readyState === "complete"`)
	s.want(`document.querySelector(".facts span").textContent`, "Ruby")
	s.quiet()
}

// The pages of a real paste pass the layout check in two themes and two widths. With
// MAYFLY_SCREENSHOTS=FOLDER they are written there as pictures: docs/pages has some.
func TestThePagesOfAPasteFitTheirWindow(t *testing.T) {
	pace.Heavy(t, "starts a browser")
	s := open(t, browsertest.Open(t))
	source, err := os.ReadFile("browser_test.go")
	if err != nil {
		t.Fatal(err)
	}
	folder := os.Getenv("MAYFLY_SCREENSHOTS")
	over := s.post("?lifetime=10m", "over")
	s.clock.Advance(10 * time.Minute)
	burned := s.post("?burn=true", "burned")
	s.Open(s.url + burned)
	s.click("button[value=page]")
	pages := map[string]string{
		"new": "/", "paste": s.post("?title=browser_test.go&lifetime=30d", string(source)), "long": s.post("?title=access.log&lifetime=2h", string(bytes.Repeat([]byte("127.0.0.1 - - [18/Nov/2026:00:33:12 +0000] \"GET /v1/stories/019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43 HTTP/1.1\" 200 5120\n"), 3000))),
		"password": s.post("?lifetime=2h#pw", "secret"), "burn": s.post("?burn=true", "burn"), "burned": burned, "expired": over,
	}
	look := func(name string) {
		for _, width := range []int64{390, 1280} {
			for _, theme := range []string{"light", "dark"} {
				s.Look(width, map[int64]int64{390: 844, 1280: 800}[width], theme)
				for _, wrong := range s.Layout() {
					t.Errorf("%s, %d px: %s", name, width, wrong)
				}
				if folder != "" {
					s.Screenshot(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, theme)))
				}
			}
		}
	}
	for name, path := range pages {
		s.Open(s.url + path)
		look(name)
	}
	s.Open(s.url + "/")
	s.fill("#text", "package main\n\nfunc main() {}\n")
	s.fill("#title", strings.Repeat("long", 200))
	s.click(".send")
	look("error")
	s.Open(s.url + "/")
	s.fill("#text", "hello")
	s.click(".send")
	look("created")
}
