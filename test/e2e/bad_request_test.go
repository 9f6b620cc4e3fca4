package e2e

import (
	"fmt"
	"net/http"
	"strings"
)

// badHeaders are headers that are no headers, too many, or too long.
func (h *badServer) badHeaders() []badCase {
	story := "/v1/stories/" + h.good.ID.String()
	line := "GET " + story + " HTTP/1.1\r\nHost: x\r\n"
	var all []badCase
	raw := func(name, text string, want badWant) {
		all = append(all, badCase{name, badAsk{method: http.MethodGet, raw: text, ends: true}, want})
	}
	with := func(name string, want badWant, lines ...string) {
		all = append(all, badCase{name, badAsk{as: "ben", method: http.MethodGet, target: story, header: lines}, want})
	}
	many := make([]string, 5_000)
	for i := range many {
		many[i] = fmt.Sprintf("X-%d: %s", i, strings.Repeat("x", 20))
	}
	with("one of a megabyte", badLayer(431), "X-Long: "+strings.Repeat("x", 1<<20))
	with("five thousand", badLayer(431), many...)
	with("a name of 100,000", badLayer(431), strings.Repeat("n", 100_000)+": x")
	with("a NUL in a value", badLayer(400), "X-A: a\x00b")
	with("a NUL in a name", badLayer(400), "X\x00A: a")
	with("a space in a name", badLayer(400), "X A: a")
	with("a space before the colon", badLayer(400), "Content-Length : 5")
	with("no colon", badLayer(400), "nonsense")
	with("no name", badLayer(400), ": x")
	with("a line feed alone, and another request", badWant{200, "", ""}, "X-A: a\nX-B: b") // as RFC 9112 lets a server read it: two headers
	with("a carriage return alone", badLayer(400), "X-A: a\rX-B: b")
	with("folded", badWant{200, "", ""}, "X-A: a\r\n b")
	with("Connection names the token", badWant{200, "", ""}, "Connection: Authorization, close")
	with("an expectation that is none", badLayer(417), "Expect: miracles")
	with("an upgrade", badWant{200, "", ""}, "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
	with("a request id that forges a log line", badWant{200, "", ""}, "Mayfly-Request: a%0d%0alevel=ERROR "+strings.Repeat("x", 100))
	with("addresses that are none", badWant{200, "", ""}, "X-Forwarded-For: "+strings.Repeat("1.2.3.4, ", 2_000)+"x", "Forwarded: for=\"_gazonk\"")
	with("another method within", badWant{200, "", ""}, "X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE")
	with("another path within", badWant{200, "", ""}, "X-Original-URL: /v1/me/archive", "X-Rewrite-URL: /v1/me/archive")
	raw("no request", "\r\n\r\n\r\n", badLayer(400))
	raw("bytes", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\xaa", 200)+"\r\n\r\n", badLayer(400))
	raw("HTTP/0.9", "GET "+story+"\r\n\r\n", badLayer(400))
	raw("HTTP/3.0", "GET "+story+" HTTP/3.0\r\nHost: x\r\n\r\n", badLayer(505))
	raw("HTTP/1.1.1", "GET "+story+" HTTP/1.1.1\r\nHost: x\r\n\r\n", badLayer(400))
	raw("HTTP/2 unasked", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", badInvalid("the path is ambiguous"))
	raw("a method with a space", "GE T "+story+" HTTP/1.1\r\nHost: x\r\n\r\n", badLayer(400))
	raw("a method that is none", "G{}T "+story+" HTTP/1.1\r\nHost: x\r\n\r\n", badLayer(400))
	raw("no host", "GET "+story+" HTTP/1.1\r\n\r\n", badLayer(400))
	raw("two hosts", line+"Host: y\r\n\r\n", badLayer(400))
	raw("a host that is none", "GET "+story+" HTTP/1.1\r\nHost: a b\r\n\r\n", badLayer(400))
	raw("a line of a megabyte", "GET /"+strings.Repeat("a", 1<<20)+" HTTP/1.1\r\nHost: x\r\n\r\n", badLayer(431))
	raw("a path that cannot be read", "GET /v1/stories/%zz HTTP/1.1\r\nHost: x\r\n\r\n", badLayer(400))
	raw("a NUL in the path", "GET /v1/\x00 HTTP/1.1\r\nHost: x\r\n\r\n", badLayer(400))
	raw("two lengths that differ", strings.Replace(line, "GET", "POST", 1)+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", badLayer(400))
	raw("a coding that is none", strings.Replace(line, "GET", "POST", 1)+"Transfer-Encoding: identity\r\n\r\n", badLayer(501))
	raw("two codings", strings.Replace(line, "GET", "POST", 1)+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", badLayer(501))
	return all
}

// badPaths are paths that could be read in two ways, and methods that do nothing.
func (h *badServer) badPaths() []badCase {
	id := h.good.ID.String()
	var all []badCase
	get := func(path string, want badWant) {
		all = append(all, badCase{path, badAsk{as: "ana", method: http.MethodGet, target: path}, want})
	}
	ambiguous := badInvalid("the path is ambiguous")
	for _, path := range []string{
		"/v1/../v1/stories/" + id, "/v1/stories/../../etc/passwd", "/..", "/../", "/v1/./stories/" + id, "/v1/stories/.", "/v1/stories/..",
		"/v1/%2e%2e/v1/stories/" + id, "/v1/%2E%2E/stories", "/v1/stories/%2e", "/v1%2fstories/" + id, "/v1/stories%2F" + id, "/v1/stories/" + id + "%2fview",
		"//v1/stories/" + id, "/v1//stories/" + id, "/v1/stories//" + id, "/v1/stories/" + id + "//", "/v1/stories/" + id + "%00", "/%00", "/v1/stories/%5c..%5c",
		"/v1\\stories", "/v1/stories/%0d%0aX-A:%20b", "/v1/stories/" + id + "%09", "/v1/stories/%252e%252e/", "/v1/%ff%fe", "/v1/stories/%c0%ae%c0%ae/",
		"/%2e%2e/%2e%2e/key", "/v1/media/" + id + "/..%2f0", "/v1/media/" + id + "/0/../../../key",
	} {
		get(path, ambiguous)
	}
	for _, path := range []string{
		"/v1", "/v1/", "/v2/stories/" + id, "/V1/stories/" + id, "/v1/stories/" + id + "/", "/v1/stories/" + id + "/likes", "/v1/Stories/" + id, "/admin", "/metrics", "/healthz", "/debug/pprof/", "/v1/holds/" + id,
		"/v1/explain/" + id, "/.git/config", "/v1/stories/" + id + "/view/1", "/robots.txt", "/v1/me", "/key", "/docs/api/", "/openapi.json/", "/openapi.json;x", "/v1;x/stories/" + id,
	} {
		get(path, badWant{404, "not_found", "there is no such route"})
	}
	for _, path := range []string{"/v1/stories/" + id + ";x=y", "/v1/stories/" + id + "%3bx", "/v1/stories/" + id + ".json", "/v1/stories/" + id + "%20", "/v1/stories/*", "/v1/stories/%7Bid%7D", "/v1/stories/~ana"} {
		get(path, badInvalid("is not an id"))
	}
	method := func(method, path string, want badWant) {
		all = append(all, badCase{method + " " + path, badAsk{as: "ana", method: method, target: path}, want})
	}
	for _, m := range []string{"POST", "PUT", "PATCH", "TRACE", "PROPFIND", "BREW", "OPTIONS", "get"} {
		method(m, "/v1/stories/"+id, badWant{405, "method", "use one of"})
	}
	method("GET", "/v1/stories", badWant{405, "method", "POST"})
	method("GET", "/v1/token", badWant{405, "method", "POST"})
	method("DELETE", "/v1/media/"+id+"/0", badWant{405, "method", "GET"})
	method("PUT", "/v1/stories/"+id+"/view", badWant{405, "method", "POST"})
	method("POST", "/openapi.json", badWant{405, "method", "GET"})
	method("DELETE", "/v1/users/~ana", badWant{405, "method", "GET, HEAD"}) // the public listener does not erase accounts
	method("CONNECT", "/v1/stories/"+id, badWant{405, "method", ""})
	method("OPTIONS", "*", badWant{200, badNoRequest, ""})
	method("CONNECT", "example.org:443", badWant{400, "invalid", "the path is ambiguous"})
	method("GET", "http://example.org/v1/stories/"+id, badWant{200, "", id})
	method("GET", "ftp://example.org/v1/nothing", badWant{404, "not_found", ""})
	for _, path := range []string{"/v1/holds/" + id, "/v1/restores", "/v1/dead-letters", "/v1/walks", "/v1/explain/" + id, "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		m := http.MethodGet
		switch {
		case strings.Contains(path, "holds"):
			m = http.MethodPut
		case strings.Contains(path, "restores"):
			m = http.MethodPost
		}
		all = append(all,
			badCase{"operators/anonymous " + path, badAsk{method: m, target: path, admin: true}, badToken("")},
			badCase{"operators/a user " + path, badAsk{as: "ana", method: m, target: path, admin: true}, badDenied("scope")},
		)
	}
	return all
}

// badQueries are queries that cannot be read, or have no end.
func (h *badServer) badQueries() []badCase {
	story := "/v1/stories/" + h.good.ID.String()
	media := "/v1/media/" + h.good.ID.String() + "/0"
	_, signature, _ := strings.Cut(h.good.Media[0].URL, "?")
	var all []badCase
	get := func(name, target string, want badWant) {
		all = append(all, badCase{name, badAsk{as: "ben", method: http.MethodGet, target: target}, want})
	}
	noToken := func(name, target string, want badWant) {
		all = append(all, badCase{name, badAsk{method: http.MethodGet, target: target}, want})
	}
	get("50,000 letters", story+"?"+strings.Repeat("a", 50_000), badWant{200, "", ""})
	get("100,000 letters", story+"?"+strings.Repeat("a", 100_000), badLayer(431))
	get("10,000 pairs", "/v1/me/archive?"+strings.Repeat("limit=1&", 6_000), badInvalid(""))
	get("an escape that is none", "/v1/me/archive?cursor=%zz", badInvalid("query"))
	get("a semicolon", "/v1/me/archive?limit=1;cursor=x", badInvalid("query"))
	get("the same twice", "/v1/me/archive?limit=1&limit=2", badInvalid("twice"))
	get("the same twice, and equal", "/v1/me/blocks?limit=1&limit=1", badInvalid("twice"))
	get("a NUL", "/v1/me/archive?cursor=%00", badInvalid("cursor"))
	get("bytes that are no UTF-8", "/v1/me/archive?cursor=%ff", badInvalid(""))
	noToken("media/no signature", media, badAbsent())
	noToken("media/an empty one", media+"?sig=", badAbsent())
	noToken("media/forged", media+"?"+strings.Replace(signature, "sig=", "sig=A", 1), badAbsent())
	noToken("media/cut off", media+"?"+signature[:len(signature)-2], badAbsent())
	noToken("media/of another object", media+"-320?"+signature, badAbsent())
	noToken("media/of another story", "/v1/media/"+h.other.ID.String()+"/0?"+signature, badAbsent())
	noToken("media/for longer", media+"?"+strings.Replace(signature, "until=", "until=9", 1), badAbsent())
	noToken("media/with two times", media+"?until=9999999999999&"+signature, badInvalid("twice"))
	noToken("media/as a moderator", media+"?moderator=1&"+signature, badAbsent())
	noToken("media/as another viewer", media+"?viewer="+h.good.Author.String()+"&"+signature, badInvalid("twice"))
	noToken("media/an escape that is none", media+"?"+signature+"&x=%zz", badInvalid("query"))
	return all
}

// badOrigins are requests of browsers from origins that are not allowed.
func (h *badServer) badOrigins() []badCase {
	story := "/v1/stories/" + h.good.ID.String()
	var all []badCase
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.org.evil.example", "http://app.example.org", "https://app.example.org:8443", "https://app.example.org/", "*", "https://APP.example.org.", "file://", "https://app.example.org https://evil.example"} {
		all = append(all,
			badCase{"ask/" + origin, badAsk{method: http.MethodOptions, target: story, header: []string{"Origin: " + origin, "Access-Control-Request-Method: GET"}}, badWant{405, "method", ""}},
			badCase{"get/" + origin, badAsk{method: http.MethodGet, target: story, header: []string{"Origin: " + origin}}, badWant{200, "", ""}},
		)
	}
	return all
}

// badIDs are ids, users, cursors and numbers that are none.
func (h *badServer) badIDs() []badCase {
	id := h.good.ID.String()
	var all []badCase
	malformed := map[string]string{
		"a word": "story", "a number": "1", "too short": id[:35], "too long": id + "0", "capitals": strings.ToUpper(id),
		"a UUID of another version": "00000000-0000-4000-8000-000000000000", "zeros": "00000000-0000-0000-0000-000000000000", "ones": "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"braces": "{" + id + "}", "a urn": "urn:uuid:" + id, "without dashes": strings.ReplaceAll(id, "-", ""), "a letter that is none": id[:35] + "g",
		"22 letters that are no id": strings.Repeat("z", 22), "a script": "%3Cscript%3E", "a quote": "'%20or%201=1", "unicode": "%E2%80%AE" + id[3:], "very long": strings.Repeat("a", 4000),
	}
	for name, bad := range malformed {
		for _, target := range []string{"GET /v1/stories/%s", "DELETE /v1/stories/%s", "POST /v1/stories/%s/view", "GET /v1/stories/%s/viewers", "POST /v1/stories/%s/reshare", "GET /v1/media/%s/0", "GET /v1/uploads/%s", "PUT /v1/uploads/%s/0", "GET /v1/posts/%s", "DELETE /v1/posts/%s", "GET /v1/posts/%s/thread", "GET /v1/posts/%s/likes"} {
			method, path, _ := strings.Cut(fmt.Sprintf(target, bad), " ")
			all = append(all, badCase{name + "/" + target, badAsk{as: "ana", method: method, target: path}, badInvalid("is not an id")})
		}
		for _, target := range []string{"GET /v1/users/%s/ring", "PUT /v1/me/close-friends/%s", "DELETE /v1/me/blocks/%s"} {
			if name == "a UUID of another version" || name == "ones" {
				continue // a user of another issuer may be called that
			}
			method, path, _ := strings.Cut(fmt.Sprintf(target, bad), " ")
			all = append(all, badCase{name + "/" + target, badAsk{as: "ana", method: method, target: path}, badInvalid("invalid user")})
		}
	}
	for name, cursor := range map[string]string{"a word": "next", "a user's": h.good.Author.String(), "escaped": "%00%01", "very long": strings.Repeat("a", 600), "half": h.good.Short[:11], "a script": "%3Cscript%3E"} {
		for _, list := range []string{"/v1/me/archive", "/v1/me/close-friends", "/v1/me/blocks", "/v1/me/home", "/v1/stories/" + id + "/viewers"} {
			if name == "a user's" && list != "/v1/me/archive" && list != "/v1/me/home" {
				continue // there it is one
			}
			all = append(all, badCase{"cursor/" + name + list, badAsk{as: "ana", method: http.MethodGet, target: list + "?cursor=" + cursor}, badInvalid("cursor")})
		}
	}
	for _, limit := range []string{"0", "-1", "201", "1e3", "ten", "99999999999999999999", "0x10", "1.5", "%2B5x"} {
		for _, list := range []string{"/v1/me/archive", "/v1/me/home"} {
			all = append(all, badCase{"limit/" + limit + list, badAsk{as: "ana", method: http.MethodGet, target: list + "?limit=" + limit}, badInvalid("limit")})
		}
	}
	for _, n := range []string{"-1", "10", "00", "x", "1e0", "0-320", "%2B1", "99999999999999999999"} {
		all = append(all, badCase{"medium of an upload/" + n, badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + id + "/" + n, typ: "image/png", body: "x"}, badInvalid("invalid number of a medium")})
	}
	for _, object := range []string{"1", "10", "-1", "00", "0-321", "0-0", "0-", "-320", "x", "0-320-1080", "99999999999999999999", "0%20"} {
		all = append(all, badCase{"object/" + object, badAsk{as: "ana", method: http.MethodGet, target: "/v1/media/" + id + "/" + object}, badAbsent()})
	}
	for name, query := range map[string]string{
		"a day that is none": "day=2026-02-30", "a word": "day=today", "a day and an instant": "day=2026-02-01&from=2026-02-01T00:00:00Z",
		"backwards": "from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z", "from is a word": "from=now", "to is a number": "to=12", "beyond time": "from=99999-01-01T00:00:00Z",
	} {
		all = append(all, badCase{"archive/" + name, badAsk{as: "ana", method: http.MethodGet, target: "/v1/me/archive?" + query}, badWant{400, "invalid", ""}})
	}
	return all
}

// badJSON are bodies that are no JSON, another JSON, or one that decoders
// disagree about.
func (h *badServer) badJSON() []badCase {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	var all []badCase
	for name, body := range map[string]string{
		"empty": "", "spaces": "  \n", "a list": `[]`, "null": `null`, "a number": `1`, "a text": `"media"`, "true": `true`,
		"cut off": `{"media":[{"length":1}]`, "two": `{"media":[{"length":1}]}{"media":[{"length":1}]}`, "something behind": `{"media":[{"length":1}]} x`, "a comma too many": `{"media":[{"length":1}],}`, "a NUL behind": "{\"media\":[{\"length\":1}]}\x00",
		"NaN": `{"media":[{"length":NaN}]}`, "infinite": `{"media":[{"length":Infinity}]}`, "hexadecimal": `{"media":[{"length":0x1}]}`, "leading zero": `{"media":[{"length":01}]}`, "plus": `{"media":[{"length":+1}]}`,
		"a text for a number": `{"media":[{"length":"1"}]}`, "half": `{"media":[{"length":1.5}]}`, "beyond numbers": `{"media":[{"length":1e999}]}`, "beyond integers": `{"media":[{"length":99999999999999999999}]}`,
		"a number for a medium": `{"media":[1]}`, "a list for a number": `{"media":[{"length":[1]}]}`, "an object for a list": `{"media":{}}`, "no length": `{"media":[{}]}`, "none": `{"media":[]}`, "no bytes": `{"media":[{"length":0}]}`, "fewer than none": `{"media":[{"length":-1}]}`, "eleven": `{"media":[` + strings.Repeat(`{"length":1},`, 10) + `{"length":1}]}`,
		"a field that is none": `{"media":[{"length":1}],"medium":1}`, "the same field twice": `{"media":[{"length":1}],"media":[]}`, "the same field twice, escaped": `{"media":[{"length":1}],"\u006dedia":[]}`,
		"a field in capitals": `{"Media":[{"length":1}]}`, "a field in capitals within": `{"media":[{"Length":1}]}`, "a field in another alphabet": `{"` + "\u212a" + `ey":1,"media":[{"length":1}]}`, "a mark before it": "\ufeff{\"media\":[{\"length\":1}]}", "UTF-16": "{\x00\"\x00m\x00",
		"a comment": `{"media":[{"length":1}]/* one */}`, "single quotes": `{'media':[{"length":1}]}`, "no quotes": `{media:[{"length":1}]}`, "bytes that are no UTF-8": "{\"media\":[{\"length\":1}],\"\xff\":1}",
		"three thousand deep, open": `{"media":` + strings.Repeat(`{"a":`, 3_000),
		"XML":                       `<media>1</media>`, "a form": `media=1`, "__proto__": `{"__proto__":{"media":[{"length":1}]}}`,
	} {
		all = append(all, badCase{"reserve/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: body}, badWant{400, "invalid", ""}})
	}
	huge := `{"media":[{"length":1}],"x":"` + strings.Repeat("x", 1<<20) + `"}`
	all = append(all,
		badCase{"reserve/a megabyte", badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: huge}, badTooLarge("bytes")},
		badCase{"reserve/a megabyte in a chunk", badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: huge, chunked: true}, badTooLarge("bytes")},
		badCase{"reserve/ten thousand deep", badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: `{"media":` + deep(10_000) + `}`}, badTooLarge("bytes")},
		badCase{"reserve/seven thousand deep", badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: `{"media":` + deep(7_000) + `}`}, badInvalid("deep")},
		badCase{"token/neither", badAsk{method: http.MethodPost, target: "/v1/token", typ: "application/json", body: `{}`}, badInvalid("neither")},
		badCase{"token/both", badAsk{method: http.MethodPost, target: "/v1/token", typ: "application/json", body: `{"refresh_token":"x","user":"~ana"}`}, badInvalid("both a refresh token and a user")},
		badCase{"token/a number", badAsk{method: http.MethodPost, target: "/v1/token", typ: "application/json", body: `{"refresh_token":1}`}, badInvalid("refresh_token")},
		badCase{"token/forged", badAsk{method: http.MethodPost, target: "/v1/token", typ: "application/json", body: `{"refresh_token":"forged"}`}, badToken("")},
		badCase{"token/for another user", badAsk{as: "ben", method: http.MethodPost, target: "/v1/token", typ: "application/json", body: `{"user":"~ana"}`}, badDenied("service")},
		badCase{"publish/no upload", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{}`}, badInvalid("a story needs media")},
		badCase{"publish/an upload that is no id", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{"upload":"x"}`}, badInvalid("is not an id")},
		badCase{"publish/an upload that does not exist", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{"upload":"` + h.good.ID.String() + `"}`}, badAbsent()},
		badCase{"publish/the same field twice", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{"audience":"followers","audience":"everyone","upload":"` + h.good.ID.String() + `"}`}, badInvalid("twice")},
		badCase{"reshare/a field that is none", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories/" + h.good.ID.String() + "/reshare", typ: "application/json", body: `{"media":1}`}, badInvalid("media")},
		badCase{"reshare/an audience that is none", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories/" + h.good.ID.String() + "/reshare", typ: "application/json", body: `{"audience":"enemies"}`}, badInvalid("audience")},
		badCase{"reshare/a lifetime that is none", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories/" + h.good.ID.String() + "/reshare", typ: "application/json", body: `{"lifetime":"1000y"}`}, badWant{400, "invalid", ""}},
		badCase{"reshare/another user's story", badAsk{as: "ben", method: http.MethodPost, target: "/v1/stories/" + h.good.ID.String() + "/reshare", typ: "application/json", body: `{}`}, badAbsent()},
	)
	for name, typ := range map[string]string{"none": "", "plain text": "text/plain", "a form": "application/x-www-form-urlencoded", "XML": "application/xml", "not a type": "json", "two": "application/json, text/plain", "broken": "application/json; charset="} {
		want := badUnsupported("")
		all = append(all, badCase{"type/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: typ, body: `{"media":[{"length":1}]}`}, want})
	}
	packed := badCase{"packed", badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", header: []string{"Content-Encoding: gzip"}, body: "\x1f\x8b\x08"}, badUnsupported("Content-Encoding")}
	return append(all, packed)
}

// badWords are captions, audiences and lifetimes, by each way in.
func (h *badServer) badWords() []badCase {
	photo := string(picture("words", 1))
	var all []badCase
	add := func(name, story string, want badWant) {
		form := badForm{{"story", story}, {"media", photo}}
		all = append(all, badCase{name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}, want})
	}
	add("caption/a NUL", `{"caption":"a\u0000b"}`, badInvalid("NUL"))
	add("caption/bytes that are no UTF-8", "{\"caption\":\"a\xff\xfeb\"}", badInvalid("UTF-8"))
	add("caption/half a surrogate", `{"caption":"\ud800"}`, badInvalid("surrogate"))
	add("caption/a tab as it is", "{\"caption\":\"a\tb\"}", badInvalid(""))
	add("caption/2,201 letters", `{"caption":"`+strings.Repeat("é", 2201)+`"}`, badInvalid("at most 2200"))
	add("caption/a hundred thousand", `{"caption":"`+strings.Repeat("x", 100_000)+`"}`, badInvalid("at most 2200"))
	add("caption/a number", `{"caption":1}`, badInvalid("caption"))
	add("caption/a list", `{"caption":["a"]}`, badInvalid("caption"))
	add("audience/a word", `{"audience":"friends"}`, badInvalid("audience"))
	add("audience/capitals", `{"audience":"Everyone"}`, badInvalid("audience"))
	add("audience/a number", `{"audience":0}`, badInvalid("audience"))
	for _, lifetime := range []string{"0s", "-1h", "1h", "24", "a day", "1000000h", "24h0m0.0000001s", "9223372036854775807ns", "24H", " 24h"} {
		add("lifetime/"+lifetime, fmt.Sprintf(`{"lifetime":%q}`, lifetime), badWant{400, "invalid", ""})
	}
	add("a field that is none", `{"visibility":"everyone"}`, badInvalid("visibility"))
	add("an author", `{"author":"`+h.good.Author.String()+`"}`, badInvalid("author"))
	add("an upload beside media", `{"upload":"`+h.good.ID.String()+`"}`, badInvalid("both an upload and media"))
	add("no object", `"caption"`, badInvalid("object"))
	add("nothing", ``, badInvalid("object"))
	add("two", `{}{}`, badInvalid("behind"))
	for name, query := range map[string]string{"caption=%00": "NUL", "caption=%FF%FE": "UTF-8", "audience=friends": "audience", "lifetime=1y": "", "overlays=[]": "unknown parameter", "Caption=x": "unknown parameter", "caption=a&caption=b": "twice", "caption=%zz": "query"} {
		all = append(all, badCase{"query/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?" + name, typ: "image/png", body: photo}, badInvalid(query)})
	}
	for name, key := range map[string]string{"too long": strings.Repeat("k", 256), "empty": "", "ours": "upload:x"} {
		all = append(all, badCase{"key/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "image/png", body: photo, header: []string{"Idempotency-Key: " + key}}, badWant{400, "invalid", ""}})
	}
	two := badCase{"key/two", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "image/png", body: photo, header: []string{"Idempotency-Key: a", "Idempotency-Key: b"}}, badInvalid("Idempotency-Key")}
	bytes := badCase{"key/bytes that are no text", badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "image/png", body: photo, header: []string{"Idempotency-Key: \xff\xfe"}}, badInvalid("key")}
	return append(all, two, bytes)
}

// badOverlays are invalid stickers.
func (h *badServer) badOverlays() []badCase {
	photo := string(picture("overlays", 1))
	var all []badCase
	add := func(name, overlays string, want badWant) {
		form := badForm{{"story", `{"overlays":` + overlays + `}`}, {"media", photo}}
		all = append(all, badCase{name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}, want})
	}
	one := func(fields string) string { return `[{"kind":"text","x":0.5,"y":0.5` + fields + `}]` }
	add("a megabyte", one(`,"text":"`+strings.Repeat("x", 1<<20)+`"`), badTooLarge("overlays"))
	add("a hundred kilobytes", one(`,"text":"`+strings.Repeat("x", 100<<10)+`"`), badTooLarge("overlays"))
	add("ten thousand deep", strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), badInvalid("deep"))
	add("ten thousand deep in one", one(`,"text":`+strings.Repeat(`{"a":`, 10_000)+`1`+strings.Repeat(`}`, 10_000)), badInvalid("deep"))
	add("fifty-one", `[`+strings.TrimSuffix(strings.Repeat(`{"kind":"emoji","x":0,"y":0},`, 51), ",")+`]`, badInvalid("at most 50"))
	add("an object", `{"kind":"text"}`, badInvalid("overlays"))
	add("a text", `"text"`, badInvalid("overlays"))
	add("a list of numbers", `[1,2]`, badInvalid("overlays"))
	add("a list of null", `[null]`, badInvalid("kind"))
	add("an unknown kind", `[{"kind":"script","x":0,"y":0}]`, badInvalid("hashtag"))
	add("no kind", `[{"x":0,"y":0}]`, badInvalid("kind"))
	add("a field that is none", one(`,"onclick":"alert(1)"`), badInvalid("onclick"))
	add("the same field twice", one(`,"x":0.1`), badInvalid("twice"))
	add("outside", `[{"kind":"text","x":1.5,"y":0}]`, badInvalid("x or y"))
	add("far outside", `[{"kind":"text","x":-1e308,"y":0}]`, badInvalid("x or y"))
	add("beyond numbers", `[{"kind":"text","x":1e999,"y":0}]`, badInvalid(""))
	add("NaN", `[{"kind":"text","x":NaN,"y":0}]`, badInvalid(""))
	add("a text for a number", `[{"kind":"text","x":"0.5","y":0}]`, badInvalid(""))
	add("scale", one(`,"scale":101`), badInvalid("scale"))
	add("rotation", one(`,"rotation":-361`), badInvalid("rotation"))
	add("a medium that is none", one(`,"medium":10`), badInvalid("medium"))
	add("501 letters", one(`,"text":"`+strings.Repeat("é", 501)+`"`), badInvalid("at most 500"))
	add("a NUL", one(`,"text":"a\u0000"`), badInvalid("NUL"))
	add("bytes that are no UTF-8", one(",\"text\":\"\xff\""), badInvalid("UTF-8"))
	add("options of a text", one(`,"options":["a"]`), badInvalid("options"))
	add("eleven options", `[{"kind":"poll","x":0,"y":0,"options":[`+strings.TrimSuffix(strings.Repeat(`"a",`, 11), ",")+`]}]`, badInvalid("options"))
	for _, target := range []string{"javascript:alert(1)", "data:text/html,x", "//example.org", "file:///etc/passwd", "https://", "JaVaScRiPt:alert(1)", "\\u0001javascript:alert(1)", "https:example.org"} {
		add("a link/"+target, `[{"kind":"link","x":0,"y":0,"target":"`+target+`"}]`, badInvalid("web address"))
	}
	return all
}

// badRanges are ranges and conditions that make no sense. What is no range is
// answered with the whole, as RFC 9110 has it; what lies outside with 416.
func (h *badServer) badRanges() []badCase {
	media := "/v1/media/" + h.good.ID.String() + "/0"
	tag := `"` + h.good.Media[0].SHA256 + `"`
	var all []badCase
	add := func(name string, want badWant, lines ...string) {
		all = append(all, badCase{name, badAsk{as: "ben", method: http.MethodGet, target: media, header: lines}, want})
	}
	whole, part, outside := badWant{200, "", "\x89PNG"}, badWant{206, "", ""}, badWant{416, "invalid", "range"}
	for _, text := range []string{
		"bytes=", "bytes=-", "bytes=--1", "bytes=a-b", "bytes=1-a", "bytes=5-2", "bytes=+1-2", "bytes=1-+2", "bytes=0x0-0x4", "bytes=1.0-2", "bytes 0-1", "items=0-1", "0-1", "bytes=0-1-2", "bytes=٠-١",
		"bytes=0-1,2-3", "bytes=0-1,", "bytes=,0-1", "bytes=" + strings.Repeat("0-,", 5_000) + "0-", "bytes=" + strings.Repeat("0-9,", 2_000) + "0-1", "bytes=-1,-1,-1", "none", "\xff", "bytes=0-1;x", "BYTES",
	} {
		name := text
		if len(name) > 30 {
			name = name[:30] + "…"
		}
		add("whole/"+name, whole, "Range: "+text)
	}
	add("whole/two headers", whole, "Range: bytes=0-1", "Range: bytes=2-3")
	for _, text := range []string{"bytes=1000000-", "bytes=1000000-2000000", "bytes=9223372036854775807-", "bytes=99999999999999999999-", "bytes=-0"} {
		add("outside/"+text, outside, "Range: "+text)
	}
	for _, text := range []string{"bytes=0-0", "bytes=-1", "bytes=-9223372036854775807", "bytes=-99999999999999999999", "bytes=0-99999999999999999999", "bytes=1-9223372036854775807", "bytes= 0-1"} {
		add("part/"+text, part, "Range: "+text)
	}
	add("if-range/another", whole, "Range: bytes=0-1", `If-Range: "another"`)
	add("if-range/a date", whole, "Range: bytes=0-1", "If-Range: Mon, 16 Nov 2026 03:00:00 GMT")
	add("if-range/weak", whole, "Range: bytes=0-1", "If-Range: W/"+tag)
	add("if-range/garbage", whole, "Range: bytes=0-1", "If-Range: \xff\"")
	for _, text := range []string{`"`, `""`, `W/`, `another`, `"another`, strings.TrimSuffix(tag, `"`), strings.Trim(tag, `"`), ",,,,", strings.Repeat(`"a", `, 5_000), "\xff", "W/W/" + tag} {
		name := text
		if len(name) > 20 {
			name = name[:20] + "…"
		}
		add("if-none-match/"+name, whole, "If-None-Match: "+text)
	}
	add("if-none-match/among thousands", badWant{304, "", ""}, "If-None-Match: "+strings.Repeat(`"a", `, 5_000)+tag)
	add("if-none-match/any", badWant{304, "", ""}, "If-None-Match: *")
	add("if-modified-since/garbage", whole, "If-Modified-Since: yesterday")
	add("if-modified-since/the end of time", whole, "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT")
	add("if-unmodified-since/garbage", whole, "If-Unmodified-Since: \xff")
	add("accept/nothing", whole, "Accept: text/html;q=0", "Accept-Encoding: *;q=0")
	head := badCase{"head/outside", badAsk{as: "ben", method: http.MethodHead, target: media, header: []string{"Range: bytes=1000000-"}}, outside}
	head.want.says = ""
	return append(all, head)
}
