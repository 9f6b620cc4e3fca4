package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// found is any answer, decoded: what a check looks at.
type found struct {
	wire.Story
	Code       string          `json:"code"`
	Stories    []wire.Story    `json:"stories"`
	Pastes     []wire.Paste    `json:"pastes"`
	Posts      []wire.Post     `json:"posts"`
	Slots      []wire.TraySlot `json:"slots"`
	Users      []mayfly.UserID `json:"users"`
	Viewers    []wire.Viewer   `json:"viewers"`
	Count      *int            `json:"count"`
	Live       *int            `json:"live"`
	MayPublish *bool           `json:"may_publish"`
	Keys       []wire.KVKey    `json:"keys"`
	Value      *string         `json:"value"`
	Verdict    string          `json:"verdict"`
	Type       string          `json:"type"`
}

// compare holds an answer against what must come.
func (p *player) compare(l line, a answer) []string {
	if l.want.redis != string(a.body) && l.want.status == 0 {
		return []string{fmt.Sprintf("answered %s", a.body)}
	}
	if a.status != l.want.status {
		return []string{fmt.Sprintf("answered %d", a.status)}
	}
	var f found
	if typ := a.header.Get("Content-Type"); strings.Contains(typ, "json") {
		if err := json.Unmarshal(a.body, &f); err != nil {
			return []string{fmt.Sprintf("no JSON: %v", err)}
		}
	} else if strings.HasPrefix(typ, "text/event-stream") {
		var err error
		if f.Keys, err = expiredKeys(a.body); err != nil {
			return []string{fmt.Sprintf("no events of expired keys: %v", err)}
		}
	}
	wrong := p.longURLs(append(f.Stories, f.Story), a)
	for _, c := range l.want.checks {
		if got, ok := p.holds(c, l, a, f); !ok {
			wrong = append(wrong, fmt.Sprintf("%s %s: got %s", c.word, strings.Join(c.args, " "), got))
		}
	}
	return wrong
}

// holds says whether a check is met, and what is there.
func (p *player) holds(c check, l line, a answer, f found) (got string, ok bool) {
	same := func(got, want string) (string, bool) { return strconv.Quote(got), got == want }
	switch c.word {
	case "hot", "cold":
		return same(f.Tier, c.word)
	case "state":
		return same(f.State, c.args[0])
	case "caption":
		return same(f.Caption, c.args[0])
	case "code":
		return same(f.Code, c.args[0])
	case "verdict":
		return same(f.Verdict, c.args[0])
	case "says":
		return excerpt(a.body), bytes.Contains(bytes.ToLower(a.body), []byte(strings.ToLower(c.args[0])))
	case "lists":
		names := p.listed(f)
		return fmt.Sprint(names), slices.Equal(names, c.args)
	case "nothing":
		names := p.listed(f)
		return fmt.Sprint(names), len(names) == 0
	case "seen", "unseen":
		return p.marks(c, f)
	case "count":
		return counted(f.Count, c.args[0])
	case "live":
		return counted(f.Live, c.args[0])
	case "may", "not":
		return "another word", f.MayPublish != nil && *f.MayPublish == (c.word == "may")
	case "media":
		n := len(f.Media)
		return counted(&n, c.args[0])
	case "pictures":
		return "a medium without them", len(f.Media) > 0 && !slices.ContainsFunc(f.Media, func(m wire.Medium) bool { return len(m.Renditions) != 2 })
	case "private", "public":
		how := a.header.Get("Cache-Control")
		return strconv.Quote(how), how == "private, no-store" == (c.word == "private") && strings.Contains(how, c.word)
	case "type":
		if f.Type != "" {
			return same(f.Type, c.args[0])
		}
		return same(a.header.Get("Content-Type"), c.args[0])
	case "whole":
		return p.whole(l, a)
	case "same":
		by := l.who.name
		return f.ID.String(), !f.ID.IsZero() && f.ID == p.keys[by+"/"+l.action.with.key]
	case "value":
		if f.Value != nil {
			return same(*f.Value, c.args[0])
		}
		return same(string(a.body), c.args[0])
	case "ends", "until":
		if aboutKeys(l.action.form) {
			return p.keyEnds(c, l, a)
		}
		return p.ends(c, l, f)
	}
	return "the player does not know this word", false
}

// listed are the names of what an answer lists, whatever it is.
func (p *player) listed(f found) []string {
	names := p.storyNames(f.Stories)
	for _, paste := range f.Pastes {
		names = append(names, p.storyName(paste.ID))
	}
	for _, post := range f.Posts {
		names = append(names, p.storyName(post.ID))
	}
	for _, slot := range f.Slots {
		names = append(names, p.nameOf(slot.User))
	}
	for _, user := range f.Users {
		names = append(names, p.nameOf(user))
	}
	for _, viewer := range f.Viewers {
		names = append(names, p.nameOf(viewer.User))
	}
	for _, key := range f.Keys {
		names = append(names, *key.Key)
	}
	return names
}

// marks holds the seen marks of a ring or a tray against a check.
func (p *player) marks(c check, f found) (string, bool) {
	var marked []string
	for _, s := range f.Stories {
		if s.Seen != nil && *s.Seen == (c.word == "seen") {
			marked = append(marked, p.storyName(s.ID))
		}
	}
	for _, slot := range f.Slots {
		if seen := slot.Seen != nil && *slot.Seen == slot.Newest; seen == (c.word == "seen") {
			marked = append(marked, p.nameOf(slot.User))
		}
	}
	return fmt.Sprint(marked), slices.Equal(marked, c.args)
}

func counted(got *int, want string) (string, bool) {
	if got == nil {
		return "nothing", false
	}
	return strconv.Itoa(*got), strconv.Itoa(*got) == want
}

// whole says whether the bytes are those of the medium that was published.
func (p *player) whole(l line, a answer) (string, bool) {
	s, err := p.find(l.action.story)
	if err != nil || l.action.with.media >= len(s.media) {
		return fmt.Sprint(err), false
	}
	sum := sha256.Sum256(a.body)
	return fmt.Sprintf("%d bytes", len(a.body)), hex.EncodeToString(sum[:]) == s.media[l.action.with.media].SHA256
}

// ends holds an instant of a story against a time since its birth.
func (p *player) ends(c check, l line, f found) (string, bool) {
	after, err := parseSpan(c.args[0])
	if err != nil {
		return err.Error(), false
	}
	birth := f.BornAt
	if birth == 0 { // the answer of a restore
		if s, err := p.find(l.action.story); err == nil {
			birth = s.birth
		}
	}
	want := birth.Add(p.span(after))
	switch {
	case c.word == "ends":
		return f.ExpiresAt.String(), f.ExpiresAt == want
	case c.word == "until" && f.ServesUntil != nil:
		return f.ServesUntil.String(), *f.ServesUntil == want
	}
	return "nothing", false
}

// longURLs are the media URLs that last longer than they may: a while from now,
// and while the story serves never past its end (ST3, ST6).
func (p *player) longURLs(stories []wire.Story, a answer) []string {
	var wrong []string
	for _, s := range stories {
		end := s.ExpiresAt
		if s.ServesUntil != nil {
			end = max(end, *s.ServesUntil)
		}
		most := min(a.ended.Add(p.urls(false)), end)
		if a.began >= end {
			most = a.ended.Add(p.urls(true))
		}
		for n, m := range s.Media {
			if m.URLUntil > most {
				wrong = append(wrong, fmt.Sprintf("the URL of medium %d of %s lasts until %s, and may until %s", n, s.ID, m.URLUntil, most))
			}
		}
	}
	return wrong
}
