package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/erase"
	"github.com/mayflyhq/mayfly/store"
)

// relationFormat begins the value of a relation and of its other direction.
const relationFormat = 1

const relations = mayfly.Follower | mayfly.CloseFriend | mayfly.Blocked

// Relation is how owner stands to other: what the gate asks.
func (a *Accounts) Relation(ctx context.Context, owner, other mayfly.UserID) (mayfly.Relation, error) {
	if owner.IsZero() || other.IsZero() {
		return 0, nil
	}
	found, err := a.o.Rows.Get(ctx, store.Relations, store.RelationKey(owner, other))
	if err != nil {
		return 0, fmt.Errorf("relation of two users: %w", err)
	}
	return readRelation(found[0])
}

func readRelation(value []byte) (mayfly.Relation, error) {
	switch {
	case value == nil:
		return 0, nil
	case len(value) != 2 || value[0] != relationFormat:
		return 0, mayfly.Errorf(mayfly.Corrupt, "a relation of %d bytes cannot be read", len(value))
	default:
		return mayfly.Relation(value[1]), nil
	}
}

func relationBytes(r mayfly.Relation) []byte {
	if r == 0 {
		return nil
	}
	return []byte{relationFormat, byte(r)}
}

// Relate changes how owner stands to other. When it returns nil the next read
// anywhere is judged by it (ST10). Doing it twice is doing it once. Errors:
// Invalid, Unavailable, Unknown; after the last two, ask again. To an erased user
// nobody is anything: that is answered like success, and not written (I18).
func (a *Accounts) Relate(ctx context.Context, owner, other mayfly.UserID, set, clear mayfly.Relation, _ mayfly.Instant) error {
	if err := checkRelate(owner, other, set, clear); err != nil {
		return err
	}
	if set != 0 {
		erased, err := erase.Tombstones(ctx, a.o.Rows, owner, other)
		if err != nil {
			return fmt.Errorf("relate two users: %w", err)
		}
		if erased[0] || erased[1] { // like a user who never was: nothing is told, and nothing written
			return nil
		}
	}
	if err := a.relate(ctx, owner, other, set, clear); err != nil {
		return fmt.Errorf("relate two users: %w", err)
	}
	return a.tell(ctx, owner) // also when nothing changed: an earlier try may have ended before it told
}

func checkRelate(owner, other mayfly.UserID, set, clear mayfly.Relation) error {
	refuse := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint("name two users, and what one of them is to the other")
	}
	switch {
	case owner.IsZero() || other.IsZero():
		return refuse("nobody has no relations")
	case owner == other:
		return refuse("nobody follows, befriends or blocks themselves")
	case set|clear == 0 || set&clear != 0 || (set|clear)&^relations != 0:
		return refuse("relations %#b set and %#b cleared", set, clear)
	}
	return nil
}

// relate writes the other direction before a relation and removes it after, so
// that an erasure stopped anywhere finds every relation. The other direction
// carries a number that changes with every setting: who removes it removes only
// what stood there before.
func (a *Accounts) relate(ctx context.Context, owner, other mayfly.UserID, set, clear mayfly.Relation) error {
	key, back := store.RelationKey(owner, other), store.RelatedKey(other, owner)
	for range rounds {
		found, err := a.o.Rows.Get(ctx, store.Relations, key)
		if err != nil {
			return err
		}
		old, err := readRelation(found[0])
		if err != nil {
			return err
		}
		next := old&^clear | set
		if next == old {
			return nil
		}
		reverse, err := a.o.Rows.Get(ctx, store.Related, back)
		if err != nil {
			return err
		}
		if next != 0 {
			if reverse[0], err = a.note(ctx, back, reverse[0]); err != nil {
				return err
			}
			if reverse[0] == nil {
				continue
			}
		}
		swapped, _, err := a.o.Rows.Swap(ctx, store.Relations, key, found[0], relationBytes(next), 0)
		if err != nil && !errors.Is(err, mayfly.Unknown) {
			return err
		}
		if !swapped {
			continue // somebody else changed it, or the outcome is in doubt: the row tells
		}
		if next == 0 {
			return a.forget(ctx, back, reverse[0])
		}
		return a.keepNoted(ctx, back)
	}
	return mayfly.Errorf(mayfly.Unavailable, "the relation keeps changing").WithHint("try again")
}

// note writes the other direction anew, and answers what it wrote; nil when
// somebody else did at the same time.
func (a *Accounts) note(ctx context.Context, back store.Key, old []byte) ([]byte, error) {
	value := make([]byte, 9)
	value[0] = relationFormat
	if _, err := rand.Read(value[1:]); err != nil {
		return nil, err
	}
	swapped, _, err := a.o.Rows.Swap(ctx, store.Related, back, old, value, 0)
	if errors.Is(err, mayfly.Unknown) {
		var found [][]byte
		if found, err = a.o.Rows.Get(ctx, store.Related, back); err == nil {
			swapped = bytes.Equal(found[0], value)
		}
	}
	if err != nil || !swapped {
		return nil, err
	}
	return value, nil
}

// forget removes the other direction if it is what it was before the relation
// went. One that stays too long names a relation that is not there: harmless,
// and an erasure takes it along.
func (a *Accounts) forget(ctx context.Context, back store.Key, old []byte) error {
	if old == nil {
		return nil
	}
	_, _, err := a.o.Rows.Swap(ctx, store.Related, back, old, nil, 0)
	if errors.Is(err, mayfly.Unknown) {
		return nil
	}
	return err
}

// keepNoted writes the other direction once more if it is gone: between the note
// and the relation somebody set and cleared the same one.
func (a *Accounts) keepNoted(ctx context.Context, back store.Key) error {
	for range rounds {
		found, err := a.o.Rows.Get(ctx, store.Related, back)
		if err != nil || found[0] != nil {
			return err
		}
		if _, err := a.note(ctx, back, nil); err != nil {
			return err
		}
	}
	return mayfly.Errorf(mayfly.Unavailable, "the relation keeps changing").WithHint("try again")
}

// tell returns when no cache answers from the old relations: each was told, or
// what it knows is too old (trap 18).
func (a *Accounts) tell(ctx context.Context, owner mayfly.UserID) error {
	if err := store.Invalidate(ctx, a.o.Signals, store.Signal{Topic: store.RelationsChanged, Owner: owner}); err != nil {
		return fmt.Errorf("relate two users: %w", err)
	}
	return nil
}
