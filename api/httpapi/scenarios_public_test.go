package httpapi_test

import (
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// publicScenarios returns the scenarios of every public route, by operation.
func publicScenarios(t testing.TB) map[string][]scenario {
	t.Helper()
	photo := picture(t, 7)
	form, formType := nodetest.Form(t, "story", `{"audience":"everyone","caption":"boat"}`, "media", photo, "media", picture(t, 8))
	bare, bareType := nodetest.Form(t, "media", photo)
	eleven := []string{"story", "{}"}
	for range 11 {
		eleven = append(eleven, "media", photo)
	}
	tooMany, tooManyType := nodetest.Form(t, eleven...)
	badFields, badFieldsType := nodetest.Form(t, "story", `{"colour":"red"}`, "media", photo)
	badOrder, badOrderType := nodetest.Form(t, "media", photo, "story", "{}")
	noMedia, noMediaType := nodetest.Form(t, "story", "{}")
	empty, emptyType := nodetest.Form(t, "story", "{}", "media", "")
	text, textType := nodetest.Form(t, "story", "{}", "media", "just text")
	hugeOverlays, hugeOverlaysType := nodetest.Form(t, "story", `{"overlays":[{"kind":"text","x":0,"y":0,"text":"`+strings.Repeat("a", 1<<20)+`"}]}`, "media", photo)
	badOverlay, badOverlayType := nodetest.Form(t, "story", `{"overlays":[{"kind":"laser","x":0,"y":0}]}`, "media", photo)
	item := func(method, path string, more ...scenario) []scenario {
		return append([]scenario{
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "nonsense", 1), status: 400, has: []string{`"code":"invalid"`, "hint"}},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{never}", 1), status: 404, has: []string{`"code":"not_found"`}},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{past}", 1), status: 410, has: []string{`"code":"gone"`}},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{deleted}", 1), status: 404},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{held}", 1), status: 404},
			{as: "ana", method: method, path: strings.Replace(path, "{id}", "{held}", 1), status: 404},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{ended}", 1), status: 410},
			{as: "stranger", method: method, path: strings.Replace(path, "{id}", "{followers}", 1), status: 404},
			{as: "blocked", method: method, path: strings.Replace(path, "{id}", "{followers}", 1), status: 404},
			{as: "service:stranger", method: method, path: strings.Replace(path, "{id}", "{followers}", 1), status: 404},
			{as: "ben", method: method, path: strings.Replace(path, "{id}", "{friends}", 1), status: 404},
		}, more...)
	}
	list := func(path, name string) (rows []scenario) {
		return []scenario{
			{as: "ana", method: "GET", path: path, status: 200, has: []string{`"users":["`}},
			{as: "ben", method: "GET", path: path, status: 200, has: []string{`"users":[]`}},
			{as: "anonymous", method: "GET", path: path, status: 401, has: []string{"Bearer"}},
			{as: "service", method: "GET", path: path, status: 403, has: []string{"Mayfly-User"}},
			{as: "service:ana", method: "GET", path: path + "?limit=1", status: 200, has: []string{nodetest.User(name).String()}},
			{as: "ana", method: "GET", path: path + "?limit=0", status: 400},
			{as: "ana", method: "GET", path: path + "?cursor=nonsense!", status: 400},
		}
	}
	change := func(method, path string) []scenario {
		return []scenario{
			{as: "ana", method: method, path: path + "/~stranger", status: 204},
			{as: "ana", method: method, path: path + "/~stranger", status: 204},
			{as: "ana", method: method, path: path + "/unknown", status: 400, has: []string{"~"}},
			{as: "ana", method: method, path: path + "/~ana", status: 400},
			{as: "anonymous", method: method, path: path + "/~stranger", status: 401},
			{as: "admin", method: method, path: path + "/~stranger", status: 403},
		}
	}
	among := func(rows []scenario, from, to int) []scenario {
		for i := range rows {
			if rows[i].status == from {
				rows[i].status = to
			}
		}
		return rows
	}
	shownLists := func(list, has string) []scenario {
		one := []string{`"users":[`}
		if has != "" {
			one = append(one, nodetest.User(has).String())
		}
		return []scenario{
			{as: "anonymous", method: "GET", path: "/v1/users/~ana/" + list, status: 200, has: one},
			{as: "blocked", method: "GET", path: "/v1/users/~ana/" + list, status: 404},
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200},
			{as: "anonymous", method: "GET", path: "/v1/users/~ana/" + list, status: 404},
			{as: "stranger", method: "GET", path: "/v1/users/~ana/" + list, status: 404},
			{as: "ben", method: "GET", path: "/v1/users/~ana/" + list, status: 200, has: one},
			{as: "ana", method: "GET", path: "/v1/users/~ana/" + list, status: 200, has: one},
			{as: "ana", method: "GET", path: "/v1/users/~ana/" + list + "?cursor=nonsense!", status: 400},
		}
	}
	follower := func(method string) []scenario {
		return []scenario{
			{as: "service", method: method, path: "/v1/users/~ana/followers/~stranger", status: 204},
			{as: "ana", method: method, path: "/v1/users/~ana/followers/~stranger", status: 403, has: []string{"service"}},
			{as: "anonymous", method: method, path: "/v1/users/~ana/followers/~stranger", status: 401},
			{as: "service", method: method, path: "/v1/users/~ana/followers/~ana", status: 400},
			{as: "service", method: method, path: "/v1/users/x/followers/~ana", status: 400},
		}
	}
	return map[string][]scenario{
		"getToken": {
			{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`, status: 200, has: []string{`"expires_in":900`, `"refresh_token":"`, "{ana}"}},
			{as: "anonymous", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`, status: 401},
			{as: "ana", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`, status: 403},
			{as: "service:ana", method: "POST", path: "/v1/token", body: `{"user":"~ben"}`, status: 403},
			{as: "service", method: "POST", path: "/v1/token", body: `{}`, status: 400},
			{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana","refresh_token":"x"}`, status: 400},
			{as: "anonymous", method: "POST", path: "/v1/token", body: `{"refresh_token":"forged"}`, status: 401},
			{as: "anonymous", method: "POST", path: "/v1/token", body: `{"refresh`, status: 400},
			{as: "anonymous", method: "POST", path: "/v1/token", typ: "text/plain", body: `{}`, status: 415},
			{as: "anonymous", method: "POST", path: "/v1/token", body: `{"refresh_token":"` + strings.Repeat("x", 20<<10) + `"}`, status: 413},
		},
		"revokeToken": {
			{as: "anonymous", method: "POST", path: "/v1/token/revoke", body: `{"refresh_token":"forged"}`, status: 204},
			{as: "anonymous", method: "POST", path: "/v1/token/revoke", body: `{"access_token":"forged"}`, status: 204},
			{as: "stranger", method: "POST", path: "/v1/token/revoke", body: `{"access_token":"{token}"}`, status: 204},
			{as: "stranger", method: "POST", path: "/v1/token/revoke", body: `{"access_token":"{token}"}`, status: 401, has: []string{"the token was revoked"}},
			{as: "anonymous", method: "POST", path: "/v1/token/revoke", body: `{"refresh_token":"forged","access_token":"{token}"}`, status: 204},
			{as: "anonymous", method: "POST", path: "/v1/token/revoke", body: `{}`, status: 400},
			{as: "anonymous", method: "POST", path: "/v1/token/revoke", typ: "text/plain", body: `{}`, status: 415},
		},
		"preflight": {
			{as: "ana", method: "GET", path: "/v1/me/preflight", status: 200, has: []string{`"may_publish":true`, `"live":3`, `"live_limit":100`, "image/webp"}},
			{as: "anonymous", method: "GET", path: "/v1/me/preflight", status: 401},
			{as: "moderator", method: "GET", path: "/v1/me/preflight", status: 403},
		},
		"reserveUpload": {
			{as: "ana", method: "POST", path: "/v1/uploads", body: announced(2), status: 201, has: []string{`"put":[{"method":"PUT","url":"/v1/uploads/`}},
			{as: "ana", method: "POST", path: "/v1/uploads", body: announced(11), status: 400},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[]}`, status: 400},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":"two"}`, status: 400, has: []string{"media"}},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[{"length":"long"}]}`, status: 400, has: []string{"media.length"}},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[{}]}`, status: 400, has: []string{"a length of 0 bytes"}},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[{"length":1,"Length":2}]}`, status: 400, has: []string{"unknown field"}},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[{"length":99999999999}]}`, status: 413},
			{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":[{"type":"image/tiff","length":1}]}`, status: 415},
			{as: "ana", method: "POST", path: "/v1/uploads", typ: "application/json", body: `[1]`, status: 400},
			{as: "anonymous", method: "POST", path: "/v1/uploads", body: announced(2), status: 401},
		},
		"getUpload": {
			{as: "ana", method: "GET", path: "/v1/uploads/{upload}", status: 200, has: []string{`"done":false`}},
			{as: "ben", method: "GET", path: "/v1/uploads/{upload}", status: 404},
			{as: "ana", method: "GET", path: "/v1/uploads/nonsense", status: 400},
			{as: "ana", method: "GET", path: "/v1/uploads/{never}", status: 404},
		},
		"putMedium": {
			{as: "ben", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 1), status: 404},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: string(fixture.Padded([]byte("text that is no picture"))), status: 415},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 1) + "x", status: 400, has: []string{"more bytes than the 4096"}},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 1)[:4000], status: 400},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 1), status: 201, has: []string{`"width":64`}},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 1), status: 201, has: []string{`"width":64`}},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/7", typ: "image/jpeg", body: padded(t, 1), status: 404},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/01", typ: "image/jpeg", body: padded(t, 1), status: 400},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/0", typ: "image/jpeg", body: padded(t, 9), status: 409},
			{as: "ana", method: "POST", path: "/v1/stories", body: `{"upload":"{upload}"}`, status: 409},
			{as: "ana", method: "PUT", path: "/v1/uploads/{upload}/1", typ: "image/jpeg", body: padded(t, 1), status: 201},
			{as: "ben", method: "POST", path: "/v1/stories", body: `{"upload":"{upload}"}`, status: 404},
			{as: "ana", method: "POST", path: "/v1/stories", body: `{"upload":"{upload}","audience":"everyone"}`, status: 201, has: []string{`"media":[{`}},
		},
		"publishStory": {
			{as: "ana", method: "POST", path: "/v1/stories", typ: formType, body: form, status: 201, has: []string{`"caption":"boat"`, "Location", `"tier":"hot"`, `"state":"active"`}},
			{as: "ana", method: "POST", path: "/v1/stories", typ: bareType, body: bare, status: 201, has: []string{`"audience":"followers"`, `"lifetime":"24h"`}},
			{as: "service:ben", method: "POST", path: "/v1/stories", typ: bareType, body: bare, status: 201, has: []string{nodetest.User("ben").String()}},
			{as: "ana", method: "POST", path: "/v1/stories?audience=everyone&lifetime=6h&caption=sea", typ: "image/jpeg", body: photo, status: 201, has: []string{`"caption":"sea"`, `"lifetime":"6h"`}},
			{as: "ana", method: "POST", path: "/v1/stories?colour=red", typ: "image/jpeg", body: photo, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories?audience=unknown", typ: "image/jpeg", body: photo, status: 400, has: []string{"close_friends"}},
			{as: "ana", method: "POST", path: "/v1/stories?lifetime=7h", typ: "image/jpeg", body: photo, status: 400, has: []string{"24h"}},
			{as: "ana", method: "POST", path: "/v1/stories", typ: "image/jpeg", body: photo[:len(photo)/2], status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: formType, body: form[:len(form)-300], status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: "multipart/form-data", body: form, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: tooManyType, body: tooMany, status: 400, has: []string{"10"}},
			{as: "ana", method: "POST", path: "/v1/stories", typ: badFieldsType, body: badFields, status: 400, has: []string{"colour"}},
			{as: "ana", method: "POST", path: "/v1/stories", typ: badOrderType, body: badOrder, status: 400, has: []string{"first"}},
			{as: "ana", method: "POST", path: "/v1/stories", typ: noMediaType, body: noMedia, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: emptyType, body: empty, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: textType, body: text, status: 415},
			{as: "ana", method: "POST", path: "/v1/stories", typ: hugeOverlaysType, body: hugeOverlays, status: 413},
			{as: "ana", method: "POST", path: "/v1/stories", typ: badOverlayType, body: badOverlay, status: 400, has: []string{"hashtag"}},
			{as: "ana", method: "POST", path: "/v1/stories", body: `{"caption":"nothing"}`, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", body: `{"upload":"{never}"}`, status: 404},
			{as: "ana", method: "POST", path: "/v1/stories", body: `{"upload":"x"}`, status: 400},
			{as: "ana", method: "POST", path: "/v1/stories", typ: "text/html", body: "<p>", status: 415},
			{as: "ana", method: "POST", path: "/v1/stories", typ: "image/heic", body: "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", status: 415, has: []string{"hint"}},
			{as: "anonymous", method: "POST", path: "/v1/stories", typ: formType, body: form, status: 401},
			{as: "service", method: "POST", path: "/v1/stories", typ: formType, body: form, status: 403},
			{as: "ana", method: "POST", path: "/v1/stories", typ: bareType, body: bare, header: map[string]string{"Idempotency-Key": "k1"}, status: 201},
			{as: "ana", method: "POST", path: "/v1/stories", typ: bareType, body: bare, header: map[string]string{"Idempotency-Key": "k1"}, status: 200},
			{as: "ana", method: "POST", path: "/v1/stories", typ: formType, body: form, header: map[string]string{"Idempotency-Key": "k1"}, status: 409},
			{as: "ana", method: "POST", path: "/v1/stories", typ: bareType, body: bare, header: map[string]string{"Idempotency-Key": strings.Repeat("k", 256)}, status: 400},
		},
		"openStory": item("GET", "/v1/stories/{id}",
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{all}", status: 200, has: []string{`"caption":"to all"`, `"kind":"text"`, "no-store"}, hasNot: []string{`"tier"`, `"state"`}},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{short}", status: 200, has: []string{"{all}"}},
			scenario{as: "ben", method: "GET", path: "/v1/stories/{followers}", status: 200},
			scenario{as: "service:ben", method: "GET", path: "/v1/stories/{followers}", status: 200},
			scenario{as: "service", method: "GET", path: "/v1/stories/{followers}", status: 404},
			scenario{as: "admin", method: "GET", path: "/v1/stories/{followers}", status: 404},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{followers}", status: 404},
			scenario{as: "blocked", method: "GET", path: "/v1/stories/{all}", status: 404},
			scenario{as: "friend", method: "GET", path: "/v1/stories/{friends}", status: 200},
			scenario{as: "moderator", method: "GET", path: "/v1/stories/{held}", status: 200, has: []string{`"held":true`}},
			scenario{as: "moderator", method: "GET", path: "/v1/stories/{ended}", status: 200},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{ended}", status: 200, has: []string{`"state":"sweep_pending"`, `"tier":"hot"`}},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{all}", header: map[string]string{"Mayfly-User": "~ben"}, status: 403},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{all}", header: map[string]string{"Mayfly-User": "~ben"}, status: 401},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{all}", header: map[string]string{"Authorization": "Bearer x.y.z"}, status: 401, has: []string{"invalid_token"}},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{all}", header: map[string]string{"Authorization": "Basic eDp5"}, status: 401},
		),
		"deleteStory": item("DELETE", "/v1/stories/{id}",
			scenario{as: "ben", method: "DELETE", path: "/v1/stories/{all}", status: 404},
			scenario{as: "anonymous", method: "DELETE", path: "/v1/stories/{all}", status: 401},
			scenario{as: "ana", method: "DELETE", path: "/v1/stories/{all}", status: 204},
			scenario{as: "ana", method: "DELETE", path: "/v1/stories/{all}", status: 204},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{all}", status: 404},
			scenario{as: "anonymous", method: "GET", path: "{url}", status: 404},
			scenario{as: "ana", method: "DELETE", path: "/v1/stories/{ended}", status: 204},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{ended}", status: 410},
		),
		"viewStory": item("POST", "/v1/stories/{id}/view",
			scenario{as: "ben", method: "POST", path: "/v1/stories/{followers}/view", status: 204},
			scenario{as: "ben", method: "POST", path: "/v1/stories/{followers}/view", status: 204},
			scenario{as: "anonymous", method: "POST", path: "/v1/stories/{all}/view", status: 401},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{followers}/viewers", status: 200, has: []string{`"count":1`, nodetest.User("ben").String()}},
			scenario{as: "ben", method: "GET", path: "/v1/users/~ana/ring", status: 200, has: []string{`"seen":true`, `"seen":false`}},
		),
		"listViewers": item("GET", "/v1/stories/{id}/viewers",
			scenario{as: "ben", method: "GET", path: "/v1/stories/{all}/viewers", status: 404},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{all}/viewers", status: 200, has: []string{`"count":0`, `"viewers":[]`}},
			scenario{as: "moderator", method: "GET", path: "/v1/stories/{all}/viewers", status: 200},
			scenario{as: "ana", method: "GET", path: "/v1/stories/{all}/viewers?cursor=x", status: 400},
			scenario{as: "anonymous", method: "GET", path: "/v1/stories/{all}/viewers", status: 401},
		),
		"reshareStory": item("POST", "/v1/stories/{id}/reshare",
			scenario{as: "ben", method: "POST", path: "/v1/stories/{all}/reshare", status: 404},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", status: 201, has: []string{`"caption":"ended"`, `"state":"active"`}},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", body: `{"caption":"again","audience":"followers"}`, header: map[string]string{"Idempotency-Key": "r"}, status: 201, has: []string{`"caption":"again"`}},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", body: `{"caption":"again","audience":"followers"}`, header: map[string]string{"Idempotency-Key": "r"}, status: 200},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", body: `{"colour":1}`, status: 400},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", typ: "text/plain", body: `{}`, status: 415},
			scenario{as: "ana", method: "POST", path: "/v1/stories/{ended}/reshare", body: `{"lifetime":"1y"}`, status: 400},
		),
		"getRing": {
			{as: "anonymous", method: "GET", path: "/v1/users/~ana/ring", status: 200, has: []string{"{all}"}, hasNot: []string{"{followers}", "{friends}", "{ended}", "{held}", "{deleted}", `"seen"`}},
			{as: "ben", method: "GET", path: "/v1/users/{ana}/ring", status: 200, has: []string{"{all}", "{followers}", `"seen":false`}, hasNot: []string{"{friends}"}},
			{as: "friend", method: "GET", path: "/v1/users/~ana/ring", status: 200, has: []string{"{friends}"}, hasNot: []string{"{followers}"}},
			{as: "blocked", method: "GET", path: "/v1/users/~ana/ring", status: 200, has: []string{`"stories":[]`}},
			{as: "ana", method: "GET", path: "/v1/users/~unknown/ring", status: 200, has: []string{`"stories":[]`}},
			{as: "ana", method: "GET", path: "/v1/users/unknown/ring", status: 400},
		},
		"getTray": {
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"user":"{ana}"`, "Accept-Encoding"}, hasNot: []string{"{friends}", "{held}", `"seen"`, "partial"}},
			{as: "service:ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{"{ana}"}},
			{as: "ben", method: "GET", path: "/v1/me/tray", header: map[string]string{"If-None-Match": "*"}, status: 304},
			{as: "ana", method: "DELETE", path: "/v1/stories/{all}", status: 204},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"newest":"{followers}"`}, hasNot: []string{`"seen"`}},
			{as: "ben", method: "POST", path: "/v1/stories/{followers}/view", status: 204},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"newest":"{followers}","seen":"{followers}"`}},
			{as: "friend", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}}, // who does not follow
			{as: "friend", method: "PUT", path: "/v1/me/following/~ana", status: 200},
			{as: "friend", method: "GET", path: "/v1/me/tray", status: 200, has: []string{"{ana}"}},
			{as: "ana", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}}, // own stories
			{as: "blocked", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}},
			{as: "anonymous", method: "GET", path: "/v1/me/tray", status: 401, has: []string{"Bearer"}},
			{as: "service", method: "GET", path: "/v1/me/tray", status: 403, has: []string{"Mayfly-User"}},
			{as: "admin", method: "GET", path: "/v1/me/tray", status: 403},
			{as: "ben", method: "PUT", path: "/v1/me/mutes/~ana", body: `{"reposts":true}`, status: 204},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{"{ana}"}},
			{as: "ben", method: "PUT", path: "/v1/me/mutes/~ana", body: `{"posts":true}`, status: 204},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}},
			{as: "ben", method: "DELETE", path: "/v1/me/mutes/~ana", status: 204},
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{"{ana}"}},
			{as: "stranger", method: "PUT", path: "/v1/me/following/~ana", status: 200, has: []string{"requested"}},
			{as: "stranger", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}},
			{as: "ben", method: "DELETE", path: "/v1/me/following/~ana", status: 204},
			{as: "ben", method: "GET", path: "/v1/me/tray", status: 200, has: []string{`"slots":[]`}},
		},
		"listArchive": {
			{as: "ana", method: "GET", path: "/v1/me/archive", status: 200, has: []string{"{ended}", `"tier":"hot"`}, hasNot: []string{"{all}", "{held}"}},
			{as: "ana", method: "GET", path: "/v1/me/archive?day=2027-01-15", status: 200, has: []string{"{ended}"}},
			{as: "ana", method: "GET", path: "/v1/me/archive?day=2027-01-16", status: 200, has: []string{`"stories":[]`}},
			{as: "ana", method: "GET", path: "/v1/me/archive?from=2027-01-15T00:00:00Z&to=2027-01-15T23:00:00Z&limit=1", status: 200, has: []string{"{ended}"}},
			{as: "ana", method: "GET", path: "/v1/me/archive?day=today", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?day=2027-01-15&from=2027-01-15T00:00:00Z", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?from=2027-01-16T00:00:00Z&to=2027-01-15T00:00:00Z", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?cursor=x", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?to=", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?day=", status: 400},
			{as: "ana", method: "GET", path: "/v1/me/archive?limit=", status: 400},
			{as: "ben", method: "GET", path: "/v1/me/archive", status: 200, has: []string{`"stories":[]`}},
			{as: "anonymous", method: "GET", path: "/v1/me/archive", status: 401},
		},
		"getMedium": {
			{as: "anonymous", method: "GET", path: "{url}", status: 200, has: []string{"public, max-age=", "s-maxage=", "sandbox", "nosniff", "image/jpeg"}},
			{as: "anonymous", method: "GET", path: "{url-ben}", status: 200, has: []string{"no-store"}},
			{as: "anonymous", method: "GET", path: "{small}", status: 200, has: []string{"image/jpeg"}},
			{as: "anonymous", method: "GET", path: "{url-ended}", status: 200, has: []string{"no-store"}},
			{as: "anonymous", method: "GET", path: "/v1/media/{all}/0", status: 404},
			{as: "ben", method: "GET", path: "/v1/media/{all}/0", status: 200, has: []string{"no-store"}},
			{as: "ben", method: "GET", path: "/v1/media/{followers}/0-1080", status: 200},
			{as: "stranger", method: "GET", path: "/v1/media/{followers}/0", status: 404},
			{as: "ben", method: "GET", path: "/v1/media/{followers}/1", status: 404},
			{as: "ben", method: "GET", path: "/v1/media/{followers}/0-999", status: 404},
			{as: "ben", method: "GET", path: "/v1/media/{ended}/0", status: 410},
			{as: "ana", method: "GET", path: "/v1/media/{ended}/0", status: 200},
			{as: "ana", method: "GET", path: "/v1/media/{held}/0", status: 404},
			{as: "moderator", method: "GET", path: "/v1/media/{held}/0", status: 200},
			{as: "anonymous", method: "GET", path: "{url}x", status: 404},
			{as: "anonymous", method: "GET", path: "/v1/media/{past}/0?sig=x&until=9", status: 410},
			{as: "ben", method: "GET", path: "/v1/media/nonsense/0", status: 400},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"Range": "bytes=0-9"}, status: 206, has: []string{"bytes 0-9/", "Content-Length:[10]"}},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"Range": "bytes=-5"}, status: 206, has: []string{"Content-Length:[5]"}},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"Range": "bytes=99999999-"}, status: 416, has: []string{"bytes */"}},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"Range": "bytes=0-9", "If-Range": `"other"`}, status: 200},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"Range": "bytes=0-1,3-4"}, status: 200},
			{as: "anonymous", method: "GET", path: "{url}", header: map[string]string{"If-None-Match": "*"}, status: 304},
		},
		"headMedium": {
			{as: "anonymous", method: "HEAD", path: "{url}", status: 200, has: []string{"Content-Length", "Etag"}},
			{as: "anonymous", method: "HEAD", path: "/v1/media/{all}/0", status: 404},
			{as: "ben", method: "HEAD", path: "/v1/media/{ended}/0", status: 410},
			{as: "ben", method: "HEAD", path: "/v1/media/{followers}/0", header: map[string]string{"Range": "bytes=0-9"}, status: 206, has: []string{"Content-Length:[10]"}},
		},
		"listCloseFriends":  list("/v1/me/close-friends", "friend"),
		"addCloseFriend":    append(change("PUT", "/v1/me/close-friends"), scenario{as: "stranger", method: "GET", path: "/v1/stories/{friends}", status: 200}),
		"removeCloseFriend": append(change("DELETE", "/v1/me/close-friends"), scenario{as: "ana", method: "DELETE", path: "/v1/me/close-friends/~friend", status: 204}, scenario{as: "friend", method: "GET", path: "/v1/stories/{friends}", status: 404}),
		"listBlocks":        list("/v1/me/blocks", "blocked"),
		"addBlock":          append(change("PUT", "/v1/me/blocks"), scenario{as: "ana", method: "PUT", path: "/v1/me/blocks/~ben", status: 204}, scenario{as: "anonymous", method: "GET", path: "{url-ben}", status: 404}),
		"removeBlock":       append(change("DELETE", "/v1/me/blocks"), scenario{as: "ana", method: "DELETE", path: "/v1/me/blocks/~blocked", status: 204}, scenario{as: "blocked", method: "GET", path: "/v1/stories/{all}", status: 200}, scenario{as: "blocked", method: "GET", path: "/v1/stories/{followers}", status: 404}),
		"follow": append(among(change("PUT", "/v1/me/following"), 204, 200), []scenario{
			{as: "ben", method: "PUT", path: "/v1/me/following/~ana", status: 200, has: []string{`"state":"following"`}},
			{as: "blocked", method: "PUT", path: "/v1/me/following/~ana", status: 200, has: []string{`"state":"following"`}}, // like a user who never was
			{as: "blocked", method: "GET", path: "/v1/me/following", status: 200, has: []string{`"users":[]`}},
			{as: "ana", method: "PUT", path: "/v1/me/following/~blocked", status: 409, has: []string{"unblock"}},
			{as: "ana", method: "PUT", path: "/v1/me/following/@no_user", status: 404},
			{as: "stranger", method: "PUT", path: "/v1/me/following/~ana", status: 200},
			{as: "stranger", method: "GET", path: "/v1/stories/{followers}", status: 200},
		}...),
		"unfollow": append(change("DELETE", "/v1/me/following"), scenario{as: "ben", method: "DELETE", path: "/v1/me/following/~ana", status: 204}, scenario{as: "ben", method: "GET", path: "/v1/stories/{followers}", status: 404}),
		"listMyFollowing": {
			{as: "ben", method: "GET", path: "/v1/me/following", status: 200, has: []string{"{ana}"}},
			{as: "ana", method: "GET", path: "/v1/me/following", status: 200, has: []string{`"users":[]`}},
			{as: "anonymous", method: "GET", path: "/v1/me/following", status: 401},
			{as: "ben", method: "GET", path: "/v1/me/following?cursor=nonsense!", status: 400},
		},
		"dropFollower": append(change("DELETE", "/v1/me/followers"), scenario{as: "ana", method: "DELETE", path: "/v1/me/followers/~ben", status: 204}, scenario{as: "ben", method: "GET", path: "/v1/stories/{followers}", status: 404}),
		"listFollowRequests": {
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200},
			{as: "stranger", method: "PUT", path: "/v1/me/following/~ana", status: 200, has: []string{`"state":"requested"`}},
			{as: "ana", method: "GET", path: "/v1/me/follow-requests", status: 200, has: []string{"{stranger}"}},
			{as: "ben", method: "GET", path: "/v1/me/follow-requests", status: 200, has: []string{`"users":[]`}},
			{as: "anonymous", method: "GET", path: "/v1/me/follow-requests", status: 401},
		},
		"acceptFollowRequest": {
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200},
			{as: "stranger", method: "PUT", path: "/v1/me/following/~ana", status: 200, has: []string{`"state":"requested"`}},
			{as: "stranger", method: "GET", path: "/v1/stories/{followers}", status: 404},
			{as: "ana", method: "POST", path: "/v1/me/follow-requests/~friend", status: 404},
			{as: "ana", method: "POST", path: "/v1/me/follow-requests/~stranger", status: 204},
			{as: "stranger", method: "GET", path: "/v1/stories/{followers}", status: 200},
			{as: "anonymous", method: "POST", path: "/v1/me/follow-requests/~stranger", status: 401},
		},
		"declineFollowRequest": change("DELETE", "/v1/me/follow-requests"),
		"listMutes": {
			{as: "ben", method: "PUT", path: "/v1/me/mutes/~ana", body: `{"posts":false,"reposts":true}`, status: 204},
			{as: "ben", method: "GET", path: "/v1/me/mutes", status: 200, has: []string{`"posts":false,"reposts":true`, "{ana}"}},
			{as: "anonymous", method: "GET", path: "/v1/me/mutes", status: 401},
		},
		"mute":   append(change("PUT", "/v1/me/mutes"), scenario{as: "ana", method: "PUT", path: "/v1/me/mutes/~ben", body: `{"posts":false}`, status: 204}),
		"unmute": change("DELETE", "/v1/me/mutes"),
		"getMyProfile": {
			{as: "ana", method: "GET", path: "/v1/me/profile", status: 200, has: []string{"{ana}"}},
			{as: "anonymous", method: "GET", path: "/v1/me/profile", status: 401},
		},
		"changeMyProfile": {
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"handle":"ana_1","display_name":"Ana"}`, status: 200, has: []string{`"handle":"ana_1"`}},
			{as: "ben", method: "PATCH", path: "/v1/me/profile", body: `{"handle":"ana_1"}`, status: 409, has: []string{"taken"}},
			{as: "ben", method: "PATCH", path: "/v1/me/profile", body: `{"handle":"admin"}`, status: 409, has: []string{"reserved"}},
			{as: "ben", method: "PATCH", path: "/v1/me/profile", body: `{"handle":"Ben"}`, status: 400},
			{as: "ben", method: "PATCH", path: "/v1/me/profile", body: `{"avatar":"http://example.com/"}`, status: 400},
			{as: "anonymous", method: "PATCH", path: "/v1/me/profile", body: `{}`, status: 401},
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200, has: []string{`"private":true`}},
			{as: "anonymous", method: "GET", path: "/v1/stories/{all}", status: 404},
			{as: "stranger", method: "GET", path: "/v1/stories/{all}", status: 404},
			{as: "ben", method: "GET", path: "/v1/stories/{all}", status: 200, hasNot: []string{"public"}},
			{as: "ana", method: "GET", path: "/v1/stories/{all}", status: 200},
			{as: "anonymous", method: "GET", path: "/v1/users/~ana/ring", status: 200, hasNot: []string{"{all}"}},
			{as: "anonymous", method: "GET", path: "{url}", status: 404},
		},
		"setMyAvatar": {
			{as: "ana", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: padded(t, 1), status: 200, has: []string{`"avatar":"`, "/v1/users/{ana}/avatar/"}},
			{as: "ana", method: "GET", path: "/v1/me/profile", status: 200, has: []string{"/avatar/"}},
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"avatar":""}`, status: 200, hasNot: []string{"/avatar/"}},
			{as: "ana", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: "no picture", status: 415, has: []string{"send image/jpeg"}},
			{as: "ana", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: padded(t, 1)[:100], status: 400},
			{as: "ana", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: strings.Repeat("x", 5<<20+1), status: 413},
			{as: "anonymous", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: padded(t, 1), status: 401},
			{as: "service", method: "PUT", path: "/v1/me/avatar", typ: "image/jpeg", body: padded(t, 1), status: 403},
		},
		"getAvatar": {
			{as: "anonymous", method: "GET", path: "{avatar}", status: 200, has: []string{"image/jpeg", "s-maxage=3600"}},
			{as: "blocked", method: "GET", path: "{avatar}", status: 200, has: []string{"image/jpeg"}},
			{as: "friend", method: "PUT", path: "/v1/me/blocks/~blocked", status: 204},
			{as: "blocked", method: "GET", path: "{avatar}", status: 404, has: []string{"no-store"}},
			{as: "stranger", method: "GET", path: "{avatar}", status: 200},
			{as: "anonymous", method: "GET", path: "/v1/users/~ben/avatar/{all}", status: 404},
			{as: "anonymous", method: "GET", path: "/v1/users/~friend/avatar/{all}", status: 404},
			{as: "anonymous", method: "GET", path: "/v1/users/~friend/avatar/x", status: 400},
			{as: "friend", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200, has: []string{"/avatar/"}},
			{as: "anonymous", method: "GET", path: "{avatar}", status: 200},
			{as: "friend", method: "PATCH", path: "/v1/me/profile", body: `{"avatar":"https://example.com/a.jpg"}`, status: 200, hasNot: []string{"/avatar/"}},
			{as: "anonymous", method: "GET", path: "{avatar}", status: 404},
		},
		"getUser": {
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"handle":"ana_1","private":true}`, status: 200},
			{as: "anonymous", method: "GET", path: "/v1/users/@ana_1", status: 200, has: []string{"{ana}", `"private":true`}},
			{as: "stranger", method: "GET", path: "/v1/users/{ana}", status: 200, has: []string{"ana_1"}},
			{as: "blocked", method: "GET", path: "/v1/users/{ana}", status: 404},
			{as: "blocked", method: "GET", path: "/v1/users/@ana_1", status: 404},
			{as: "anonymous", method: "GET", path: "/v1/users/@no_user", status: 404},
			{as: "anonymous", method: "GET", path: "/v1/users/x", status: 400},
		},
		"listFollowers":  shownLists("followers", "ben"),
		"listFollowing":  shownLists("following", ""),
		"addFollower":    append(follower("PUT"), scenario{as: "stranger", method: "GET", path: "/v1/stories/{followers}", status: 200}),
		"removeFollower": append(follower("DELETE"), scenario{as: "service", method: "DELETE", path: "/v1/users/~ana/followers/~ben", status: 204}, scenario{as: "ben", method: "GET", path: "/v1/stories/{followers}", status: 404}, scenario{as: "anonymous", method: "GET", path: "{url-ben}", status: 404}),
		"getReadiness": {
			{as: "anonymous", method: "GET", path: "/readyz", status: 200, has: []string{`{"ready":true}`, "no-store"}, hasNot: []string{"version", "roles", "Retry-After"}},
			{as: "ana", method: "GET", path: "/readyz", status: 200, has: []string{`{"ready":true}`}},
			{as: "anonymous", method: "GET", path: "/readyz?role=walk", status: 200, has: []string{`{"ready":true}`}, hasNot: []string{"walk"}},
			{as: "anonymous", method: "POST", path: "/readyz", status: 405},
		},
		"headReadiness": {{as: "anonymous", method: "HEAD", path: "/readyz", status: 200, has: []string{"no-store"}, hasNot: []string{`{"ready"`}}},
		"getDocument":   {{as: "anonymous", method: "GET", path: "/openapi.json", status: 200, has: []string{`"openapi": "3.1.0"`}}},
		"readDocs":      {{as: "anonymous", method: "GET", path: "/docs/api", status: 200, has: []string{"publishStory", "curl", "style-src &#39;"[:9]}, hasNot: []string{"<script"}}},
	}
}
