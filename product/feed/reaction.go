package feed

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// A reaction is one row under the post, which is the truth, and one under the user, its
// mirror. They are written in this order: the mark of the count, the mirror, the row.
// So no count changes unnoticed, and an erasure of the user finds every row. Every
// write has a number of its own: a write that was given up and lands late finds another
// row than the one it was composed from, and changes nothing (trap 19).

// reacts is a kind of reaction: its count, and its two tables.
type reacts struct {
	counted    counted
	rows, back store.Table
}

func likes() reacts   { return reacts{countLikes, Likes, Liked} }
func reposts() reacts { return reacts{countReposts, Reposts, Reposted} }

// reaction is the value of a row: what a user has done to a post.
type reaction struct {
	live   bool
	number uint64         // of the write
	at     mayfly.Instant // when it became what it is
	item   mayfly.ID      // of a repost: the item that stands in lists
}

const (
	reactionFormat = 1
	reactionSize   = 2 + 8 + 8 + 16
	// fades is how long what is left of a reaction that is over stays: longer than any
	// write that was given up can take to land.
	fades = time.Hour
	// rounds is how often a reaction is composed again when another caller was first.
	rounds = 16
)

// bytes returns the value with a new number.
func (r reaction) bytes() ([]byte, error) {
	b := make([]byte, 10, reactionSize)
	b[0] = reactionFormat
	if r.live {
		b[1] = 1
	}
	if _, err := rand.Read(b[2:]); err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint64(b, uint64(r.at)), r.item[:]...), nil
}

func readReaction(b []byte) (reaction, error) {
	switch {
	case b == nil:
		return reaction{}, nil
	case len(b) != reactionSize || b[0] != reactionFormat || b[1] > 1:
		return reaction{}, mayfly.Errorf(mayfly.Corrupt, "a reaction of %d bytes cannot be read", len(b))
	}
	return reaction{b[1] == 1, binary.BigEndian.Uint64(b[2:]), mayfly.Instant(binary.BigEndian.Uint64(b[10:])), mayfly.ID(b[18:])}, nil
}

// reaction reads what user has done to a post.
func (f *Feed) reaction(ctx context.Context, k reacts, post mayfly.ID, user mayfly.UserID) (reaction, error) {
	found, err := f.o.Rows.Get(ctx, k.rows, reactionKey(post, user))
	if err != nil {
		return reaction{}, err
	}
	return readReaction(found[0])
}

// react changes what user has done to a post to what change makes of it. It writes the
// row also where nothing changes, so that what was asked before and has not landed never
// does. It returns the reaction as it was. Errors: those of change, Unavailable, Unknown.
func (f *Feed) react(ctx context.Context, k reacts, post mayfly.ID, user mayfly.UserID, now mayfly.Instant, change func(old reaction) (reaction, error)) (old reaction, err error) {
	key, back := reactionKey(post, user), reactedKey(post, user)
	if err := f.mark(ctx, post, k.counted, sliceOf(user), now); err != nil {
		return old, err
	}
	for range rounds {
		mirror, err := f.o.Rows.Get(ctx, k.back, back)
		if err != nil {
			return old, err
		}
		found, err := f.o.Rows.Get(ctx, k.rows, key)
		if err != nil {
			return old, err
		}
		if old, err = readReaction(found[0]); err != nil {
			return old, err
		}
		next, err := change(old)
		if err != nil {
			return old, err
		}
		if next.at = old.at; next.live != old.live || found[0] == nil {
			next.at = now
		}
		value, err := next.bytes()
		if err != nil {
			return old, err
		}
		var until, backUntil mayfly.Instant // a reaction stays
		if !next.live {
			until, backUntil = now.Add(fades), now.Add(2*fades)
		}
		noted := mirror[0]
		if found[0] == nil || !old.live && next.live {
			switch noted, err = f.note(ctx, k.back, back, noted, backUntil); {
			case errors.Is(err, mayfly.Conflict):
				continue
			case err != nil:
				return old, err
			}
		}
		swapped, _, err := f.o.Rows.Swap(ctx, k.rows, key, found[0], value, until)
		if err != nil && !errors.Is(err, mayfly.Unknown) {
			return old, err
		}
		if !swapped {
			continue // another caller changed it, or the outcome is in doubt: read the row again
		}
		if !next.live && found[0] != nil {
			// Another caller who was first wants it to stay.
			if _, err := f.note(ctx, k.back, back, noted, backUntil); err != nil && !errors.Is(err, mayfly.Conflict) {
				return old, err
			}
		}
		f.changed(post, k.counted, sliceOf(user))
		return old, nil
	}
	return old, mayfly.Errorf(mayfly.Unavailable, "the reaction keeps changing").WithHint("try again")
}

