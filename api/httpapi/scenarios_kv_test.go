package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// kvWords makes a namespace of ana's and one of ben's and returns the words by which
// scenarios name their keys.
func kvWords(t testing.TB, h *testNode) []string {
	t.Helper()
	create := func(as, body string) string {
		return nodetest.ReadJSON[wire.KVNamespace](t, h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/me/kv", Body: body}, http.StatusCreated)).Credentials[0].Key
	}
	put := func(as, path, value string, header map[string]string) {
		h.Want(nodetest.Request{As: as, Method: "PUT", Path: path, Type: "text/plain", Body: value, Header: header}, http.StatusNoContent)
	}
	ana, ben := create("ana", `{"name":"cache","max_key":4096,"max_value":1000,"quota":5000,"events":true}`), create("ben", `{"name":"bens","longest_ttl":"1h"}`)
	put("ana", "/v1/kv/cache/keys/k", "secret value", nil)
	put("ana", "/v1/kv/cache/keys/n", "41", map[string]string{"Mayfly-TTL": "1h"})
	put("ana", "/v1/kv/cache/keys?key64="+encoded("raw\x00\xff"), "bytes", nil)
	put("ben", "/v1/kv/bens/keys/k", "ben's value", nil)
	credential := nodetest.ReadJSON[wire.KVNamespace](t, h.Get("ana", "/v1/me/kv/cache", 200)).Credentials[0].ID
	return []string{"{kv-key}", ana, "{kv-other}", ben, "{kv-ana}", credential, "{tag}", h.Get("ana", "/v1/kv/cache/keys/k", 200).Header().Get("ETag")}
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// kvScenarios returns the scenarios of the routes of the key-value store, by operation.
func kvScenarios() map[string][]scenario {
	key := map[string]string{"Authorization": "Bearer {kv-key}"}
	with := func(pairs ...string) map[string]string {
		h := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = pairs[i+1]
		}
		return h
	}
	secret, hint := []string{"secret value", "Etag:[", "Mayfly-Ttl"}, []string{`"hint"`}
	const jsonBody = "application/json"
	// refused are the callers who may not use ana's namespace, for every way to ask.
	refused := func(method, path, body string) []scenario {
		var rows []scenario
		add := func(as, path string, header map[string]string, status int) {
			rows = append(rows, scenario{as: as, method: method, path: path, typ: jsonBody, body: body, header: header, status: status, hasNot: secret})
		}
		add("anonymous", path, nil, 401)
		add("moderator", path, nil, 403)
		add("admin", path, nil, 403)
		add("service", path, nil, 403)
		add("service:ben", path, nil, 403)
		add("ben", path, nil, 403)
		add("anonymous", path, with("Authorization", "Bearer {kv-other}"), 403)
		add("anonymous", path, with("Authorization", "Bearer mfkv_nonsense"), 403)
		add("anonymous", path, with("Authorization", "Bearer {kv-key}", "Mayfly-User", "~ana"), 403)
		add("anonymous", path, with("Authorization", "Bearer nonsense"), 401)
		for _, as := range []string{"ana", "service:ana"} {
			add(as, strings.Replace(path, "/cache/", "/nothing/", 1), nil, 403)
			add(as, strings.Replace(path, "/cache/", "/NOT%20a%20name/", 1), nil, 403)
			add(as, strings.Replace(path, "/cache/", "/jobs/", 1), nil, 403) // of the configuration
		}
		add("anonymous", strings.Replace(path, "/cache/", "/bens/", 1), key, 403)
		return rows
	}
	all := map[string][]scenario{}
	// entry makes the scenarios of a route by the path and by key64.
	entry := func(id, method, body string, rows ...scenario) {
		for _, by64 := range []bool{false, true} {
			id, path := id, func(key string) string { return "/v1/kv/cache/keys/" + key }
			if by64 {
				id, path = id+"64", func(key string) string { return "/v1/kv/cache/keys?key64=" + encoded(key) }
			}
			all[id] = refused(method, path("k"), body)
			for _, s := range rows {
				if s.method == "" {
					s.method = method
				}
				s.path = path(s.path)
				if s.as == "" {
					s.as = "ana"
				}
				if s.status == 400 || s.status == 412 || s.status == 409 {
					if s.method != http.MethodHead {
						s.has = append(s.has, hint...)
					}
				}
				all[id] = append(all[id], s)
			}
			all[id] = append(all[id], scenario{as: "ana", method: method, path: path("k") + map[bool]string{false: "?", true: "&"}[by64] + "ttl=60s", typ: jsonBody, body: body, status: 400})
		}
		all[id] = append(all[id],
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys/", typ: jsonBody, body: body, status: 400},
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys/a%00b", typ: jsonBody, body: body, status: 400},
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys/a//b", typ: jsonBody, body: body, status: 400})
		all[id+"64"] = append(all[id+"64"],
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys", typ: jsonBody, body: body, status: 400},
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys?key64=a+b", typ: jsonBody, body: body, status: 400},
			scenario{as: "ana", method: method, path: "/v1/kv/cache/keys?key64=aa==", typ: jsonBody, body: body, status: 400})
	}
	long := strings.Repeat("k", 5<<10)
	reads := func(method string) []scenario {
		return []scenario{
			{path: "k", status: 200, has: []string{`Etag:["`, "no-store", "nosniff", "sandbox", "application/octet-stream", "attachment"}, hasNot: []string{"Mayfly-Ttl"}},
			{path: "k", as: "anonymous", header: key, status: 200},
			{path: "k", as: "service:ana", status: 200},
			{path: "n", status: 200, has: []string{"Mayfly-Ttl:[1h]", "Mayfly-Expires-At:["}},
			{path: "k", header: with("If-None-Match", "{tag}"), status: 304},
			{path: "k", header: with("If-None-Match", `"0", W/{tag}`), status: 304},
			{path: "k", header: with("If-None-Match", `"0"`), status: 200},
			{path: "none", status: 404},
			{path: long, status: 413},
		}
	}
	entry("getKey", "GET", "", append(reads("GET"), scenario{path: "k", status: 200, has: []string{"secret value"}})...)
	entry("headKey", "HEAD", "", append(reads("HEAD"), scenario{path: "k", status: 200, has: []string{"Content-Length:[12]"}, hasNot: []string{"secret value"}})...)
	get := func(path, has string, status int) scenario {
		return scenario{method: "GET", path: path, status: status, has: []string{has}}
	}
	bad := func(pairs ...string) scenario {
		return scenario{path: "k", body: "x", header: with(pairs...), status: 400}
	}
	badExpiries := []scenario{
		bad("Mayfly-TTL", "soon"), bad("Mayfly-TTL", "60"), bad("Mayfly-TTL", "0s"), bad("Mayfly-TTL", "-5s"), bad("Mayfly-TTL", "1.5s"), bad("Mayfly-TTL", ""),
		bad("Mayfly-TTL", "99999999999999999999s"), bad("Mayfly-TTL", "106581d"), bad("Mayfly-Expires-At", "9999-12-31T23:59:59.999Z"), bad("Mayfly-Expires-At", "9999-12-31T23:59:59-23:59"), bad("Mayfly-TTL", "60s", "Mayfly-Expires-At", "2126-01-01T00:00:00Z"),
		bad("Mayfly-Expires-At", "tomorrow"), bad("Mayfly-Expires-At", ""), bad("Mayfly-Expires-At", "1750000000"),
		bad("If-Match", "41"), bad("If-Match", `W/"41"`), bad("If-Match", `"x"`), bad("If-Match", `"1", "2"`), bad("If-Match", "*", "If-None-Match", "*"), bad("If-None-Match", `"41"`),
	}
	entry("putKey", "PUT", "x", append(badExpiries,
		get("k", "secret value", 200), // nothing of it was done
		scenario{path: "new", body: "v", header: with("Mayfly-TTL", "1500ms"), status: 204, has: []string{"Mayfly-Ttl:[1500ms]", "Etag:["}},
		get("new", "Mayfly-Ttl:[1500ms]", 200),
		scenario{path: "new", body: "w", header: with("Mayfly-TTL", "keep"), status: 204, has: []string{"Mayfly-Ttl:[1500ms]"}},
		scenario{path: "new", body: "w", header: with("Mayfly-TTL", "never"), status: 204, hasNot: []string{"Mayfly-Ttl"}},
		scenario{path: "new", body: "w", header: with("Mayfly-Expires-At", "2126-01-01T00:00:00+01:00"), status: 204, has: []string{"Mayfly-Expires-At:[2125-12-31T23:00:00.000Z]"}},
		scenario{path: "new", body: "w", header: with("If-None-Match", "*"), status: 412},
		scenario{path: "none", body: "w", header: with("If-Match", "*"), status: 412},
		scenario{path: "k", body: "w", header: with("If-Match", `"0"`), status: 412},
		scenario{path: "k", body: "by version", header: with("If-Match", "{tag}"), status: 204},
		scenario{path: "k", body: "again", header: with("If-Match", "{tag}"), status: 412},
		get("k", "by version", 200),
		scenario{path: "only", as: "anonymous", body: "w", header: with("If-None-Match", "*", "Authorization", "Bearer {kv-key}"), status: 204},
		scenario{path: "new", body: "w", header: with("Mayfly-Expires-At", "2001-01-01T00:00:00Z"), status: 204, hasNot: []string{"Etag"}}, // deletes
		get("new", "", 404),
		scenario{path: "empty", status: 204},
		get("empty", "Content-Length:[0]", 200),
		scenario{path: "k", typ: "text/plain", body: strings.Repeat("v", 1000), status: 204},
		scenario{path: "k", typ: "text/plain", body: strings.Repeat("v", 1001), status: 413},
		scenario{path: long, body: "v", status: 413},
		scenario{path: "q1", typ: "text/plain", body: strings.Repeat("v", 1000), status: 204},
		scenario{path: "q2", typ: "text/plain", body: strings.Repeat("v", 1000), status: 204},
		scenario{path: "q3", typ: "text/plain", body: strings.Repeat("v", 1000), status: 204},
		scenario{path: "q4", typ: "text/plain", body: strings.Repeat("v", 1000), status: 507, has: []string{"raise the quota"}},
		get("q4", "", 404),
	)...)
	all["putKey"] = append(all["putKey"],
		scenario{as: "ben", method: "PUT", path: "/v1/kv/bens/keys/k", body: "v", status: 204, has: []string{"Mayfly-Ttl:[1h]"}},
		scenario{as: "ben", method: "PUT", path: "/v1/kv/bens/keys/k", body: "v", header: with("Mayfly-TTL", "never"), status: 400},
		scenario{as: "ben", method: "PUT", path: "/v1/kv/bens/keys/k", body: "v", header: with("Mayfly-TTL", "2h"), status: 400, has: []string{"longer than"}},
		scenario{as: "ana", method: "PUT", path: "/v1/kv/cache/keys/user/7/name", body: "ana", status: 204},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/keys?key64=" + encoded("user/7/name"), status: 200, has: []string{"ana"}})
	entry("deleteKey", "DELETE", "",
		scenario{path: "k", header: with("If-Match", `"0"`), status: 412},
		scenario{path: "none", header: with("If-Match", "*"), status: 412},
		scenario{path: "k", header: with("If-None-Match", "*"), status: 400},
		get("k", "secret value", 200),
		scenario{path: "k", header: with("If-Match", "{tag}"), status: 204},
		get("k", "", 404),
		scenario{path: "k", status: 204},
		scenario{path: long, status: 413},
		scenario{path: "n", as: "anonymous", header: key, status: 204},
		get("n", "", 404))
	patch := func(path, body string, status int, has string, header ...string) scenario {
		return scenario{path: path, body: body, header: with(header...), status: status, has: []string{has}}
	}
	var badPatches []scenario
	for _, s := range badExpiries {
		s.body = ""
		if s.header["If-None-Match"] == "" {
			badPatches = append(badPatches, s)
		}
	}
	entry("patchKey", "PATCH", "", append(badPatches,
		patch("n", "", 400, ""), patch("n", "{}", 400, ""), patch("n", "", 400, "", "Mayfly-TTL", "keep"), patch("n", "", 400, "", "If-None-Match", "*", "Mayfly-TTL", "1s"),
		patch("n", `{"increment":1.5}`, 400, "increment"), patch("n", `{"increment":"1"}`, 400, "increment"), patch("n", `{"increment":9223372036854775808}`, 400, "increment"), patch("n", `{"add":1}`, 400, "increment"),
		scenario{path: "n", typ: "text/plain", body: "1", status: 415},
		patch("n", `{"increment":9223372036854775807}`, 409, "64 bits"), patch("k", `{"increment":1}`, 409, "not a number"),
		get("n", "41", 200), get("k", "secret value", 200),
		patch("n", `{"increment":1}`, 200, `"value":"42"`),
		patch("n", `{"increment":-2}`, 200, "Mayfly-Ttl:[1h]", "Mayfly-TTL", "5s"),
		get("n", "40", 200),
		patch("counter", `{"increment":1}`, 200, `"expires_at"`, "Mayfly-TTL", "5s"),
		patch("none", "", 404, "", "Mayfly-TTL", "5s"), patch("none", "", 412, "", "Mayfly-TTL", "5s", "If-Match", "*"),
		patch("k", "", 412, "", "Mayfly-TTL", "5s", "If-Match", `"0"`),
		patch("k", "", 200, "Mayfly-Ttl:[5s]", "Mayfly-TTL", "5s", "If-Match", "{tag}"),
		get("k", "secret value", 200),
		patch("n", "", 200, `"version"`, "Mayfly-TTL", "never"),
		scenario{path: "n", method: "GET", status: 200, hasNot: []string{"Mayfly-Ttl"}},
		patch("n", "", 204, "", "Mayfly-Expires-At", "2001-01-01T00:00:00Z"),
		get("n", "", 404),
		patch(long, `{"increment":1}`, 413, ""),
	)...)
	batch := func(status int, body string, has ...string) scenario {
		return scenario{as: "ana", method: "POST", path: "/v1/kv/cache/batch", body: body, status: status, has: has}
	}
	all["batchKeys"] = append(refused("POST", "/v1/kv/cache/batch", `{"ops":[{"op":"get","key":"k"}]}`),
		batch(400, `{}`), batch(400, `{"ops":[]}`), batch(400, `{"ops":[{"op":"drop","key":"k"}]}`), batch(400, `{"ops":[{"op":"get"}]}`), batch(400, `{"ops":[{"op":"get","key":"k","key64":"aw"}]}`),
		batch(400, `{"ops":[{"op":"set","key":"k"}]}`), batch(400, `{"ops":[{"op":"set","key":"a","value":"1"},{"op":"set","key":"k","value":"1","ttl":"0s"}]}`, "operation 1"),
		batch(400, `{"ops":[{"op":"set","key":"k","value":"1","ttl":"1s","expires_at":"2126-01-01T00:00:00Z"}]}`), batch(400, `{"ops":[{"op":"set","key":"k","value":"1","expires_at":""}]}`),
		batch(400, `{"ops":[{"op":"delete","key":"k","ttl":"1s"}]}`), batch(400, `{"ops":[{"op":"get","key":"k","by":1}]}`), batch(400, `{"ops":[{"op":"set","key":"k","value":"1","version":"1"}]}`),
		batch(400, `{"ops":[{"op":"set","key":"k","value":"1","if":"version","version":"x"}]}`), batch(400, `{"ops":[{"op":"set","key":"k","value":"1","if":"maybe"}]}`), batch(400, `{"ops":[{"op":"set","key":"k","value64":"%"}]}`),
		batch(400, `{"ops":[{"op":"increment","key":"n","by":"1"}]}`), batch(400, `{"ops":[{"op":"touch","key":"n"}]}`), batch(400, `{"ops":[{"op":"set","key":"a","value":"1"},{"op":"get","key":"k"}]}`, "reads and writes"),
		batch(400, `{"ops":[`+strings.Repeat(`{"op":"delete","key":"k"},`, 1000)+`{"op":"delete","key":"k"}]}`, "1001 operations"), batch(400, `{"ops":[{"op":"get","key":"k"}],"watch":[{"key":"k"}]}`),
		batch(413, `{"ops":[{"op":"set","key":"a","value":"1"},{"op":"set","key":"b","value":"`+strings.Repeat("v", 1001)+`"}]}`), batch(413, `{"ops":[{"op":"delete","key":"`+long+`"}]}`),
		batch(413, `{"ops":[{"op":"get","key":"k"}],"watch":[{"key":"`+strings.Repeat("k", 9<<20)+`"}]}`),
		batch(507, `{"ops":[`+strings.Repeat(`{"op":"set","key":"a","value":"1"},`, 1)+strings.TrimSuffix(quotaOps(), ",")+`]}`, "quota"),
		scenario{as: "ana", method: "POST", path: "/v1/kv/cache/batch", typ: "text/plain", body: `{"ops":[]}`, status: 415},
		scenario{as: "ana", method: "POST", path: "/v1/kv/cache/batch?ttl=1s", body: `{"ops":[{"op":"get","key":"k"}]}`, status: 400},
		batch(412, `{"ops":[{"op":"set","key":"a","value":"1"}],"watch":[{"key":"k"}]}`), batch(412, `{"ops":[{"op":"set","key":"a","value":"1"}],"watch":[{"key":"none","version":"7"}]}`),
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/keys/a", status: 404}, // nothing of all these was done
		batch(200, `{"ops":[{"op":"get","key":"k"},{"op":"get","key":"none"},{"op":"get","key64":"`+encoded("raw\x00\xff")+`"}]}`, `"value":"secret value"`, `{"done":false}`),
		batch(200, `{"ops":[{"op":"set","key":"a","value":"1","ttl":"1h"},{"op":"increment","key":"a","by":41},{"op":"set","key":"k","value":"x","if":"absent"},{"op":"increment","key":"k"},{"op":"delete","key":"none"},{"op":"touch","key":"n","ttl":"never"}],"watch":[{"key":"none"}]}`,
			`"value":"42"`, "not a number", `{"done":false}`),
		scenario{as: "anonymous", method: "POST", path: "/v1/kv/cache/batch", header: key, body: `{"ops":[{"op":"get","key":"a"},{"op":"get","key":"n"}]}`, status: 200, has: []string{`"value":"42","expires_at"`, `"value":"41"}`}})
	all["scanKeys"] = append(refused("GET", "/v1/kv/cache/scan", ""),
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan", status: 200, has: []string{`"key":"k"`, `"key":"n"`, `"key64":"` + encoded("raw\x00\xff")}, hasNot: []string{"secret value", `"next"`}},
		scenario{as: "anonymous", method: "GET", path: "/v1/kv/cache/scan?prefix=k&limit=1", header: key, status: 200, has: []string{`"key":"k"`}, hasNot: []string{`"key":"n"`}},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?prefix64=" + encoded("raw"), status: 200, has: []string{"key64"}, hasNot: []string{`"key":"n"`}},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?limit=0", status: 400, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?limit=1001", status: 400, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?prefix=a&prefix64=YQ", status: 400, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?prefix64=%25", status: 400, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?match=a", status: 400, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?prefix=" + long, status: 413, has: hint},
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/scan?cursor=abc", status: 400, has: hint})
	follow := func(as, namespace, last string, status int, has string) scenario {
		return scenario{as: as, method: "GET", path: "/v1/kv/" + namespace + "/events", header: with("Last-Event-ID", last), status: status, has: []string{has, `"hint"`}}
	}
	all["followKeys"] = append(refused("GET", "/v1/kv/cache/events", ""),
		follow("ben", "bens", "", 422, "no events"), follow("ana", "cache", "x", 400, "Last-Event-ID"), follow("ana", "cache", "1-", 400, "older than"), follow("ana", "cache", "99999999999999-aw", 400, "Last-Event-ID"),
		follow("ana", "cache", "01-aw", 400, "Last-Event-ID"), follow("ana", "cache", "1-%", 400, "Last-Event-ID"),
		scenario{as: "ana", method: "GET", path: "/v1/kv/cache/events?since=1", status: 400})
	// owners is the refusals of the routes for owners.
	owners := func(method, path, body string) []scenario {
		rows := []scenario{
			{as: "anonymous", method: method, path: path, body: body, status: 401},
			{as: "moderator", method: method, path: path, body: body, status: 403},
			{as: "admin", method: method, path: path, body: body, status: 403},
			{as: "anonymous", method: method, path: path, body: body, header: key, status: 401}, // a key of a namespace manages none
		}
		if strings.Contains(path, "/cache") {
			rows = append(rows,
				scenario{as: "ben", method: method, path: path, body: body, status: 404},
				scenario{as: "service", method: method, path: path, body: body, status: 404},
				scenario{as: "ana", method: method, path: strings.Replace(path, "/cache", "/jobs", 1), body: body, status: 404},
				scenario{as: "ana", method: method, path: strings.Replace(path, "/cache", "/nothing", 1), body: body, status: 404})
		}
		return rows
	}
	all["listNamespaces"] = append(owners("GET", "/v1/me/kv", ""),
		scenario{as: "ana", method: "GET", path: "/v1/me/kv", status: 200, has: []string{`"name":"cache"`, `"events":true`}, hasNot: []string{"mfkv_", `"bens"`, `"jobs"`}},
		scenario{as: "service:ana", method: "GET", path: "/v1/me/kv", status: 200, has: []string{`"name":"cache"`}},
		scenario{as: "service", method: "GET", path: "/v1/me/kv", status: 200, has: []string{`"namespaces":[]`}})
	create := func(as, body string, status int, has ...string) scenario {
		return scenario{as: as, method: "POST", path: "/v1/me/kv", body: body, status: status, has: has}
	}
	all["createNamespace"] = append(owners("POST", "/v1/me/kv", `{"name":"mine"}`),
		create("ana", `{"name":"Mine"}`, 400), create("ana", `{"name":""}`, 400), create("ana", `{"name":"../x"}`, 400), create("ana", `{"name":"mine","default_ttl":"soon"}`, 400),
		create("ana", `{"name":"mine","default_ttl":"2h","longest_ttl":"1h"}`, 400), create("ana", `{"name":"mine","quota":-1}`, 400), create("ana", `{"name":"mine","quota":0}`, 400, "above that of the server"),
		create("ana", `{"name":"mine","max_value":99999999}`, 400), create("ana", `{"name":"mine","max_key":5000}`, 400), create("ana", `{"name":"mine","colour":"red"}`, 400),
		create("ana", `{"name":"cache"}`, 409, "taken"), create("ben", `{"name":"cache"}`, 409, "taken"), create("ana", `{"name":"jobs"}`, 409, "taken"),
		create("ana", `{"name":"mine","default_ttl":"90m","longest_ttl":"2h","max_value":10}`, 201, `"default_ttl":"90m"`, `"longest_ttl":"2h"`, `"max_value":10`, `"key":"mfkv_`),
		create("service", `{"name":"of.the.service"}`, 201, "mfkv_"),
		scenario{as: "service", method: "GET", path: "/v1/me/kv/of.the.service", status: 200})
	all["describeNamespace"] = append(owners("GET", "/v1/me/kv/cache", ""),
		scenario{as: "ana", method: "GET", path: "/v1/me/kv/cache", status: 200, has: []string{`"entries":3`, `"bytes":`, "{kv-ana}"}, hasNot: []string{"mfkv_"}})
	all["dropNamespace"] = append(owners("DELETE", "/v1/me/kv/cache", ""),
		scenario{as: "ana", method: "DELETE", path: "/v1/me/kv/cache", status: 204},
		scenario{as: "ana", method: "DELETE", path: "/v1/me/kv/cache", status: 404},
		scenario{as: "anonymous", method: "GET", path: "/v1/kv/cache/keys/k", header: key, status: 403},
		create("ben", `{"name":"cache"}`, 201),
		scenario{as: "ben", method: "GET", path: "/v1/kv/cache/keys/k", status: 404, hasNot: secret})
	all["addCredential"] = append(owners("POST", "/v1/me/kv/cache/credentials", ""),
		scenario{as: "ana", method: "POST", path: "/v1/me/kv/cache/credentials", status: 201, has: []string{`"key":"mfkv_`}},
		scenario{as: "ana", method: "POST", path: "/v1/me/kv/cache/credentials", status: 409, has: []string{"has 2 keys"}})
	all["removeCredential"] = append(owners("DELETE", "/v1/me/kv/cache/credentials/{kv-ana}", ""),
		scenario{as: "ana", method: "DELETE", path: "/v1/me/kv/cache/credentials/AAAAAAAA", status: 404},
		scenario{as: "anonymous", method: "GET", path: "/v1/kv/cache/keys/k", header: key, status: 200},
		scenario{as: "ana", method: "DELETE", path: "/v1/me/kv/cache/credentials/{kv-ana}", status: 204},
		scenario{as: "anonymous", method: "GET", path: "/v1/kv/cache/keys/k", header: key, status: 403})
	return all
}

// quotaOps are operations that together are above the quota of ana's namespace.
func quotaOps() string {
	text := ""
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		text += `{"op":"set","key":"` + name + `","value":"` + strings.Repeat("v", 1000) + `"},`
	}
	return text
}
