package account

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Edge is a follow edge as a list of the reader has it.
type Edge struct {
	User  mayfly.UserID // at the other end
	State FollowState
	Muted mayfly.Relation // MutesPosts, MutesReposts
	Since mayfly.Instant
}

// Follow makes reader follow author, or ask to if the account is private, and returns
// which. When it returns nil the next read anywhere is judged by it. Doing it twice is
// doing it once. Of an erased author, and of one who blocks the reader, it is answered
// as of a user who never was, and not written (I18). Errors: Invalid, Conflict (the
// reader blocks the author), Unavailable, Unknown; after the last two, ask again.
func (a *Accounts) Follow(ctx context.Context, reader, author mayfly.UserID, now mayfly.Instant) (FollowState, error) {
	if err := checkRelate(author, reader, mayfly.Follower, 0); err != nil {
		return NotFollowing, err
	}
	blocked, err := a.blocked(ctx, reader, author)
	if blocked || err != nil {
		return Following, err
	}
	p, err := a.profile(ctx, author)
	if err != nil {
		return NotFollowing, fmt.Errorf("follow: %w", err)
	}
	state := Following
	_, after, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) {
		if e.state != Following {
			e.state = Following
			if p.Private {
				e.state = Requested
			}
		}
		return e, nil
	})
	if err != nil {
		return NotFollowing, fmt.Errorf("follow: %w", err)
	}
	if after.state != NotFollowing { // else one of them is erased
		state = after.state
	}
	// A block is written before it ends the follows: this follow sees the block here, or
	// the block ends it.
	if blocked, err = a.blocked(ctx, reader, author); blocked && after.state != NotFollowing {
		if err := a.setState(ctx, reader, author, NotFollowing, now); err != nil {
			return NotFollowing, fmt.Errorf("follow: %w", err)
		}
	}
	if err != nil {
		return NotFollowing, err
	}
	return state, a.tell(ctx, author, reader)
}

// blocked reports whether the author blocks the reader. Errors: Conflict (the reader
// blocks the author).
func (a *Accounts) blocked(ctx context.Context, reader, author mayfly.UserID) (bool, error) {
	found, err := a.o.Rows.Get(ctx, Relations, RelationKey(author, reader), RelationKey(reader, author))
	if err != nil {
		return false, fmt.Errorf("follow: %w", err)
	}
	by, err := readRelation(found[0])
	if err != nil {
		return false, err
	}
	own, err := readRelation(found[1])
	if err == nil && own.Has(mayfly.Blocked) {
		err = mayfly.Errorf(mayfly.Conflict, "you block that user").WithHint("unblock the user first")
	}
	return by.Has(mayfly.Blocked), err
}

// FollowRate returns the rate of follows of each user.
func (a *Accounts) FollowRate() Rate { return a.o.Follows }

// setState sets the state of an edge. What is muted stays.
func (a *Accounts) setState(ctx context.Context, reader, author mayfly.UserID, state FollowState, now mayfly.Instant) error {
	_, _, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) {
		e.state = state
		return e, nil
	})
	return err
}

// Unfollow ends a follow or a request of reader, also as the author who removes a
// follower or declines a request. The rest is as with Follow.
func (a *Accounts) Unfollow(ctx context.Context, reader, author mayfly.UserID, now mayfly.Instant) error {
	if err := checkRelate(author, reader, 0, mayfly.Follower); err != nil {
		return err
	}
	if err := a.setState(ctx, reader, author, NotFollowing, now); err != nil {
		return fmt.Errorf("unfollow: %w", err)
	}
	return a.tell(ctx, author, reader)
}

// Accept makes a request of reader a follow. Errors: as Follow, and NotFound (reader
// neither asks to follow nor follows).
func (a *Accounts) Accept(ctx context.Context, author, reader mayfly.UserID, now mayfly.Instant) error {
	if err := checkRelate(author, reader, mayfly.Follower, 0); err != nil {
		return err
	}
	_, after, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) {
		if e.state == NotFollowing {
			return e, mayfly.Errorf(mayfly.NotFound, "the user does not ask to follow you")
		}
		e.state = Following
		return e, nil
	})
	if err == nil && after.state != Following {
		err = mayfly.Errorf(mayfly.NotFound, "the user does not ask to follow you")
	}
	if err != nil {
		return fmt.Errorf("accept a request: %w", err)
	}
	return a.tell(ctx, author, reader)
}

// Decline ends a request of reader. A reader who follows goes on following.
func (a *Accounts) Decline(ctx context.Context, author, reader mayfly.UserID, now mayfly.Instant) error {
	if err := checkRelate(author, reader, 0, mayfly.Follower); err != nil {
		return err
	}
	_, _, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) {
		if e.state == Requested {
			e.state = NotFollowing
		}
		return e, nil
	})
	if err != nil {
		return fmt.Errorf("decline a request: %w", err)
	}
	return nil
}

// Mute changes what reader wants no more of author: set and clear are of MutesPosts
// and MutesReposts. A reader who does not follow may mute too.
func (a *Accounts) Mute(ctx context.Context, reader, author mayfly.UserID, set, clear mayfly.Relation, now mayfly.Instant) error {
	if err := checkRelate(author, reader, mayfly.Follower, 0); err != nil {
		return err
	}
	if set|clear == 0 || set&clear != 0 || (set|clear)&^mutes != 0 {
		return mayfly.Errorf(mayfly.Invalid, "mutes %#b set and %#b cleared", set, clear).WithHint("name posts, reposts or both")
	}
	_, _, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) {
		e.muted = e.muted&^clear | set
		return e, nil
	})
	if err != nil {
		return fmt.Errorf("mute: %w", err)
	}
	return a.tell(ctx, author, reader)
}

