//go:build servers

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// question is a request as both sides are asked it. Target, body and headers may
// have places in them, such as {id:s3}, that each side fills with its own.
type question struct {
	kind           string
	method, target string
	who            string // a user, or a scope without one; "" is anonymous
	scope          account.Scope
	header         map[string]string
	body           []byte
	admin          bool
	node           int    // of the cluster, which of its nodes is asked
	names          string // what the item is called that comes of it
	about          string // what an answer tells of, and who asks: its URLs and its ETag are kept by that
}

func (q question) String() string {
	who := cmp.Or(q.who, string(q.scope), "anonymous")
	var head []string
	for _, name := range slices.Sorted(maps.Keys(q.header)) {
		if name != "Content-Type" {
			head = append(head, name+": "+q.header[name])
		}
	}
	text := fmt.Sprintf("%-16s %s asks node %d: %s %s %s", q.kind, who, q.node, q.method, q.target, strings.Join(head, " "))
	if len(q.body) > 0 && q.header["Content-Type"] == jsonType {
		text += " " + string(q.body)
	}
	if q.names != "" {
		text += " -> " + q.names
	}
	return text
}

const jsonType = "application/json"

// side is one of the two that must answer alike.
type side struct {
	name     string
	handlers []handlers // of each node
	key      *account.Key

	own    map[string]string // what fills a place
	known  map[string]string // ids of this side, as both call them
	claims *claims
}

type handlers struct{ public, admin http.Handler }

// reply is an answer in words that both sides share.
type reply struct {
	status int
	header map[string]string
	body   string
}

func (r reply) String() string {
	return fmt.Sprintf("%d %v %s", r.status, r.header, excerpt(r.body))
}

func excerpt(text string) string {
	if len(text) > 1500 {
		return text[:1500] + " …"
	}
	return text
}

func newSide(name string, key *account.Key, c *claims, all ...handlers) *side {
	return &side{name: name, handlers: all, key: key, own: map[string]string{}, known: map[string]string{}, claims: c}
}

var places = regexp.MustCompile(`\{[a-z]+:[^{}"]*\}`)

// fill puts this side's own into the places of a text. What has no own is left as
// it is: then both sides have none.
func (s *side) fill(text string) string {
	return places.ReplaceAllStringFunc(text, func(place string) string { return cmp.Or(s.own[place[1:len(place)-1]], place) })
}

