// Package feed implements posts: publish, open, reply, quote, delete, and the lists
// that they are read in.
//
// A post is an item of fate purge. Whatever the package shows has passed the gate, and
// it refuses exactly as the gate does (C2, I18). Lists hold ids: each is judged again
// when it is read, so that a list that is late shows nothing wrong.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed/text"
	"github.com/mayflyhq/mayfly/store"
)

// MaxMedia is how many media a post may have.
const MaxMedia = 4

// Options are the parts of the engine that a Feed uses, and its rules.
type Options struct {
	Rows    store.Rows
	Writer  store.Writer
	Uploads *upload.Uploads
	Intake  *intake.Intake
	Gate    *gate.Gate
	Hydrate *hydrate.Hydrate
	Erase   *erase.Erase
	// Accounts has whom a reader follows, and the profiles of authors. Without it no user
	// follows another, and every home is empty.
	Accounts *account.Accounts

	// Secret signs cursors: 32 bytes, the same on every node.
	Secret []byte
	// Default is the lifetime of a post whose author chooses none; default never, or
	// Longest if that is not allowed. Shortest and Longest bound what an author may choose
	// beside never; default a minute and a year.
	Default, Shortest, Longest mayfly.Lifetime
	// Never says that a post may never expire.
	Never bool
	// Blocked refuses texts by the hosts in them; nil refuses none.
	Blocked *text.Blocklist
	// Hold holds new posts until a moderator releases them.
	Hold bool
	// Problem is called with errors of background work. May be nil.
	Problem func(error)
}

const secretSize = 32

func (o Options) withDefaults() (Options, error) {
	if o.Rows == nil || o.Writer == nil || o.Uploads == nil || o.Intake == nil || o.Gate == nil || o.Hydrate == nil || o.Erase == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "feed: a part of the engine is missing")
	}
	if len(o.Secret) != secretSize {
		return o, mayfly.Errorf(mayfly.Invalid, "feed: the secret has %d bytes, not %d", len(o.Secret), secretSize)
	}
	for l, d := range map[*mayfly.Lifetime]time.Duration{&o.Shortest: time.Minute, &o.Longest: 365 * 24 * time.Hour} {
		if *l != 0 {
			continue
		}
		var err error
		if *l, err = mayfly.LifetimeOf(d); err != nil {
			return o, err
		}
	}
	if o.Default == mayfly.Never && !o.Never {
		o.Default = o.Longest
	}
	if o.Default != mayfly.Never && (o.Default.Duration() < o.Shortest.Duration() || o.Default.Duration() > o.Longest.Duration()) {
		return o, mayfly.Errorf(mayfly.Invalid, "feed: the default lifetime %s is not one that an author may choose", o.Default)
	}
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	return o, nil
}

// Feed is the product. Safe for concurrent use.
type Feed struct {
	o     Options
	fresh fresh
}

// New returns the product on the engine.
func New(o Options) (*Feed, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Feed{o: o, fresh: fresh{slices: map[sliceCount]bool{}}}, nil
}

// Post is a post that its viewer may see.
type Post struct {
	Item     mayfly.Item
	Body     mayfly.Body
	Kind     Kind
	About    mayfly.ID // what it replies to, quotes or reposts; zero of an Original
	Root     mayfly.ID // of a reply: the first post of the thread
	Entities []text.Entity

	own       bool            // a reply in a thread of which its author wrote everything before
	ancestors []mayfly.ID     // of a reply: the nearest, as content has them
	relation  mayfly.Relation // of its author to the viewer

	// Of is the post that it quotes or reposts; nil of a quote if the viewer may not see
	// that, or it is gone.
	Of *Post
	Counts
	Liked, Reposted bool // by the viewer
	// Again says that an earlier request with the same key had published it.
	Again bool
}

// postOf returns as a post what the gate has opened. Errors: Corrupt.
func postOf(o gate.Opened) (Post, error) {
	c, err := readContent(o.Body.Data, o.Body.Text)
	if err != nil {
		return Post{}, fmt.Errorf("post %s: %w", o.Item.ID, err)
	}
	return Post{Item: o.Item, Body: o.Body, Kind: c.kind, About: c.about, Root: c.root, Entities: c.entities, own: c.own, ancestors: c.ancestors(), relation: o.Relation}, nil
}

// Describe returns a post as its row and body have it, for any caller: for operators
// and for verifying. Errors: Corrupt.
func Describe(item mayfly.Item, body mayfly.Body) (Post, error) {
	return postOf(gate.Opened{Item: item, Body: body})
}

// Open returns the post for viewer at now. Errors: the gate's Gone and NotFound,
// unwrapped; Corrupt, Unavailable.
func (f *Feed) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Post, error) {
	p, err := f.open(ctx, id, viewer, now)
	if err != nil {
		return Post{}, err
	}
	posts, err := f.complete(ctx, []Post{p}, viewer, now)
	if err != nil {
		return Post{}, fmt.Errorf("open %s: %w", id, err)
	}
	if len(posts) == 0 {
		return Post{}, gate.Refusal(id, now)
	}
	return posts[0], nil
}

// open asks the gate. An item of another product is refused.
func (f *Feed) open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Post, error) {
	opened, err := f.o.Gate.Open(ctx, id, viewer, now)
	if err != nil {
		return Post{}, err
	}
	if opened.Item.Product != mayfly.Post {
		return Post{}, gate.Refusal(id, now)
	}
	return postOf(opened)
}