// maxFollowing is the longest page of Following.
const maxFollowing = 2000

// Following is a page of the authors whom reader follows, with one read, in order of
// their ids; next, if it is not empty, is after of the next page. A page may be short of
// limit, or empty, and have a next. Errors: Invalid (the cursor), Unavailable.
func (a *Accounts) Following(ctx context.Context, reader mayfly.UserID, after string, limit int) ([]Edge, string, error) {
	return a.edges(ctx, reader, after, limit, func(e edge) bool { return e.state == Following })
}

// Muted is like Following, of the authors of whom reader mutes something.
func (a *Accounts) Muted(ctx context.Context, reader mayfly.UserID, after string, limit int) ([]Edge, string, error) {
	return a.edges(ctx, reader, after, limit, func(e edge) bool { return e.muted != 0 })
}

func (a *Accounts) edges(ctx context.Context, reader mayfly.UserID, after string, limit int, wanted func(edge) bool) (all []Edge, next string, err error) {
	from, err := readCursor(after)
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, maxFollowing)
	page, err := a.o.Rows.Range(ctx, Follows, store.Range{Partition: string(reader[:]), From: from, Limit: limit})
	if err != nil {
		return nil, "", fmt.Errorf("list follow edges: %w", err)
	}
	for _, row := range page {
		author, err := userIn(row)
		if err != nil {
			return nil, "", err
		}
		e, err := readEdge(row.Value)
		if err != nil {
			return nil, "", err
		}
		if wanted(e) {
			all = append(all, Edge{User: author, State: e.state, Muted: e.muted, Since: e.since})
		}
	}
	if len(page) == limit {
		next = cursor(page[limit-1].Clustering)
	}
	return all, next, nil
}

// Followers is a page of the readers who follow author, in an order that does not
// change. The rest is as with Following, but it may take a few reads for an author with
// many followers.
func (a *Accounts) Followers(ctx context.Context, author mayfly.UserID, after string, limit int) ([]mayfly.UserID, string, error) {
	p, err := a.profile(ctx, author)
	if err != nil {
		return nil, "", fmt.Errorf("list followers: %w", err)
	}
	return a.readers(ctx, author, p.places(), after, limit)
}

// Requests is a page of the readers who ask to follow author, as with Following.
func (a *Accounts) Requests(ctx context.Context, author mayfly.UserID, after string, limit int) ([]mayfly.UserID, string, error) {
	return a.readers(ctx, author, []Place{requestPlace}, after, limit)
}

// placesAtOnce is how many places a page reads at most: a page of followers may be
// short, right after their number of places has grown.
const placesAtOnce = 8

func (a *Accounts) readers(ctx context.Context, author mayfly.UserID, places []Place, after string, limit int) (users []mayfly.UserID, next string, err error) {
	place, from, err := readPlaceCursor(after, places)
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, listMost)
	left := limit
	for range placesAtOnce {
		page, err := a.o.Rows.Range(ctx, Followers, store.Range{Partition: places[place].partition(author), From: from, Limit: left})
		if err != nil {
			return nil, "", fmt.Errorf("list followers: %w", err)
		}
		if users, err = a.appendPresent(ctx, users, author, places[place], page); err != nil {
			return nil, "", fmt.Errorf("list followers: %w", err)
		}
		if len(page) == left {
			return users, placeCursor(places[place], page[left-1].Clustering), nil
		}
		left -= len(page)
		if place++; place == len(places) {
			return users, "", nil
		}
		from = ""
	}
	return users, placeCursor(places[place], ""), nil
}

// appendPresent adds the readers of a page whose edges are there. It asks the edges of
// those that a change has left pending.
func (a *Accounts) appendPresent(ctx context.Context, users []mayfly.UserID, author mayfly.UserID, p Place, page []store.Row) ([]mayfly.UserID, error) {
	readers := make([]mayfly.UserID, len(page))
	state := make([]mirror, len(page))
	var open []int
	var keys []store.Key
	var err error
	for i, row := range page {
		if readers[i], err = userIn(row); err != nil {
			return nil, err
		}
		if state[i], err = readMirror(row.Value); err != nil {
			return nil, err
		}
		if state[i] == pending {
			open, keys = append(open, i), append(keys, FollowKey(readers[i], author))
		}
	}
	if len(keys) > 0 {
		found, err := a.o.Rows.Get(ctx, Follows, keys...)
		if err != nil {
			return nil, err
		}
		for n, i := range open {
			e, err := readEdge(found[n])
			if err != nil {
				return nil, err
			}
			state[i] = e.mirrorAt(p)
		}
	}
	for i, reader := range readers {
		if state[i] == present {
			users = append(users, reader)
		}
	}
	return users, nil
}

// placeCursorFormat begins a cursor that names a place too.
const placeCursorFormat = 2

func placeCursor(p Place, last string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{placeCursorFormat, byte(p)}, last...))
}

// readPlaceCursor returns the index of the place and where to go on in it.
func readPlaceCursor(text string, places []Place) (at int, from string, err error) {
	if text == "" {
		return 0, "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && len(b) >= 2 && (len(b) == 2 || len(b) == 2+len(mayfly.UserID{})) && b[0] == placeCursorFormat {
		for i, p := range places {
			if byte(p) != b[1] {
				continue
			}
			if len(b) > 2 {
				from = string(b[2:]) + "\x00"
			}
			return i, from, nil
		}
	}
	return 0, "", mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", text).WithHint("send next of the page before as it was, or nothing")
}
