package intake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// claim is the value of an idempotency row: what makes a birth this birth. A
// resumed birth is the same in every byte.
type claim struct {
	id      mayfly.ID
	upload  mayfly.ID
	nonce   mayfly.Nonce
	request [32]byte // hash of what was asked for
}

const (
	claimFormat = 1
	claimSize   = 1 + 16 + 16 + 8 + 32
)

// claimKey makes mine the birth of the draft's key, or returns the birth that the
// key already stands for; first tells which. A claim that is too old is replaced.
func (in *Intake) claimKey(ctx context.Context, r request, mine claim) (c claim, first bool, err error) {
	key := store.Key{Partition: string(r.Owner[:]), Clustering: r.Key}
	value := mine.append(nil)
	_, err = store.UpdateFrom(ctx, in.set.Rows, Idempotency, key, nil, r.now.Add(in.o.KeepKeys), func(old []byte) ([]byte, error) {
		c, first = mine, true
		if old == nil || bytes.Equal(old, value) {
			return value, nil
		}
		theirs, err := readClaim(old)
		if err != nil {
			return nil, err
		}
		if theirs.id.Birth().Add(in.o.KeepKeys) <= r.now {
			return value, nil
		}
		if theirs.request != mine.request {
			return nil, mayfly.Errorf(mayfly.Conflict, "key %q was used for other content", r.Key).
				WithHint("a retry sends the same content; other content needs a new key")
		}
		c, first = theirs, false
		return old, nil
	})
	return c, first, err
}

// Known reports which birth an idempotency key of owner stands for at now: a
// Publish with the key is a retry of that birth and makes no other.
func (in *Intake) Known(ctx context.Context, owner mayfly.UserID, key string, now mayfly.Instant) (id mayfly.ID, known bool, err error) {
	if key == "" || owner.IsZero() {
		return mayfly.ID{}, false, nil
	}
	found, err := in.set.Rows.Get(ctx, Idempotency, store.Key{Partition: string(owner[:]), Clustering: key})
	if err != nil {
		return mayfly.ID{}, false, fmt.Errorf("look up the idempotency key: %w", err)
	}
	if found[0] == nil {
		return mayfly.ID{}, false, nil
	}
	c, err := readClaim(found[0])
	if err != nil {
		return mayfly.ID{}, false, err
	}
	return c.id, now < c.id.Birth().Add(in.o.KeepKeys), nil
}

func (c claim) append(b []byte) []byte {
	b = append(b, claimFormat)
	b = append(b, c.id[:]...)
	b = append(b, c.upload[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.nonce))
	return append(b, c.request[:]...)
}

func readClaim(b []byte) (claim, error) {
	if len(b) != claimSize || b[0] != claimFormat {
		return claim{}, mayfly.Errorf(mayfly.Corrupt, "an idempotency row of %d bytes cannot be read", len(b))
	}
	return claim{
		id: mayfly.ID(b[1:17]), upload: mayfly.ID(b[17:33]),
		nonce: mayfly.Nonce(binary.BigEndian.Uint64(b[33:41])), request: [32]byte(b[41:73]),
	}, nil
}
