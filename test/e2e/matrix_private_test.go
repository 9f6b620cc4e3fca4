package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mayflyhq/mayfly/api/wire"
)

// circle is what an author's viewers are to the author, beside the roles that every
// matrix has: here an account is public or private, and each side may block the other.
type circle struct {
	*matrix
	author  string
	private bool
	stories map[string]string // id by audience
	post    string
	asked   int
}

// viewer is one who asks.
type viewer struct {
	name    string // of the user; "": none
	scope   string // of the token; "": no token
	service bool   // a service that acts for the user

	follows, friend, blocked, blocks, mutes, asks bool
	all                                           bool // the author, or a moderator
}

func (c *circle) viewers() []viewer {
	user := func(name string, v viewer) viewer {
		v.name, v.scope = c.author+"."+name, "user"
		return v
	}
	return []viewer{
		user("follower", viewer{follows: true}), user("former follower", viewer{}), user("stranger", viewer{}),
		user("who asks", viewer{asks: true, follows: !c.private}), user("close friend", viewer{friend: true}),
		user("close follower", viewer{follows: true, friend: true}), user("who mutes", viewer{follows: true, mutes: true}),
		user("who blocks", viewer{blocks: true}), user("blocked", viewer{blocked: true}),
		user("blocked, whom the product lets follow", viewer{follows: true, blocked: true}),
		user("who blocks, whom the product lets follow", viewer{follows: true, blocks: true}),
		{name: c.author, scope: "user", all: true},
		{name: c.author, service: true, scope: "service", all: true},
		{name: c.author + ".follower", service: true, scope: "service", follows: true},
		{name: c.author + ".support", scope: "moderator", all: true},
		{},
		{scope: "service"},
		{scope: "admin"},
	}
}

func (c *circle) header(v viewer) http.Header {
	switch {
	case v.scope == "":
		return http.Header{}
	case v.service:
		h := c.as("", v.scope)
		h.Set("Mayfly-User", userNamed(v.name).String())
		return h
	default:
		return c.as(v.name, v.scope)
	}
}

// sees is C2 with private accounts and blocks.
func (c *circle) sees(v viewer, audience string) bool {
	switch {
	case v.all:
		return true
	case v.blocked:
		return false
	case audience == "everyone":
		return !c.private || v.follows
	case audience == "followers":
		return v.follows
	default:
		return v.friend
	}
}

func (c *circle) do(as, method, path string, body any, status int) answer {
	c.Helper()
	scope := "user"
	if as == "" {
		scope = "service"
	}
	r := request{method: method, target: path, header: c.as(as, scope)}
	if body != nil {
		if err := r.json(body); err != nil {
			c.Fatal(err)
		}
	}
	return c.must(r, status)
}

func (c *circle) id() string { return userNamed(c.author).String() }

// gather publishes while the account is public, and then makes everyone what their name
// says.
func (c *circle) gather() {
	c.Helper()
	for _, audience := range []string{"everyone", "followers", "close_friends"} {
		body, typ, err := multipartStory(wire.NewStory{Caption: "secret " + audience, Audience: audience}, [][]byte{picture(c.author+audience, 0)})
		if err != nil {
			c.Fatal(err)
		}
		header := c.as(c.author, "user")
		header.Set("Content-Type", typ)
		var s wire.Story
		if err := json.Unmarshal(c.must(request{method: http.MethodPost, target: "/v1/stories", header: header, body: body}, http.StatusCreated).body, &s); err != nil {
			c.Fatal(err)
		}
		c.stories[audience] = s.ID.String()
	}
	var p wire.Post
	if err := json.Unmarshal(c.do(c.author, http.MethodPost, "/v1/posts", wire.NewPost{Text: "secret post"}, http.StatusCreated).body, &p); err != nil {
		c.Fatal(err)
	}
	c.post = p.ID.String()
	c.do(c.author, http.MethodPatch, "/v1/me/profile", wire.ProfileChange{Private: &c.private}, http.StatusOK)
	for _, v := range c.viewers() {
		if v.name == "" || v.all || v.service {
			continue
		}
		id := userNamed(v.name).String()
		let := func() {
			c.do("", http.MethodPut, "/v1/users/"+c.id()+"/followers/"+id, nil, http.StatusNoContent)
		}
		if !v.asks && !strings.HasSuffix(v.name, ".stranger") && !strings.HasSuffix(v.name, ".close friend") {
			let()
		}
		if v.friend || v.blocked {
			c.do(c.author, http.MethodPut, "/v1/me/close-friends/"+id, nil, http.StatusNoContent)
		}
		switch {
		case v.asks:
			c.do(v.name, http.MethodPut, "/v1/me/following/"+c.id(), nil, http.StatusOK)
		case v.mutes:
			c.do(v.name, http.MethodPut, "/v1/me/mutes/"+c.id(), wire.Mute{Posts: true}, http.StatusNoContent)
		case strings.HasSuffix(v.name, ".former follower"):
			c.do(v.name, http.MethodDelete, "/v1/me/following/"+c.id(), nil, http.StatusNoContent)
		case v.blocked:
			c.do(c.author, http.MethodPut, "/v1/me/blocks/"+id, nil, http.StatusNoContent)
		case v.blocks:
			c.do(v.name, http.MethodPut, "/v1/me/blocks/"+c.id(), nil, http.StatusNoContent)
		}
		if v.follows && (v.blocked || v.blocks) {
			let()
		}
	}
}

