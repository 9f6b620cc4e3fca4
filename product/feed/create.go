package feed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/feed/text"
	"github.com/mayflyhq/mayfly/store"
)

// Draft is a post that an author wants to publish (F1).
type Draft struct {
	Author   mayfly.UserID
	Text     string
	ReplyTo  mayfly.ID // zero: it is no reply
	Quote    mayfly.ID // zero: it quotes nothing
	Lifetime string    // such as 24h, or never; empty: the default
	Key      string    // idempotency key; empty without

	// Born is when a post that moves in was published elsewhere, and Source its name
	// there, which no other post of its author has. It moves in once. Zero: the post is
	// born now.
	Born   mayfly.Instant
	Source string

	// Upload names the reserved upload whose media it has; zero: they are in Media.
	Upload mayfly.ID
	// Media are the bytes of its media, one after the other. Each reader is read to
	// its end before the next is asked for. Nil without.
	Media iter.Seq2[io.Reader, error]
}

const (
	// uploadKeyPrefix begins the idempotency key of an upload that is published without
	// one, and repostKeyPrefix that of a repost.
	uploadKeyPrefix = "upload:"
	repostKeyPrefix = "repost:"
)

// check returns the lifetime of the draft, and the draft with its text cleaned and its
// key. Errors: Invalid, TooLarge, Unauthenticated.
func (f *Feed) check(d Draft) (Draft, mayfly.Lifetime, error) {
	bad := func(hint, format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint(hint)
	}
	switch {
	case d.Author.IsZero():
		return d, 0, mayfly.Errorf(mayfly.Unauthenticated, "a post has an author").WithHint("publish with a user's token")
	case !utf8.ValidString(d.Key) || strings.HasPrefix(d.Key, uploadKeyPrefix) || strings.HasPrefix(d.Key, repostKeyPrefix):
		return d, 0, bad("use a UUID", "an idempotency key is text and does not begin with %q or %q", uploadKeyPrefix, repostKeyPrefix)
	case !d.ReplyTo.IsZero() && !d.Quote.IsZero():
		return d, 0, bad("send one of them", "a post replies or quotes, not both")
	case d.Born != 0 && (d.Source == "" || d.Key != ""):
		return d, 0, bad("name it as it was named there, without an idempotency key", "a post that moves in has no name of its own")
	case !d.Upload.IsZero() && d.Media != nil:
		return d, 0, bad("send media, or name an upload, not both", "media beside an upload")
	}
	var err error
	if d.Text, err = text.Clean(d.Text); err != nil {
		return d, 0, err
	}
	if d.Text == "" && d.Upload.IsZero() && d.Media == nil {
		return d, 0, bad("send a text, or media", "the post is empty")
	}
	if err := f.o.Blocked.Check(d.Text); err != nil {
		return d, 0, err
	}
	if d.Key == "" && !d.Upload.IsZero() { // a retry without a key is a retry as well
		d.Key = uploadKeyPrefix + d.Upload.Short()
	}
	lifetime, err := f.o.lifetimeOf(d.Lifetime)
	return d, lifetime, err
}

// lifetimeOf reads a lifetime, rounds it up to what an id can express (L2), and checks
// that the operator allows it. Errors: Invalid.
func (o Options) lifetimeOf(word string) (mayfly.Lifetime, error) {
	if word == "" {
		return o.Default, nil
	}
	l, err := mayfly.ParseLifetime(word)
	if err != nil {
		return 0, err
	}
	if l == mayfly.Never && o.Never || l != mayfly.Never && l.Duration() >= o.Shortest.Duration() && l.Duration() <= o.Longest.Duration() {
		return l, nil
	}
	hint := fmt.Sprintf("choose one from %s to %s", o.Shortest, o.Longest)
	if o.Never {
		hint += ", or never"
	}
	return 0, mayfly.Errorf(mayfly.Invalid, "a post cannot have the lifetime %s here", l).WithHint(hint)
}

