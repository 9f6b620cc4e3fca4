package accounterase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// Receipt says what was erased of a user, and where (ST14). It is stored in the
// row of the account's tombstone and grows with every pass.
type Receipt struct {
	Format   int            `json:"format"`
	User     mayfly.UserID  `json:"user"`
	At       mayfly.Instant `json:"at"`       // when the erasure was requested
	Passes   int            `json:"passes"`   // how many passes were made
	Again    mayfly.Instant `json:"again"`    // when the next pass is due; zero: never
	Finished mayfly.Instant `json:"finished"` // when nothing was left; zero: not yet
	Items    int            `json:"items"`
	Objects  int            `json:"objects"` // copies of media that rows named, and media of reserved uploads
	Rows     map[string]int `json:"rows"`    // by table
	Held     []mayfly.ID    `json:"held"`    // the first of the items that stay because they are held
	HeldMore int            `json:"held_more,omitempty"`
}

const (
	receiptFormat = 2
	maxHeld       = 1_000 // named on a receipt
)

// record is the row of an account's tombstone: the receipt, and how far the pass has
// come that is under way.
type record struct {
	Receipt
	Holder   string         `json:"holder,omitempty"` // of the lease; empty: no pass is under way
	Until    mayfly.Instant `json:"until,omitempty"`
	Page     []mayfly.ID    `json:"page,omitempty"` // items that are being erased and are not counted yet
	Removing removing       `json:"removing"`
}

// removing is a page of rows that are being removed and are not counted yet.
type removing struct {
	Table string `json:"table,omitempty"`
	Last  []byte `json:"last,omitempty"` // clustering key
	Rows  int    `json:"rows,omitempty"`
}

// heldAt reports whether a process holds the lease at now.
func (r record) heldAt(now mayfly.Instant) bool { return r.Holder != "" && r.Until > now }

func (r *Receipt) hold(id mayfly.ID) {
	if len(r.Held) < maxHeld {
		r.Held = append(r.Held, id)
	} else {
		r.HeldMore++
	}
}

// erased counts what was erased with an item.
func (r *Receipt) erased(item mayfly.Item) {
	r.Items++
	r.count(engine.Owners, 1)
	if item.Media > 0 {
		r.count(engine.Uploads, 1)
	}
	if item.ServesUntil != 0 {
		r.count(engine.Restored, 1)
	}
	for _, g := range []mayfly.Generation{item.Keys.Hot, item.Keys.Cold} {
		if g != 0 {
			r.Objects += int(item.Media)
		}
	}
}

func (r *Receipt) count(t store.Table, n int) {
	if n > 0 {
		r.Rows[t.String()] += n
	}
}

func (r record) bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("accounterase: encode a receipt: %v", err)) // numbers and ids can always be encoded
	}
	return b
}

func readRecord(value []byte) (record, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil || r.Format != receiptFormat {
		return r, mayfly.Errorf(mayfly.Corrupt, "the receipt of an erased account cannot be read: %v", err).WithHint("data of an older version: use an empty data folder or another keyspace")
	}
	return r, nil
}

// ReceiptOf returns the receipt of a user's erasure. A user who has one is erased,
// though perhaps not yet completely. Errors: NotFound, Corrupt, Unavailable.
func ReceiptOf(ctx context.Context, rows store.Rows, user mayfly.UserID) (Receipt, error) {
	r, _, err := recordOf(ctx, rows, user)
	return r.Receipt, err
}

// Tombstones reports which of the users are erased, in order: nothing of theirs is
// born, archived or restored any more.
func Tombstones(ctx context.Context, rows store.Rows, users ...mayfly.UserID) ([]bool, error) {
	keys := make([]store.Key, len(users))
	for i, user := range users {
		keys[i] = engine.ErasedKey(user)
	}
	found, err := rows.Get(ctx, engine.Erased, keys...)
	if err != nil {
		return nil, fmt.Errorf("read the tombstones of %d accounts: %w", len(users), err)
	}
	erased := make([]bool, len(users))
	for i, value := range found {
		erased[i] = value != nil
	}
	return erased, nil
}

func recordOf(ctx context.Context, rows store.Rows, user mayfly.UserID) (record, []byte, error) {
	found, err := rows.Get(ctx, engine.Erased, engine.ErasedKey(user))
	if err != nil {
		return record{}, nil, fmt.Errorf("read the tombstone of %s: %w", user, err)
	}
	if found[0] == nil {
		return record{}, nil, mayfly.Errorf(mayfly.NotFound, "%s was not erased", user)
	}
	r, err := readRecord(found[0])
	return r, found[0], err
}

// Keys of the deletion ledger are made of letters, digits, dashes and slashes.
const (
	deletionPrefix = "erased/"
	deletionEnd    = "erased0" // after all of them
)

func deletionKey(user mayfly.UserID) mayfly.BlobKey {
	return mayfly.BlobKey(deletionPrefix + user.String())
}

// deletion is one entry of the deletion ledger.
type deletion struct {
	user mayfly.UserID
	at   mayfly.Instant // when the erasure was requested
}

func (e *Eraser) writeDeletion(ctx context.Context, d deletion) error {
	text, err := d.at.MarshalText()
	if err != nil {
		return err
	}
	if _, err := e.o.Deletions.Put(ctx, deletionKey(d.user), strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("write the deletion ledger: %w", err)
	}
	return nil
}

func (e *Eraser) readDeletion(ctx context.Context, key mayfly.BlobKey) (deletion, error) {
	var d deletion
	user, err := mayfly.ParseUserID(strings.TrimPrefix(string(key), deletionPrefix))
	if err != nil {
		return d, mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("deletion ledger: %w", err), "")
	}
	r, _, err := e.o.Deletions.Open(ctx, key, store.Span{})
	if err != nil {
		return d, fmt.Errorf("deletion ledger: %s: %w", key, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, 64))
	if err := errors.Join(err, r.Close()); err != nil {
		return d, fmt.Errorf("deletion ledger: %s: %w", key, err)
	}
	d.user = user
	return d, d.at.UnmarshalText(text)
}
