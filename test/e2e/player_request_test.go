package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// putLength is the length of the media that are put to an upload.
const putLength = 1024

// toPut makes a picture that long: cleaning drops what follows it.
func toPut(picture []byte) []byte { return append(picture, make([]byte, putLength-len(picture))...) }

// request is the request that a line makes.
func (p *player) request(l line) (request, error) {
	d := l.action
	r := request{method: http.MethodGet}
	var err error
	if r.header, err = p.credentials(l.who); err != nil {
		return r, err
	}
	if aboutKeys(d.form) {
		return p.keyRequest(l, r)
	}
	if d.with.key != "" {
		r.header.Set("Idempotency-Key", p.script.name+"/"+d.with.key)
	}
	if d.with.password != "" && d.form != "publishes a paste" {
		r.header.Set("Mayfly-Password", d.with.password)
	}
	var id mayfly.ID
	item := "/v1/stories/"
	if d.story != "" {
		s, err := p.find(d.story)
		if err != nil {
			return r, err
		}
		if id = s.id; d.story == neverWas {
			id = neverWasLike(s.id)
		}
		switch {
		case s.token != "":
			item = "/v1/pastes/"
		case s.post:
			item = "/v1/posts/"
		}
		if d.with.byToken {
			r.header.Set("Mayfly-Delete-Token", s.token)
		}
	}
	var people []mayfly.UserID
	for _, name := range d.people {
		people = append(people, p.user(name))
	}
	switch d.form {
	case "publishes a story":
		r.method, r.target = http.MethodPost, "/v1/stories"
		return r, p.publishing(&r, l)
	case "publishes a paste":
		r.method, r.target = http.MethodPost, "/v1/pastes"
		in := wire.NewPaste{Content: captionOf(d.with), Lifetime: p.lifetime(d.with.lifetime), Password: d.with.password, Private: d.with.private}
		if in.Burn = d.with.reads == 1; !in.Burn {
			in.Reads = d.with.reads
		}
		return r, r.json(in)
	case "publishes a post", "replies to STORY", "quotes STORY":
		r.method, r.target = http.MethodPost, "/v1/posts"
		in := wire.NewPost{Text: captionOf(d.with), Lifetime: p.lifetime(d.with.lifetime)}
		switch d.form {
		case "replies to STORY":
			in.ReplyTo = &id
		case "quotes STORY":
			in.Quote = &id
		}
		return r, r.json(in)
	case "reposts STORY":
		r.method, r.target = http.MethodPut, item+id.String()+"/repost"
	case "takes back the repost of STORY":
		r.method, r.target = http.MethodDelete, item+id.String()+"/repost"
	case "lists the posts of WHO":
		r.target = fmt.Sprintf("/v1/users/%s/posts", people[0])
	case "looks at the home":
		r.target = "/v1/me/home"
	case "looks at the tray":
		r.target = "/v1/me/tray"
	case "asks to follow WHO":
		r.method, r.target = http.MethodPut, "/v1/me/following/"+people[0].String()
	case "no longer follows WHO":
		r.method, r.target = http.MethodDelete, "/v1/me/following/"+people[0].String()
	case "accepts WHO":
		r.method, r.target = http.MethodPost, "/v1/me/follow-requests/"+people[0].String()
	case "mutes WHO":
		r.method, r.target = http.MethodPut, "/v1/me/mutes/"+people[0].String()
	case "unmutes WHO":
		r.method, r.target = http.MethodDelete, "/v1/me/mutes/"+people[0].String()
	case "goes private", "goes public":
		private := strings.HasSuffix(d.form, "private")
		r.method, r.target = http.MethodPatch, "/v1/me/profile"
		return r, r.json(wire.ProfileChange{Private: &private})
	case "publishes the upload":
		r.method, r.target = http.MethodPost, "/v1/stories"
		if p.upload == nil {
			return r, fmt.Errorf("no room was reserved")
		}
		return r, r.json(wire.NewStory{Caption: captionOf(d.with), Audience: d.with.audience, Lifetime: p.lifetime(d.with.lifetime), Upload: &p.upload.ID})
	case "reserves room for N media":
		r.method, r.target = http.MethodPost, "/v1/uploads"
		return r, r.json(wire.NewUpload{Media: slices.Repeat([]wire.NewMedium{{Length: putLength}}, d.n)})
	case "puts medium N":
		if p.upload == nil {
			return r, fmt.Errorf("no room was reserved")
		}
		r.method, r.target = http.MethodPut, fmt.Sprintf("/v1/uploads/%s/%d", p.upload.ID, d.n)
		r.header.Set("Content-Type", "image/png")
		r.body = toPut(picture(p.script.name+p.upload.ID.String(), d.n))
	case "asks for the upload":
		if p.upload == nil {
			return r, fmt.Errorf("no room was reserved")
		}
		r.target = "/v1/uploads/" + p.upload.ID.String()
	case "asks what may be published":
		r.target = "/v1/me/preflight"
	case "opens STORY":
		r.target = item + id.String()
	case "reads STORY":
		r.target = "/raw/" + id.Short()
	case "reads the page of STORY":
		r.target = "/" + id.Short()
		r.header.Set("Accept", "text/html")
	case "claims STORY":
		r.method, r.target = http.MethodPost, "/raw/"+id.Short()
	case "lists pastes":
		r.target = "/v1/me/pastes"
	case "loads the picture of STORY", "loads a part of the picture of STORY":
		r.target, err = p.pictureURL(l, id)
		if strings.Contains(r.target, "sig=") && !strings.Contains(r.target, "moderator=") { // as a browser asks for a picture: the URL alone must do
			r.header = http.Header{}
		}
		if d.form != "loads the picture of STORY" {
			r.header.Set("Range", "bytes=8-15")
		}
		return r, err
	case "views STORY":
		r.method, r.target = http.MethodPost, fmt.Sprintf("/v1/stories/%s/view", id)
	case "asks who saw STORY":
		r.target = fmt.Sprintf("/v1/stories/%s/viewers", id)
	case "looks at the ring of WHO":
		r.target = fmt.Sprintf("/v1/users/%s/ring", people[0])
	case "looks at the archive":
		r.target = "/v1/me/archive"
		if d.with.day > 0 {
			from := p.midnight().Add(p.span(time.Duration(d.with.day-1) * 24 * time.Hour))
			to := p.midnight().Add(p.span(time.Duration(d.with.day) * 24 * time.Hour))
			r.target += "?" + p.daySaid(from, to).Encode()
		}
	case "reshares STORY":
		r.method, r.target = http.MethodPost, fmt.Sprintf("/v1/stories/%s/reshare", id)
		change := wire.Reshare{Audience: d.with.audience, Lifetime: p.lifetime(d.with.lifetime)}
		if d.with.caption != "" {
			change.Caption = &d.with.caption
		}
		return r, r.json(change)
	case "deletes STORY":
		r.method, r.target = http.MethodDelete, item+id.String()
	case "adds WHO to close friends":
		r.method, r.target = http.MethodPut, "/v1/me/close-friends/"+people[0].String()
	case "removes WHO from close friends":
		r.method, r.target = http.MethodDelete, "/v1/me/close-friends/"+people[0].String()
	case "lists close friends":
		r.target = "/v1/me/close-friends"
	case "blocks WHO":
		r.method, r.target = http.MethodPut, "/v1/me/blocks/"+people[0].String()
	case "unblocks WHO":
		r.method, r.target = http.MethodDelete, "/v1/me/blocks/"+people[0].String()
	case "lists blocks":
		r.target = "/v1/me/blocks"
	case "makes WHO a follower of WHO":
		r.method, r.target = http.MethodPut, fmt.Sprintf("/v1/users/%s/followers/%s", people[1], people[0])
	case "ends that WHO follows WHO":
		r.method, r.target = http.MethodDelete, fmt.Sprintf("/v1/users/%s/followers/%s", people[1], people[0])
	case "holds STORY":
		r.admin, r.method, r.target = true, http.MethodPut, "/v1/holds/"+id.String()
		return r, r.json(wire.Reason{Reason: d.with.reason})
	case "releases STORY":
		r.admin, r.method, r.target = true, http.MethodDelete, "/v1/holds/"+id.String()
		return r, r.json(wire.Reason{Reason: d.with.reason})
	case "restores STORY":
		r.admin, r.method, r.target = true, http.MethodPost, "/v1/restores"
		until, err := p.exactly(d.with.until, d.story)
		if err != nil {
			return r, err
		}
		return r, r.json(wire.RestoreRequest{ID: &id, Until: &until, Reason: d.with.reason})
	case "explains STORY", "explains STORY to WHO":
		r.admin = true
		query := url.Values{}
		for _, user := range people {
			query.Set("viewer", user.String())
		}
		if d.with.asOf.relative() {
			at, err := p.exactly(d.with.asOf, d.story)
			if err != nil {
				return r, err
			}
			query.Set("at", at.String())
		}
		r.target = "/v1/explain/" + id.String() + "?" + query.Encode()
	case "erases the account of WHO":
		r.admin, r.method, r.target = true, http.MethodDelete, "/v1/users/"+people[0].String()
		return r, r.json(wire.Reason{Reason: d.with.reason})
	default:
		return r, fmt.Errorf("the player does not know %q", d.form)
	}
	return r, nil
}

