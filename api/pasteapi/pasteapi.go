// Package pasteapi serves pastes over HTTP: routes for curl and programs, and
// pages for people.
//
// It decides nothing about visibility: every paste comes from product/paste, which
// asks the gate. A page is made from one template, one style and one script, all of
// them ours and inside the page: its Content-Security-Policy permits these by their
// hashes and nothing else, so that nothing which a paste contains can run or be
// loaded. Every page works without the script and sets no cookie.
package pasteapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/paste"
)

// Product is the name of the product in metrics.
const Product = "paste"

// Options are the settings of the routes. Pastes is required.
type Options struct {
	Pastes *paste.Pastes
	Host   string       // the host name of pastes; empty: that of the API
	Rate   account.Rate // how many pastes a user, or an address without one, may create
	Bytes  account.Rate // how many bytes they may send
	Cache  int64        // bytes of rendered pages that are kept in memory; 0: none
}

// handlers are the handlers of the routes.
type handlers struct {
	o      Options
	pastes *paste.Pastes
	rules  paste.Rules
	pages  *pages
	cache  *renderedCache
	right  rightPasswords
}

// API is the routes of pastes, and the pages that they keep in memory.
type API struct {
	Routes []httpapi.Route
	h      *handlers
}

// DropEnded forgets what is in memory of pastes that have ended.
func (a *API) DropEnded(now mayfly.Instant) {
	a.h.cache.drop(now)
	a.h.right.drop(now)
}

// CachedBytes returns about how many bytes of rendered pages are in memory.
func (a *API) CachedBytes() uint64 { return a.h.cache.bytes() }

const (
	jsonType = "application/json"
	formType = "multipart/form-data"
	urlType  = "application/x-www-form-urlencoded"
	textType = "text/plain; charset=utf-8"
	htmlType = "text/html; charset=utf-8"

	readBody = 8 << 10  // of a POST that reads: a password
	formRoom = 64 << 10 // around the content of a form

	// maxSharedCache is how long a shared cache may keep a public paste at most (P5).
	maxSharedCache = 300 * time.Second
)

// New returns the routes of pastes.
func New(o Options) (*API, error) {
	if o.Pastes == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "pasteapi: pastes are required")
	}
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	h := &handlers{o: o, pastes: o.Pastes, rules: o.Pastes.Rules(), pages: pages, cache: newRenderedCache(o.Cache), right: newRightPasswords()}
	a := &API{Routes: append(h.createRoutes(), h.readRoutes()...), h: h}
	for i := range a.Routes {
		a.Routes[i].Product, a.Routes[i].Tag, a.Routes[i].SameOrigin = Product, "pastes", true
	}
	return a, nil
}

