package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// learn takes from an answer what later lines speak of.
func (p *player) learn(l line, a answer) error {
	switch l.action.form {
	case "publishes a story", "publishes the upload", "reshares STORY":
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
	author := l.who.name
	if l.who.acts != "" {
		author = l.who.acts
	}
	t := &published{name: l.action.with.name, author: author, id: s.ID, birth: s.BornAt, media: s.Media, got: map[string][]wire.Medium{author: s.Media}}
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
	r.target = strings.Replace(r.target, s.id.String(), neverWasLike(s.id).String(), 1)
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
