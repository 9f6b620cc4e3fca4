package social

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// Clients is a System of servers, which its users ask over HTTP. As returns a client of a
// user, of any node; a home is so read on another node than the one that has changed it.
type Clients struct {
	testing.TB
	Name     func(user int) string // in a path, such as ~ana
	As       func(user int) *client.Client
	Service  *client.Client
	Operator *client.Client // of the admin listener
	Clock    func() mayfly.Instant
	Wait     func()
}

var _ System = Clients{}

// Now implements System.
func (c Clients) Now() mayfly.Instant { return c.Clock() }

// Pass implements System.
func (c Clients) Pass() { c.Wait() }

// Follow implements System.
func (c Clients) Follow(reader, author int) (string, error) {
	f, err := c.As(reader).Follow(c.Context(), c.Name(author))
	return f.State, err
}

// Unfollow implements System.
func (c Clients) Unfollow(reader, author int) error {
	return c.As(reader).Unfollow(c.Context(), c.Name(author))
}

// Accept implements System.
func (c Clients) Accept(author, reader int) error {
	return c.As(author).AcceptFollow(c.Context(), c.Name(reader))
}

// SetFollower implements System.
func (c Clients) SetFollower(author, reader int) error {
	return c.Service.AddFollower(c.Context(), c.Name(author), c.Name(reader))
}

// Block implements System.
func (c Clients) Block(user, other int, blocks bool) error {
	if blocks {
		return c.As(user).Block(c.Context(), c.Name(other))
	}
	return c.As(user).Unblock(c.Context(), c.Name(other))
}

// Mute implements System.
func (c Clients) Mute(reader, author int, posts, reposts bool) error {
	if !posts && !reposts {
		return c.As(reader).Unmute(c.Context(), c.Name(author))
	}
	return c.As(reader).Mute(c.Context(), c.Name(author), wire.Mute{Posts: posts, Reposts: reposts})
}

// Private implements System.
func (c Clients) Private(author int, private bool) error {
	_, err := c.As(author).ChangeProfile(c.Context(), wire.ProfileChange{Private: &private})
	return err
}

// Publish implements System.
func (c Clients) Publish(author int, about mayfly.ID, quote bool, lifetime string) (mayfly.ID, error) {
	in := wire.NewPost{Text: "sea", Lifetime: lifetime}
	switch {
	case about.IsZero():
	case quote:
		in.Quote = &about
	default:
		in.ReplyTo = &about
	}
	p, err := c.As(author).CreatePost(c.Context(), in, rand.Text())
	return p.ID, err
}

// Repost implements System.
func (c Clients) Repost(user int, id mayfly.ID) (mayfly.ID, error) {
	p, err := c.As(user).Repost(c.Context(), id)
	return p.ID, err
}

// Unrepost implements System.
func (c Clients) Unrepost(user int, id mayfly.ID) error {
	return c.As(user).Unrepost(c.Context(), id)
}

// Delete implements System.
func (c Clients) Delete(author int, id mayfly.ID) error {
	return c.As(author).DeletePost(c.Context(), id)
}

// Hold implements System.
func (c Clients) Hold(id mayfly.ID, held bool) error {
	do := map[bool]func(context.Context, mayfly.ID, string) error{true: c.Operator.Hold, false: c.Operator.Release}[held]
	return do(c.Context(), id, "a court asks")
}

// Home implements System. It also wants the profiles of the authors on the page, each
// once.
func (c Clients) Home(reader int, cursor string, limit int) (page Page, err error) {
	home, err := c.As(reader).Home(c.Context(), cursor, limit)
	if err != nil {
		return page, err
	}
	cards, authors := map[mayfly.UserID]bool{}, map[mayfly.UserID]bool{}
	for _, a := range home.Authors {
		cards[a.User] = true
	}
	for _, p := range home.Posts {
		shown := Shown{ID: p.ID}
		if authors[p.Author] = true; p.Of != nil {
			shown.Of, authors[p.Of.Author] = p.Of.ID, true
		}
		page.Posts = append(page.Posts, shown)
	}
	if page.Next = home.Next; fmt.Sprint(cards) != fmt.Sprint(authors) || len(cards) != len(home.Authors) || home.Partial {
		c.Errorf("the authors of a page are %v, its posts are by %v", home.Authors, authors)
	}
	return page, nil
}
