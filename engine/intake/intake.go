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
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the settings of an Intake.
type Options struct {
	// MayMint answers why nothing may be minted now; nil error: it may. Nil: always.
	MayMint func() error
	// Now reads the node's clock once more before a birth is acknowledged: a timer
	// does not count a suspension or a correction of the clock, and the walks may
	// have passed the deadline meanwhile. Nil: the timer alone decides.
	Now func() mayfly.Instant
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
	// MaxBody is how many bytes of text and data an item may have; default
	// 256 KiB. They are in the ledger and in caches: what is big is a medium.
	MaxBody int
}

func (o Options) withDefaults() (Options, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Timeout, mayfly.DefaultBirthTimeout)
	def(&o.KeepKeys, mayfly.DefaultKeepKeys)
	def(&o.RemindAfter, mayfly.DefaultRemindAfter)
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
		o.MaxMedia = mayfly.MaxMedia
	}
	if o.MaxBody == 0 {
		o.MaxBody = 256 << 10
	}
	if o.Timeout < 0 || o.KeepKeys < 0 || o.RemindAfter < 0 || o.MaxMedium < 0 || o.MaxMedia < 0 || o.MaxMedia > mayfly.MaxMedia || o.MaxBody < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "intake: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Intake gives birth to items. Safe for concurrent use.
