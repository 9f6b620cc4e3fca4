//go:build servers

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

func writeKinds() []kind {
	return []kind{
		{"publish", (*drama).publish},
		{"publish bytes", (*drama).publishBytes},
		{"publish upload", (*drama).publishUpload},
		{"publish again", (*drama).publishAgain},
		{"reserve", (*drama).reserve},
		{"put", (*drama).put},
		{"upload", (*drama).upload},
		of("reshare", (*drama).reshare),
		of("delete", func(d *drama, s *tale) (question, func(reply)) {
			who := s.author
			if d.rng.IntN(4) == 0 {
				who = d.anyUser()
			}
			q := get("/v1/stories/"+d.id(s), who)
			q.method = http.MethodDelete
			return q, func(r reply) {
				if r.status == http.StatusNoContent && strings.Contains(q.target, "{id:") {
					s.dead = true
				}
			}
		}),
		of("view", func(d *drama, s *tale) (question, func(reply)) {
			q := get("/v1/stories/"+d.id(s)+"/view", d.viewer(s))
			q.method = http.MethodPost
			return q, nil
		}),
		relationKind("befriend", http.MethodPut, "/v1/me/close-friends"),
		relationKind("unfriend", http.MethodDelete, "/v1/me/close-friends"),
		relationKind("block", http.MethodPut, "/v1/me/blocks"),
		relationKind("unblock", http.MethodDelete, "/v1/me/blocks"),
		followKind("follow", http.MethodPut),
		followKind("unfollow", http.MethodDelete),
	}
}

func (d *drama) words() wire.NewStory {
	pick := func(of ...string) string { return of[d.rng.IntN(len(of))] }
	return wire.NewStory{
		Caption:  fmt.Sprintf("story %d", d.births),
		Audience: pick("everyone", "followers", "close_friends", "", "everyone"),
		Lifetime: pick("60s", "30s", "120s", "", "1m", "600s"),
	}
}

// born is what becomes of an answer to a birth.
func (d *drama) born(q question, media int) func(reply) {
	return func(r reply) {
		if r.status != http.StatusCreated {
			return
		}
		var s wire.Story
		if err := json.Unmarshal([]byte(strings.ReplaceAll(r.body, `"`+q.names+`"`, `"`+d.embedded.own["id:"+q.names]+`"`)), &s); err != nil {
			d.Errorf("%s: %v", q, err)
			return
		}
		d.stories = append(d.stories, &tale{name: q.names, author: q.who, media: media, end: s.ExpiresAt, sent: q})
	}
}

func (d *drama) birth(target, who string) question {
	d.births++
	q := get(target, who)
	q.method, q.names, q.header = http.MethodPost, fmt.Sprintf("s%d", d.births), map[string]string{}
	if d.rng.IntN(2) == 0 {
		q.header["Idempotency-Key"] = fmt.Sprintf("key-%d", d.births)
	}
	return q
}

func (d *drama) publish() (question, func(reply)) {
	q := d.birth("/v1/stories", d.anyUser())
	media := 1 + d.rng.IntN(3)
	q.body, q.header["Content-Type"] = form(d.words(), q.names, media)
	return q, d.born(q, media)
}

func (d *drama) publishBytes() (question, func(reply)) {
	words, query := d.words(), url.Values{}
	for name, value := range map[string]string{"audience": words.Audience, "lifetime": words.Lifetime, "caption": words.Caption} {
		if value != "" {
			query.Set(name, value)
		}
	}
	q := d.birth("/v1/stories?"+query.Encode(), d.anyUser())
	q.body, q.header["Content-Type"] = picture(q.names), "image/png"
	return q, d.born(q, 1)
}

// publishAgain sends a birth once more: with its key the same story is answered,
// with the same key and other words it is refused.
func (d *drama) publishAgain() (question, func(reply)) {
	var keyed []*tale
	for _, s := range d.stories {
		if s.sent.header["Idempotency-Key"] != "" {
			keyed = append(keyed, s)
		}
	}
	if len(keyed) == 0 {
		return question{}, nil
	}
	s := keyed[len(keyed)-1-d.rng.IntN(min(10, len(keyed)))]
	q := s.sent
	q.names = ""
	if d.rng.IntN(4) == 0 && strings.HasPrefix(q.header["Content-Type"], "multipart") {
		q.body = bytes.Replace(q.body, []byte(`"caption":"story`), []byte(`"caption":"Story`), 1)
	}
	return q, nil
}

// putLength is the length of the media that are put, with zeros behind the picture.
const putLength = 1024

