//go:build servers

package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// drama is a sequence of random requests, sent to both sides of a pair.
type drama struct {
	*pair
	seed     uint64
	rng      *rand.Rand
	stories  []*tale
	uploads  []*room
	guest    int // guests come one after the other: an account that is erased stays erased
	births   int
	done     map[string]int
	status   map[int]int
	last     []string
	requests int
	patience time.Duration // how long the loops of both sides may take for what is due
	waited   time.Duration // for that
}

// tale is a story as the drama knows it.
type tale struct {
	name, author string
	media        int
	end          mayfly.Instant // its deadline, or until when it was put back
	restored     bool
	held, dead   bool
	swept        bool // both sides have said that it has expired
	cold         bool // both sides have said that it is archived
	sent         question
}

// room is an upload.
type room struct {
	name, author string
	media, put   int
}

// people are the users of a drama; the last is the guest.
func (d *drama) people() []string {
	all := []string{"ana", "ben", "user-3", "user-4", "user-5", fmt.Sprintf("guest-%d", d.guest)}
	for i := range all {
		all[i] += fmt.Sprintf("-of-%d", d.seed) // no user is in two dramas
	}
	return all
}

func (d *drama) anyUser() string { return d.people()[d.rng.IntN(len(d.people()))] }

func userPath(name string) string { return mayfly.HomeUserOf(issuer, name).String() }

// some is a story: mostly one of the last, so that requests meet.
func (d *drama) some() *tale {
	if len(d.stories) == 0 {
		return nil
	}
	if n := len(d.stories); n > 12 && d.rng.IntN(5) > 0 {
		return d.stories[n-1-d.rng.IntN(12)]
	}
	return d.stories[d.rng.IntN(len(d.stories))]
}

// next sends one request of a kind and returns what differs; "" if nothing does.
func (d *drama) next(k kind) (string, error) {
	d.pass(time.Duration(1+d.rng.IntN(30)) * time.Millisecond)
	if different := d.settle(); different != "" {
		return different, nil
	}
	q, after := k.ask(d)
	if q.method == "" {
		return "", nil // not possible yet
	}
	q.kind, q.node = k.name, d.rng.IntN(2)
	got, different, err := d.ask(q)
	if err != nil {
		return "", err
	}
	d.requests++
	d.done[k.name]++
	d.status[got.status]++
	d.remember(fmt.Sprintf("%s %s -> %d", d.now, q, got.status))
	if different != "" {
		return different, nil
	}
	if after != nil {
		after(got)
	}
	if got.status >= http.StatusInternalServerError {
		return "", fmt.Errorf("both failed: %s\n\t%s", q, got)
	}
	return "", nil
}

func (d *drama) remember(text string) {
	if d.last = append(d.last, text); len(d.last) > 25 {
		d.last = d.last[1:]
	}
}

// due says whether the loops have work with a story that an answer would show.
func (d *drama) due(s *tale) bool {
	after := pairWindow
	if s.restored {
		after = max(after, pairRemind)
	}
	switch {
	case s.dead, d.now < s.end:
		return false
	case !s.swept:
		return true
	default:
		return !s.cold && !s.held && d.now >= s.end.Add(after)
	}
}

// settledWithin is how long both sides take at most for what is due on a quiet machine;
// longer where other pairs play beside this one.
var settledWithin = pick(40*time.Second, 3*time.Minute)

var stated = regexp.MustCompile(`"state":"([a-z_]+)"`)

// settle waits until the loops of both sides have done what is due, so that what
// is asked next does not depend on who was faster. Time passes meanwhile, a little.
// If one of them never has, that is a difference too.
func (d *drama) settle() string {
	began := time.Now()
	defer func() { d.waited += time.Since(began) }()
	for round := 0; ; round++ {
		waiting := ""
		for _, s := range d.stories {
			if d.due(s) {
				if why := d.look(s); d.due(s) {
					waiting = why
				}
			}
		}
		if waiting == "" {
			return ""
		}
		if time.Since(began) > d.patience {
			return fmt.Sprintf("after %s still not done: %s", d.patience, waiting)
		}
		time.Sleep(30 * time.Millisecond)
		d.pass(30 * time.Millisecond)
		if round > 8 { // a reminder may be what it waits for
			d.pass(pairRemind / 10)
		}
	}
}

// look asks both sides how far a story is.
func (d *drama) look(s *tale) string {
	q := question{kind: "settle", method: http.MethodGet, target: "/v1/stories/{id:" + s.name + "}", who: "moderator", scope: account.Moderator}
	swept, cold, dead, said := true, true, true, s.name
	for _, side := range []*side{d.embedded, d.cluster} {
		a, err := side.ask(q, d.now)
		if err != nil {
			return err.Error()
		}
		state := fmt.Sprint(a.status)
		if found := stated.FindStringSubmatch(a.body); found != nil {
			state = found[1]
		}
		said += ", " + side.name + ": " + state
		dead = dead && a.status != http.StatusOK
		cold = cold && state == "cold"
		swept = swept && (state == "cold" || state == "expired_hot")
	}
	s.swept, s.cold, s.dead = swept, cold, dead
	return said
}

// mark is the next instant at which a story ends.
func (d *drama) mark() (mayfly.Instant, bool) {
	var next mayfly.Instant
	for _, s := range d.stories {
		if !s.dead && s.end > d.now && (next == 0 || s.end < next) {
			next = s.end
		}
	}
	return next, next != 0
}

func (d *drama) count() string {
	var text strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&text, " %s %d,", k.name, d.done[k.name])
	}
	return strings.TrimSuffix(text.String(), ",")
}

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
		post("/v1/uploads", `{"media":[]}`),
		post("/v1/uploads", `{"media":[{"length":0}]}`),
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
