package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
)

// relationFormat begins the value of a relation and of its other direction. Behind
// it are, of a relation, one byte of what it is, and of both a number that every
// write draws anew: a write that was given up and lands late finds another row than
// the one it was composed from, and changes nothing (trap 19).
const relationFormat = 1

const numberBytes = 8

// fades is how long what is left of a relation that is over stays: longer than any
// write that was given up can take to land.
const fades = time.Hour

const (
	granted   = mayfly.CloseFriend | mayfly.Blocked // what Relations holds
	relations = mayfly.Follower | granted
)

// Relation is how owner stands to other: what the gate asks.
func (a *Accounts) Relation(ctx context.Context, owner, other mayfly.UserID) (mayfly.Relation, error) {
	all, err := a.RelationsOf(ctx, other, owner)
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// RelationsOf returns how each of the owners stands to a viewer, in their order, with
// few reads however many they are. An anonymous viewer has no relation, but whether the
// account is private matters for that viewer too.
func (a *Accounts) RelationsOf(ctx context.Context, viewer mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error) {
	all := make([]mayfly.Relation, len(owners))
	at := make([]int, 0, len(owners)) // of the owners who are users, and others than the viewer
	list := func() []store.Key { return make([]store.Key, 0, len(owners)) }
	profiles, edges, theirs, own := list(), list(), list(), list()
	for i, owner := range owners {
		if owner.IsZero() || owner == viewer {
			continue
		}
		at = append(at, i)
		profiles, edges = append(profiles, profileKey(owner)), append(edges, FollowKey(viewer, owner))
		theirs, own = append(theirs, RelationKey(owner, viewer)), append(own, RelationKey(viewer, owner))
	}
	if len(at) == 0 {
		return all, nil
	}
	add := func(found [][]byte, err error, flags func(value []byte) (mayfly.Relation, error)) error {
		for n := 0; n < len(found) && err == nil; n++ {
			var r mayfly.Relation
			r, err = flags(found[n])
			all[at[n]] |= r
		}
		if err != nil {
			return fmt.Errorf("relations of a viewer to %d users: %w", len(at), err)
		}
		return nil
	}
	found, err := a.o.Rows.Get(ctx, Profiles, profiles...)
	err = add(found, err, func(value []byte) (r mayfly.Relation, err error) {
		private, err := readPrivate(value)
		if private {
			r = mayfly.Private
		}
		return r, err
	})
	if err != nil || viewer.IsZero() {
		return all, err
	}
	found, err = a.inPartition(ctx, Follows, edges)
	err = add(found, err, func(value []byte) (mayfly.Relation, error) {
		e, err := readEdge(value)
		return e.relation(), err
	})
	if err != nil {
		return nil, err
	}
	found, mine, err := a.grants(ctx, theirs, own)
	err = add(found, err, func(value []byte) (mayfly.Relation, error) {
		r, err := readRelation(value)
		return r & granted, err
	})
	if err != nil {
		return nil, err
	}
	err = add(mine, nil, func(value []byte) (r mayfly.Relation, err error) {
		is, err := readRelation(value)
		if is.Has(mayfly.Blocked) {
			r = mayfly.Blocks
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

const (
	// manyKeys is from how many keys on a partition is read with one Range.
	manyKeys = 64
	// rowsForKey is how many rows may be read for each key then.
	rowsForKey = 4
)

// inPartition is Get for keys of one partition.
func (a *Accounts) inPartition(ctx context.Context, t store.Table, keys []store.Key) ([][]byte, error) {
	if len(keys) < manyKeys {
		return a.o.Rows.Get(ctx, t, keys...)
	}
	page, err := a.o.Rows.Range(ctx, t, store.Range{Partition: keys[0].Partition, Limit: rowsForKey * len(keys)})
	if err != nil {
		return nil, err
	}
	if len(page) == rowsForKey*len(keys) { // there may be more
		return a.o.Rows.Get(ctx, t, keys...)
	}
	values, at := make([][]byte, len(keys)), 0
	for i, key := range keys {
		if at > 0 && page[at-1].Clustering >= key.Clustering { // keys are in order, mostly
			at, _ = slices.BinarySearchFunc(page, key.Clustering, func(row store.Row, c string) int { return strings.Compare(row.Clustering, c) })
		}
		for at < len(page) && page[at].Clustering < key.Clustering {
			at++
		}
		if at < len(page) && page[at].Clustering == key.Clustering {
			values[i] = page[at].Value
		}
	}
	return values, nil
}

// grants reads the rows by which owners name a viewer, and by which the viewer names
// them. Of many owners it reads the rows of those of whom the other direction says that
// they name the viewer: its row is there before the relation, and outlives it.
func (a *Accounts) grants(ctx context.Context, theirs, own []store.Key) (byThem, byViewer [][]byte, err error) {
	if len(theirs) < manyKeys {
		found, err := a.o.Rows.Get(ctx, Relations, slices.Concat(theirs, own)...)
		if err != nil {
			return nil, nil, err
		}
		return found[:len(theirs)], found[len(theirs):], nil
	}
	if byViewer, err = a.inPartition(ctx, Relations, own); err != nil {
		return nil, nil, err
	}
	names, err := a.inPartition(ctx, Related, own) // its keys are the viewer and an owner, too
	if err != nil {
		return nil, nil, err
	}
	var at []int
	var asked []store.Key
	for i, name := range names {
		if name != nil {
			at, asked = append(at, i), append(asked, theirs[i])
		}
	}
	found, err := a.o.Rows.Get(ctx, Relations, asked...)
	if err != nil {
		return nil, nil, err
	}
	byThem = make([][]byte, len(theirs))
	for n, i := range at {
		byThem[i] = found[n]
	}
	return byThem, byViewer, nil
}

func readRelation(value []byte) (mayfly.Relation, error) {
	switch {
	case value == nil:
		return 0, nil
	case len(value) != 2+numberBytes || value[0] != relationFormat:
		return 0, mayfly.Errorf(mayfly.Corrupt, "a relation of %d bytes cannot be read", len(value))
	default:
		return mayfly.Relation(value[1]), nil
	}
}

// numbered is a value with a number of its own.
func numbered(head ...byte) ([]byte, error) {
	value := append(head, make([]byte, numberBytes)...)
	_, err := rand.Read(value[len(head):])
	return value, err
}

// Relate changes how owner stands to other. When it returns nil the next read
// anywhere is judged by it (ST10). Doing it twice is doing it once. Errors:
// Invalid, Unavailable, Unknown; after the last two, ask again. To an erased user
// no user exists: that is answered like success, and not written (I18).
//
// A follower who is set follows whether the account is private or not: that is for the
// embedding product, and Follow for users. A block ends the follows of both.
func (a *Accounts) Relate(ctx context.Context, owner, other mayfly.UserID, set, clear mayfly.Relation, now mayfly.Instant) error {
	if err := checkRelate(owner, other, set, clear); err != nil {
		return err
	}
	if set != 0 {
		erased, err := accounterase.Tombstones(ctx, a.o.Rows, owner, other)
		if err != nil {
			return fmt.Errorf("relate two users: %w", err)
		}
		if erased[0] || erased[1] { // like a user who never existed: nothing is published, and nothing written
			return nil
		}
	}
	if set.Has(mayfly.Blocked) && a.o.Purge != nil {
		if err := a.o.Purge(ctx, owner, now); err != nil {
			return fmt.Errorf("relate two users: %w", err)
		}
	}
	if (set|clear)&granted != 0 {
		if err := a.relate(ctx, owner, other, set&granted, clear&granted, now); err != nil {
			return fmt.Errorf("relate two users: %w", err)
		}
	}
	if err := a.relateFollows(ctx, owner, other, set, clear, now); err != nil {
		return fmt.Errorf("relate two users: %w", err)
	}
	// Also when nothing changed: an earlier try may have ended before it published.
	return a.tell(ctx, owner, other)
}

// relateFollows sets or ends the follow edges that a change of a relation is about.
func (a *Accounts) relateFollows(ctx context.Context, owner, other mayfly.UserID, set, clear mayfly.Relation, now mayfly.Instant) error {
	if set.Has(mayfly.Blocked) {
		if err := a.setState(ctx, owner, other, NotFollowing, now); err != nil {
			return err
		}
		return a.setState(ctx, other, owner, NotFollowing, now)
	}
	switch {
	case set.Has(mayfly.Follower):
		return a.setState(ctx, other, owner, Following, now)
	case clear.Has(mayfly.Follower):
		return a.setState(ctx, other, owner, NotFollowing, now)
	}
	return nil
}

func checkRelate(owner, other mayfly.UserID, set, clear mayfly.Relation) error {
	refuse := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint("name two users, and what one of them is to the other")
	}
	switch {
	case owner.IsZero() || other.IsZero():
		return refuse("a user is missing")
	case owner == other:
		return refuse("a user cannot follow, befriend or block themselves")
	case set|clear == 0 || set&clear != 0 || (set|clear)&^relations != 0:
		return refuse("relations %#b set and %#b cleared", set, clear)
	}
	return nil
}

// rounds is how often relate composes a change again when another caller was first.
// Update does not fit: how long a row stays depends on its value, and two rows change
// in turn.
const rounds = 16

// relate writes the row also where nothing changes, so that what was asked before
// and has not landed never does. The other direction is there before a relation, and
// outlives it: an erasure stopped anywhere finds whatever names its user. Who lets it
// fade lets only that fade which stood there before.
func (a *Accounts) relate(ctx context.Context, owner, other mayfly.UserID, set, clear mayfly.Relation, now mayfly.Instant) error {
	key, back := RelationKey(owner, other), RelatedKey(other, owner)
	for range rounds {
		found, err := a.o.Rows.Get(ctx, Relations, key)
		if err != nil {
			return err
		}
		old, err := readRelation(found[0])
		if err != nil {
			return err
		}
		next := old&^clear | set
		reverse, err := a.o.Rows.Get(ctx, Related, back)
		if err != nil {
			return err
		}
		var until, backUntil mayfly.Instant // a relation stays
		if next == 0 {
			until, backUntil = now.Add(fades), now.Add(2*fades)
		}
		if found[0] == nil || old == 0 && next != 0 {
			noted, err := a.note(ctx, back, reverse[0], backUntil)
			if err != nil {
				return err
			}
			if noted == nil {
				continue
			}
			reverse[0] = noted
		}
		value, err := numbered(relationFormat, byte(next))
		if err != nil {
			return err
		}
		swapped, _, err := a.o.Rows.Swap(ctx, Relations, key, found[0], value, until)
		if err != nil && !errors.Is(err, mayfly.Unknown) {
			return err
		}
		if !swapped {
			continue // another caller changed it, or the outcome is in doubt: read the row again
		}
		if next == 0 && found[0] != nil {
			_, err = a.note(ctx, back, reverse[0], backUntil)
		}
		return err
	}
	return mayfly.Errorf(mayfly.Unavailable, "the relation keeps changing").WithHint("try again")
}

// note writes the other direction anew, to stay or until it may fade, and answers
// what it wrote; nil when another caller did at the same time.
func (a *Accounts) note(ctx context.Context, back store.Key, old []byte, until mayfly.Instant) ([]byte, error) {
	value, err := numbered(relationFormat)
	if err != nil {
		return nil, err
	}
	switch err := store.Replace(ctx, a.o.Rows, Related, back, old, value, until); {
	case errors.Is(err, mayfly.Conflict):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return value, nil
}

// tell returns when no cache answers from the old relations of two users: each was
// notified, or what it knows is too old (trap 18). A zero other stands for every user.
func (a *Accounts) tell(ctx context.Context, owner, other mayfly.UserID) error {
	signals := []store.Signal{{Topic: store.RelationsChanged, Owner: owner, ID: mayfly.ID(other)}}
	if !other.IsZero() {
		signals = append(signals, store.Signal{Topic: store.RelationsChanged, Owner: other, ID: mayfly.ID(owner)})
	}
	if err := store.Invalidate(ctx, a.o.Signals, signals...); err != nil {
		return fmt.Errorf("relate two users: %w", err)
	}
	return nil
}
