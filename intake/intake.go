// Package intake is in charge of birth: uploads, the minting of the id, the
// commit. Content comes first (L12): media are durable before the row that
// names them, the owner index before the row, the row before its event; a birth
// is acknowledged when all of them are durable (I3).
//
// It never mints two ids for one idempotency key, and mints none while the
// clock is in doubt (L7).
package intake

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/remind"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of an Intake.
type Options struct {
	// MayMint answers why nothing may be minted now; nil error: it may. Nil: always.
	MayMint func() error
	// Random is where random bits come from; default crypto/rand.
	Random io.Reader
	// Timeout is how long after minting a birth may still commit; default 10 s.
	// It stays below the settling time of the walks (L4).
	Timeout time.Duration
	// KeepKeys is how long an idempotency key is remembered; default 24 h.
	KeepKeys time.Duration
	// RemindAfter is how far ahead a reminder is written; default 2 min.
	RemindAfter time.Duration
	// UploadLife is how long an upload may wait to be published; default 24 h.
	UploadLife mayfly.Lifetime
	// MaxMedium is the largest medium in bytes; default 64 MiB.
	MaxMedium int64
	// MaxMedia is how many media an item may have; default 10.
	MaxMedia int
}

func (o Options) withDefaults() (Options, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Timeout, 10*time.Second)
	def(&o.KeepKeys, 24*time.Hour)
	def(&o.RemindAfter, 2*time.Minute)
	if o.MayMint == nil {
		o.MayMint = func() error { return nil }
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.UploadLife == mayfly.Never {
		day, err := mayfly.LifetimeOf(24 * time.Hour)
		if err != nil {
			return o, err
		}
		o.UploadLife = day
	}
	if o.MaxMedium == 0 {
		o.MaxMedium = 64 << 20
	}
	if o.MaxMedia == 0 {
		o.MaxMedia = 10
	}
	if o.Timeout < 0 || o.KeepKeys < 0 || o.RemindAfter < 0 || o.MaxMedium < 0 || o.MaxMedia < 0 || o.MaxMedia > 255 {
		return o, mayfly.Errorf(mayfly.Invalid, "intake: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Intake gives birth to items. Safe for concurrent use.
type Intake struct {
	set store.Set
	o   Options
}

// New is an intake into set.
func New(set store.Set, o Options) (*Intake, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Intake{set: set, o: o}, nil
}

// Draft is what somebody wants to publish.
type Draft struct {
	Owner    mayfly.UserID // zero: anonymous
	Sort     mayfly.Sort
	Fate     mayfly.Fate
	Audience mayfly.Audience
	Lifetime mayfly.Lifetime
	Text     string
	Data     []byte
	Upload   *Upload // its media; nil without
	Key      string  // idempotency key; empty without
}

// Published is a birth that is durable.
type Published struct {
	Item   mayfly.Item
	Again  bool // an earlier request with the same key had published it
	Remind bool // its event is not in the log yet; a reminder will see to it
}

// Publish gives birth to the draft at now. The id is minted here. A retry with
// the same key and the same content resumes or repeats the same birth; with
// other content it is a Conflict. Errors: Invalid, Conflict, Gone (the key's
// birth was abandoned and its deadline has passed), Full, Unavailable.
func (in *Intake) Publish(ctx context.Context, d Draft, now mayfly.Instant) (Published, error) {
	if err := d.validate(); err != nil {
		return Published{}, err
	}
	if err := in.o.MayMint(); err != nil {
		return Published{}, fmt.Errorf("publish: %w", err)
	}
	claim, err := in.mint(d, now)
	if err != nil {
		return Published{}, fmt.Errorf("publish: mint: %w", err)
	}
	first := true
	if d.Key != "" {
		if claim, first, err = in.claimKey(ctx, d, claim, now); err != nil {
			return Published{}, fmt.Errorf("publish: idempotency key: %w", err)
		}
	}
	if !first {
		return in.again(ctx, d, claim, now)
	}
	return in.commit(ctx, d, claim, now)
}

// claim is what makes a birth this birth: a resumed one is the same in every byte.
type claim struct {
	id      mayfly.ID
	upload  mayfly.ID
	nonce   mayfly.Nonce
	request [32]byte // hash of what was asked for
}

func (in *Intake) mint(d Draft, now mayfly.Instant) (claim, error) {
	var random [16]byte
	if _, err := io.ReadFull(in.o.Random, random[:]); err != nil {
		return claim{}, fmt.Errorf("random bits: %w", err)
	}
	trace := d.Owner.Trace()
	if d.Owner.IsZero() {
		trace = mayfly.Trace(binary.BigEndian.Uint16(random[:2])) & mayfly.TraceMax
	}
	id, err := mayfly.NewID(now, d.Lifetime, trace, binary.BigEndian.Uint64(random[:8]))
	if err != nil {
		return claim{}, err
	}
	c := claim{id: id, nonce: mayfly.Nonce(binary.BigEndian.Uint64(random[8:]) | 1), request: d.hash()}
	if d.Upload != nil {
		c.upload = d.Upload.ID
	}
	return c, nil
}

// again answers a retry: the birth is there, or it is resumed while its
// deadline is ahead (L4).
func (in *Intake) again(ctx context.Context, d Draft, c claim, now mayfly.Instant) (Published, error) {
	found, err := in.set.Ledger.Get(ctx, c.id)
	if err != nil {
		return Published{}, fmt.Errorf("publish again %s: %w", c.id, err)
	}
	if err := d.Upload.dropUnless(ctx, c.upload); err != nil {
		return Published{}, fmt.Errorf("publish again %s: drop the second upload: %w", c.id, err)
	}
	if found[0].Found {
		return in.announceAgain(ctx, found[0].Item, now)
	}
	if c.id.ExpiredAt(now) {
		return Published{}, mayfly.Errorf(mayfly.Gone, "the birth of %s was abandoned and its deadline has passed", c.id).
			WithHint("publish it with a new idempotency key")
	}
	p, err := in.commit(ctx, d, c, now)
	p.Again = true
	return p, err
}

// announceAgain repeats the event of a birth whose first answer may never have
// been given: the log is at least once, and consumers know the event by its key.
func (in *Intake) announceAgain(ctx context.Context, item mayfly.Item, now mayfly.Instant) (Published, error) {
	if item.Generation == mayfly.Born && !item.EndedAt(now) {
		if err := in.set.Log.Append(ctx, mayfly.EventOf(item, mayfly.WasCreated)); err != nil {
			return Published{}, fmt.Errorf("publish again %s: %w", item.ID, err)
		}
	}
	return Published{Item: item, Again: true}, nil
}

func (in *Intake) commit(ctx context.Context, d Draft, c claim, now mayfly.Instant) (Published, error) {
	item, body := d.birth(c)
	window := in.o.Timeout
	if c.id.Expires() {
		window = min(window, c.id.Deadline().Sub(now))
	}
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()

	var b store.Batch
	if !item.Owner.IsZero() {
		b.Put(store.Owners, OwnerKey(item), []byte{byte(item.Sort)}, 0)
	}
	if item.Media > 0 {
		b.Put(store.Uploads, store.Key{Partition: string(item.Upload[:])}, item.ID[:], 0)
	}
	b.Then()
	b.Insert(store.Birth{Item: item, Body: body})
	b.Then()
	b.Append(mayfly.EventOf(item, mayfly.WasCreated))

	err := in.set.Writer.Commit(ctx, &b)
	var stage *store.StageError
	if errors.As(err, &stage) && stage.Stage == len(b.Stages())-1 {
		return in.remindToAnnounce(ctx, item, now)
	}
	if err == nil && ctx.Err() != nil {
		err = mayfly.Errorf(mayfly.Unavailable, "the birth took longer than %s", window)
	}
	if err != nil {
		return Published{}, fmt.Errorf("publish %s: %w", item.ID, abandoned(err))
	}
	return Published{Item: item}, nil
}

// remindToAnnounce is what an append that failed leaves: the row is durable, so
// a durable reminder stands in for the event before the birth is acknowledged.
func (in *Intake) remindToAnnounce(ctx context.Context, item mayfly.Item, now mayfly.Instant) (Published, error) {
	var b store.Batch
	remind.Write(&b, remind.Reminder{
		Due: now.Add(in.o.RemindAfter), ID: item.ID, Step: remind.Announce, Reason: "the event of the birth was not appended",
	})
	if err := in.set.Writer.Commit(ctx, &b); err != nil {
		return Published{}, fmt.Errorf("publish %s: remind to announce: %w", item.ID, abandoned(err))
	}
	if err := ctx.Err(); err != nil {
		return Published{}, fmt.Errorf("publish %s: remind to announce: %w", item.ID, abandoned(err))
	}
	return Published{Item: item, Remind: true}, nil
}

// abandoned gives every failed commit a kind that a caller can act on.
func abandoned(err error) error {
	for _, kind := range []mayfly.Kind{mayfly.Full, mayfly.Invalid, mayfly.Unavailable} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "try again with the same idempotency key: it resumes this birth")
}

// OwnerKey is where the owner index names item.
func OwnerKey(item mayfly.Item) store.Key {
	return store.Key{Partition: string(item.Owner[:]), Sort: string(item.ID[:])}
}