func (d *drama) reserve() (question, func(reply)) {
	d.births++
	u := &room{name: fmt.Sprintf("u%d", d.births), author: d.anyUser(), media: 1 + d.rng.IntN(2)}
	q := get("/v1/uploads", u.author)
	q.method, q.names, q.header = http.MethodPost, u.name, map[string]string{"Content-Type": jsonType}
	q.body = fmt.Appendf(nil, `{"media":[%s]}`, strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"length":%d},`, putLength), u.media), ","))
	return q, func(r reply) {
		if r.status == http.StatusCreated {
			d.uploads = append(d.uploads, u)
		}
	}
}

func (d *drama) room() *room {
	if len(d.uploads) == 0 {
		return nil
	}
	return d.uploads[max(0, len(d.uploads)-1-d.rng.IntN(3))]
}

func (d *drama) put() (question, func(reply)) {
	u := d.room()
	if u == nil {
		return question{}, nil
	}
	who, n := u.author, u.put%(u.media+d.rng.IntN(2))
	if d.rng.IntN(8) == 0 {
		who = d.anyUser()
	}
	q := get(fmt.Sprintf("/v1/uploads/{id:%s}/%d", u.name, n), who)
	q.method, q.header, q.body = http.MethodPut, map[string]string{"Content-Type": "image/png"}, picture(fmt.Sprint(u.name, u.put))
	q.body = append(q.body, make([]byte, putLength-len(q.body)-d.rng.IntN(8)/7)...) // seldom one byte too few
	return q, func(r reply) {
		if r.status == http.StatusCreated {
			u.put++
		}
	}
}

func (d *drama) upload() (question, func(reply)) {
	u := d.room()
	if u == nil {
		return question{}, nil
	}
	who := u.author
	if d.rng.IntN(4) == 0 {
		who = d.anyUser()
	}
	return get("/v1/uploads/{id:"+u.name+"}", who), nil
}

func (d *drama) publishUpload() (question, func(reply)) {
	u := d.room()
	if u == nil {
		return question{}, nil
	}
	q := d.birth("/v1/stories", u.author)
	words := d.words()
	id := mayfly.ID{}
	words.Upload = &id
	body, err := json.Marshal(words)
	if err != nil {
		d.Error(err)
	}
	q.body = bytes.Replace(body, []byte(id.String()), []byte("{id:"+u.name+"}"), 1)
	q.header["Content-Type"] = jsonType
	return q, d.born(q, u.media)
}

func (d *drama) reshare(s *tale) (question, func(reply)) {
	who := s.author
	if d.rng.IntN(6) == 0 {
		who = d.anyCaller()
	}
	q := d.birth("/v1/stories/"+d.id(s)+"/reshare", who)
	q.body, q.header["Content-Type"] = []byte(`{"lifetime":"30s","audience":"everyone"}`), jsonType
	return q, d.born(q, s.media)
}

func supportKinds() []kind {
	return []kind{
		of("hold", func(d *drama, s *tale) (question, func(reply)) {
			return d.support(http.MethodPut, "/v1/holds/{id:"+s.name+"}", `{"reason":"court"}`), func(r reply) {
				if r.status == http.StatusNoContent {
					s.held = true
				}
			}
		}),
		{"release", func(d *drama) (question, func(reply)) {
			s := d.some()
			for _, other := range d.stories {
				if other.held && !other.dead && d.rng.IntN(3) > 0 {
					s = other
				}
			}
			if s == nil || s.held && s.dead { // of an erased account: what is released goes when a loop comes by

				return question{}, nil
			}
			return d.support(http.MethodDelete, "/v1/holds/{id:"+s.name+"}", `{"reason":"over"}`), func(r reply) {
				if r.status == http.StatusNoContent {
					s.held, s.swept = false, false
				}
			}
		}},
		of("restore", func(d *drama, s *tale) (question, func(reply)) {
			until := d.now.Add(time.Duration(45+d.rng.IntN(60)) * time.Second)
			return d.support(http.MethodPost, "/v1/restores", fmt.Sprintf(`{"id":"{id:%s}","until":"%s","reason":"asked"}`, s.name, until)), func(r reply) {
				if r.status == http.StatusOK {
					s.end, s.restored, s.swept, s.cold = until, true, false, false
				}
			}
		}),
		of("explain", func(d *drama, s *tale) (question, func(reply)) {
			q := get("/v1/explain/"+d.id(s)+"?viewer="+userPath(d.anyUser()), "")
			q.scope, q.admin = account.Admin, true
			return q, nil
		}),
		{"dead letters", func(d *drama) (question, func(reply)) {
			return question{method: http.MethodGet, target: "/v1/dead-letters", scope: account.Admin, admin: true}, nil
		}},
		{"erase account", func(d *drama) (question, func(reply)) {
			guest := d.people()[5]
			q := d.support(http.MethodDelete, "/v1/users/"+userPath(guest), `{"reason":"asked"}`)
			q.scope = account.Admin
			return q, func(r reply) {
				if r.status != http.StatusOK {
					return
				}
				d.guest++
				for _, s := range d.stories {
					s.dead = s.dead || s.author == guest
				}
			}
		}},
	}
}

// support returns a request of support, most of the time by a user who may send it.
func (d *drama) support(method, target, body string) question {
	q := question{method: method, target: target, scope: account.Moderator, who: "moderator", admin: true, body: []byte(body), header: map[string]string{"Content-Type": jsonType}}
	if d.rng.IntN(10) == 0 {
		q.who, q.scope = "ana", account.User
	}
	return q
}

// form is a story with its media as a multipart form; the same every time.
func form(story wire.NewStory, seed string, media int) (body []byte, typ string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("a-boundary-of-mayfly"); err != nil {
		panic(err) // a constant
	}
	part := func(name, file, typ string, content []byte) {
		disposition := fmt.Sprintf(`form-data; name=%q`, name)
		if file != "" {
			disposition += fmt.Sprintf(`; filename=%q`, file)
		}
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {typ}})
		if err == nil {
			_, err = p.Write(content)
		}
		if err != nil {
			panic(err) // into memory
		}
	}
	words, err := json.Marshal(story)
	if err != nil {
		panic(err) // strings
	}
	part("story", "", jsonType, words)
	for n := range media {
		part("media", fmt.Sprintf("%d.png", n), "image/png", picture(fmt.Sprint(seed, "/", n)))
	}
	if err := w.Close(); err != nil {
		panic(err) // into memory
	}
	return b.Bytes(), w.FormDataContentType()
}
