package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func anonymousPastes(c *config.Config) { c.Pastes.Anonymous = true }

// pasteWords creates pastes of ana's and returns the words by which scenarios name
// them.
func pasteWords(t testing.TB, h *testNode) []string {
	t.Helper()
	create := func(as, body string) wire.Paste {
		return nodetest.ReadJSON[wire.Paste](t, h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/pastes", Body: body}, http.StatusCreated))
	}
	ended := create("ana", `{"content":"over","lifetime":"10m"}`)
	h.Machine.Advance(11 * time.Minute)
	all := create("ana", `{"content":"<script>alert(1)</script>","title":"to all","language":"html"}`)
	private := create("ana", `{"content":"secret words","private":true,"title":"diary"}`)
	locked := create("ana", `{"content":"secret words","password":"open sesame","title":"diary"}`)
	burn := create("anonymous", `{"content":"secret words","burn":true}`)
	held := create("ana", `{"content":"secret words"}`)
	h.Want(nodetest.Request{As: "moderator", Method: "PUT", Path: "/v1/holds/" + held.ID.String(), Body: `{"reason":"a court asks"}`, Admin: true}, http.StatusNoContent)
	deleted := create("ana", `{"content":"secret words"}`)
	h.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/pastes/" + deleted.ID.String()}, http.StatusNoContent)
	now := h.Clock().Read().Now
	return []string{
		"{paste}", all.Short, "{paste-id}", all.ID.String(), "{paste-private}", private.Short, "{paste-locked}", locked.Short, "{paste-burn}", burn.Short,
		"{paste-held}", held.Short, "{paste-deleted}", deleted.Short, "{paste-ended}", ended.Short, "{paste-token}", burn.DeleteToken,
		"{paste-never}", never(t, now, 24*time.Hour).Short(), "{paste-past}", never(t, now.Add(-48*time.Hour), 24*time.Hour).Short(),
	}
}

// pasteScenarios returns the scenarios of the routes of pastes, by operation.
func pasteScenarios(t testing.TB) map[string][]scenario {
	t.Helper()
	file, fileType := nodetest.Form(t, "file", "bytes of a file")
	late, lateType := nodetest.Form(t, "file", "bytes of a file", "lifetime", "2h", "burn", "1")
	two, twoType := nodetest.Form(t, "file", "bytes of a file", "text", "and a text")
	unknown, unknownType := nodetest.Form(t, "colour", "red", "file", "bytes")
	none, noneType := nodetest.Form(t, "lifetime", "2h")
	badLate, badLateType := nodetest.Form(t, "file", "bytes of a file", "lifetime", "soon")
	html := map[string]string{"Accept": "text/html,*/*;q=0.8"}
	typed, typedType := nodetest.Form(t, "text", "\r\nfirst </textarea><script>x\r\nsecond", "title", "my title", "lifetime", "soon")
	long, longType := nodetest.Form(t, "text", strings.Repeat("x", 256<<10)+"end", "lifetime", "soon")
	as := func(name, value string) map[string]string { return map[string]string{name: value} }
	const urlForm = "application/x-www-form-urlencoded"
	encoded := strings.Repeat("%D1%8F", 800_000) // a letter of two bytes
	secret := []string{"secret words", "diary", "open sesame"}
	// refused are the answers that show nothing, for every way to ask.
	refused := func(method, prefix string) []scenario {
		return []scenario{
			{as: "ben", method: method, path: prefix + "{paste-never}", status: 404},
			{as: "ben", method: method, path: prefix + "{paste-past}", status: 410},
			{as: "ben", method: method, path: prefix + "{paste-private}", status: 404, hasNot: secret},
			{as: "anonymous", method: method, path: prefix + "{paste-private}", status: 404, hasNot: secret},
			{as: "service", method: method, path: prefix + "{paste-private}", status: 404, hasNot: secret},
			{as: "admin", method: method, path: prefix + "{paste-private}", status: 404, hasNot: secret},
			{as: "ana", method: method, path: prefix + "{paste-held}", status: 404, hasNot: secret},
			{as: "ana", method: method, path: prefix + "{paste-deleted}", status: 404, hasNot: secret},
			{as: "moderator", method: method, path: prefix + "{paste-deleted}", status: 404, hasNot: secret},
			{as: "ana", method: method, path: prefix + "{paste-ended}", status: 410},
			{as: "moderator", method: method, path: prefix + "{paste-ended}", status: 410},
			{as: "ana", method: method, path: prefix + "{all}", status: 404}, // a story, by a UUID
		}
	}
	named := func(method, prefix string) []scenario {
		return append(refused(method, prefix),
			scenario{as: "ben", method: method, path: prefix + "{short}", status: 404}, // a story
			scenario{as: "ben", method: method, path: prefix + "nonsense", status: 404},
			scenario{as: "ben", method: method, path: prefix + "{paste}x", status: 404},
			scenario{as: "ben", method: method, path: prefix + "{paste-id}", status: 404})
	}
	read := func(method, prefix string) []scenario {
		return append(named(method, prefix), []scenario{
			{as: "anonymous", method: method, path: prefix + "{paste}", status: 200, has: []string{"X-Robots-Tag:[noindex]", "text/plain; charset=utf-8", "nosniff", "sandbox"}},
			{as: "ben", method: method, path: prefix + "{paste}.go", status: 200},
			{as: "ana", method: method, path: prefix + "{paste-private}", status: 200, has: []string{"no-store"}},
			{as: "service:ana", method: method, path: prefix + "{paste-private}", status: 200},
			{as: "ben", method: method, path: prefix + "{paste-locked}", status: 401, hasNot: secret},
			{as: "ben", method: method, path: prefix + "{paste-locked}", header: as("Mayfly-Password", "wrong"), status: 403, hasNot: secret},
			{as: "ben", method: method, path: prefix + "{paste-locked}", header: as("Mayfly-Password", "open sesame"), status: 200, has: []string{"no-store"}},
			{as: "ben", method: method, path: prefix + "{paste-locked}?password=open+sesame", status: 400, hasNot: secret},
			{as: "moderator", method: method, path: prefix + "{paste-locked}", status: 200},
			{as: "moderator", method: method, path: prefix + "{paste-held}", status: 200, has: []string{"no-store"}},
		}...)
	}
	get := func(method, prefix string) []scenario {
		return append(read(method, prefix), []scenario{
			{as: "anonymous", method: method, path: prefix + "{paste}", status: 200, has: []string{"s-maxage=300"}},
			{as: "anonymous", method: method, path: prefix + "{paste}", header: as("Range", "bytes=0-3"), status: 206, has: []string{"bytes 0-3/25"}},
			{as: "anonymous", method: method, path: prefix + "{paste}", header: as("Range", "bytes=99-"), status: 416},
			{as: "moderator", method: method, path: prefix + "{paste-burn}", status: 200, has: []string{"no-store"}},
			{as: "anonymous", method: method, path: prefix + "{paste-burn}", status: 409, hasNot: secret}, // a GET never reads it
			{as: "anonymous", method: method, path: prefix + "{paste-burn}", status: 409, hasNot: secret},
		}...)
	}
	counted := func(prefix string) []scenario {
		return append(read("POST", prefix), []scenario{
			{as: "ben", method: "POST", path: prefix + "{paste-locked}", typ: urlForm, body: "password=open+sesame", status: 200, has: []string{"secret words"}},
			{as: "ben", method: "POST", path: prefix + "{paste-locked}", typ: urlForm, body: "password=a&password=b", status: 400},
			{as: "ben", method: "POST", path: prefix + "{paste-locked}", typ: urlForm, body: "password=%zz", status: 400},
			{as: "ben", method: "POST", path: prefix + "{paste-locked}", body: `{"password":"open sesame"}`, status: 415},
			{as: "ben", method: "POST", path: prefix + "{paste-locked}", typ: urlForm, body: strings.Repeat("a", 9<<10), status: 413},
			{as: "anonymous", method: "POST", path: prefix + "{paste-burn}", header: as("Sec-Fetch-Site", "cross-site"), status: 403, hasNot: secret},
			{as: "moderator", method: "POST", path: prefix + "{paste-burn}", status: 200, has: []string{"secret words"}},
			{as: "anonymous", method: "POST", path: prefix + "{paste-burn}", status: 200, has: []string{"secret words", "no-store"}},
			{as: "anonymous", method: "POST", path: prefix + "{paste-burn}", status: 404, hasNot: secret},
			{as: "moderator", method: "POST", path: prefix + "{paste-burn}", status: 404, hasNot: secret},
		}...)
	}
	remove := func(prefix string, named []scenario) []scenario {
		var rows []scenario
		for _, s := range named { // an own paste that was deleted is no error
			if s.as == "ana" && strings.HasSuffix(s.path, "{paste-deleted}") {
				s.status = 204
			}
			rows = append(rows, s)
		}
		return append(rows, []scenario{
			{as: "ben", method: "DELETE", path: prefix + "{paste}", status: 404},
			{as: "anonymous", method: "DELETE", path: prefix + "{paste}", status: 404},
			{as: "anonymous", method: "DELETE", path: prefix + "{paste}", header: as("Mayfly-Delete-Token", "nonsense"), status: 404},
			{as: "moderator", method: "DELETE", path: prefix + "{paste}", status: 404},
			{as: "ana", method: "DELETE", path: prefix + "{paste}", status: 204},
			{as: "ana", method: "DELETE", path: prefix + "{paste}", status: 204},
			{as: "ana", method: "GET", path: "/raw/{paste}", status: 404},
		}...)
	}
	return map[string][]scenario{
		"newPastePage": {
			{as: "anonymous", method: "GET", path: "/nowhere", status: 404, has: []string{"/docs/api"}},
			{as: "anonymous", method: "PATCH", path: "/", status: 405, has: []string{"GET, HEAD, POST"}},
			{as: "anonymous", method: "GET", path: "/", header: html, status: 200, has: []string{"<form", "form-action 'self'", "nosniff"}, hasNot: []string{"Set-Cookie", "unsafe-inline"}},
		},
		"createPaste": {
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "plain bytes\n", status: 201, has: []string{"http://", "Mayfly-Delete-Token", "Mayfly-Expires", "no-store"}},
			{as: "ana", method: "POST", path: "/?lifetime=2h&title=notes", typ: "application/octet-stream", body: "\x00\xff", status: 201},
			{as: "ana", method: "POST", path: "/", typ: urlForm, body: "x y", header: as("Accept", "application/json"), status: 201, has: []string{`"delete_token":"`, `"lifetime":"7d"`}},
			{as: "anonymous", method: "POST", path: "/", typ: fileType, body: file, status: 201},
			{as: "anonymous", method: "POST", path: "/", typ: fileType, body: file, header: html, status: 201, has: []string{"text/html", "Mayfly-Delete-Token"}},
			{as: "anonymous", method: "POST", path: "/", typ: lateType, body: late, header: as("Accept", "application/json"), status: 201, has: []string{`"lifetime":"2h"`, `"reads":1`}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=hello+world&lifetime=2h", header: as("Accept", "application/json"), status: 201, has: []string{`"size":11`, `"lifetime":"2h"`}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=a&colour=red", header: as("Accept", "application/json"), status: 201, has: []string{`"size":17`}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=" + encoded + "&password=open+sesame&burn=true", status: 413, has: []string{"curl -F"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=" + encoded, status: 413, has: []string{"curl -F"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=" + strings.Repeat("not encoded ", 400_000) + "&password=open+sesame", status: 413, has: []string{"curl -F"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=" + strings.Repeat("not encoded ", 400_000), status: 201},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=hello world&password=opensesame", status: 400, has: []string{"not encoded", "--data-urlencode"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "password=open sesame&burn=true&text=hello", status: 400, has: []string{"not encoded"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "text=hello&password=opensesame&expire=1h", status: 400, has: []string{"expire", "lifetime"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "password=opensesame&the content, with curl -d @file", status: 400, has: []string{"not encoded"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "password=open sesame&the content", status: 400, has: []string{"not encoded"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "burn=true&content=hello", status: 400, has: []string{"content"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "password=opensesame&burn=true", status: 400, has: []string{"no field text"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "password=of a file\n&more\n", header: as("Accept", "application/json"), status: 201, has: []string{`"size":25`}},
			{as: "anonymous", method: "POST", path: "/", typ: twoType, body: two, status: 400, has: []string{"two contents"}},
			{as: "anonymous", method: "POST", path: "/", typ: unknownType, body: unknown, status: 400, has: []string{"colour"}},
			{as: "anonymous", method: "POST", path: "/", typ: noneType, body: none, status: 400, has: []string{"empty"}},
			{as: "anonymous", method: "POST", path: "/", typ: badLateType, body: badLate, status: 400, has: []string{"soon"}},
			{as: "anonymous", method: "POST", path: "/", typ: badLateType, body: badLate, header: html, status: 400, has: []string{"<form", "aria-invalid", "soon"}},
			{as: "anonymous", method: "POST", path: "/", typ: typedType, body: typed, header: html, status: 400, has: []string{">\n\nfirst &lt;/textarea&gt;&lt;script&gt;x\nsecond</textarea>", `value="my title"`, `id="lifetime-error"`}},
			{as: "anonymous", method: "POST", path: "/?lifetime=soon", typ: urlForm, body: "text=typed+text", header: html, status: 400, has: []string{">\ntyped text</textarea>", `id="lifetime-error"`}},
			{as: "anonymous", method: "POST", path: "/", typ: longType, body: long, header: html, status: 400, has: []string{"too long to be repeated", `id="lifetime-error"`}, hasNot: []string{"xxxx"}},
			{as: "anonymous", method: "POST", path: "/", typ: "multipart/form-data", body: file, status: 400, has: []string{"boundary"}},
			{as: "anonymous", method: "POST", path: "/", typ: fileType, body: file[:len(file)-20], status: 400, has: []string{"form"}},
			{as: "anonymous", method: "POST", path: "/", status: 400, has: []string{"empty", "--data-binary"}},
			{as: "anonymous", method: "POST", path: "/", typ: urlForm, body: "x y", header: as("Accept", "*/*"), status: 201},
			{as: "anonymous", method: "POST", path: "/?lifetime=soon", typ: urlForm, body: "x y", status: 400, has: []string{"soon"}},
			{as: "anonymous", method: "POST", path: "/?lifetime=never", typ: urlForm, body: "x y", status: 400, has: []string{"10m to 365d"}},
			{as: "anonymous", method: "POST", path: "/?lifetime=1s", typ: urlForm, body: "x y", status: 400},
			{as: "anonymous", method: "POST", path: "/?reads=-1", typ: urlForm, body: "x y", status: 400, has: []string{"1 to 1000"}},
			{as: "anonymous", method: "POST", path: "/?reads=2&burn=1", typ: urlForm, body: "x y", status: 400},
			{as: "anonymous", method: "POST", path: "/?burn=perhaps", typ: urlForm, body: "x y", status: 400},
			{as: "anonymous", method: "POST", path: "/?language=klingon", typ: urlForm, body: "x y", status: 400, has: []string{"klingon"}},
			{as: "anonymous", method: "POST", path: "/?private=1", typ: urlForm, body: "x y", status: 400, has: []string{"token"}},
			{as: "anonymous", method: "POST", path: "/?password=x", typ: urlForm, body: "x y", status: 400, has: []string{"Mayfly-Password"}},
			{as: "anonymous", method: "POST", path: "/?colour=red", typ: urlForm, body: "x y", status: 400, has: []string{"lifetime"}},
			{as: "anonymous", method: "POST", path: "/?lifetime=2h", header: as("Mayfly-Lifetime", "2h"), typ: urlForm, body: "x y", status: 400, has: []string{"two values"}},
			{as: "anonymous", method: "POST", path: "/", header: as("Idempotency-Key", "k"), typ: urlForm, body: "x y", status: 400},
			{as: "anonymous", method: "POST", path: "/", header: as("Content-Encoding", "gzip"), typ: urlForm, body: "x y", status: 415},
			{as: "anonymous", method: "POST", path: "/", header: as("Sec-Fetch-Site", "cross-site"), typ: urlForm, body: "x y", status: 403, has: []string{"another site"}},
			{as: "anonymous", method: "POST", path: "/", typ: "text/plain", body: strings.Repeat("x", 10<<20+1), status: 413},
		},
		"putPaste": {
			{as: "ana", method: "PUT", path: "/notes.txt", typ: "text/plain", body: "x y", header: as("Accept", "application/json"), status: 201, has: []string{`"title":"notes.txt"`}},
			{as: "anonymous", method: "PUT", path: "/notes.txt?burn=1", typ: "text/plain", body: "x y", status: 201},
			{as: "anonymous", method: "PUT", path: "/..%2f..%2fetc", typ: "text/plain", body: "x y", status: 400},
			{as: "anonymous", method: "PUT", path: "/notes.txt", status: 400},
		},
		"createPasteJSON": {
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x"}`, header: as("Idempotency-Key", "k"), status: 201, has: []string{`"raw_url":"http`, "Location"}},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x"}`, header: as("Idempotency-Key", "k"), status: 200},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"y"}`, header: as("Idempotency-Key", "k"), status: 409},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x","private":true,"reads":7}`, status: 201, has: []string{`"private":true`, `"reads_left":7`, `"sha256":"`}},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x"}`, header: as("Mayfly-Password", "open sesame"), status: 201, has: []string{`"locked":true`}},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x"}`, header: as("Mayfly-Burn", "true"), status: 201, has: []string{`"reads_left":1`}},
			{as: "ana", method: "POST", path: "/v1/pastes?burn=true&private=true&lifetime=2h", body: `{"content":"x","title":"t"}`, status: 201, has: []string{`"reads_left":1`, `"private":true`, `"lifetime":"2h"`}},
			{as: "ana", method: "POST", path: "/v1/pastes?burn=true", body: `{"content":"x","burn":true}`, status: 400, has: []string{"two values"}},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x","password":"a"}`, header: as("Mayfly-Password", "b"), status: 400, has: []string{"two values"}},
			{as: "ana", method: "POST", path: "/v1/pastes?password=x", body: `{"content":"x"}`, status: 400, has: []string{"Mayfly-Password"}},
			{as: "ana", method: "POST", path: "/v1/pastes?colour=red", body: `{"content":"x"}`, status: 400, has: []string{"colour"}},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":""}`, status: 400},
			{as: "ana", method: "POST", path: "/v1/pastes", body: `{"content":"x","colour":"red"}`, status: 400},
			{as: "ana", method: "POST", path: "/v1/pastes", typ: "text/plain", body: "x", status: 415},
			{as: "service", method: "POST", path: "/v1/pastes", body: `{"content":"x"}`, status: 201},
			{as: "service:ana", method: "POST", path: "/v1/pastes", body: `{"content":"x","private":true}`, status: 201},
		},
		"listPastes": {
			{as: "ana", method: "GET", path: "/v1/me/pastes", status: 200, has: []string{"{paste}", "{paste-private}", "{paste-locked}"}, hasNot: []string{"{paste-held}", "{paste-deleted}", "{paste-ended}", "delete_token"}},
			{as: "ana", method: "GET", path: "/v1/me/pastes?limit=1", status: 200, has: []string{`"next":"`}},
			{as: "ben", method: "GET", path: "/v1/me/pastes", status: 200, has: []string{`"pastes":[]`}},
			{as: "anonymous", method: "GET", path: "/v1/me/pastes", status: 401},
			{as: "ana", method: "GET", path: "/v1/me/pastes?cursor=nonsense", status: 400},
		},
		"readPaste": append(get("GET", "/"), []scenario{
			{as: "anonymous", method: "GET", path: "/{paste}", header: html, status: 200, has: []string{"&lt;", "script-src 'sha256-", "s-maxage=300", "Accept"}, hasNot: []string{"<script>alert", "unsafe-inline", "Set-Cookie"}},
			{as: "anonymous", method: "GET", path: "/{paste}", header: as("Accept", "application/json"), status: 200, has: []string{`"title":"to all"`}, hasNot: []string{"delete_token", "{ana}"}},
			{as: "anonymous", method: "GET", path: "/{paste-burn}", header: as("Accept", "application/json"), status: 200, hasNot: []string{"sha256"}},
			{as: "anonymous", method: "GET", path: "/{paste-locked}", header: html, status: 401, has: []string{"<form", "password"}, hasNot: secret[:2]},
			{as: "anonymous", method: "GET", path: "/{paste-burn}", header: html, status: 200, has: []string{"<form", "no-store"}, hasNot: secret[:2]},
			{as: "anonymous", method: "GET", path: "/{paste-never}", header: html, status: 404, has: []string{"text/html"}},
			{as: "anonymous", method: "GET", path: "/{paste-ended}", header: html, status: 410, has: []string{"text/html"}},
		}...),
		"readPasteHead":        get("HEAD", "/"),
		"readPasteCounted":     append(counted("/"), scenario{as: "anonymous", method: "POST", path: "/{paste-locked}", typ: urlForm, body: "password=wrong", header: html, status: 403, has: []string{"<form", "wrong"}}),
		"readRaw":              get("GET", "/raw/"),
		"readRawHead":          get("HEAD", "/raw/"),
		"readRawCounted":       counted("/raw/"),
		"downloadPaste":        append(get("GET", "/dl/"), scenario{as: "ben", method: "GET", path: "/dl/{paste}", status: 200, has: []string{"attachment; filename=\"to all.txt\""}}),
		"downloadPasteHead":    get("HEAD", "/dl/"),
		"downloadPasteCounted": counted("/dl/"),
		"deletePaste": append(remove("/", named("DELETE", "/")), []scenario{
			{as: "anonymous", method: "DELETE", path: "/{paste-burn}", header: as("Mayfly-Delete-Token", "{paste-token}"), status: 204},
			{as: "anonymous", method: "POST", path: "/raw/{paste-burn}", status: 404},
		}...),
		"deletePasteByID": remove("/v1/pastes/", refused("DELETE", "/v1/pastes/")),
		"describePaste": append(refused("GET", "/v1/pastes/"), []scenario{
			{as: "anonymous", method: "GET", path: "/v1/pastes/{paste-id}", status: 200, has: []string{`"title":"to all"`, `"type":"text/html`, "Etag"}, hasNot: []string{"delete_token", "{ana}"}},
			{as: "anonymous", method: "GET", path: "/v1/pastes/{paste-burn}", status: 200, has: []string{`"reads_left":1`}, hasNot: []string{"sha256"}},
			{as: "anonymous", method: "GET", path: "/v1/pastes/{paste}", status: 200, has: []string{`"sha256":"`}},
			{as: "moderator", method: "GET", path: "/v1/pastes/{paste-burn}", status: 200, has: []string{`"sha256":"`}},
			{as: "anonymous", method: "GET", path: "/v1/pastes/{paste-locked}", status: 401, hasNot: secret},
			{as: "anonymous", method: "GET", path: "/v1/pastes/{paste-locked}", header: as("Mayfly-Password", "open sesame"), status: 200, has: []string{`"locked":true`}},
			{as: "moderator", method: "GET", path: "/v1/pastes/{paste-held}", status: 200, has: []string{`"held":true`}},
			{as: "ana", method: "GET", path: "/v1/pastes/nonsense", status: 400},
		}...),
	}
}

