package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func samekeyKey() store.Key { return store.Key{Partition: "tokens", Clustering: "key"} }

// sameKey refuses a node of several whose key is not that of the others: what one
// signs the others would not know, and users would be signed out at every other
// request. The first node of a store says which key it is; changed tells that it
// was changed on purpose. A store of one process keeps its key beside it.
func sameKey(ctx context.Context, rows store.Rows, id string, changed bool) error {
	found, err := rows.Get(ctx, engine.Settings, samekeyKey())
	if err != nil {
		return fmt.Errorf("see which key signs: %w", err)
	}
	current := found[0]
	if current == nil || changed && string(current) != id {
		swapped, now, err := rows.Swap(ctx, engine.Settings, samekeyKey(), current, []byte(id), 0)
		if errors.Is(err, mayfly.Unknown) {
			if found, err = rows.Get(ctx, engine.Settings, samekeyKey()); err == nil {
				now = found[0]
			}
		}
		if err != nil {
			return fmt.Errorf("say which key signs: %w", err)
		}
		if swapped {
			return nil
		}
		if now == nil {
			return mayfly.Errorf(mayfly.Unavailable, "say which key signs: the outcome is not known").WithHint("start again")
		}
		current = now // another node was first
	}
	if string(current) == id {
		return nil
	}
	return mayfly.Errorf(mayfly.Conflict, "this node signs with the key %s, and the others with %.32q", id, current).
		WithHint("give every node the same tokens.key_file; if the key was changed on purpose, stop all nodes and start one with --new-key")
}

func keyFile(c config.Config) string {
	if c.Tokens.KeyFile != "" {
		return c.Tokens.KeyFile
	}
	return filepath.Join(c.Data, "key")
}

// TokenRequest is what an access token is to say.
type TokenRequest struct {
	User  string // UUID, ~name or name; may be empty for other scopes than user
	Scope string // user, service, moderator or admin
	Lasts time.Duration
}

// MintToken signs an access token with the key that a configuration names; no
// server is needed. It makes no key: only a server's is good for anything.
func MintToken(c config.Config, r TokenRequest, now mayfly.Instant) (account.Token, error) {
	if _, err := os.Stat(keyFile(c)); errors.Is(err, fs.ErrNotExist) {
		return "", mayfly.Errorf(mayfly.NotFound, "there is no key at %s", keyFile(c)).WithHint("name the server's data folder with --data; mayfly serve makes the key at its first start")
	}
	key, err := LoadKey(c)
	if err != nil {
		return "", err
	}
	g := account.Grant{Issuer: c.Tokens.Issuer, Audience: c.Tokens.Audience, Scopes: []account.Scope{account.Scope(r.Scope)}, Lasts: r.Lasts, Subject: r.Scope}
	if r.User != "" {
		g.User, g.Subject = UserNamed(c, r.User), strings.TrimPrefix(r.User, "~")
	}
	return key.Mint(g, now)
}

// UserNamed is the user that text names: a UUID, or a name that the home issuer
// knows them by, with ~ or without.
func UserNamed(c config.Config, text string) mayfly.UserID {
	home := c.Tokens.Home
	if home == "" {
		home = c.Tokens.Issuer
	}
	return mayfly.HomeUserOf(home, strings.TrimPrefix(text, "~"))
}
