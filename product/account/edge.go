package account

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
)

// An edge is one row of Follows, which is the truth, and one row of Followers, its
// mirror, in the place that the edge names. They change in this order: the marks of
// the counts, the mirror to pending, the edge, the mirror to what the edge has become.
// So a change that stops anywhere leaves a marked count and a pending mirror; lists ask
// the edge about a pending mirror, and Recount settles it. An edge without a mirror
// never is, so that the erasure of either user finds it (ST14).
//
// Every write has a number of its own: a write that was given up and lands late finds
// another row than the one it was composed from, and changes nothing (trap 19).

// FollowState is what a reader is to an author.
type FollowState uint8

// The states.
const (
	NotFollowing FollowState = iota
	Requested                // of a private account, which has not accepted yet
	Following
)

// String returns the state as JSON has it.
func (s FollowState) String() string {
	switch s {
	case Requested:
		return "requested"
	case Following:
		return "following"
	default:
		return "none"
	}
}

// mutes are the flags that a reader may set on an edge.
const mutes = mayfly.MutesPosts | mayfly.MutesReposts

// edge is the value of a row of Follows.
type edge struct {
	state FollowState
	muted mayfly.Relation // of mutes
	place Place           // of the mirror; while nothing is left of the edge, the last one
	since mayfly.Instant  // when the state began
}

const (
	edgeFormat = 1
	edgeBytes  = 4 + 8 + numberBytes
)

// live reports whether the edge says anything.
func (e edge) live() bool { return e.state != NotFollowing || e.muted != 0 }

func (e edge) bytes() ([]byte, error) {
	return numbered(binary.BigEndian.AppendUint64([]byte{edgeFormat, byte(e.state), byte(e.muted), byte(e.place)}, uint64(e.since))...)
}

func readEdge(b []byte) (edge, error) {
	switch {
	case b == nil:
		return edge{}, nil
	case len(b) != edgeBytes || b[0] != edgeFormat || FollowState(b[1]) > Following:
		return edge{}, mayfly.Errorf(mayfly.Corrupt, "a follow edge of %d bytes cannot be read", len(b))
	}
	return edge{FollowState(b[1]), mayfly.Relation(b[2]), Place(b[3]), mayfly.Instant(binary.BigEndian.Uint64(b[4:]))}, nil
}

// relation returns the flags of a relation that the edge stands for.
func (e edge) relation() mayfly.Relation {
	r := e.muted & mutes
	if e.state == Following {
		r |= mayfly.Follower
	}
	return r
}

// mirror is the value of a row of Followers.
type mirror uint8

const (
	gone    mirror = iota // nothing is left, and the row is about to go
	pending               // the edge says what it is
	present
)

const mirrorFormat = 1

func readMirror(b []byte) (mirror, error) {
	switch {
	case b == nil:
		return gone, nil
	case len(b) != 2+numberBytes || b[0] != mirrorFormat || mirror(b[1]) > present:
		return gone, mayfly.Errorf(mayfly.Corrupt, "the other direction of a follow edge, of %d bytes, cannot be read", len(b))
	}
	return mirror(b[1]), nil
}