func TestWithoutPastesTheStartPageIsThatOfTheServer(t *testing.T) {
	for name, set := range map[string]setting{
		"off":             func(c *config.Config) { c.Pastes.Off = true },
		"on another host": func(c *config.Config) { c.Pastes.Host = "paste.example.org" },
	} {
		h := newTestNode(t, anonymousPastes, set)
		if w := h.Get("anonymous", "/", http.StatusOK); !strings.Contains(w.Body.String(), "Try it") {
			t.Errorf("%s: %.300s", name, w.Body)
		}
		h.Get("anonymous", "/nowhere", http.StatusNotFound)
	}
	h := newTestNode(t, anonymousPastes, func(c *config.Config) { c.Pastes.Host = "paste.example.org" })
	on := func(host, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = host
		w := httptest.NewRecorder()
		h.Public.ServeHTTP(w, r)
		return w
	}
	if w := on("example.com", "POST", "/", "words"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST / on the host of the API: %d", w.Code)
	}
	w := on("paste.example.org", "POST", "/", "words")
	url, ok := strings.CutPrefix(strings.TrimSpace(w.Body.String()), "http://paste.example.org/")
	if w.Code != http.StatusCreated || !ok {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := on("paste.example.org:443", "GET", "/"+url, ""); w.Body.String() != "words" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/readyz", "/docs/api", "/openapi.json", "/"} {
		if w := on("paste.example.org", "GET", path, ""); w.Code != http.StatusOK {
			t.Errorf("%s on the host of pastes: %d", path, w.Code)
		}
	}
}

