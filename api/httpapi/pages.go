package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

//go:embed page.css
var pageStyle string

//go:embed page_docs.html
var docsPage string

//go:embed page_home.html
var homePage string

// pageRoutes are what people read: the document, the page that is made from the
// same table, and the front page.
func (a *API) pageRoutes(routes []route) []route {
	html := func(pattern, id, summary string) route {
		return route{
			method: "GET", pattern: pattern, id: id, tag: "pages", summary: summary,
			answers: []reply{{status: http.StatusOK, about: "A page.", content: content{{typ: "text/html", schema: schema{"type": "string"}}}}},
		}
	}
	docs, home := html("/docs/api", "readDocs", "The API for people to read"), html("/{$}", "readHome", "What this is, and what to try")
	document := a.documentRoute("Mayfly", apiAbout, append(routes, docs, home))
	all := append(slices.Clone(routes), document, docs, home)
	docs.do = a.page(docsPage, docsOf(a.o.Public, all))
	home.do = a.page(homePage, map[string]any{"Version": a.o.Version})
	return []route{document, docs, home}
}

const apiAbout = "Stories that stop serving at their deadline, to the millisecond. Errors are application/problem+json with a code for machines and a hint for people. Instants are RFC 3339 in UTC with milliseconds."

// documentRoute is GET /openapi.json of a listener.
func (a *API) documentRoute(title, about string, routes []route) route {
	rt := route{
		method: "GET", pattern: "/openapi.json", id: "getDocument", tag: "pages", summary: "This document",
		answers: []reply{{status: http.StatusOK, about: "OpenAPI 3.1.", content: content{{typ: jsonType, schema: schema{"type": "object"}}}}},
	}
	text, err := document(title, about, a.o.Version, append(slices.Clone(routes), rt))
	rt.do = func(c *call) error {
		if err != nil {
			return err
		}
		c.w.Header().Set("Cache-Control", "public, max-age=300")
		c.sendJSON(http.StatusOK, text)
		return nil
	}
	return rt
}

// page is a page that is written once.
func (a *API) page(text string, data any) func(*call) error {
	var b bytes.Buffer
	t, err := template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(pageStyle) }}).Parse(text) //nolint:gosec // it is ours
	if err == nil {
		err = t.Execute(&b, data)
	}
	sum := sha256.Sum256([]byte(pageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return func(c *call) error {
		if err != nil {
			return fmt.Errorf("page: %w", err)
		}
		h := c.w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(b.Len()))
		c.send(http.StatusOK, b.Bytes())
		return nil
	}
}

// docs is what the page says.
type docs struct {
	Tags     []docTag
	Problems []docProblem
}

type docTag struct {
	Name   string
	Routes []docRoute
}

type docRoute struct {
	Method, Path, ID, Summary, About, Scopes, Curl string
	Params                                         []docParam
	Answers                                        []docAnswer
}

type docParam struct{ In, Name, About string }

type docAnswer struct {
	Status int
	About  string
}

type docProblem struct {
	Status int
	Code   string
	Title  string
}

func docsOf(public string, routes []route) docs {
	var d docs
	for _, rt := range routes {
		at := slices.IndexFunc(d.Tags, func(t docTag) bool { return t.Name == rt.tag })
		if at < 0 {
			at, d.Tags = len(d.Tags), append(d.Tags, docTag{Name: rt.tag})
		}
		d.Tags[at].Routes = append(d.Tags[at].Routes, docOf(public, rt))
	}
	for _, kind := range mayfly.Kinds() {
		if kind != mayfly.Archived && kind != mayfly.Corrupt {
			d.Problems = append(d.Problems, docProblem{statusOf(kind), kind.String(), titleOf(kind)})
		}
	}
	d.Problems = append(d.Problems, docProblem{http.StatusMethodNotAllowed, methodCode, "This method does nothing here"}, docProblem{http.StatusInternalServerError, broken, titleOf(0)})
	return d
}

func docOf(public string, rt route) docRoute {
	d := docRoute{Method: rt.method, Path: rt.path(), ID: rt.id, Summary: rt.summary, About: rt.about, Scopes: "no token needed", Curl: curlOf(public, rt)}
	if len(rt.scopes) > 0 {
		d.Scopes = "token of scope " + orList(rt.scopes)
	}
	for _, p := range rt.allParams() {
		d.Params = append(d.Params, docParam{p.in, p.name, p.about})
	}
	for _, r := range rt.answers {
		d.Answers = append(d.Answers, docAnswer{r.status, r.about})
	}
	for _, status := range rt.problems() {
		d.Answers = append(d.Answers, docAnswer{status, http.StatusText(status)})
	}
	return d
}

// curlOf is a line to try.
func curlOf(public string, rt route) string {
	words := []string{"curl"}
	switch rt.method {
	case http.MethodGet:
	case http.MethodHead:
		words = append(words, "-I")
	default:
		words = append(words, "-X", rt.method)
	}
	if len(rt.scopes) > 0 {
		words = append(words, `-H "Authorization: Bearer $TOKEN"`)
	}
	if rt.example != "" {
		words = append(words, rt.example)
	}
	if public == "" {
		public = "http://127.0.0.1:7420"
	}
	return strings.Join(append(words, "'"+public+rt.path()+"'"), " ")
}
