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

// sameKey refuses a node whose key is not the one that the other nodes of the store
// have: they would refuse its tokens, and users would be signed out at every other
// request. The first node of a store writes the id of its key; changed says that the
// key was changed on purpose. A store of one process keeps its key beside it.
func sameKey(ctx context.Context, rows store.Rows, id string, changed bool) error {
	key := store.Key{Partition: "tokens", Clustering: "key"}
	current, err := store.Update(ctx, rows, engine.Settings, key, 0, func(old []byte) ([]byte, error) {
		if old == nil || changed {
			return []byte(id), nil
		}
		return old, nil
	})
	if err != nil {
		return fmt.Errorf("compare the signing key with the other nodes' key: %w", err)
	}
	if string(current) == id {
		return nil
	}
	return mayfly.Errorf(mayfly.Conflict, "this node signs with key %s, the other nodes with %.32q", id, current).
		WithHint("give every node the same tokens.key_file; if the key was changed on purpose, stop all nodes and start one with --new-key")
}

func keyFile(c config.Config) string {
	if c.Tokens.KeyFile != "" {
		return c.Tokens.KeyFile
	}
	return filepath.Join(c.Data, "key")
}

// TokenRequest says what an access token is for.
type TokenRequest struct {
	User  string // UUID, ~name or name; may be empty for other scopes than user
	Scope string // user, service, moderator or admin
	Lasts time.Duration
}

// MintToken signs an access token with the key that a configuration names, without
// a server. It makes no key: no server would accept its tokens.
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

// UserNamed returns the user that text names: a UUID, or the user's name at the home
// issuer, with ~ or without.
func UserNamed(c config.Config, text string) mayfly.UserID {
	home := c.Tokens.Home
	if home == "" {
		home = c.Tokens.Issuer
	}
	return mayfly.HomeUserOf(home, strings.TrimPrefix(text, "~"))
}
