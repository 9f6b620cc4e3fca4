//go:build servers

package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly/product/account"
)

func oddKinds() []kind {
	return []kind{
		{"bad", (*drama).bad},
		{"token", func(d *drama) (question, func(reply)) {
			who := d.anyUser()
			q := question{
				method: http.MethodPost, target: "/v1/token", scope: account.Service, about: "token/" + who,
				header: map[string]string{"Content-Type": jsonType}, body: []byte(`{"user":"~` + who + `"}`),
			}
			if d.cluster.own["refresh:token/"+who] != "" && d.rng.IntN(3) > 0 {
				q.scope, q.body = "", []byte(`{"refresh_token":"{refresh:token/`+who+`}"}`)
				if d.rng.IntN(4) == 0 {
					q.about = "" // the next comes with the same again
				}
			}
			return q, nil
		}},
		{"time", func(d *drama) (question, func(reply)) {
			d.pass(time.Duration(1+d.rng.IntN(25_000)) * time.Millisecond)
			return d.afterTime()
		}},
		{"before an end", func(d *drama) (question, func(reply)) { return d.around(-time.Millisecond) }},
		{"at an end", func(d *drama) (question, func(reply)) { return d.around(0) }},
	}
}

// around lets time pass to the next end of a story, or right before it, and has it
// opened by a user at that instant: soft expiry waits for no loop.
func (d *drama) around(off time.Duration) (question, func(reply)) {
	end, ok := d.mark()
	if !ok || end.Add(off) <= d.now {
		return question{}, nil
	}
	d.pass(end.Add(off).Sub(d.now))
	for _, s := range d.stories {
		if s.end == end && !s.dead {
			return get("/v1/stories/{id:"+s.name+"}", d.people()[d.rng.IntN(3)+1]), nil
		}
	}
	return question{}, nil
}

// afterTime asks what does not depend on the loops.
func (d *drama) afterTime() (question, func(reply)) {
	return get("/v1/users/"+userPath(d.anyUser())+"/ring", ""), nil
}

// bad is something that is wrong in one way.
func (d *drama) bad() (question, func(reply)) {
	who := d.anyUser()
	json := map[string]string{"Content-Type": jsonType}
	post := func(target, body string) question {
		return question{method: http.MethodPost, target: target, who: who, scope: account.User, header: json, body: []byte(body)}
	}
	story := "01a1e54c-0198-8024-8202-3395bc35118b"
	if s := d.some(); s != nil {
		story = "{id:" + s.name + "}"
	}
	words := d.words()
	all := []question{
		post("/v1/stories", `{"caption":`),
		post("/v1/stories", `{"caption":"x","audience":"friends"}`),
		post("/v1/stories", `{"caption":"x","lifetime":"7h"}`),
		post("/v1/stories", `{"caption":"x","colour":"red"}`),
		post("/v1/stories", `{"caption":"`+strings.Repeat("x", 3000)+`"}`),
		post("/v1/stories", `{"upload":"`+story+`"}`),
		post("/v1/uploads", `{"media":0}`),
		post("/v1/uploads", `{"media":11}`),
		post("/v1/uploads", `[]`),
		post("/v1/stories/"+story+"/reshare", `{"lifetime":"1000y"}`),
		post("/v1/stories/"+story+"/reshare", `{"audience":"none"}`),
		get("/v1/stories/not-an-id", who),
		get("/v1/stories/00000000-0000-0000-0000-000000000000", who),
		get("/v1/stories/01a1e54c-0198-8024-8202-3395bc35118b", who),
		get("/v1/media/"+story+"/99", who),
		get("/v1/media/"+story+"/0?sig=nonsense&until=1&viewer=x", ""),
		get("/v1/me/archive?limit=0", who),
		get("/v1/me/archive?cursor=%00%01", who),
		get("/v1/me/archive?cursor=nonsense", who),
		get("/v1/me/archive?day=tomorrow", who),
		get("/v1/me/archive", ""),
		get("/v1/users/unknown/ring", who),
		get("/v1/nothing", who),
		{method: http.MethodPatch, target: "/v1/stories/" + story, who: who, scope: account.User},
		{method: http.MethodPut, target: "/v1/me/blocks/" + userPath(who), who: who, scope: account.User},
		{method: http.MethodPut, target: "/v1/users/" + userPath(who) + "/followers/" + userPath("ana"), who: who, scope: account.User},
		{method: http.MethodPost, target: "/v1/token", header: json, body: []byte(`{"refresh_token":"nonsense"}`)},
		{method: http.MethodPost, target: "/v1/restores", scope: account.Moderator, admin: true, header: json, body: []byte(`{"id":"` + story + `"}`)},
		{method: http.MethodPost, target: "/v1/restores", scope: account.Moderator, admin: true, header: json, body: fmt.Appendf(nil, `{"id":"%s","until":"%s","reason":"late"}`, story, d.now.Add(-time.Hour))},
		{method: http.MethodPut, target: "/v1/holds/" + story, scope: account.Moderator, admin: true, header: json, body: []byte(`{}`)},
	}
	html, typ := form(words, "x", 0)
	all = append(all, question{method: http.MethodPost, target: "/v1/stories", who: who, scope: account.User, header: map[string]string{"Content-Type": typ}, body: html},
		question{method: http.MethodPost, target: "/v1/stories", who: who, scope: account.User, header: map[string]string{"Content-Type": "image/png"}, body: []byte("no picture")},
		question{method: http.MethodPost, target: "/v1/stories", who: who, scope: account.User, header: map[string]string{"Content-Type": "image/heic"}, body: []byte("no picture")})
	return all[d.rng.IntN(len(all))], nil
}
