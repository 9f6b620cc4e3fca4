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
		"/v1/explain/" + id, "/.git/config", "/v1/stories/" + id + "/view/1", "/robots.txt", "/v1/me", "/v1/users/~ana", "/key", "/docs/api/", "/openapi.json/", "/openapi.json;x", "/v1;x/stories/" + id,
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
	method("DELETE", "/v1/users/~ana", badWant{404, "not_found", ""}) // the public listener does not erase accounts
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