// openAll returns those of the posts that viewer may see, in the order of ids.
func (f *Feed) openAll(ctx context.Context, ids []mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) ([]Post, error) {
	opened, err := f.o.Gate.OpenAll(ctx, ids, viewer, now)
	if err != nil {
		return nil, err
	}
	posts := make([]Post, 0, len(opened))
	for _, o := range opened {
		if o.Item.Product != mayfly.Post {
			continue
		}
		p, err := postOf(o)
		if err != nil {
			return nil, err
		}
		posts = append(posts, p)
	}
	return posts, nil
}

// complete returns the posts with what viewer may see of the posts that they quote or
// repost, with their counts, and with what viewer has done to them. It leaves out
// reposts that are taken back or of what viewer may not see. Each kind of row is read
// with one call.
func (f *Feed) complete(ctx context.Context, posts []Post, viewer mayfly.Viewer, now mayfly.Instant) ([]Post, error) {
	posts, err := f.withoutTakenBack(ctx, posts)
	if err != nil {
		return nil, err
	}
	var ids []mayfly.ID
	for _, p := range posts {
		if p.Kind == Quote || p.Kind == Repost {
			ids = append(ids, p.About)
		}
	}
	of, err := f.openAll(ctx, ids, viewer, now)
	if err != nil {
		return nil, err
	}
	known := map[mayfly.ID]*Post{}
	for i := range of {
		known[of[i].Item.ID] = &of[i]
	}
	posts = slices.DeleteFunc(posts, func(p Post) bool { return p.Kind == Repost && known[p.About] == nil })
	all := make([]*Post, 0, len(posts)+len(known))
	for i := range posts {
		if all = append(all, &posts[i]); posts[i].Kind == Quote || posts[i].Kind == Repost {
			posts[i].Of = known[posts[i].About]
		}
	}
	for _, p := range known {
		all = append(all, p)
	}
	return posts, f.addReactions(ctx, all, viewer)
}

// withoutTakenBack returns the posts without reposts that the reaction of their author
// does not name.
func (f *Feed) withoutTakenBack(ctx context.Context, posts []Post) ([]Post, error) {
	var keys []store.Key
	for _, p := range posts {
		if p.Kind == Repost {
			keys = append(keys, reactionKey(p.About, p.Item.Owner))
		}
	}
	if len(keys) == 0 {
		return posts, nil
	}
	rows, err := f.o.Rows.Get(ctx, Reposts, keys...)
	if err != nil {
		return nil, err
	}
	kept, n := posts[:0], 0
	for _, p := range posts {
		if p.Kind == Repost {
			r, err := readReaction(rows[n])
			if n++; err != nil {
				return nil, err
			}
			if !r.live || r.item != p.Item.ID {
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept, nil
}

// addReactions adds the counts of posts and what viewer has done to them.
func (f *Feed) addReactions(ctx context.Context, posts []*Post, viewer mayfly.Viewer) error {
	ids := make([]mayfly.ID, len(posts))
	for i, p := range posts {
		ids[i] = p.Item.ID
	}
	counts, err := f.countsOf(ctx, ids)
	if err != nil {
		return err
	}
	for i, p := range posts {
		p.Counts = counts[i]
	}
	user := viewer.User()
	if user.IsZero() || len(posts) == 0 {
		return nil
	}
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = reactionKey(id, user)
	}
	for k, has := range map[reacts]func(*Post) *bool{
		likes(): func(p *Post) *bool { return &p.Liked }, reposts(): func(p *Post) *bool { return &p.Reposted },
	} {
		rows, err := f.o.Rows.Get(ctx, k.rows, keys...)
		if err != nil {
			return err
		}
		for i, row := range rows {
			r, err := readReaction(row)
			if err != nil {
				return err
			}
			*has(posts[i]) = r.live
		}
	}
	return nil
}

// Medium opens an object of a post for viewer. The gate judges at now; an object that
// was opened before the deadline may be read to its end (ST13). Errors: the gate's,
// Corrupt, Unsupported, Unavailable.
func (f *Feed) Medium(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object, now mayfly.Instant) (Post, *hydrate.Opened, error) {
	p, err := f.open(ctx, id, viewer, now)
	if err != nil {
		return Post{}, nil, err
	}
	m, err := f.o.Hydrate.OpenObject(ctx, p.Item, p.Body, object, now)
	if errors.Is(err, mayfly.NotFound) { // deleted since the gate has judged it, or no such object
		err = gate.Refusal(id, now)
	}
	return p, m, err
}

// Delete deletes an own post: when it returns nil no route shows it any more. Repeated
// it returns nil as long as the tombstone is kept. Any other user gets the gate's
// refusal. Errors: the gate's, Unavailable, Unknown.
func (f *Feed) Delete(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) error {
	if id.ExpiredAt(now) { // whether the sweep has deleted it or not
		return mayfly.Gone
	}
	row, found, err := f.o.Erase.Row(ctx, id) // one read and no more, whether there is a post or not
	switch {
	case err != nil:
		return fmt.Errorf("delete %s: %w", id, err)
	case !found || row.Product != mayfly.Post || row.Held || author.IsZero() || row.Owner != author:
		return gate.Refusal(id, now)
	case row.State == mayfly.Deleted:
		return nil
	}
	if p, err := f.open(ctx, id, mayfly.ViewerOf(author), now); err == nil && p.Kind == Repost {
		return f.Unrepost(ctx, p.About, author, now)
	}
	_, err = f.o.Erase.Delete(ctx, id, mayfly.ByUser, now)
	if errors.Is(err, mayfly.NotFound) {
		return gate.Refusal(id, now)
	}
	return err
}