type Intake struct {
	set      store.Set
	o        Options
	arriving arriving
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
	Product  mayfly.Product
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

// Publish gives birth to the draft at now, which the caller has just read from
// the node's clock: the id is minted here. A retry with the same key and the same
// content resumes or repeats the same birth; with other content it is a Conflict.
// Errors: Invalid, Conflict, Gone (the key's birth was abandoned and its deadline
// has passed, or the upload is too old), Denied (the account is erased), Full,
// Unavailable.
func (in *Intake) Publish(ctx context.Context, d Draft, now mayfly.Instant) (Published, error) {
	r := request{Draft: d, now: now, elapsed: loop.Stopwatch()}
	if err := r.validate(in.o, now); err != nil {
		return Published{}, err
	}
	if err := in.o.MayMint(); err != nil {
		return Published{}, fmt.Errorf("publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, in.o.Timeout)
	defer cancel()
	p, err := in.publish(ctx, r)
	if err != nil {
		return Published{}, fmt.Errorf("publish: %w", abandoned(err))
	}
	return p, nil
}

// request is a draft with the instant at which it came.
type request struct {
	Draft
	now     mayfly.Instant
	elapsed func() time.Duration // since now
}

func (in *Intake) publish(ctx context.Context, r request) (Published, error) {
	if err := in.mayPublish(ctx, r.Owner); err != nil {
		return Published{}, err
	}
	c, err := in.mint(r)
	if err != nil {
		return Published{}, fmt.Errorf("mint: %w", err)
	}
	first := true
	if r.Key != "" {
		if c, first, err = in.claimKey(ctx, r, c); err != nil {
			return Published{}, fmt.Errorf("idempotency key: %w", err)
		}
	}
	if !first {
		return in.again(ctx, r, c)
	}
	return in.commit(ctx, r, c)
}

// mayPublish refuses an owner whose account is erased, and a birth that would
// resume one of theirs. A birth that was in flight when the account was erased is
// found by the second pass (ST14).
func (in *Intake) mayPublish(ctx context.Context, owner mayfly.UserID) error {
	if owner.IsZero() {
		return nil
	}
	erased, err := in.set.Rows.Get(ctx, store.Erased, store.ErasedKey(owner))
	if err != nil {
		return fmt.Errorf("is the account erased: %w", err)
	}
	if erased[0] != nil {
		return mayfly.Errorf(mayfly.Denied, "the account is erased").WithHint("nothing can be published for it any more")
	}
	return nil
}

// claim is what makes a birth this birth: a resumed one is the same in every byte.
type claim struct {
	id      mayfly.ID
	upload  mayfly.ID
	nonce   mayfly.Nonce
	request [32]byte // hash of what was asked for
}

func (in *Intake) mint(r request) (claim, error) {
	var random [16]byte
	if _, err := io.ReadFull(in.o.Random, random[:]); err != nil {
		return claim{}, fmt.Errorf("random bits: %w", err)
	}
	id, err := newID(r.now, r.Lifetime, r.Owner, binary.BigEndian.Uint64(random[:8]))
	if err != nil {
		return claim{}, err
	}
	c := claim{id: id, nonce: mayfly.Nonce(binary.BigEndian.Uint64(random[8:]) | 1), request: r.hash()}
	if r.Upload != nil {
		c.upload = r.Upload.ID
	}
	return c, nil
}

// newID puts an id together. Where nobody owns it the trace is random: the
// topmost bits, which the id's own random part leaves over.
func newID(now mayfly.Instant, lifetime mayfly.Lifetime, owner mayfly.UserID, random uint64) (mayfly.ID, error) {
	trace := mayfly.Trace(random >> 54)
	if !owner.IsZero() {
		trace = owner.Trace()
	}
	return mayfly.NewID(now, lifetime, trace, random)
}

// again answers a retry: the birth is there, or it is resumed while its
// deadline is ahead (L4) and its media are sure to be there.
func (in *Intake) again(ctx context.Context, r request, c claim) (Published, error) {
	found, err := in.set.Ledger.Get(ctx, c.id)
	if err != nil {
		return Published{}, fmt.Errorf("again %s: %w", c.id, err)
	}
	if err := r.Upload.dropUnless(ctx, c.upload); err != nil {
		return Published{}, fmt.Errorf("again %s: drop the second upload: %w", c.id, err)
	}
	if found[0].Found {
		return in.announceAgain(ctx, found[0].Item, r.now)
	}
	if c.id.ExpiredAt(r.now) || len(r.Upload.media()) > 0 && c.upload.ExpiredAt(r.now) {
		return Published{}, mayfly.Errorf(mayfly.Gone, "the birth of %s was abandoned, and it is too late to resume it", c.id).
			WithHint("publish it with a new idempotency key")
	}
	p, err := in.commit(ctx, r, c)
	p.Again = true
	return p, err
}

// announceAgain acknowledges a birth whose first answer may never have been
// given. Its event is repeated whatever has become of the item since: the log is
// at least once, consumers know an event by its key and order by generation. The
// row may have landed so late that the sweep had passed its deadline: a reminder
// stands in for the sweep before the birth is acknowledged.
func (in *Intake) announceAgain(ctx context.Context, item mayfly.Item, now mayfly.Instant) (Published, error) {
	var b store.Batch
	if item.State == mayfly.Active && item.EndedAt(now) {
		remind.Write(&b, remind.Reminder{
			Due: now.Add(in.o.RemindAfter), ID: item.ID, Step: remind.Expire, Reason: "the birth was acknowledged after its deadline",
		})
		b.Then()
	}
	b.Append(birthEvent(item))
	reminded, err := in.write(ctx, &b, item, now)
	if err != nil {
		return Published{}, fmt.Errorf("again %s: %w", item.ID, err)
	}
	return Published{Item: item, Again: true, Remind: reminded}, nil
}

func (in *Intake) commit(ctx context.Context, r request, c claim) (Published, error) {
	if err := r.Upload.claim(c); err != nil {
		return Published{}, err
	}
	item, body := r.birth(c)
	window := in.o.Timeout
	if c.id.Expires() {
		window = min(window, c.id.Deadline().Sub(r.now))
	}
	ctx, cancel := context.WithTimeout(ctx, window-r.elapsed())
	defer cancel()

	var b store.Batch
	if !item.Owner.IsZero() {
		b.Put(store.Owners, store.OwnerKey(item.Owner, item.ID), []byte{byte(item.Product)}, 0)
	}
	if item.Media > 0 {
		b.Put(store.Uploads, store.UploadKey(item.Upload), item.ID[:], 0)
	}
	b.Then()
	b.Insert(store.Birth{Item: item, Body: body})
	b.Then()
	b.Append(mayfly.EventOf(item, mayfly.WasCreated))

	reminded, err := in.write(ctx, &b, item, r.now)
	if err == nil && (ctx.Err() != nil || in.o.Now != nil && c.id.ExpiredAt(in.o.Now())) {
		err = mayfly.Errorf(mayfly.Unavailable, "it took longer than %s", window)
	}
	if err != nil {
		return Published{}, fmt.Errorf("%s: %w", item.ID, err)
	}
	return Published{Item: item, Remind: reminded}, nil
}

// write commits b, whose last stage is the event of the item's birth. If only
// that failed a durable reminder stands in for the event.
func (in *Intake) write(ctx context.Context, b *store.Batch, item mayfly.Item, now mayfly.Instant) (reminded bool, err error) {
	err = in.set.Writer.Commit(ctx, b)
	var stage *store.StageError
	if !errors.As(err, &stage) || stage.Stage != len(b.Stages())-1 {
		return false, err
	}
	var instead store.Batch
	remind.Write(&instead, remind.Reminder{
		Due: now.Add(in.o.RemindAfter), ID: item.ID, Step: remind.Announce, Reason: "the event of the birth was not appended",
	})
	if err := in.set.Writer.Commit(ctx, &instead); err != nil {
		return false, fmt.Errorf("remind to announce: %w", err)
	}
	return true, nil
}

// abandoned gives every failed birth a kind that a caller can act on. What is
// not known to have happened is Unavailable to the one who asked.
func abandoned(err error) error {
	is := func(kind mayfly.Kind) bool { return errors.Is(err, kind) }
	if slices.ContainsFunc(mayfly.Kinds(), is) && !is(mayfly.Unknown) {
		return err
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "try again with the same idempotency key: it resumes this birth")
}
