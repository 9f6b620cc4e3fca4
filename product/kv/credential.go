package kv

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"

	"github.com/mayflyhq/mayfly"
)

// Credential is a key of a namespace, without the key itself.
type Credential struct {
	ID   string         `json:"id"`
	Hash []byte         `json:"hash"`
	Made mayfly.Instant `json:"made"`
}

// maxCredentials is how many keys a namespace has at most: the one that is used, and
// the one that replaces it.
const maxCredentials = 2

// KeyPrefix begins every key of a namespace. It shows scanners of source code, and the
// HTTP API, that a text is a key.
const KeyPrefix = "mfkv_"

// newCredential returns a new key and what is stored of it. A key has 130 random bits,
// so that a fast hash of it tells nothing.
func newCredential(now mayfly.Instant) (mayfly.Secret, Credential) {
	key := KeyPrefix + rand.Text()
	sum := sha256.Sum256([]byte(key))
	return mayfly.Secret(key), Credential{ID: rand.Text()[:8], Hash: sum[:], Made: now}
}

// credential returns the id of the credential that a key opens; "" if none.
func (r record) credential(key string) string {
	sum := sha256.Sum256([]byte(key))
	id := ""
	for _, c := range r.Keys {
		if subtle.ConstantTimeCompare(c.Hash, sum[:]) == 1 {
			id = c.ID
		}
	}
	return id
}

// AddKey makes another key of a namespace. Errors: NotFound, Conflict (it has two).
func (k *KV) AddKey(ctx context.Context, owner mayfly.UserID, name string, now mayfly.Instant) (mayfly.Secret, Credential, error) {
	had, err := k.owned(ctx, owner, name)
	if err != nil {
		return "", Credential{}, err
	}
	key, credential := newCredential(now)
	err = k.change(ctx, name, func(r record, _ bool) (record, error) {
		switch {
		case r.Space != had.Space || !r.serves():
			return r, absent(name)
		case len(r.Keys) >= maxCredentials:
			return r, mayfly.Errorf(mayfly.Conflict, "namespace %s has %d keys; that is the most", name, len(r.Keys)).WithHint("remove the one that is not used any more")
		}
		r.Keys = append(r.Keys[:len(r.Keys):len(r.Keys)], credential)
		return r, nil
	})
	return key, credential, err
}

// RemoveKey removes a key by its id. Connections that it opened end within a second.
// Errors: NotFound.
func (k *KV) RemoveKey(ctx context.Context, owner mayfly.UserID, name, id string) error {
	had, err := k.owned(ctx, owner, name)
	if err != nil {
		return err
	}
	return k.change(ctx, name, func(r record, _ bool) (record, error) {
		if r.Space != had.Space {
			return r, absent(name)
		}
		kept := make([]Credential, 0, len(r.Keys))
		for _, c := range r.Keys {
			if c.ID != id {
				kept = append(kept, c)
			}
		}
		if len(kept) == len(r.Keys) {
			return r, mayfly.Errorf(mayfly.NotFound, "namespace %s has no key %.40q", name, id)
		}
		r.Keys = kept
		return r, nil
	})
}
