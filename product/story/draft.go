package story

import (
	"encoding/json"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// Draft is what an author wants to publish (ST1).
type Draft struct {
	Author   mayfly.UserID
	Caption  string
	Audience string          // its word; empty: followers
	Lifetime string          // such as 24h; empty: the default
	Overlays json.RawMessage // nil without
	Key      string          // idempotency key; empty without

	// Upload names the reserved upload whose media it has; zero: they are in Media.
	Upload mayfly.ID
	// Media are the bytes of its media, one after the other. Each reader is read to
	// its end before the next is asked for.
	Media iter.Seq2[io.Reader, error]
}

const (
	maxCaption = 2_200 // characters
	maxKey     = 255   // bytes of an idempotency key

	// uploadKeyPrefix begins the idempotency key of an upload that is published
	// without one.
	uploadKeyPrefix = "upload:"
)

// checked is a draft that follows the rules, before any medium was read.
type checked struct {
	author   mayfly.UserID
	caption  string
	audience mayfly.Audience
	lifetime mayfly.Lifetime
	data     []byte
	key      string
}

func (o Options) check(d Draft) (checked, error) {
	c := checked{author: d.Author, key: d.Key}
	if d.Author.IsZero() {
		return c, mayfly.Errorf(mayfly.Unauthenticated, "a story has an author").WithHint("publish with a user's token")
	}
	if len(d.Key) > maxKey || !utf8.ValidString(d.Key) {
		return c, mayfly.Errorf(mayfly.Invalid, "the idempotency key is too long or no text").WithHint("use at most 255 bytes, such as a UUID")
	}
	if strings.HasPrefix(d.Key, uploadKeyPrefix) {
		return c, mayfly.Errorf(mayfly.Invalid, "an idempotency key does not begin with %q", uploadKeyPrefix).WithHint("use a UUID")
	}
	var err error
	if c.caption, err = mayfly.CleanText("caption", d.Caption, maxCaption); err != nil {
		return c, err
	}
	if c.audience, err = audienceOf(d.Audience, mayfly.Followers); err != nil {
		return c, err
	}
	if c.lifetime, err = o.lifetimeOf(d.Lifetime); err != nil {
		return c, err
	}
	overlays, err := checkOverlays(d.Overlays)
	if err != nil {
		return c, err
	}
	c.data = overlayData(overlays)
	return c, nil
}

func audienceOf(word string, byDefault mayfly.Audience) (mayfly.Audience, error) {
	if word == "" {
		return byDefault, nil
	}
	for a := mayfly.Everyone; a <= mayfly.CloseFriends; a++ {
		if a.String() == word {
			return a, nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Invalid, "%.40q is no audience", word).WithHint("choose everyone, followers or close_friends")
}

// lifetimeOf reads a lifetime, rounds it up to what an id can express (L2), and
// checks that the operator allows it.
func (o Options) lifetimeOf(text string) (mayfly.Lifetime, error) {
	if text == "" {
		return o.Lifetimes[0], nil
	}
	l, err := mayfly.ParseLifetime(text)
	if err != nil {
		return 0, err
	}
	if !slices.Contains(o.Lifetimes, l) {
		return 0, mayfly.Errorf(mayfly.Invalid, "a story cannot have the lifetime %s here", l).WithHint("choose one of " + o.lifetimeList())
	}
	return l, nil
}

func (o Options) lifetimeList() string {
	words := make([]string, len(o.Lifetimes))
	for i, l := range o.Lifetimes {
		words[i] = l.String()
	}
	return strings.Join(words, ", ")
}
