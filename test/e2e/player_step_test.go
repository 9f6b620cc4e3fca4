package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// learn takes from an answer what later lines speak of.
func (p *player) learn(l line, a answer) error {
	if aboutKeys(l.action.form) {
		return p.learnKey(l, a)
	}
	switch l.action.form {
	case "publishes a story", "publishes a paste", "publishes the upload", "reshares STORY", "publishes a post", "replies to STORY", "quotes STORY", "reposts STORY":
		if a.status == http.StatusCreated {
			return p.born(l, a)
		}
	case "opens STORY":
		if a.status == http.StatusOK {
			return p.gotMedia(l, a)
		}
	case "reserves room for N media":
		if a.status == http.StatusCreated {
			p.upload = &wire.Upload{}
			return json.Unmarshal(a.body, p.upload)
		}
	}
	return nil
}

func (p *player) born(l line, a answer) error {
	var s wire.Story
	if err := json.Unmarshal(a.body, &s); err != nil {
		return fmt.Errorf("a story that cannot be read: %w", err)
	}
	var paste wire.Paste
	if l.action.form == "publishes a paste" {
		if err := json.Unmarshal(a.body, &paste); err != nil || paste.DeleteToken == "" {
			return fmt.Errorf("a paste that cannot be read, or has no token: %v", err)
		}
		s.Media = []wire.Medium{{SHA256: paste.SHA256}}
	}
	author := l.who.name
	if l.who.acts != "" {
		author = l.who.acts
	}
	t := &published{name: l.action.with.name, post: a.header.Get("Location") == "/v1/posts/"+s.ID.String(), author: author, id: s.ID, birth: s.BornAt, media: s.Media, token: paste.DeleteToken, got: map[string][]wire.Medium{author: s.Media}}
	p.last = t
	if t.name != "" {
		p.stories[t.name] = t
	}
	if key := l.action.with.key; key != "" {
		p.keys[author+"/"+key] = t.id
	}
	return nil
}

func (p *player) gotMedia(l line, a answer) error {
	s, err := p.find(l.action.story)
	if err != nil {
		return err
	}
	var shown wire.Story
	if err := json.Unmarshal(a.body, &shown); err != nil {
		return fmt.Errorf("a story that cannot be read: %w", err)
	}
	who := l.who.name
	if l.who.acts != "" {
		who = l.who.acts
	}
	s.got[who] = shown.Media
	return nil
}

// twin asks the same of an id that never was, and wants the same bytes: a refusal
// tells nothing (ST2).
func (p *player) twin(l line, r request, refused answer) error {
	if l.action.story == "" || l.action.story == neverWas || r.admin {
		return nil
	}
	s, err := p.find(l.action.story)
	if err != nil {
		return err
	}
	never := neverWasLike(s.id)
	other := strings.NewReplacer(s.id.String(), never.String(), s.id.Short(), never.Short())
	r.target, r.body = other.Replace(r.target), []byte(other.Replace(string(r.body)))
	a, err := p.ask(r)
	if err != nil {
		return err
	}
	p.tally.twins++
	for _, difference := range differences(refused, a) {
		p.Errorf("%s: refused in other words than an id that never was: %s\n\t%s", l.where, difference, l.text)
	}
	return nil
}

// differences are what tells two answers apart, but for when they were given and
// what their requests are called.
func differences(a, b answer) []string {
	var all []string
	if a.status != b.status {
		all = append(all, fmt.Sprintf("status %d, %d", a.status, b.status))
	}
	if !bytes.Equal(a.body, b.body) {
		all = append(all, fmt.Sprintf("body %s, %s", excerpt(a.body), excerpt(b.body)))
	}
	names := map[string]bool{}
	for _, h := range []http.Header{a.header, b.header} {
		for name := range h {
			names[name] = true
		}
	}
	for name := range names {
		if name != "Date" && name != "Mayfly-Request" && !slices.Equal(a.header[name], b.header[name]) {
			all = append(all, fmt.Sprintf("%s: %q, %q", name, a.header[name], b.header[name]))
		}
	}
	slices.Sort(all)
	return all
}

// storyNames are the stories of a list, as the script calls them.
func (p *player) storyNames(stories []wire.Story) []string {
	var names []string
	for _, s := range stories {
		names = append(names, p.storyName(s.ID))
	}
	return names
}

func (p *player) storyName(id mayfly.ID) string {
	for name, s := range p.stories {
		if s.id == id {
			return name
		}
	}
	return id.String()
}

