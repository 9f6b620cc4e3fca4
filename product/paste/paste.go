// Package paste implements pastes: create, open, read, read a limited number of
// times, list and delete.
//
// A paste is an item of fate purge with one medium, its content. Whatever the
// package shows has passed the gate, and it refuses exactly as the gate does (C2,
// I18); the missing or wrong password is the one refusal that shows existence. A
// password is checked before a read is claimed (P4).
package paste

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the parts of the engine that Pastes use, and their rules.
type Options struct {
	Rows    store.Rows
	Writer  store.Writer
	Uploads *upload.Uploads
	Intake  *intake.Intake
	Gate    *gate.Gate
	Hydrate *hydrate.Hydrate
	Erase   *erase.Erase

	// Secret is what delete tokens are derived from: 32 bytes, the same on every node.
	Secret []byte
	// Anonymous says that a paste needs no user.
	Anonymous bool
	// Default is the lifetime of a paste whose author chooses none, Shortest and Longest
	// bound what an author may choose. Default 7 days, 10 minutes and a year.
	Default, Shortest, Longest mayfly.Lifetime
	// Never says that a paste may never expire.
	Never bool
	// MaxSize is how many bytes a paste may have; default 10 MiB.
	MaxSize int64
	// RemindAfter is how far ahead a reminder is written; default
	// mayfly.DefaultRemindAfter.
	RemindAfter time.Duration
	// Problem is called with errors that leave work to a reminder. May be nil.
	Problem func(error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Rows == nil || o.Writer == nil || o.Uploads == nil || o.Intake == nil || o.Gate == nil || o.Hydrate == nil || o.Erase == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "pastes: a part of the engine is missing")
	}
	if len(o.Secret) != secretSize {
		return o, mayfly.Errorf(mayfly.Invalid, "pastes: the secret has %d bytes, not %d", len(o.Secret), secretSize)
	}
	for l, d := range map[*mayfly.Lifetime]time.Duration{&o.Default: 7 * 24 * time.Hour, &o.Shortest: 10 * time.Minute, &o.Longest: 365 * 24 * time.Hour} {
		if *l != 0 {
			continue
		}
		var err error
		if *l, err = mayfly.LifetimeOf(d); err != nil {
			return o, err
		}
	}
	if o.Default.Duration() < o.Shortest.Duration() || o.Default.Duration() > o.Longest.Duration() {
		return o, mayfly.Errorf(mayfly.Invalid, "pastes: the default lifetime %s is not between %s and %s", o.Default, o.Shortest, o.Longest)
	}
	if o.MaxSize == 0 {
		o.MaxSize = 10 << 20
	}
	if o.RemindAfter == 0 {
		o.RemindAfter = mayfly.DefaultRemindAfter
	}
	if o.MaxSize < 0 || o.RemindAfter < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "pastes: a setting is negative: %d bytes, reminders after %s", o.MaxSize, o.RemindAfter)
	}
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	return o, nil
}

// Pastes is the product. Safe for concurrent use.
type Pastes struct {
	o      Options
	hashes *semaphore.Weighted // passwords that are hashed at once
	claims claimLocks
}

const maxHashes = 2

// New returns the product on the engine.
func New(o Options) (*Pastes, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Pastes{o: o, hashes: semaphore.NewWeighted(maxHashes), claims: newClaimLocks()}, nil
}

// Rules are what an author may choose.
type Rules struct {
	Default, Shortest, Longest mayfly.Lifetime
	Never, Anonymous           bool
	MaxSize                    int64
	MaxReads                   int
}

// Rules returns what an author may choose.
func (p *Pastes) Rules() Rules {
	return Rules{
		Default: p.o.Default, Shortest: p.o.Shortest, Longest: p.o.Longest, Never: p.o.Never,
		Anonymous: p.o.Anonymous, MaxSize: p.o.MaxSize, MaxReads: MaxReads,
	}
}

// Paste is a paste that its viewer may see, without its content.
type Paste struct {
	Item     mayfly.Item
	Title    string
	Language string        // that its author chose; empty if none
	Content  mayfly.Medium // size, type and hash of the content
	Reads    int           // how often it can be read; 0: as often as one likes
	Left     int           // how many of these reads are left
	Locked   bool          // it has a password
	Again    bool          // an earlier request with the same key had created it
	password passwordHash  // zero without
	body     mayfly.Body
}

// Public reports whether every user with its address may read the paste as often as
// they like: only such a paste may be kept by shared caches (P5).
func (p Paste) Public() bool {
	return p.Item.Audience == mayfly.Everyone && p.Reads == 0 && !p.Locked && !p.Item.Held
}

