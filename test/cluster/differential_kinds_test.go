//go:build servers

package cluster

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mayflyhq/mayfly/product/account"
)

// kind is a kind of request. ask composes one; what after does with the answer, it
// does when both sides gave the same.
type kind struct {
	name string
	ask  func(d *drama) (q question, after func(reply))
}

// kinds are all of them: every operation of the public listener, what support does,
// what is wrong, and time.
func kinds() []kind {
	reads, writes := readKinds(), writeKinds()
	return append(append(append(reads, writes...), supportKinds()...), oddKinds()...)
}

func get(target, who string) question {
	q := question{method: http.MethodGet, target: target, who: who, scope: account.User}
	switch who {
	case "":
		q.scope = ""
	case "moderator":
		q.scope = account.Moderator
	}
	return q
}

// anyCaller returns a user, the moderator, or "" for an anonymous caller.
func (d *drama) anyCaller() string {
	switch d.rng.IntN(8) {
	case 0:
		return ""
	case 1:
		return "moderator"
	default:
		return d.anyUser()
	}
}

// viewer returns the author more often than any other caller.
func (d *drama) viewer(s *tale) string {
	if d.rng.IntN(3) == 0 {
		return s.author
	}
	return d.anyCaller()
}

// id is the place of a story's id: now and then of one that never was.
func (d *drama) id(s *tale) string {
	if d.rng.IntN(12) == 0 {
		return "{never:" + s.name + "}"
	}
	return "{id:" + s.name + "}"
}

// of is a kind that is about a story.
func of(name string, ask func(d *drama, s *tale) (question, func(reply))) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		if s := d.some(); s != nil {
			return ask(d, s)
		}
		return question{}, nil
	}}
}

func readKinds() []kind {
	return []kind{
		of("open", func(d *drama, s *tale) (question, func(reply)) {
			who := d.viewer(s)
			q := get("/v1/stories/"+d.id(s), who)
			q.about = s.name + "/" + who
			return q, nil
		}),
		of("open again", func(d *drama, s *tale) (question, func(reply)) { // If-None-Match
			who := d.viewer(s)
			q := get("/v1/stories/{id:"+s.name+"}", who)
			q.header = map[string]string{"If-None-Match": "{etag:" + s.name + "/" + who + "}"}
			return q, nil
		}),
		of("media", func(d *drama, s *tale) (question, func(reply)) { return d.medium(s, http.MethodGet, "") }),
		of("media part", func(d *drama, s *tale) (question, func(reply)) {
			return d.medium(s, http.MethodGet, fmt.Sprintf("bytes=%d-%d", d.rng.IntN(30), 20+d.rng.IntN(90)))
		}),
		of("media head", func(d *drama, s *tale) (question, func(reply)) { return d.medium(s, http.MethodHead, "") }),
		of("viewers", func(d *drama, s *tale) (question, func(reply)) {
			return get(fmt.Sprintf("/v1/stories/%s/viewers?limit=%d", d.id(s), 1+d.rng.IntN(5)), d.viewer(s)), nil
		}),
		{"ring", func(d *drama) (question, func(reply)) {
			return get("/v1/users/"+userPath(d.anyUser())+"/ring", d.anyCaller()), nil
		}},
		{"archive", func(d *drama) (question, func(reply)) {
			q, who := url.Values{}, d.anyUser()
			if d.rng.IntN(3) > 0 {
				q.Set("limit", fmt.Sprint(1+d.rng.IntN(2)))
			}
			if d.rng.IntN(4) == 0 {
				q.Set("from", d.now.Add(-time.Duration(d.rng.IntN(600))*time.Second).String())
				q.Set("to", d.now.Add(-time.Duration(d.rng.IntN(60))*time.Second).String())
			}
			list := get("/v1/me/archive?"+q.Encode(), who)
			list.about = "archive/" + who
			return list, nil
		}},
		{"archive page", func(d *drama) (question, func(reply)) {
			for _, who := range d.people() {
				if d.cluster.own["next:archive/"+who] != "" {
					q := get("/v1/me/archive?limit=2&cursor={next:archive/"+who+"}", who)
					q.about = "archive/" + who
					return q, nil
				}
			}
			return question{}, nil
		}},
		{"preflight", func(d *drama) (question, func(reply)) { return get("/v1/me/preflight", d.anyUser()), nil }},
		{"close friends", func(d *drama) (question, func(reply)) { return get("/v1/me/close-friends", d.anyUser()), nil }},
		{"blocks", func(d *drama) (question, func(reply)) {
			return get(fmt.Sprintf("/v1/me/blocks?limit=%d", 1+d.rng.IntN(5)), d.anyUser()), nil
		}},
	}
}

// medium asks for bytes: by the URL that a user got last, or without a signature.
func (d *drama) medium(s *tale, method, part string) (question, func(reply)) {
	who := d.viewer(s)
	object := fmt.Sprint(d.rng.IntN(s.media + d.rng.IntN(2)))
	if d.rng.IntN(3) == 0 {
		object += "-320"
	}
	q := get("/v1/media/{id:"+s.name+"}/"+object, who)
	if place := "url:" + s.name + "/" + who + "/" + object; d.cluster.own[place] != "" && d.rng.IntN(4) > 0 {
		q = get("{"+place+"}", "")
	}
	q.method = method
	if part != "" {
		q.header = map[string]string{"Range": part}
	}
	return q, nil
}

// relation is a kind that changes what two users are to each other.
func relationKind(name, method, path string) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		q := get(path+"/"+userPath(d.anyUser()), d.anyUser())
		q.method = method
		return q, nil
	}}
}

func followKind(name, method string) kind {
	return kind{name, func(d *drama) (question, func(reply)) {
		q := question{method: method, target: "/v1/users/" + userPath(d.anyUser()) + "/followers/" + userPath(d.anyUser()), scope: account.Service}
		return q, nil
	}}
}
