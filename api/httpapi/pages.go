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
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly"
)

//go:embed page.css
var pageStyle string

//go:embed page_docs.html
var docsPage string

//go:embed page_home.html
var homePage string

// pageRoutes returns the routes that people read: the OpenAPI document, the page
// that is made from the same table, and the home page.
func (a *API) pageRoutes(routes []Route) ([]Route, error) {
	html := func(pattern, id, summary string) Route {
		return Route{
			Method: "GET", Pattern: pattern, ID: id, Tag: "pages", Product: kernelProduct, Summary: summary,
			Answers: []Answer{{Status: http.StatusOK, About: "A page.", Content: Content{{Type: "text/html", Schema: Schema{"type": "string"}}}}},
		}
	}
	isHome := func(rt Route) bool { return rt.Method == http.MethodGet && rt.Pattern == "/{$}" && rt.Host == "" }
	docs, home := html("/docs/api", "readDocs", "The API for people to read"), html("/{$}", "readHome", "What this server is, and what to try")
	pages := []Route{docs}
	if !slices.ContainsFunc(routes, isHome) { // no product has a start page
		pages = append(pages, home)
	}
	document, err := a.documentRoute("Mayfly", apiAbout, append(slices.Clone(routes), pages...))
	if err != nil {
		return nil, err
	}
	all := append(append(slices.Clone(routes), document), pages...)
	if docs.Handle, err = page(docsPage, docsOf(a.o.PublicURL, all)); err != nil {
		return nil, err
	}
	if home.Handle, err = page(homePage, map[string]any{"Version": a.o.Version}); err != nil {
		return nil, err
	}
	if len(pages) == 1 {
		return []Route{document, docs}, nil
	}
	return []Route{document, docs, home}, nil
}

const apiAbout = "Stories that are served until their deadline, to the millisecond. Errors are application/problem+json with a code for programs and a hint for people. Instants are RFC 3339 in UTC with milliseconds."

// page returns a handler that answers with a page, which is rendered once, on
// the first request.
func page(text string, data any) (func(*Call) error, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(pageStyle) }}).Parse(text) //nolint:gosec // it is embedded
	if err != nil {
		return nil, fmt.Errorf("httpapi: page: %w", err)
	}
	rendered := sync.OnceValues(func() ([]byte, error) {
		var b bytes.Buffer
		err := t.Execute(&b, data)
		return b.Bytes(), err
	})
	sum := sha256.Sum256([]byte(pageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return func(c *Call) error {
		text, err := rendered()
		if err != nil {
			return fmt.Errorf("httpapi: page: %w", err)
		}
		h := c.w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "public, max-age=300")
		c.send(http.StatusOK, "text/html; charset=utf-8", text)
		return nil
	}, nil
}

// docs is the data of the page that describes the API.
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

func docsOf(public string, routes []Route) docs {
	var d docs
	for _, rt := range routes {
		at := slices.IndexFunc(d.Tags, func(t docTag) bool { return t.Name == rt.Tag })
		if at < 0 {
			at, d.Tags = len(d.Tags), append(d.Tags, docTag{Name: rt.Tag})
		}
		d.Tags[at].Routes = append(d.Tags[at].Routes, docOf(public, rt))
	}
	for _, kind := range mayfly.Kinds() {
		if kind != mayfly.Archived && kind != mayfly.Corrupt {
			d.Problems = append(d.Problems, docProblem{statusOf(kind), kind.String(), titleOf(kind)})
		}
	}
	d.Problems = append(d.Problems, docProblem{http.StatusMethodNotAllowed, methodCode, methodTitle}, docProblem{http.StatusInternalServerError, brokenCode, titleOf(0)})
	return d
}

func docOf(public string, rt Route) docRoute {
	d := docRoute{Method: rt.Method, Path: rt.Path(), ID: rt.ID, Summary: rt.Summary, About: rt.About, Scopes: "no token needed", Curl: curlOf(public, rt)}
	if len(rt.Scopes) > 0 {
		d.Scopes = "token of scope " + scopeList(rt.Scopes)
	}
	for _, p := range rt.allParams() {
		d.Params = append(d.Params, docParam{p.In, p.Name, p.About})
	}
	for _, r := range rt.Answers {
		d.Answers = append(d.Answers, docAnswer{r.Status, r.About})
	}
	for _, status := range rt.problems() {
		d.Answers = append(d.Answers, docAnswer{status, http.StatusText(status)})
	}
	return d
}

// curlOf returns a command to try the route.
func curlOf(public string, rt Route) string {
	words := []string{"curl"}
	switch rt.Method {
	case http.MethodGet:
	case http.MethodHead:
		words = append(words, "-I")
	default:
		words = append(words, "-X", rt.Method)
	}
	if len(rt.Scopes) > 0 {
		words = append(words, `-H "Authorization: Bearer $TOKEN"`)
	}
	if rt.Example != "" {
		words = append(words, rt.Example)
	}
	if public == "" {
		public = "http://127.0.0.1:7420"
	}
	return strings.Join(append(words, "'"+public+rt.Path()+"'"), " ")
}