// note writes the mirror of a reaction anew, to stay or until it may fade. Errors:
// Conflict (another caller wrote it), those of Rows.
func (f *Feed) note(ctx context.Context, t store.Table, back store.Key, old []byte, until mayfly.Instant) ([]byte, error) {
	value := make([]byte, 9)
	value[0] = reactionFormat
	if _, err := rand.Read(value[1:]); err != nil {
		return nil, err
	}
	return value, store.Replace(ctx, f.o.Rows, t, back, old, value, until)
}

// Like makes user like a post; of a repost, what it reposts. When it returns nil the
// next read shows it. Doing it twice is doing it once. Errors: the gate's, Unavailable,
// Unknown; after the last two, ask again.
func (f *Feed) Like(ctx context.Context, id mayfly.ID, user mayfly.UserID, now mayfly.Instant) error {
	p, err := f.original(ctx, id, mayfly.ViewerOf(user), now)
	if err != nil {
		return err
	}
	_, err = f.react(ctx, likes(), p.Item.ID, user, now, func(old reaction) (reaction, error) { return reaction{live: true}, nil })
	if err != nil {
		return fmt.Errorf("like %s: %w", id, err)
	}
	return nil
}

// Unlike takes a like back, also of a post that user may not see any more. Of what the
// user does not like it is no error. Errors: Unavailable, Unknown.
func (f *Feed) Unlike(ctx context.Context, id mayfly.ID, user mayfly.UserID, now mayfly.Instant) error {
	post, err := f.reactedTo(ctx, id, user, now)
	if err == nil {
		_, err = f.takeBack(ctx, likes(), post, user, now)
	}
	if err != nil {
		return fmt.Errorf("unlike %s: %w", id, err)
	}
	return nil
}

// Liker is a user who likes a post.
type Liker struct {
	User mayfly.UserID
	At   mayfly.Instant
}

// LikedBy returns a page of the users who like a post that viewer may see, in no
// particular order; next is the cursor of the next page, empty on the last. Errors: the
// gate's, Invalid (the cursor), Unavailable.
func (f *Feed) LikedBy(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, cursor string, limit int, now mayfly.Instant) (all []Liker, next string, err error) {
	p, err := f.original(ctx, id, viewer, now)
	if err != nil {
		return nil, "", err
	}
	id = p.Item.ID
	list := "likes" + string(id[:])
	after, err := f.readCursor(list, cursor) // of a list of users it is the last one
	if err != nil {
		return nil, "", err
	}
	slice, from := 0, ""
	if !after.IsZero() {
		slice, from = sliceOf(mayfly.UserID(after)), string(after[:])+"\x00"
	}
	for ; slice < Slices; slice, from = slice+1, "" {
		r := store.Range{Partition: store.SlicePartition(id, slice), From: from, Limit: recountPage}
		for {
			page, err := f.o.Rows.Range(ctx, Likes, r)
			if err != nil {
				return nil, "", fmt.Errorf("likes of %s: %w", id, err)
			}
			for _, row := range page {
				like, err := readReaction(row.Value)
				if err != nil || len(row.Clustering) != len(mayfly.UserID{}) {
					return nil, "", mayfly.Errorf(mayfly.Corrupt, "a like of %s cannot be read: %x", id, row.Clustering)
				}
				if !like.live {
					continue
				}
				if len(all) == limit {
					return all, f.cursor(list, mayfly.ID(all[limit-1].User)), nil
				}
				all = append(all, Liker{mayfly.UserID([]byte(row.Clustering)), like.at})
			}
			if len(page) < r.Limit {
				break
			}
			r.From = page[len(page)-1].Clustering + "\x00"
		}
	}
	return all, "", nil
}