func (h *handlers) createRoutes() []httpapi.Route {
	refused := []int{http.StatusConflict, http.StatusGone, http.StatusTooManyRequests, http.StatusInsufficientStorage}
	about := "The paste is stored byte for byte, then its URL is the answer, as JSON if the caller accepts that more. The token that deletes it is sent once, in the header Mayfly-Delete-Token and in the JSON. Options are given in the query, as fields of a form or of the JSON, or in headers; the password never in the query."
	made := func(content httpapi.Content) []httpapi.Answer {
		headers := []string{"Location", "Mayfly-Delete-Token", "Mayfly-Expires"}
		return []httpapi.Answer{
			{Status: http.StatusCreated, About: "It is stored, and durable.", Content: content, Headers: headers},
			{Status: http.StatusOK, About: "It was created before, by a request with the same Idempotency-Key.", Content: content, Headers: headers},
		}
	}
	text := httpapi.Content{{Type: "text/plain", Schema: httpapi.Schema{"type": "string"}}}
	either := append(append(text, httpapi.JSONOf[wire.Paste]()...), httpapi.Typed{Type: "text/html", Schema: httpapi.Schema{"type": "string"}})
	bytes := httpapi.Content{{Type: "application/octet-stream"}}
	return []httpapi.Route{
		{
			Method: "GET", Pattern: "/{$}", Host: h.o.Host, ID: "newPastePage", Summary: "The page on which a paste is created",
			Answers: []httpapi.Answer{{Status: http.StatusOK, About: "A page.", Content: httpapi.Content{{Type: "text/html", Schema: httpapi.Schema{"type": "string"}}}}}, Handle: h.newPage,
		},
		{
			Method: "POST", Pattern: "/{$}", Host: h.o.Host, ID: "createPaste", Summary: "Create a paste", About: about, TextFirst: true,
			Params: optionParams(), MaxBody: h.rules.MaxSize + formRoom, Problems: refused,
			Body: append(httpapi.Content{{Type: formType, Schema: httpapi.Schema{
				"type": "object", "properties": httpapi.Schema{"file": httpapi.Schema{"type": "string", "contentMediaType": "application/octet-stream"}, "text": httpapi.Schema{"type": "string"}},
			}}, {Type: urlType, Schema: httpapi.Schema{"type": "object", "properties": httpapi.Schema{"text": httpapi.Schema{"type": "string"}}}}}, bytes...),
			Answers: made(either), Example: `--data-binary @notes.txt`, Handle: h.create,
		},
		{
			Method: "PUT", Pattern: "/{name}", Host: h.o.Host, ID: "putPaste", Summary: "Create a paste from a file", About: about, TextFirst: true,
			Params: append(optionParams(), httpapi.PathParam("name", "The name of the file: its title.", `[^/%\\]{1,200}`)), MaxBody: h.rules.MaxSize, Problems: refused,
			Body: bytes, Answers: made(either), Example: `-T notes.txt`, Handle: h.put,
		},
		{
			Method: "POST", Pattern: "/v1/pastes", ID: "createPasteJSON", Summary: "Create a paste from JSON", About: about,
			Params: optionParams(), MaxBody: min(2*h.rules.MaxSize+formRoom, maxInMemory), Problems: refused,
			Body: httpapi.JSONOf[wire.NewPaste](), Answers: made(httpapi.JSONOf[wire.Paste]()),
			Example: `-H 'Content-Type: application/json' -d '{"content":"hello","lifetime":"2h"}'`, Handle: h.createJSON,
		},
		{
			Method: "GET", Pattern: "/v1/me/pastes", ID: "listPastes", Summary: "List my pastes, newest first", Scopes: []account.Scope{account.User}, Limit: httpapi.ReadLimit,
			Params: httpapi.Paging(), Answers: httpapi.Answers[wire.Pastes](http.StatusOK, "A page of pastes."), Handle: h.list,
		},
	}
}

