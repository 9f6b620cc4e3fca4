// Package intake gives birth to items: it validates a draft, mints the id, claims
// the idempotency key, commits and announces. Content comes first (L12): media are
// durable before the row that names them, the owner index before the row, the row
// before its event; a birth is acknowledged when all of them are durable (I3).
//
// It never mints two ids for one idempotency key, and mints none while the clock
// is in doubt (L7).
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
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the settings of an Intake.
type Options struct {
	// MayMint returns why no id may be minted now, or nil. Default: always nil.
	MayMint func() error
	// Now reads the node's clock once more before a birth is acknowledged: a timer
	// does not count a suspension or a correction of the clock, and the walks may
	// have passed the deadline meanwhile. Nil: the timer alone decides.
	Now func() mayfly.Instant
	// Random is the source of random bits; default crypto/rand.
	Random io.Reader
	// Timeout is how long after minting a birth may still commit; default 10 s.
	// It stays below the settling time of the walks (L4).
	Timeout time.Duration
	// KeepKeys is how long an idempotency key is remembered; default 24 h.
	KeepKeys time.Duration
	// RemindAfter is how far ahead a reminder is written; default 2 min.
	RemindAfter time.Duration
	// MaxBody is how many bytes of text and data an item may have; default
	// 256 KiB. They are in the ledger and in caches: larger content is a medium.
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
	if o.MaxBody == 0 {
		o.MaxBody = mayfly.DefaultMaxBody
	}
	if o.Timeout < 0 || o.KeepKeys < 0 || o.RemindAfter < 0 || o.MaxBody < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "intake: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Intake gives birth to items. Safe for concurrent use.
type Intake struct {
	set store.Set
	o   Options
}

// New returns an Intake into set.
func New(set store.Set, o Options) (*Intake, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Intake{set: set, o: o}, nil
}

// Published is a birth that is durable.
type Published struct {
	Item   mayfly.Item
	Body   mayfly.Body // as it was born; empty if the item was there before
	Again  bool        // an earlier request with the same key had published it
	Remind bool        // its event is not in the log yet; a reminder will append it
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
	if !r.Admission.Holds(r.Owner) {
		if _, err := in.Admit(ctx, r.Owner); err != nil {
			return Published{}, err
		}
	}
	c, err := in.mint(r)
	if err != nil {
		return Published{}, fmt.Errorf("mint: %w", err)
	}
	first := true
	if r.Born != 0 {
		return in.moveIn(ctx, r, c)
	}
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

// Admission says that an account was not erased a moment ago, so that Publish
// need not read the mark of erasure again. It is good for a second: a birth that
// was in flight when its account was erased is found by the second pass of the
// erasure, which waits longer than that (ST14). The zero Admission never holds.
type Admission struct {
	owner mayfly.UserID
	good  time.Duration
	age   func() time.Duration
}

// Holds reports whether the admission is of owner and not too old.
func (a Admission) Holds(owner mayfly.UserID) bool {
	return a.age != nil && a.owner == owner && a.age() < a.good
}

// Admit reads whether the account of owner is erased. Errors: Denied (it is),
// Unavailable.
func (in *Intake) Admit(ctx context.Context, owner mayfly.UserID) (Admission, error) {
	a := Admission{owner: owner, good: min(time.Second, in.o.Timeout), age: loop.Stopwatch()}
	if owner.IsZero() {
		return a, nil
	}
	erased, err := in.set.Rows.Get(ctx, engine.Erased, engine.ErasedKey(owner))
	if err != nil {
		return Admission{}, fmt.Errorf("is the account erased: %w", err)
	}
	if erased[0] != nil {
		return Admission{}, mayfly.Errorf(mayfly.Denied, "the account is erased").WithHint("nothing can be published for it any more")
	}
	return a, nil
}

// mint makes the id of a new birth, and what else makes it this birth.
func (in *Intake) mint(r request) (claim, error) {
	var random [16]byte
	if _, err := io.ReadFull(in.o.Random, random[:]); err != nil {
		return claim{}, fmt.Errorf("random bits: %w", err)
	}
	if r.Born != 0 { // the same item again has the same nonce, another one under its id has not
		hash := r.hash()
		binary.BigEndian.PutUint64(random[:], r.Serial)
		copy(random[8:], hash[:])
	}
	at := r.now
	if r.Born != 0 {
		at = r.Born
	}
	id, err := upload.NewID(at, r.Lifetime, r.Owner, binary.BigEndian.Uint64(random[:8]))
	if err != nil {
		return claim{}, err
	}
	c := claim{id: id, nonce: mayfly.Nonce(binary.BigEndian.Uint64(random[8:]) | 1), request: r.hash()}
	if r.Upload != nil {
		c.upload = r.Upload.ID
	}
	return c, nil
}

// moveIn publishes an item under the id that follows from what it is, or finds that it
// was published before. The row in the ledger stands for the idempotency key.
func (in *Intake) moveIn(ctx context.Context, r request, c claim) (Published, error) {
	found, err := in.set.Ledger.Get(ctx, c.id)
	if err != nil {
		return Published{}, fmt.Errorf("move in %s: %w", c.id, err)
	}
	if !found[0].Found {
		return in.commit(ctx, r, c)
	}
	if found[0].Item.Nonce != c.nonce {
		return Published{}, mayfly.Errorf(mayfly.Conflict, "another item moved in as %s", c.id).WithHint("give each item of an author a name of its own")
	}
	return in.announceAgain(ctx, found[0].Item, r.now)
}

// again answers a retry: the item is there, or its birth is resumed while its
// deadline is ahead (L4) and its media are certain to be there. Media that the
// retry has uploaded once more are dropped.
func (in *Intake) again(ctx context.Context, r request, c claim) (Published, error) {
	found, err := in.set.Ledger.Get(ctx, c.id)
	if err != nil {
		return Published{}, fmt.Errorf("again %s: %w", c.id, err)
	}
	if r.Upload != nil && r.Upload.ID != c.upload {
		if err := r.Upload.Drop(ctx); err != nil {
			return Published{}, fmt.Errorf("again %s: %w", c.id, err)
		}
	}
	if found[0].Found {
		return in.announceAgain(ctx, found[0].Item, r.now)
	}
	if c.id.ExpiredAt(r.now) || len(r.Upload.Media()) > 0 && c.upload.ExpiredAt(r.now) {
		return Published{}, mayfly.Errorf(mayfly.Gone, "the birth of %s was abandoned, and it is too late to resume it", c.id).
			WithHint("publish it with a new idempotency key")
	}
	p, err := in.commit(ctx, r, c)
	p.Again = true
	return p, err
}

// announceAgain acknowledges a birth whose first answer may have been lost. Its
// event is appended again whatever the item has become since: the log is at least
// once, consumers identify an event by its key and order by generation. The row
// may have landed so late that the sweep had passed its deadline: then a reminder
// to expire it is written before the birth is acknowledged.
func (in *Intake) announceAgain(ctx context.Context, item mayfly.Item, now mayfly.Instant) (Published, error) {
	var b store.Batch
	if item.State == mayfly.Active && item.EndedAt(now) {
		remind.Write(&b, remind.Reminder{
			Due: now.Add(in.o.RemindAfter), ID: item.ID, Step: remind.Expire, Reason: "the birth was acknowledged after its deadline",
		})
		b.Then()
	}
	b.Append(mayfly.EventOf(item, mayfly.WasCreated))
	reminded, err := in.write(ctx, &b, item, now)
	if err != nil {
		return Published{}, fmt.Errorf("again %s: %w", item.ID, err)
	}
	return Published{Item: item, Again: true, Remind: reminded}, nil
}

func (in *Intake) commit(ctx context.Context, r request, c claim) (Published, error) {
	if r.Upload != nil && r.Upload.ID == c.upload {
		if err := r.Upload.Assign(c.id); err != nil {
			return Published{}, err
		}
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
		b.Put(engine.Owners, engine.OwnerKey(item.Owner, item.ID), []byte{byte(item.Product)}, 0)
	}
	if item.Held {
		engine.AddToHeld(&b, item)
	} else if !item.Owner.IsZero() {
		engine.AddToRings(&b, item)
	}
	if item.Media > 0 {
		b.Put(engine.Uploads, engine.UploadKey(item.Upload), item.ID[:], 0)
	}
	if r.Index != nil {
		r.Index(&b, item)
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
	return Published{Item: item, Body: body, Remind: reminded}, nil
}

// write commits b, whose last stage is the event of the item's birth. If only
// that stage failed, a durable reminder replaces the event.
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

// abandoned gives every failed birth a kind that a caller can act on. A birth
// whose outcome is unknown is Unavailable.
func abandoned(err error) error {
	is := func(kind mayfly.Kind) bool { return errors.Is(err, kind) }
	if slices.ContainsFunc(mayfly.Kinds(), is) && !is(mayfly.Unknown) {
		return err
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "try again with the same idempotency key: it resumes this birth")
}

// Announce appends the events of births: what a reminder does for a birth whose
// event could not be appended when it was acknowledged. Whatever the item has
// become since, it was born (L8).
func (in *Intake) Announce(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	events := make([]mayfly.Event, len(b.Items))
	for i, item := range b.Items {
		events[i] = mayfly.EventOf(item, mayfly.WasCreated)
	}
	if err := in.set.Log.Append(ctx, events...); err != nil {
		return nil, fmt.Errorf("announce %d births: %w", len(events), walk.Away(err))
	}
	return nil, nil
}