// reactedTo returns the post that an id stands for: of a repost that user may see, what
// it reposts; else the id.
func (f *Feed) reactedTo(ctx context.Context, id mayfly.ID, user mayfly.UserID, now mayfly.Instant) (mayfly.ID, error) {
	p, err := f.open(ctx, id, mayfly.ViewerOf(user), now)
	switch {
	case errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Gone):
		return id, nil
	case err == nil && p.Kind == Repost:
		return p.About, nil
	}
	return id, err
}

// takeBack ends a reaction, and returns it as it was. Without a mirror there is none,
// and none is on its way: nothing is written then.
func (f *Feed) takeBack(ctx context.Context, k reacts, post mayfly.ID, user mayfly.UserID, now mayfly.Instant) (reaction, error) {
	mirror, err := f.o.Rows.Get(ctx, k.back, reactedKey(post, user))
	if err != nil || mirror[0] == nil {
		return reaction{}, err
	}
	return f.react(ctx, k, post, user, now, func(old reaction) (reaction, error) {
		return reaction{item: old.item}, nil
	})
}

// errReacted reports that another request of the user has reposted the post meanwhile.
var errReacted = errors.New("the reaction has changed")

// Repost publishes a repost of a post, once: a repeated one returns the first, with
// Again. It is an item, which ends with the post; but it is shown only while the
// reaction of its author names it. now reads the node's clock. Errors: those of Publish,
// NotFound and Gone.
func (f *Feed) Repost(ctx context.Context, id mayfly.ID, user mayfly.UserID, now func() mayfly.Instant) (Post, error) {
	if user.IsZero() {
		return Post{}, mayfly.Errorf(mayfly.Unauthenticated, "a repost has an author").WithHint("repost with a user's token")
	}
	return f.repostAs(ctx, id, Draft{Author: user}, now)
}

// RepostOld has a repost move in: the draft says whose, when and under which name. A
// user who reposts the post already gets that repost, with Again.
func (f *Feed) RepostOld(ctx context.Context, id mayfly.ID, d Draft, now func() mayfly.Instant) (Post, error) {
	if d.Born == 0 || d.Source == "" {
		return Post{}, mayfly.Errorf(mayfly.Invalid, "a repost that moves in has a time and a name of its own").WithHint("send both")
	}
	return f.repostAs(ctx, id, d, now)
}

func (f *Feed) repostAs(ctx context.Context, id mayfly.ID, d Draft, now func() mayfly.Instant) (Post, error) {
	for range rounds {
		p, err := f.repost(ctx, id, d, now)
		if !errors.Is(err, errReacted) {
			return p, err
		}
	}
	return Post{}, mayfly.Errorf(mayfly.Unavailable, "the reaction keeps changing").WithHint("try again")
}