// Locked is the error for a paste whose password is missing or wrong; errors.As
// finds it. Its kind is Unauthenticated or Denied.
type Locked struct {
	Wrong bool // a password was sent
	Reads int  // how often the paste can be read; 0: as often as one likes
}

// Error says what is wrong.
func (l Locked) Error() string {
	if l.Wrong {
		return "the password is wrong"
	}
	return "this paste has a password"
}

func locked(wrong bool, reads int) error {
	kind := mayfly.Unauthenticated
	if wrong {
		kind = mayfly.Denied
	}
	return mayfly.Wrap(kind, Locked{Wrong: wrong, Reads: reads}, "send it in the header Mayfly-Password, or in the form field password; never in the URL")
}

// ReadsLimited is the error for a request that would have to consume a read and may
// not: a GET never does (P4). errors.As finds it; its kind is Conflict.
type ReadsLimited struct{ Paste Paste }

// Error says how the paste can be read.
func (r ReadsLimited) Error() string {
	if r.Paste.Reads == 1 {
		return "this paste can be read once"
	}
	return fmt.Sprintf("this paste can be read %d times, %d are left", r.Paste.Reads, r.Paste.Left)
}

// Open returns the paste for viewer at now. Nothing is consumed. Errors: the gate's
// Gone and NotFound, unwrapped; those of a password (Locked); Corrupt, Unavailable.
func (p *Pastes) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, password string, now mayfly.Instant) (Paste, error) {
	paste, err := p.open(ctx, id, viewer, now)
	if err != nil {
		return Paste{}, err
	}
	if err := p.unlock(ctx, paste, viewer, password); err != nil {
		return Paste{}, err
	}
	return paste, nil
}

// open asks the gate. An item of another product, and a paste whose reads are used
// up, are refused.
func (p *Pastes) open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Paste, error) {
	opened, err := p.o.Gate.Open(ctx, id, viewer, now)
	if err != nil {
		return Paste{}, err
	}
	if opened.Item.Product != mayfly.Paste {
		return Paste{}, gate.Refusal(id, now)
	}
	paste, err := pasteOf(opened)
	if err != nil || paste.Reads == 0 {
		return paste, err
	}
	used, err := p.used(ctx, paste)
	if err != nil {
		return Paste{}, err
	}
	if paste.Left = paste.Reads - used; paste.Left <= 0 && !viewer.Moderator() {
		return Paste{}, gate.Refusal(id, now)
	}
	return paste, nil
}

// pasteOf returns as a paste what the gate has opened. Errors: Corrupt.
func pasteOf(o gate.Opened) (Paste, error) {
	s, err := readSettings(o.Body.Data)
	if err != nil {
		return Paste{}, fmt.Errorf("paste %s: %w", o.Item.ID, err)
	}
	if len(o.Body.Media) != 1 {
		return Paste{}, mayfly.Errorf(mayfly.Corrupt, "paste %s has %d media", o.Item.ID, len(o.Body.Media))
	}
	return Paste{
		Item: o.Item, Title: o.Body.Text, Language: s.language, Content: o.Body.Media[0], Reads: s.reads,
		Locked: s.password != passwordHash{}, password: s.password, body: o.Body,
	}, nil
}

// Describe returns a paste as its row and body have it, for any caller: for operators
// and for verifying. Errors: Corrupt, Unavailable.
func (p *Pastes) Describe(ctx context.Context, item mayfly.Item, body mayfly.Body) (Paste, error) {
	paste, err := pasteOf(gate.Opened{Item: item, Body: body})
	if err != nil || paste.Reads == 0 {
		return paste, err
	}
	used, err := p.used(ctx, paste)
	paste.Left = paste.Reads - used
	return paste, err
}

// Delete deletes a paste for its author, or for a caller who has its delete token:
// when it returns nil no route shows it any more. Repeated it returns nil as long as
// the tombstone is kept. Every other caller gets the gate's refusal. Errors: the
// gate's, Unavailable, Unknown.
func (p *Pastes) Delete(ctx context.Context, id mayfly.ID, author mayfly.UserID, token string, now mayfly.Instant) error {
	if id.ExpiredAt(now) { // whether the sweep has deleted it or not
		return mayfly.Gone
	}
	row, found, err := p.o.Erase.Row(ctx, id) // one read and no more, whether there is a paste or not
	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	may := !author.IsZero() && row.Owner == author || p.isDeleteToken(id, token)
	if !found || row.Product != mayfly.Paste || row.Held || !may {
		return gate.Refusal(id, now)
	}
	if row.State == mayfly.Deleted {
		return nil
	}
	_, err = p.o.Erase.Delete(ctx, id, mayfly.ByUser, now)
	if errors.Is(err, mayfly.NotFound) {
		return gate.Refusal(id, now)
	}
	return err
}