// A read that is used up delivers all of the content: what a page cannot show is sent
// as a file.
func TestAReadThatAPageCannotShowIsSentAsAFile(t *testing.T) {
	h := newTestNode(t, anonymousPastes)
	html := map[string]string{"Accept": "text/html,*/*;q=0.8"}
	for name, row := range map[string]struct {
		content       string
		isFile, known bool // it is sent as a file; the page that asks says so
	}{
		"text":                {"some words\n", false, false},
		"512 KiB":             {strings.Repeat("some words and more\n", 512<<10/20), false, false},
		"50,000 lines":        {strings.Repeat("x\n", 50_000), false, false},
		"binary":              {"\x00\x01\x02 secret", true, true},
		"a picture":           {"\x89PNG\r\n\x1a\n0000", true, true},
		"larger than a page":  {strings.Repeat("some words and more\n", 512<<10/20+1), true, true},
		"more lines":          {strings.Repeat("x\n", 50_000) + "the end", true, false},
		"text in another set": {"caf\xe9 and more", true, false},
	} {
		for _, options := range []string{"?burn=true", "?reads=2"} {
			t.Run(name+options, func(t *testing.T) {
				w := h.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: "/" + options, Type: "application/octet-stream", Body: row.content}, http.StatusCreated)
				path := strings.TrimPrefix(strings.TrimSpace(w.Body.String()), "http://example.com")
				ask := h.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: path, Header: html}, http.StatusOK).Body.String()
				if strings.Contains(ask, `value="page"`) == row.known || !strings.Contains(ask, `value="download"`) {
					t.Errorf("the page that asks: %s", ask[strings.Index(ask, "<main"):])
				}
				w = h.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: path, Type: "application/x-www-form-urlencoded", Body: "as=page", Header: html}, http.StatusOK)
				isFile := strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment")
				if isFile != row.isFile || isFile && w.Body.String() != row.content {
					t.Errorf("%d bytes, as a file %t: %.300s", w.Body.Len(), isFile, w.Body)
				}
			})
		}
	}
}