func (f *Feed) repost(ctx context.Context, id mayfly.ID, d Draft, now func() mayfly.Instant) (Post, error) {
	at, user := now(), d.Author
	of, err := f.original(ctx, id, mayfly.ViewerOf(user), at)
	if err != nil {
		return Post{}, err
	}
	post := of.Item.ID
	old, err := f.reaction(ctx, reposts(), post, user)
	if err != nil {
		return Post{}, fmt.Errorf("repost %s: %w", id, err)
	}
	if old.live {
		p, err := f.Open(ctx, old.item, mayfly.ViewerOf(user), at)
		if err == nil {
			p.Again = true
			return p, nil
		}
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone) {
			return Post{}, err
		}
		row, found, err := f.o.Erase.Row(ctx, old.item)
		if err != nil {
			return Post{}, err
		}
		if found && row.State != mayfly.Deleted && !row.EndedAt(at) { // it is held
			return Post{}, gate.Refusal(id, at)
		}
	}
	lifetime := mayfly.Never
	if post.Expires() {
		from := at
		if d.Born != 0 {
			from = d.Born
		}
		if lifetime, err = mayfly.LifetimeOf(post.Deadline().Sub(from)); err != nil {
			return Post{}, gate.Refusal(id, at)
		}
	}
	draft := f.draftOf(user, content{kind: Repost, about: post}, lifetime)
	// Two requests that find the same row publish the same item.
	if draft.Born, draft.Serial = d.Born, serial(d.Source); d.Born == 0 {
		draft.Key = repostKeyPrefix + post.Short() + ":" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, old.number))
	}
	index := draft.Index
	draft.Index = func(b *store.Batch, item mayfly.Item) {
		index(b, item)
		markRepost(b, post, item, at)
	}
	born, err := f.o.Intake.Publish(ctx, draft, now())
	if err != nil {
		return Post{}, err
	}
	if born.Item.State == mayfly.Deleted && d.Born == 0 { // no row named it, see unnamed: another number is another item
		_, err := f.react(ctx, reposts(), post, user, now(), func(current reaction) (reaction, error) { return reaction{live: current.live, item: current.item}, nil })
		return Post{}, cmp.Or(err, errReacted)
	}
	if born.Item.State == mayfly.Deleted { // it moved in before, and was deleted
		return Post{}, gate.Refusal(born.Item.ID, at)
	}
	_, err = f.react(ctx, reposts(), post, user, now(), func(current reaction) (reaction, error) {
		if current.number != old.number && current.item != born.Item.ID {
			return current, errReacted
		}
		return reaction{live: true, item: born.Item.ID}, nil
	})
	if errors.Is(err, errReacted) { // no list shows it
		_, deleteErr := f.o.Erase.Delete(ctx, born.Item.ID, mayfly.ByUser, now())
		return Post{}, errors.Join(err, deleteErr)
	}
	if err != nil {
		return Post{}, fmt.Errorf("repost %s: %w", id, err)
	}
	p, err := f.Open(ctx, born.Item.ID, mayfly.ViewerOf(user), now())
	p.Again = born.Again
	return p, err
}

// Unrepost takes a repost back: when it returns nil no list shows it. id is that of the
// post or of the repost. Of what the user has not reposted it is no error. Errors:
// Unavailable, Unknown.
func (f *Feed) Unrepost(ctx context.Context, id mayfly.ID, user mayfly.UserID, now mayfly.Instant) error {
	post, err := f.reactedTo(ctx, id, user, now)
	if err != nil {
		return fmt.Errorf("take a repost back: %w", err)
	}
	old, err := f.takeBack(ctx, reposts(), post, user, now)
	if err == nil && !old.item.IsZero() {
		_, err = f.o.Erase.Delete(ctx, old.item, mayfly.ByUser, now)
	}
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return fmt.Errorf("take a repost back: %w", err)
	}
	return nil
}

// markRepost has an item looked at that a row is going to name, when no write of that can
// land any more. It is in the batch of its birth, before the item.
func markRepost(b *store.Batch, post mayfly.ID, item mayfly.Item, now mayfly.Instant) {
	key := string(post[:]) + string([]byte{byte(countReposts), byte(sliceOf(item.Owner))}) + string(item.ID[:])
	b.Put(Marks, store.Key{Partition: markPartition(now.Add(markFinal).Minute() + 1), Clustering: key}, []byte{countFormat}, 0)
}

// unnamed deletes an item that is a repost and that no row names: the process that made it
// has ended before it wrote the row. No list shows it.
func (f *Feed) unnamed(ctx context.Context, post, id mayfly.ID, now mayfly.Instant) error {
	item, found, err := f.o.Erase.Row(ctx, id)
	if err != nil || !found || item.State == mayfly.Deleted || item.Held {
		return err
	}
	r, err := f.reaction(ctx, reposts(), post, item.Owner)
	if err != nil || r.live && r.item == id {
		return err
	}
	if _, err = f.o.Erase.Delete(ctx, id, mayfly.ByUser, now); errors.Is(err, mayfly.NotFound) {
		err = nil
	}
	return err
}