// ask asks as a viewer, and wants a status and exactly those of the ids that it names.
func (c *circle) ask(v viewer, op, target string, wants int, ids map[string]bool) {
	c.Helper()
	a, err := c.matrix.ask(request{method: http.MethodGet, target: target, header: c.header(v)})
	if err != nil {
		c.Fatal(err)
	}
	c.asked++
	wrong := func(word, what string) {
		c.counts[word]++
		c.Errorf("%s: %s of a private %t account by %+v: %s: %d %s", word, op, c.private, v, what, a.status, excerpt(a.body))
	}
	if a.status != wants {
		wrong(c.word(a.status, wants, live), fmt.Sprintf("not %d", wants))
		return
	}
	for id, shown := range ids {
		if in := contains(a, id); in && (!shown || a.status >= 400) {
			wrong("LEAK", id)
		} else if !in && shown && a.status < 400 {
			wrong("EARLY", id)
		}
	}
	if a.status >= 400 && contains(a, "secret") {
		wrong("LEAK", "secret")
	}
}

// user returns the status for a route that only users call.
func (v viewer) user(otherwise int) int {
	switch {
	case v.scope == "":
		return http.StatusUnauthorized
	case v.name == "":
		return http.StatusForbidden
	}
	return otherwise
}

func (c *circle) askAll(v viewer) {
	c.Helper()
	found := func(yes bool) int {
		if yes {
			return http.StatusOK
		}
		return http.StatusNotFound
	}
	ring, newest := map[string]bool{}, ""
	for audience, id := range c.stories {
		sees := c.sees(v, audience)
		c.ask(v, "openStory", "/v1/stories/"+id, found(sees), map[string]bool{id: sees})
		ring[id] = sees
		if sees && id > newest {
			newest = id
		}
	}
	c.ask(v, "getRing", "/v1/users/"+c.id()+"/ring", http.StatusOK, ring)
	inTray := v.follows && !v.mutes && !v.blocks && newest != ""
	tray := map[string]bool{c.id(): inTray}
	for id := range ring {
		tray[id] = inTray && id == newest
	}
	c.ask(v, "getTray", "/v1/me/tray", v.user(http.StatusOK), tray)
	sees := c.sees(v, "everyone")
	c.ask(v, "getPost", "/v1/posts/"+c.post, found(sees), map[string]bool{c.post: sees})
	c.ask(v, "listPosts", "/v1/users/"+c.id()+"/posts", http.StatusOK, map[string]bool{c.post: sees})
	c.ask(v, "getUser", "/v1/users/"+c.id(), found(!v.blocked), map[string]bool{c.id(): true})
	for _, list := range []string{"followers", "following"} {
		c.ask(v, list, "/v1/users/"+c.id()+"/"+list, found(!v.blocked && sees), map[string]bool{userNamed(c.author + ".follower").String(): list == "followers"})
	}
}

// Stories, rings, trays, posts and profiles of public and private accounts are shown to
// those who may see them and to no other, whatever was blocked (C2, F2).
func TestPrivateAccountsAndBlocksAreExactForEveryRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &matrix{testNode: openNode(t, nodeConfig()), counts: map[string]int{}}
		defer m.close()
		asked := 0
		for _, private := range []bool{false, true} {
			c := &circle{matrix: m, author: fmt.Sprintf("circle.%t", private), private: private, stories: map[string]string{}}
			c.gather()
			for _, v := range c.viewers() {
				c.askAll(v)
			}
			asked += c.asked
		}
		m.measured()
		words := []string{}
		for word, n := range m.counts {
			words = append(words, fmt.Sprint(word, " ", n))
		}
		slices.Sort(words)
		t.Logf("%d requests; LEAK %d, EARLY %d, all %v", asked, m.counts["LEAK"], m.counts["EARLY"], words)
		if asked < 300 {
			t.Error("that is little")
		}
	})
}
