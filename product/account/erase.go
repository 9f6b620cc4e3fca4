package account

import (
	"context"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
)

// ErasePart erases the follow edges of a user in both directions, the requests and
// mutes, the profile and its handles, also on a node without accounts.
func ErasePart(rows store.Rows) accounterase.Part {
	return accounterase.Part{
		Name: "follow edges",
		Erase: func(ctx context.Context, user mayfly.UserID, now mayfly.Instant) (int, error) {
			return eraseGraph(ctx, rows, user, now)
		},
		Left: func(ctx context.Context, user mayfly.UserID) (int, error) { return leftOfGraph(ctx, rows, user) },
	}
}

// allPlaces are the places that the edges of a user may be in.
func allPlaces(p profile) []Place {
	return append(p.places(), mutedPlace, requestPlace, followingCount)
}

// eraseGraph removes the profile last, because it says what there is.
func eraseGraph(ctx context.Context, rows store.Rows, user mayfly.UserID, now mayfly.Instant) (erased int, err error) {
	found, err := rows.Get(ctx, Profiles, profileKey(user))
	if err != nil {
		return 0, err
	}
	p, err := readProfile(found[0])
	if err != nil {
		return 0, err
	}
	marks := &Accounts{o: Options{Rows: rows}}
	for _, place := range allPlaces(p) {
		n, err := eraseEdges(ctx, rows, user, place, func(other mayfly.UserID, p Place) error { return marks.mark(ctx, other, p, now) })
		if erased += n; err != nil {
			return erased, err
		}
	}
	for handle := range p.Claims {
		_, err := store.Update(ctx, rows, Handles, handleKey(handle), 0, func(old []byte) ([]byte, error) {
			if holder, err := readHandle(old); err != nil || holder != user {
				return old, err
			}
			return nil, nil
		})
		if err != nil {
			return erased, err
		}
		erased++
	}
	for _, place := range allPlaces(p) {
		if err := removeRow(ctx, rows, Recounts, recountKey(user, place)); err != nil {
			return erased, err
		}
	}
	if found[0] != nil {
		if err := removeRow(ctx, rows, Profiles, profileKey(user)); err != nil {
			return erased, err
		}
		if p.said() { // a row that only has counts is written by the recount, some time after the edges
			erased++
		}
	}
	return erased, nil
}

// eraseEdges removes the edges that a place of an erased user has. mark is called for
// the count of the other user before an edge goes; nil for none.
func eraseEdges(ctx context.Context, rows store.Rows, user mayfly.UserID, p Place, mark func(mayfly.UserID, Place) error) (erased int, err error) {
	if p == followingCount {
		err = eachRow(ctx, rows, Follows, string(user[:]), func(row store.Row) error {
			author, err := userIn(row)
			if err != nil {
				return err
			}
			e, err := readEdge(row.Value)
			if err != nil {
				return err
			}
			if mark != nil && e.place < followerPlaces {
				if err := mark(author, e.place); err != nil {
					return err
				}
			}
			erased++
			return removeEdge(ctx, rows, user, author, false)
		})
		return erased, err
	}
	err = eachRow(ctx, rows, Followers, p.partition(user), func(row store.Row) error {
		reader, err := userIn(row)
		if err != nil {
			return err
		}
		if mark != nil {
			if err := mark(reader, followingCount); err != nil {
				return err
			}
		}
		erased++
		return removeEdge(ctx, rows, reader, user, true, p)
	})
	return erased, err
}

// leftOfGraph counts what eraseGraph would remove, in every place that there can be:
// the scan itself looks at partitions that are the user.
func leftOfGraph(ctx context.Context, rows store.Rows, user mayfly.UserID) (left int, err error) {
	places := allPlaces(profile{Places: int(followerPlaces)})
	marks := make([]store.Key, len(places))
	for i, p := range places {
		marks[i] = recountKey(user, p)
		if p == followingCount || p == 0 {
			continue
		}
		if err := eachRow(ctx, rows, Followers, p.partition(user), func(store.Row) error { left++; return nil }); err != nil {
			return left, err
		}
	}
	found, err := rows.Get(ctx, Recounts, marks...)
	if err != nil {
		return left, err
	}
	return left + len(slices.DeleteFunc(found, func(b []byte) bool { return b == nil })), nil
}