// Bytes over the quota are refused, however few they are, and nothing is stored (C3, C9).
func TestBytesOverTheQuotaAreRefused(t *testing.T) {
	quota := func(c *config.Config) { c.Pastes.MaxSize, c.Pastes.HourlyBytes = 100<<10, 100<<10 }
	post := func(h *testNode, path, typ, body string) *httptest.ResponseRecorder {
		return h.Do(nodetest.Request{As: "anonymous", Method: "POST", Path: path, Type: typ, Body: body})
	}
	file, fileType := nodetest.Form(t, "file", "some words")
	for name, second := range map[string]func(*testNode) *httptest.ResponseRecorder{
		"a few bytes": func(h *testNode) *httptest.ResponseRecorder { return post(h, "/", "text/plain", "some words") },
		"many": func(h *testNode) *httptest.ResponseRecorder {
			return post(h, "/", "text/plain", strings.Repeat("x", 100<<10))
		},
		"a form": func(h *testNode) *httptest.ResponseRecorder { return post(h, "/", fileType, file) },
		"a text": func(h *testNode) *httptest.ResponseRecorder {
			return post(h, "/", "application/x-www-form-urlencoded", "text=words")
		},
		"JSON": func(h *testNode) *httptest.ResponseRecorder {
			return post(h, "/v1/pastes", "application/json", `{"content":"words"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestNode(t, anonymousPastes, quota)
			if w := post(h, "/", "text/plain", strings.Repeat("x", 100<<10)); w.Code != http.StatusCreated {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if w := second(h); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// The right password may be sent as often as one likes, as a player does that asks for
// ranges; a wrong one ten times (P4).
func TestOnlyWrongPasswordsUseUpTries(t *testing.T) {
	h := newTestNode(t, anonymousPastes)
	create := func() string {
		w := h.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: "/", Type: "text/plain", Body: "some words", Header: map[string]string{"Mayfly-Password": "right", "Accept": "application/json"}}, http.StatusCreated)
		return nodetest.ReadJSON[wire.Paste](t, w).Short
	}
	ask := func(id, password string) int {
		return h.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: "/raw/" + id, Header: map[string]string{"Mayfly-Password": password, "Range": "bytes=0-1"}}).Code
	}
	first, second := create(), create()
	for n := range 30 {
		if code := ask(first, "right"); code != http.StatusPartialContent {
			t.Fatalf("the right password, time %d: %d", n+1, code)
		}
	}
	for n := range 12 {
		want := http.StatusForbidden
		if n >= 9 { // one try was the right one
			want = http.StatusTooManyRequests
		}
		if code := ask(first, "wrong"); code != want {
			t.Errorf("a wrong password, time %d: %d, want %d", n+1, code, want)
		}
	}
	if code := ask(first, "right"); code != http.StatusPartialContent {
		t.Errorf("the password that was right before: %d", code)
	}
	for range 10 {
		ask(second, "wrong")
	}
	if code := ask(second, "right"); code != http.StatusTooManyRequests {
		t.Errorf("the right password after ten wrong ones: %d", code)
	}
	h.Want(nodetest.Request{As: "ana", Method: "GET", Path: "/raw/" + first}, http.StatusUnauthorized) // another caller
	h.Machine.Advance(time.Hour)
	if code := ask(second, "right"); code != http.StatusPartialContent {
		t.Errorf("an hour later: %d", code)
	}
}
