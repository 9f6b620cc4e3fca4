package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A creation writes the owner's row, as being made; then the row of the namespace, with
// Making; then the owner's row again, if it has not changed; and at last it takes Making
// away. The erasure of an account finds the owner's row. One that comes in between
// removes or changes that row, and the creation fails: a namespace that its owner's
// erasure does not find cannot exist (ST14).

const (
	// makeWithin is how long a creation may take before another one of the same owner
	// and name may take its place.
	makeWithin = time.Minute
	// madePart is after what time the row of a namespace that was made in part is removed.
	madePart = time.Hour

	makingPrefix = "making/"
)

// making returns the value of the owner's row while a namespace is being made.
func making(space string, now mayfly.Instant) []byte {
	return fmt.Appendf(nil, "%s%d/%s", makingPrefix, now, space)
}

// readOwned reads the value of an owner's row. begun is 0 if the namespace is made.
func readOwned(value []byte) (space string, begun mayfly.Instant) {
	rest, making := strings.CutPrefix(string(value), makingPrefix)
	if !making {
		return rest, 0
	}
	at, space, _ := strings.Cut(rest, "/")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		ms = 1 // long ago
	}
	return space, mayfly.Instant(ms)
}

// reserve writes the owner's row of a namespace that is to be made. Errors: Conflict (the
// owner has the name or too many, or is making it), those of Rows.
func (k *KV) reserve(ctx context.Context, owner mayfly.UserID, name, space string, now mayfly.Instant) error {
	abandoned := ""
	_, err := store.Update(ctx, k.o.Rows, Owned, ownedKey(owner, name), 0, func(old []byte) ([]byte, error) {
		if abandoned = ""; old == nil {
			return making(space, now), nil
		}
		had, begun := readOwned(old)
		found, err := k.find(ctx, name)
		switch same := err == nil && found.Space == had; {
		case err != nil && !errors.Is(err, mayfly.NotFound):
			return nil, err
		case same && !found.Making:
			return nil, taken(name)
		case same:
			begun = found.Made
		}
		if begun != 0 && now.Sub(begun).Abs() < makeWithin {
			return nil, mayfly.Errorf(mayfly.Conflict, "another request is making namespace %s", name).WithHint("list your namespaces, or try again in a minute")
		}
		abandoned = had
		return making(space, now), nil
	})
	if err == nil && abandoned != "" {
		err = ignoreAbsent(k.end(ctx, owner, name, abandoned))
	}
	if err != nil {
		return err
	}
	// Counted with its own row, so that creations at the same time are not too many.
	rows, err := k.o.Rows.Range(ctx, Owned, store.Range{Partition: string(owner[:]), Limit: k.o.PerOwner + 1})
	if err == nil && len(rows) > k.o.PerOwner {
		err = mayfly.Errorf(mayfly.Conflict, "you have %d namespaces; that is the most", k.o.PerOwner).WithHint("delete one first")
	}
	if err != nil {
		return errors.Join(err, k.abandon(context.WithoutCancel(ctx), owner, name, space))
	}
	return nil
}

// checkQuotas returns an error of kind Conflict if the quotas of an owner's namespaces are
// too much together. It counts those that are being made, so that creations at the same
// time do not pass it together.
func (k *KV) checkQuotas(ctx context.Context, owner mayfly.UserID) error {
	if k.o.OwnerQuota == 0 {
		return nil
	}
	rows, err := k.o.Rows.Range(ctx, Owned, store.Range{Partition: string(owner[:]), Limit: k.o.PerOwner + 1})
	if err != nil {
		return err
	}
	left := k.o.OwnerQuota
	for _, row := range rows {
		r, err := k.find(ctx, row.Clustering)
		space, _ := readOwned(row.Value)
		switch {
		case errors.Is(err, mayfly.NotFound), err == nil && r.Space != space:
			continue
		case err != nil:
			return err
		}
		if left -= r.Settings.Quota; left < 0 || r.Settings.Quota == 0 {
			return mayfly.Errorf(mayfly.Conflict, "your namespaces would have quotas of more than %d bytes together", k.o.OwnerQuota).WithHint("choose a smaller quota, or delete a namespace first")
		}
	}
	return nil
}

// complete makes the namespace of an owner's row. Errors: Conflict (the name is taken, the
// quota is too much, or the creation was overtaken), those of Rows.
func (k *KV) complete(ctx context.Context, owner mayfly.UserID, name string, r record) error {
	b, err := r.bytes()
	if err != nil {
		return err
	}
	err = store.Replace(ctx, k.o.Rows, Namespaces, namespaceKey(name), nil, b, 0)
	if errors.Is(err, mayfly.Conflict) {
		return taken(name)
	}
	if err != nil {
		return err
	}
	if err := k.checkQuotas(ctx, owner); err != nil {
		return err
	}
	if err := store.Replace(ctx, k.o.Rows, Owned, ownedKey(owner, name), making(r.Space, r.Made), []byte(r.Space), 0); err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return k.change(ctx, name, func(found record, there bool) (record, error) {
		if !there || found.Space != r.Space || found.Ending {
			return found, mayfly.Errorf(mayfly.Conflict, "namespace %s was removed while it was made", name).WithHint("make it again")
		}
		found.Making = false
		return found, nil
	})
}

// abandon removes what a creation that failed has written.
func (k *KV) abandon(ctx context.Context, owner mayfly.UserID, name, space string) error {
	return errors.Join(ignoreAbsent(k.end(ctx, owner, name, space)), k.forget(ctx, owner, name, space))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, mayfly.NotFound) {
		return nil
	}
	return err
}

func taken(name string) error {
	return mayfly.Errorf(mayfly.Conflict, "the name %s is taken", name).WithHint("choose another; names are shared by all users of the server")
}

// forget removes the owner's row if it names the space, made or not.
func (k *KV) forget(ctx context.Context, owner mayfly.UserID, name, space string) error {
	_, err := store.Update(ctx, k.o.Rows, Owned, ownedKey(owner, name), 0, func(old []byte) ([]byte, error) {
		if found, _ := readOwned(old); found == space {
			return nil, nil
		}
		return old, nil
	})
	return err
}
