package intake

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const (
	claimFormat = 1
	claimSize   = 1 + 16 + 16 + 8 + 32
)

// claimKey makes mine the birth of the draft's key, or answers with the birth
// that the key already stands for; first says which.
func (in *Intake) claimKey(ctx context.Context, r request, mine claim) (c claim, first bool, err error) {
	key := store.Key{Partition: string(r.Owner[:]), Clustering: r.Key}
	value := mine.append(nil)
	var old []byte
	for range 3 { // absent, then perhaps one that is past its time, then perhaps a rival's
		swapped, current, err := in.set.Rows.Swap(ctx, store.Idempotency, key, old, value, r.now.Add(in.o.KeepKeys))
		if errors.Is(err, mayfly.Unknown) {
			swapped, current, err = in.readBack(ctx, key, value)
		}
		if err != nil {
			return claim{}, false, err
		}
		if swapped {
			return mine, true, nil
		}
		if current == nil {
			old = nil
			continue
		}
		theirs, err := readClaim(current)
		if err != nil {
			return claim{}, false, err
		}
		if theirs.id.Birth().Add(in.o.KeepKeys) <= r.now {
			old = current
			continue
		}
		if theirs.request != mine.request {
			return claim{}, false, mayfly.Errorf(mayfly.Conflict, "key %q was used for something else", r.Key).
				WithHint("a retry sends the same content; something new takes a new key")
		}
		return theirs, false, nil
	}
	return claim{}, false, mayfly.Errorf(mayfly.Unavailable, "key %q is changing too fast", r.Key)
}

// readBack tells a swap whose answer was lost from one that did not happen: the
// value holds an id that nobody else minted.
func (in *Intake) readBack(ctx context.Context, key store.Key, value []byte) (bool, []byte, error) {
	found, err := in.set.Rows.Get(ctx, store.Idempotency, key)
	if err != nil {
		return false, nil, fmt.Errorf("read back: %w", err)
	}
	if bytes.Equal(found[0], value) {
		return true, nil, nil
	}
	if found[0] == nil {
		return false, nil, mayfly.Errorf(mayfly.Unavailable, "the key could not be claimed")
	}
	return false, found[0], nil
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
