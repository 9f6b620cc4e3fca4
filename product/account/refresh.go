package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// rounds is how often a change that met a moving row is composed again: more
// often than a row changes while it is read.
const rounds = 16

// Issue begins a family of refresh tokens for a user: the first of them, and an
// access token. Subject is what access tokens call the user; the user's number
// if it is empty. Errors: Invalid, Unauthenticated (erased), Unavailable, Unknown.
func (a *Accounts) Issue(ctx context.Context, user mayfly.UserID, subject string, now mayfly.Instant) (access, refresh Token, err error) {
	if user.IsZero() {
		return "", "", mayfly.Errorf(mayfly.Invalid, "issue tokens: the user is missing").WithHint("name a user")
	}
	if err := a.refuseErased(ctx, user); err != nil {
		return "", "", fmt.Errorf("issue tokens: %w", err)
	}
	if access, err = a.Mint(user, subject, []Scope{User}, 0, now); err != nil {
		return "", "", err
	}
	var id familyID
	if _, err := rand.Read(id[:]); err != nil {
		return "", "", fmt.Errorf("issue tokens: %w", err)
	}
	first := a.o.Key.refreshOf(user, id, 1)
	f := family{number: 1, good: first.hash(), until: now.Add(a.o.Refresh), subject: subject}
	swapped, _, err := a.o.Rows.Swap(ctx, Families, familyKey(user, id), nil, f.bytes(), f.until)
	if err != nil {
		return "", "", fmt.Errorf("issue tokens: %w", err)
	}
	if !swapped {
		return "", "", mayfly.Errorf(mayfly.Unavailable, "issue tokens: the family's name is taken").WithHint("try again")
	}
	return access, first.token(), nil
}

// Refresh takes a refresh token and gives an access token and the next one. An
// old token that comes again ends the whole family (C1). Errors:
// Unauthenticated, Unavailable, Unknown; after the last two, ask again with the
// same token.
func (a *Accounts) Refresh(ctx context.Context, refresh string, now mayfly.Instant) (access, next Token, user mayfly.UserID, err error) {
	t, ok := readRefresh(refresh)
	if !ok {
		return "", "", user, errRefresh()
	}
	f, next, err := a.rotate(ctx, t, now)
	if err != nil {
		return "", "", user, fmt.Errorf("refresh: %w", err)
	}
	if access, err = a.Mint(t.user, f.subject, []Scope{User}, 0, now); err != nil {
		return "", "", user, fmt.Errorf("refresh: %w", err)
	}
	return access, next, t.user, nil
}

// errRefresh is the same whatever is wrong with a refresh token.
func errRefresh() error {
	return refuse("the refresh token is not good", "log in again: it is over, unknown, or was used before")
}

// rotate makes the next token the good one.
func (a *Accounts) rotate(ctx context.Context, t refreshToken, now mayfly.Instant) (family, Token, error) {
	key := familyKey(t.user, t.family)
	made := a.o.Key.refreshOf(t.user, t.family, t.number)
	genuine := hmac.Equal(made.secret[:], t.secret[:])
	for range rounds {
		found, err := a.o.Rows.Get(ctx, Families, key)
		if err != nil {
			return family{}, "", err
		}
		if found[0] == nil {
			return family{}, "", errRefresh()
		}
		f, err := readFamily(found[0])
		if err != nil {
			return family{}, "", err
		}
		switch f.stands(t, genuine, now) {
		case goodToken:
			if err := a.refuseErased(ctx, t.user); err != nil {
				return family{}, "", err
			}
			next := a.o.Key.refreshOf(t.user, t.family, f.number+1)
			after := family{number: next.number, good: next.hash(), before: f.good, rotated: now, until: now.Add(a.o.Refresh), subject: f.subject}
			swapped, err := a.swapFamily(ctx, key, found[0], after)
			if err != nil {
				return family{}, "", err
			}
			if swapped {
				return after, next.token(), nil
			}
		case retriedToken:
			if err := a.refuseErased(ctx, t.user); err != nil {
				return family{}, "", err
			}
			next := a.o.Key.refreshOf(t.user, t.family, f.number)
			if next.hash() != f.good { // made by another key, which is gone
				return family{}, "", errRefresh()
			}
			return f, next.token(), nil
		case reusedToken:
			f.revoked = true
			swapped, err := a.swapFamily(ctx, key, found[0], f)
			if err != nil {
				return family{}, "", err
			}
			if swapped {
				return family{}, "", errRefresh()
			}
		default:
			return family{}, "", errRefresh()
		}
	}
	return family{}, "", mayfly.Errorf(mayfly.Unavailable, "the family keeps changing").WithHint("try again")
}

// swapFamily answers false also when the outcome is in doubt: the row, read
// again, tells, since a token that has been rotated stands as retried.
func (a *Accounts) swapFamily(ctx context.Context, key store.Key, old []byte, f family) (bool, error) {
	swapped, _, err := a.o.Rows.Swap(ctx, Families, key, old, f.bytes(), f.until)
	if errors.Is(err, mayfly.Unknown) {
		return false, nil
	}
	return swapped, err
}
