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

// SignOut revokes the family of a refresh token: none of its tokens gets another
// one. Access tokens that it gave last until their end. Any token of the family
// will do, also an old one; a forged or unknown one changes nothing and is no error,
// so that the answer tells nothing. Errors: Unavailable, Unknown.
func (a *Accounts) SignOut(ctx context.Context, refresh string, now mayfly.Instant) error {
	t, ok := readRefresh(refresh)
	if !ok || !a.o.Key.made(t) {
		return nil
	}
	_, err := store.Update(ctx, a.o.Rows, Families, familyKey(t.user, t.family), now.Add(a.o.Refresh), func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, errRefresh()
		}
		f, err := readFamily(old)
		f.revoked = true
		return f.bytes(), err
	})
	if err != nil && !errors.Is(err, mayfly.Unauthenticated) {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}

// made reports whether k has made the token.
func (k *Key) made(t refreshToken) bool {
	made := k.refreshOf(t.user, t.family, t.number)
	return hmac.Equal(made.secret[:], t.secret[:])
}

// errRefresh is the same whatever is wrong with a refresh token.
func errRefresh() error {
	return refuse("the refresh token is not good", "log in again: it is over, unknown, or was used before")
}

// rotate makes the next token the good one.
func (a *Accounts) rotate(ctx context.Context, t refreshToken, now mayfly.Instant) (family, Token, error) {
	genuine := a.o.Key.made(t)
	var after family
	var next refreshToken
	_, err := store.Update(ctx, a.o.Rows, Families, familyKey(t.user, t.family), now.Add(a.o.Refresh), func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, errRefresh()
		}
		f, err := readFamily(old)
		if err != nil {
			return nil, err
		}
		switch standing := f.stands(t, genuine, now); standing {
		case reusedToken:
			f.revoked = true
			after = f
			return f.bytes(), nil
		case goodToken, retriedToken:
			if err := a.refuseErased(ctx, t.user); err != nil {
				return nil, err
			}
			if standing == goodToken {
				next = a.o.Key.refreshOf(t.user, t.family, f.number+1)
				after = family{number: next.number, good: next.hash(), before: f.good, rotated: now, until: now.Add(a.o.Refresh), subject: f.subject}
				return after.bytes(), nil
			}
			if next = a.o.Key.refreshOf(t.user, t.family, f.number); next.hash() != f.good { // made by another key, which is gone
				return nil, errRefresh()
			}
			after = f
			return old, nil
		}
		return nil, errRefresh()
	})
	if err == nil && after.revoked {
		err = errRefresh()
	}
	return after, next.token(), err
}