// setMirror replaces the row of a mirror and returns what it wrote; nil when another
// writer was first.
func (a *Accounts) setMirror(ctx context.Context, key store.Key, old []byte, m mirror, now mayfly.Instant) ([]byte, error) {
	value, err := numbered(mirrorFormat, byte(m))
	if err != nil {
		return nil, err
	}
	var until mayfly.Instant
	if m == gone {
		until = now.Add(2 * fades) // it outlives the edge
	}
	switch err := store.Replace(ctx, a.o.Rows, Followers, key, old, value, until); {
	case errors.Is(err, mayfly.Conflict):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return value, nil
}

// changeEdge changes the edge from reader to author to what change makes of it, and
// settles its mirrors; also are places in which a mirror may be besides. The edge is
// written also where nothing changes, so that what was asked before and has not landed
// never does. Nothing is written of an edge that names an erased user, but what is left
// of it is removed. An error of change ends it. Errors: those of change and of Rows.
func (a *Accounts) changeEdge(ctx context.Context, reader, author mayfly.UserID, now mayfly.Instant, change func(edge) (edge, error), also ...Place) (before, after edge, err error) {
	erased, err := accounterase.Tombstones(ctx, a.o.Rows, reader, author)
	if err != nil {
		return edge{}, edge{}, err
	}
	if erased[0] || erased[1] {
		return edge{}, edge{}, removeEdge(ctx, a.o.Rows, reader, author, erased[1], also...)
	}
	key := FollowKey(reader, author)
	for range rounds {
		found, err := a.o.Rows.Get(ctx, Follows, key)
		if err != nil {
			return edge{}, edge{}, err
		}
		old, err := readEdge(found[0])
		if err != nil {
			return edge{}, edge{}, err
		}
		next, err := change(old)
		if err != nil {
			return old, old, err
		}
		if next, err = a.placed(ctx, reader, author, old, next, now); err != nil {
			return old, old, err
		}
		touched, err := a.touch(ctx, reader, author, old, next, found[0] != nil, also, now)
		if err != nil {
			return old, old, err
		}
		if touched == nil {
			continue // another caller changes the same edge
		}
		value, err := next.bytes()
		if err != nil {
			return old, old, err
		}
		var until mayfly.Instant
		if !next.live() {
			until = now.Add(fades)
		}
		swapped, _, err := a.o.Rows.Swap(ctx, Follows, key, found[0], value, until)
		if err != nil && !errors.Is(err, mayfly.Unknown) {
			return old, old, err
		}
		if !swapped {
			continue // another caller changed it, or the outcome is in doubt: read the row again
		}
		for _, t := range touched {
			// Another caller who was first here settles it, or has left it pending.
			if _, err := a.setMirror(ctx, t.key, t.value, next.mirrorAt(t.place), now); err != nil {
				return old, next, err
			}
		}
		return old, next, nil
	}
	return edge{}, edge{}, mayfly.Errorf(mayfly.Unavailable, "the follow edge keeps changing").WithHint("try again")
}

// mirrorAt returns what the mirror of the edge in a place is.
func (e edge) mirrorAt(p Place) mirror {
	if e.live() && e.place == p {
		return present
	}
	return gone
}

// placed returns next with its place, and with the instant if its state is another.
func (a *Accounts) placed(ctx context.Context, reader, author mayfly.UserID, old, next edge, now mayfly.Instant) (edge, error) {
	next.place, next.since = old.place, old.since
	if next.state != old.state {
		next.since = now
	}
	switch {
	case !next.live():
	case next.state == Requested:
		next.place = requestPlace
	case next.state == NotFollowing:
		next.place = mutedPlace
	case old.state != Following:
		p, err := a.profile(ctx, author)
		if err != nil {
			return next, err
		}
		next.place = p.placeOf(reader)
	}
	return next, nil
}

// touchedMirror is a mirror that was written as pending.
type touchedMirror struct {
	place Place
	key   store.Key
	value []byte
}

// touch marks the counts of an edge that changes and writes each of its mirrors that
// is not what it was and will be as pending; of an edge that is over all of them, as
// they outlive it. It returns nil when another caller was first.
func (a *Accounts) touch(ctx context.Context, reader, author mayfly.UserID, old, next edge, stored bool, also []Place, now mayfly.Instant) ([]touchedMirror, error) {
	var places []Place
	add := func(p Place) {
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if stored {
		add(old.place)
	}
	add(next.place)
	for _, p := range also {
		add(p)
	}
	touched := []touchedMirror{}
	keys := make([]store.Key, len(places))
	for i, p := range places {
		keys[i] = FollowerKey(author, p, reader)
	}
	found, err := a.o.Rows.Get(ctx, Followers, keys...)
	if err != nil {
		return nil, err
	}
	for i, p := range places {
		is, err := readMirror(found[i])
		if err != nil {
			return nil, err
		}
		if found[i] == nil || is != old.mirrorAt(p) || is != next.mirrorAt(p) || !next.live() {
			touched = append(touched, touchedMirror{p, keys[i], found[i]})
		}
	}
	if len(touched) == 0 {
		return touched, nil
	}
	if err := a.mark(ctx, reader, followingCount, now); err != nil {
		return nil, err
	}
	for i, t := range touched {
		if err := a.mark(ctx, author, t.place, now); err != nil {
			return nil, err
		}
		if touched[i].value, err = a.setMirror(ctx, t.key, t.value, pending, now); err != nil || touched[i].value == nil {
			return nil, err
		}
	}
	return touched, nil
}

// settle makes a mirror say what its edge says.
func (a *Accounts) settle(ctx context.Context, reader, author mayfly.UserID, p Place, now mayfly.Instant) error {
	if _, _, err := a.changeEdge(ctx, reader, author, now, func(e edge) (edge, error) { return e, nil }, p); err != nil {
		return fmt.Errorf("settle a follow edge: %w", err)
	}
	return nil
}

// removeEdge removes what is left of an edge. The row that an erased user's own
// partition has goes last, so that a pass that was stopped finds it again.
func removeEdge(ctx context.Context, rows store.Rows, reader, author mayfly.UserID, authorErased bool, also ...Place) error {
	key := FollowKey(reader, author)
	found, err := rows.Get(ctx, Follows, key)
	if err != nil {
		return err
	}
	if found[0] != nil {
		e, err := readEdge(found[0])
		if err != nil {
			return err
		}
		also = append(also, e.place)
	}
	edges := []func() error{func() error { return removeRow(ctx, rows, Follows, key) }}
	for _, p := range also {
		edges = append(edges, func() error { return removeRow(ctx, rows, Followers, FollowerKey(author, p, reader)) })
	}
	if !authorErased {
		slices.Reverse(edges)
	}
	for _, remove := range edges {
		if err := remove(); err != nil {
			return err
		}
	}
	return nil
}

func removeRow(ctx context.Context, rows store.Rows, t store.Table, key store.Key) error {
	_, err := store.Update(ctx, rows, t, key, 0, func([]byte) ([]byte, error) { return nil, nil })
	return err
}