// json makes v the body of a request.
func (r *request) json(v any) error {
	body, err := json.Marshal(v)
	r.body = body
	r.header.Set("Content-Type", "application/json")
	return err
}

// exactly is when w is on this stage, without any margin.
func (p *player) exactly(w when, about string) (mayfly.Instant, error) {
	name := w.since
	if name == it && about != "" {
		name = about
	}
	s, err := p.find(name)
	if err != nil {
		return 0, err
	}
	return s.birth.Add(p.span(w.after)), nil
}

// daySaid asks for a day: by its date where a day of the script is one.
func (p *player) daySaid(from, to mayfly.Instant) url.Values {
	if p.span(time.Hour) == time.Hour {
		return url.Values{"day": {from.Time().Format(time.DateOnly)}}
	}
	return url.Values{"from": {from.String()}, "to": {to.String()}}
}

// pictureURL is the URL of a medium as an actor got it with the story last, or
// an unsigned one when he never did.
func (p *player) pictureURL(l line, id mayfly.ID) (string, error) {
	d := l.action
	object := strconv.Itoa(d.with.media)
	if d.with.longest > 0 {
		object += fmt.Sprintf("-%d", d.with.longest)
	}
	unsigned := fmt.Sprintf("/v1/media/%s/%s", id, object)
	s, err := p.find(d.story)
	if err != nil || d.story == neverWas {
		return unsigned, err
	}
	who := l.who.name
	switch {
	case d.with.gotBy != "":
		who = d.with.gotBy
	case l.who.acts != "":
		who = l.who.acts
	}
	got := s.got[who]
	if got == nil {
		return unsigned, nil
	}
	if d.with.media >= len(got) {
		return "", fmt.Errorf("%q has %d media", s.name, len(got))
	}
	if d.with.longest == 0 {
		return got[d.with.media].URL, nil
	}
	for _, rendition := range got[d.with.media].Renditions {
		if rendition.Longest == d.with.longest {
			return rendition.URL, nil
		}
	}
	return "", fmt.Errorf("medium %d of %q has no picture of %d", d.with.media, s.name, d.with.longest)
}