// Publish makes a post of the draft. now reads the node's clock: media may take a while
// to come, and the post is born when they have. A repeated idempotency key returns the
// same post with Again.
//
// Errors: Invalid, TooLarge, Unsupported, Unauthenticated, NotFound and Gone (what it
// replies to or quotes, or the upload), Conflict (the key or the upload was used for
// another post), Denied, Full, Unavailable, and what reading the media returned.
func (f *Feed) Publish(ctx context.Context, d Draft, now func() mayfly.Instant) (Post, error) {
	d, lifetime, err := f.check(d)
	if err != nil {
		return Post{}, fmt.Errorf("publish: %w", err)
	}
	c, err := f.contentOf(ctx, d, now())
	if err != nil {
		return f.again(ctx, d, now(), err)
	}
	if d.Media != nil {
		defer f.o.Hydrate.Yield()()
	}
	admission, err := f.o.Intake.Admit(ctx, d.Author) // before a medium is read
	if err != nil {
		return Post{}, fmt.Errorf("publish: %w", err)
	}
	draft := f.draftOf(d.Author, c, lifetime)
	draft.Text, draft.Key, draft.Admission = d.Text, d.Key, admission
	if draft.Born, draft.Serial = d.Born, serial(d.Source); d.Born != 0 {
		draft.Held = false // it was seen where it comes from
	}
	draft.Held = draft.Held && d.Born == 0 // what moves in was published elsewhere
	if draft.Upload, err = f.media(ctx, d, now); err != nil {
		return Post{}, fmt.Errorf("publish: %w", err)
	}
	p, err := f.marked(ctx, c, draft, now)
	if err != nil {
		if d.Upload.IsZero() { // an assigned upload stays: the row may land (L4)
			err = errors.Join(err, draft.Upload.Drop(ctx))
		}
		return Post{}, err
	}
	if !d.Upload.IsZero() {
		if err := f.o.Uploads.Published(ctx, d.Author, d.Upload, now()); err != nil {
			return Post{}, fmt.Errorf("publish: %w", err) // a retry returns the post
		}
	}
	return p, nil
}

// serial returns what tells posts that move in apart.
func serial(source string) uint64 {
	sum := sha256.Sum256([]byte("moves in: " + source))
	return binary.BigEndian.Uint64(sum[:])
}

// again returns the post that the key of a draft stands for although what it refers to
// is gone since; err if there is none.
func (f *Feed) again(ctx context.Context, d Draft, now mayfly.Instant, err error) (Post, error) {
	if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone) {
		return Post{}, err
	}
	id, known, lookErr := f.o.Intake.Known(ctx, d.Author, d.Key, now)
	if lookErr != nil || !known {
		return Post{}, errors.Join(err, lookErr)
	}
	p, openErr := f.Open(ctx, id, mayfly.ViewerOf(d.Author), now)
	if openErr != nil {
		return Post{}, err
	}
	p.Again = true
	return p, nil
}

// contentOf returns what a draft refers to. What its author may not see does not exist
// for it: so a reply can neither show that there is a post nor be part of a cycle,
// because what it names was born before it.
func (f *Feed) contentOf(ctx context.Context, d Draft, now mayfly.Instant) (content, error) {
	c := content{kind: Original, entities: text.Parse(d.Text)}
	switch {
	case !d.ReplyTo.IsZero():
		c.kind, c.about = Reply, d.ReplyTo
	case !d.Quote.IsZero():
		c.kind, c.about = Quote, d.Quote
	default:
		return c, nil
	}
	to, err := f.original(ctx, c.about, mayfly.ViewerOf(d.Author), now)
	if err != nil {
		return c, about(err)
	}
	c.about = to.Item.ID
	if c.kind == Reply {
		c.root = to.Item.ID
		if above := to.ancestors; len(above) > 0 {
			c.root, c.path = above[0], above[max(1, len(above)-maxPath):]
		}
		c.own = to.Item.Owner == d.Author && (to.Kind != Reply || to.own)
	}
	return c, nil
}

// about explains the gate's refusal of what a post refers to.
func about(err error) error {
	for _, kind := range []mayfly.Kind{mayfly.NotFound, mayfly.Gone} {
		if errors.Is(err, kind) {
			return mayfly.Errorf(kind, "there is no such post to reply to or to quote").WithHint("it may be deleted, or not for you")
		}
	}
	return err
}

// original opens a post for viewer; of a repost what it reposts.
func (f *Feed) original(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Post, error) {
	p, err := f.open(ctx, id, viewer, now)
	if err != nil || p.Kind != Repost {
		return p, err
	}
	of, err := f.open(ctx, p.About, viewer, now)
	if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Gone) {
		err = gate.Refusal(id, now)
	}
	return of, err
}

// draftOf returns the draft of an item with the rows by which lists find it.
func (f *Feed) draftOf(author mayfly.UserID, c content, lifetime mayfly.Lifetime) intake.Draft {
	return intake.Draft{
		Held: f.o.Hold && c.kind != Repost, Owner: author, Product: mayfly.Post, Fate: mayfly.Purge, Audience: mayfly.Everyone, Lifetime: lifetime, Data: c.bytes(),
		Index: func(b *store.Batch, item mayfly.Item) {
			b.Put(Posts, store.Key{Partition: string(author[:]), Clustering: monthOf(item.ID.Birth()).bytes()}, []byte{contentFormat}, 0)
			b.Put(Posts, postKey(author, item.ID), entry{c.kind, c.own, c.about}.bytes(), 0)
			if c.kind == Reply {
				b.Put(Replies, replyKey(c.about, item.ID, author), replyValue(item), 0)
			}
		},
	}
}