// issuer is who the tokens of both stages are from.
const issuer = "mayfly"

// subject returns the name of an actor of this script in the API: every script
// has people of its own.
func (p *player) subject(name string) string { return p.script.name + "." + name }

func (p *player) user(name string) mayfly.UserID {
	return mayfly.HomeUserOf(issuer, p.subject(name))
}

// nameOf is who a user is; the user itself if he is not of this script.
func (p *player) nameOf(user mayfly.UserID) string {
	for _, name := range actors() {
		if p.user(name) == user {
			return name
		}
	}
	return user.String()
}

// credentials are the headers that say who asks.
func (p *player) credentials(a actor) (http.Header, error) {
	h := http.Header{}
	if a.name == "anonymous" {
		return h, nil
	}
	scope, user := "user", p.subject(a.name)
	switch a.name {
	case "moderator":
		scope = "moderator"
	case "service", "admin":
		scope, user = a.name, ""
	}
	bearer, err := p.bearer(user, scope)
	if err != nil {
		return nil, fmt.Errorf("a token for %s: %w", a.name, err)
	}
	h.Set("Authorization", "Bearer "+bearer)
	if a.acts != "" {
		h.Set("Mayfly-User", p.user(a.acts).String())
	}
	return h, nil
}

// become makes the actor of a line what its brackets say he is: to the author of
// the story that it is about, to ana otherwise.
func (p *player) become(l line) error {
	if l.who.role == "" || l.who.role == "stranger" {
		return nil
	}
	author := "ana"
	if s, err := p.find(l.action.story); err == nil && l.action.story != "" {
		author = s.author
	}
	by, method, target := actor{name: author}, http.MethodPut, ""
	switch who := p.user(l.who.name); l.who.role {
	case "follower":
		by, target = actor{name: "service"}, fmt.Sprintf("/v1/users/%s/followers/%s", p.user(author), who)
	case "friend":
		target = fmt.Sprintf("/v1/me/close-friends/%s", who)
	case "blocked":
		target = fmt.Sprintf("/v1/me/blocks/%s", who)
	}
	header, err := p.credentials(by)
	if err != nil {
		return err
	}
	a, err := p.ask(request{method: method, target: target, header: header})
	if err != nil {
		return err
	}
	if a.status != http.StatusNoContent {
		return fmt.Errorf("make %s a %s: %d %s", l.who.name, l.who.role, a.status, excerpt(a.body))
	}
	return nil
}

// publishing makes r a multipart upload: the story, then its media.
func (p *player) publishing(r *request, l line) error {
	with := l.action.with
	seed := p.script.name + "/" + l.where
	if with.key != "" {
		seed = p.script.name + "/" + with.key // what is sent again is the same, media too
	}
	var media [][]byte
	for n := range max(1, with.media) {
		media = append(media, picture(seed, n))
	}
	story := wire.NewStory{Caption: captionOf(with), Audience: with.audience, Lifetime: p.lifetime(with.lifetime)}
	body, typ, err := multipartStory(story, media)
	r.body = body
	r.header.Set("Content-Type", typ)
	return err
}

func captionOf(with options) string {
	switch {
	case with.changed:
		return "another caption"
	case with.caption != "":
		return with.caption
	default:
		return with.name
	}
}

// multipartStory is a story with its media as a multipart form.
func multipartStory(story wire.NewStory, media [][]byte) (body []byte, typ string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="story"`}, "Content-Type": {"application/json"},
	})
	if err != nil {
		return nil, "", err
	}
	if err := json.NewEncoder(part).Encode(story); err != nil {
		return nil, "", err
	}
	for n, medium := range media {
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="media"; filename="%d.png"`, n)}, "Content-Type": {"image/png"},
		})
		if err != nil {
			return nil, "", err
		}
		if _, err := part.Write(medium); err != nil {
			return nil, "", err
		}
	}
	err = w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}

// picture is a small picture that no other seed and number has.
func picture(seed string, n int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(seed), uint32(n)))
	img := image.NewNRGBA(image.Rect(0, 0, 8, 4))
	for i, b := range sum {
		img.Set(i%8, i/8, color.NRGBA{R: b, G: ^b, B: byte(i), A: 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// neverWasLike is an id that tells the same times as id and the same trace, and
// of which no row was ever written.
func neverWasLike(id mayfly.ID) mayfly.ID {
	id[14] ^= 0xa5 // random bits; the shard stays
	return id
}