func (h *handlers) readRoutes() []httpapi.Route {
	absent := []int{http.StatusConflict, http.StatusNotFound, http.StatusGone, http.StatusRequestedRangeNotSatisfiable}
	bytes := httpapi.Content{{Type: "application/octet-stream"}, {Type: "text/plain", Schema: httpapi.Schema{"type": "string"}}}
	for _, typ := range pictureTypes() {
		bytes = append(bytes, httpapi.Typed{Type: typ})
	}
	page := append(append(httpapi.Content{{Type: "text/html", Schema: httpapi.Schema{"type": "string"}}}, httpapi.JSONOf[wire.Paste]()...), bytes...)
	about := "A GET never uses up a read: a paste with limited reads is read by a POST. A caller who may not see the paste gets 404 before its deadline and 410 after it, in the same bytes as for a paste that never existed; only a missing password (401) or a wrong one (403) shows that there is one."
	name := httpapi.PathParam("name", "The id in 22 characters, perhaps with the extension of a language.", `[0-9A-Za-z]{22}(\.[0-9A-Za-z+#-]{1,20})?`)
	password := httpapi.Header("Mayfly-Password", "The password of the paste.")
	served := func(content httpapi.Content) []httpapi.Answer {
		return []httpapi.Answer{
			{Status: http.StatusOK, About: "The paste.", Content: content, Headers: []string{"ETag", "Accept-Ranges", "Cache-Control"}},
			{Status: http.StatusPartialContent, About: "The range that was asked for.", Content: bytes, Headers: []string{"ETag", "Content-Range", "Cache-Control"}},
			{Status: http.StatusNotModified, About: "What you have is current."},
		}
	}
	read := func(pattern, id, summary string, content httpapi.Content, handle func(*httpapi.Call) error) []httpapi.Route {
		get := httpapi.Route{
			Method: "GET", Pattern: pattern, Host: h.o.Host, ID: id, Summary: summary, About: about, TextFirst: true, Limit: httpapi.ReadLimit,
			Params:   []httpapi.Param{name, password, httpapi.Header("Range", "Which bytes, such as bytes=0-1023."), httpapi.IfNoneMatch()},
			Problems: absent, Answers: served(content), Handle: handle,
		}
		post := get
		post.Method, post.ID, post.Summary, post.MaxBody = "POST", id+"Counted", summary+"; uses up one read if they are limited", readBody
		post.Body, post.BodyOptional = httpapi.Content{{Type: urlType, Schema: httpapi.Schema{"type": "object", "properties": httpapi.Schema{"password": httpapi.Schema{"type": "string"}, "as": httpapi.Schema{"type": "string", "enum": []string{"page", "download"}}}}}}, true
		post.Params, post.Answers = []httpapi.Param{name, password}, served(content)[:1]
		return []httpapi.Route{get, get.WithoutBody(id+"Head", summary+", without the bytes"), post}
	}
	token := httpapi.Header("Mayfly-Delete-Token", "The token from the answer to its creation; a user needs none for an own paste.")
	remove := httpapi.Route{
		Method: "DELETE", Pattern: "/{name}", Host: h.o.Host, ID: "deletePaste", Summary: "Delete a paste", TextFirst: true, Limit: httpapi.WriteLimit,
		Params: []httpapi.Param{name, token}, Problems: absent[1:3],
		Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "No route shows it any more."}}, Handle: h.remove,
	}
	removeV1 := remove
	removeV1.Pattern, removeV1.Host, removeV1.ID, removeV1.TextFirst, removeV1.Params = "/v1/pastes/{id}", "", "deletePasteByID", false, []httpapi.Param{token}
	all := read("/{name}", "readPaste", "A page with the paste for browsers, its bytes for programs", page, h.read)
	all = append(all, read("/raw/{name}", "readRaw", "The bytes of a paste", bytes, h.readRaw)...)
	all = append(all, read("/dl/{name}", "downloadPaste", "The bytes of a paste, as a file to save", bytes, h.download)...)
	return append(all, remove, removeV1, httpapi.Route{
		Method: "GET", Pattern: "/v1/pastes/{id}", ID: "describePaste", Summary: "Describe a paste, without its content", Limit: httpapi.ReadLimit,
		Params: []httpapi.Param{password, httpapi.IfNoneMatch()}, Problems: absent[1:3], Answers: httpapi.ConditionalAnswers[wire.Paste]("The paste."), Handle: h.describe,
	})
}

// optionParams describes the options in query and headers.
func optionParams() []httpapi.Param {
	all := []httpapi.Param{httpapi.IdempotencyKey(), httpapi.Header("Mayfly-Password", "Readers must send it.")}
	for _, o := range []struct {
		name, about string
		schema      httpapi.Schema
	}{
		{"lifetime", "How long it is served, such as 10m, 2h, 30d or 1y; never if the operator allows it.", httpapi.Schema{"type": "string", "maxLength": 32}},
		{"burn", "Delete it when it is read for the first time.", httpapi.Schema{"type": "boolean"}},
		{"reads", "Delete it when it has been read so often.", httpapi.Schema{"type": "integer", "minimum": 1, "maximum": paste.MaxReads}},
		{"language", "For highlighting; default: found out.", httpapi.Schema{"type": "string", "maxLength": 32}},
		{"title", "The title; default: the name of the file.", httpapi.Schema{"type": "string", "maxLength": 200}},
		{"private", "Only you may read it.", httpapi.Schema{"type": "boolean"}},
	} {
		all = append(all, httpapi.Query(o.name, o.about, o.schema), httpapi.Header("Mayfly-"+strings.ToUpper(o.name[:1])+o.name[1:], o.about+" The same as "+o.name+" in the query."))
	}
	return all
}