// marked is birth, with the mark of the count that a reply changes.
func (f *Feed) marked(ctx context.Context, c content, d intake.Draft, now func() mayfly.Instant) (Post, error) {
	if c.kind == Reply {
		if err := f.mark(ctx, c.about, countReplies, sliceOf(d.Owner), now()); err != nil {
			return Post{}, fmt.Errorf("publish: %w", err)
		}
		defer f.changed(c.about, countReplies, sliceOf(d.Owner))
	}
	return f.birth(ctx, d, now)
}

// birth publishes an item and returns it as its author sees it.
func (f *Feed) birth(ctx context.Context, d intake.Draft, now func() mayfly.Instant) (Post, error) {
	born, err := f.o.Intake.Publish(ctx, d, now())
	if err != nil {
		return Post{}, err
	}
	if waits(born.Item) { // for a moderator: the gate shows it to no author
		if !born.Again {
			f.o.Hydrate.MakeRenditions(born.Item, born.Body)
		}
		p, err := postOf(gate.Opened{Item: born.Item, Body: mayfly.Body{Text: d.Text, Data: d.Data, Media: d.Upload.Media()}})
		p.Again = born.Again
		return p, err
	}
	if born.Again { // it may be deleted or held since
		p, err := f.Open(ctx, born.Item.ID, mayfly.ViewerOf(d.Owner), now())
		p.Again = true
		return p, err
	}
	f.o.Hydrate.MakeRenditions(born.Item, born.Body)
	p, err := postOf(gate.Opened{Item: born.Item, Body: born.Body})
	if err != nil {
		return Post{}, err
	}
	posts, err := f.complete(ctx, []Post{p}, mayfly.ViewerOf(d.Owner), now())
	if err != nil || len(posts) == 0 {
		return p, err
	}
	return posts[0], nil
}

// media returns the upload with the media of a draft; nil without. After an error
// nothing is left of what came with the draft.
func (f *Feed) media(ctx context.Context, d Draft, now func() mayfly.Instant) (*upload.Upload, error) {
	if !d.Upload.IsZero() {
		return f.reserved(ctx, d, now)
	}
	if d.Media == nil {
		return nil, nil
	}
	u, err := f.o.Uploads.Begin(d.Author, now())
	if err != nil {
		return nil, err
	}
	for r, err := range d.Media {
		if err == nil && len(u.Media()) == MaxMedia {
			err = tooMany()
		}
		if err == nil {
			_, err = u.AddCleaned(ctx, r)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("medium %d: %w", len(u.Media()), err), u.Drop(ctx))
		}
	}
	if len(u.Media()) == 0 && d.Text == "" {
		return nil, mayfly.Errorf(mayfly.Invalid, "the post is empty").WithHint("send a text, or media")
	}
	return u, nil
}

// Reserve makes room for the media of a post that are put one by one. Errors: Invalid,
// Unauthenticated, and those of upload.Reserve.
func (f *Feed) Reserve(ctx context.Context, author mayfly.UserID, media []upload.Expected, now mayfly.Instant) (upload.Reservation, error) {
	switch {
	case author.IsZero():
		return upload.Reservation{}, mayfly.Errorf(mayfly.Unauthenticated, "an upload belongs to a user").WithHint("reserve it with a user's token")
	case len(media) > MaxMedia:
		return upload.Reservation{}, tooMany()
	}
	return f.o.Uploads.Reserve(ctx, author, media, now)
}

func tooMany() error {
	return mayfly.Errorf(mayfly.Invalid, "over %d media", MaxMedia).WithHint("publish the others as another post")
}

// reserved returns a reserved upload, which becomes the property of the post of the
// draft's key (L11).
func (f *Feed) reserved(ctx context.Context, d Draft, now func() mayfly.Instant) (*upload.Upload, error) {
	r, err := f.o.Uploads.Reservation(ctx, d.Author, d.Upload, now())
	if err != nil {
		return nil, err
	}
	if len(r.Media) > MaxMedia { // before it is bound to a key
		return nil, tooMany()
	}
	if err := f.o.Uploads.TakeIn(ctx, d.Author, d.Upload, func() error { return nil }, now); err != nil {
		return nil, err
	}
	at := now()
	return f.o.Uploads.Claim(ctx, d.Author, d.Upload, d.Key, func() (bool, error) {
		_, known, err := f.o.Intake.Known(ctx, d.Author, d.Key, at)
		return known, err
	}, at)
}