// ask asks and learns; answer is in shared words.
func (s *side) ask(q question, now mayfly.Instant) (reply, error) {
	req := httptest.NewRequestWithContext(context.Background(), q.method, s.fill(q.target), bytes.NewReader([]byte(s.fill(string(q.body)))))
	for name, value := range q.header {
		req.Header.Set(name, s.fill(value))
	}
	if q.who != "" || q.scope != "" {
		token, err := s.bearer(q, now)
		if err != nil {
			return reply{}, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	at := s.handlers[q.node%len(s.handlers)]
	handler := at.public
	if q.admin {
		handler = at.admin
	}
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req)
	if err := s.learn(q, rec); err != nil {
		return reply{}, fmt.Errorf("%s: %w", s.name, err)
	}
	out := s.shared(rec)
	if q.kind == "at an end" { // a walk may come by in this very millisecond: either is right
		out.body = strings.Replace(out.body, `"state":"sweep_pending"`, `"state":"expired_hot"`, 1)
	}
	if q.kind == "explain" && rec.Code == http.StatusOK {
		return out, s.explained(&out, rec.Body.Bytes())
	}
	return out, nil
}

// explained keeps the answer of an explanation; the facts that it rests on are
// those of one store and of one moment.
func (s *side) explained(out *reply, body []byte) error {
	var e wire.Explanation
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	said := slices.DeleteFunc(e.Sentences, behind.MatchString)
	text := s.claims.without(e.ID, e.Verdict+": "+strings.Join(said, " "))
	out.body = walked.ReplaceAllString(s.named(text), "$1 since a walk")
	return nil
}

func (s *side) bearer(q question, now mayfly.Instant) (string, error) {
	g := account.Grant{Issuer: issuer, Audience: issuer, Subject: cmp.Or(q.who, string(q.scope)), Scopes: []account.Scope{q.scope}, Lasts: 15 * 60e9}
	if q.who != "" {
		g.User = mayfly.HomeUserOf(issuer, q.who)
	}
	token, err := s.key.Mint(g, now)
	return string(token), err
}

// learn takes what later questions speak of.
func (s *side) learn(q question, rec *httptest.ResponseRecorder) error {
	if tag := rec.Header().Get("ETag"); q.about != "" && tag != "" {
		s.own["etag:"+q.about] = tag
	}
	if q.names == "" && q.about == "" || rec.Code/100 != 2 || !strings.HasPrefix(rec.Header().Get("Content-Type"), jsonType) {
		return nil
	}
	var answer struct {
		wire.Story
		Next    string `json:"next"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		return fmt.Errorf("%s: %w", excerpt(rec.Body.String()), err)
	}
	if q.names != "" && rec.Code == http.StatusCreated {
		s.own["id:"+q.names], s.own["never:"+q.names] = answer.ID.String(), neverWasLike(answer.ID).String()
		s.known[answer.ID.String()], s.known[answer.ID.Short()] = q.names, q.names
		s.known[neverWasLike(answer.ID).String()] = "never " + q.names
	}
	if q.about == "" {
		return nil
	}
	s.own["next:"+q.about], s.own["refresh:"+q.about] = answer.Next, answer.Refresh
	for n, m := range answer.Media {
		s.own[fmt.Sprintf("url:%s/%d", q.about, n)] = m.URL
		for _, r := range m.Renditions {
			s.own[fmt.Sprintf("url:%s/%d-%d", q.about, n, r.Longest)] = r.URL
		}
	}
	return nil
}

// neverWasLike is an id that tells the same times and the same trace as id, and of
// which no row was ever written.
func neverWasLike(id mayfly.ID) mayfly.ID {
	id[14] ^= 0xa5
	return id
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	shorts  = regexp.MustCompile(`[0-9A-Za-z]{22}`)
	secrets = regexp.MustCompile(`"(next|access_token|refresh_token)":"[^"]+"`)
	walked  = regexp.MustCompile(`(Its row is (?:expired_hot|cold), generation \d+), since [-0-9T:.]+Z`)
	behind  = regexp.MustCompile(`^These walks should have processed it and have not: `)
	signed  = regexp.MustCompile(`sig=[0-9A-Za-z_-]+`)
)

// shared is an answer in words that both sides share: with names for ids, without
// what is signed or random. Times stay as they are: both go by one clock.
func (s *side) shared(rec *httptest.ResponseRecorder) reply {
	out := reply{status: rec.Code, header: map[string]string{}, body: rec.Body.String()}
	for _, name := range []string{"Content-Type", "Location", "Cache-Control", "Retry-After", "Content-Range", "Accept-Ranges", "WWW-Authenticate", "Allow"} {
		if value := rec.Header().Get(name); value != "" {
			out.header[name] = s.named(value)
		}
	}
	if rec.Header().Get("ETag") != "" {
		out.header["ETag"] = "there is one" // of bytes with ids in them
	}
	if strings.Contains(out.header["Content-Type"], "json") {
		out.body = s.named(out.body)
	}
	return out
}

func (s *side) named(text string) string {
	text = uuids.ReplaceAllStringFunc(text, func(id string) string { return cmp.Or(s.known[id], id) })
	text = shorts.ReplaceAllStringFunc(text, func(id string) string { return cmp.Or(s.known[id], id) })
	text = secrets.ReplaceAllString(text, `"$1":"…"`)
	return signed.ReplaceAllString(text, "sig=…")
}
