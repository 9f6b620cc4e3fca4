// Package upload handles the bytes of media from the request that sends them to
// the object that an item names: reservations, presigned URLs, cleaning, storing
// and reading back.
//
// Objects are stored under the id of their upload, before the item exists, and
// become the property of one item at most (L11). An object that an item may name
// is never replaced (I14). Bytes that a user sent are stored only after
// engine/media has cleaned them (C4).
package upload

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of Uploads.
type Options struct {
	// MayMint returns why no id may be minted now, or nil. Default: always nil.
	MayMint func() error
	// Random is the source of random bits; default crypto/rand.
	Random io.Reader
	// Life is how long an upload may wait to be published; default 24 h.
	Life mayfly.Lifetime
	// MaxMedia is how many media an upload may have; default 10.
	MaxMedia int
	// MaxMedium is the largest medium in bytes, cleaned or not; default 64 MiB.
	MaxMedium int64
	// MaxConcurrent is how many media a user may send to this node at once; default 16.
	MaxConcurrent int
	// MaxOpen is how many reservations of a user may be open; default 64.
	MaxOpen int
	// MaxUnpublished is how many bytes a user's open reservations may have; default 1 GiB.
	MaxUnpublished int64
	// Limits bound a medium that a user sends, by its type.
	Limits media.Limits
	// Spool is the folder of the temporary files of videos that arrive; default the
	// system's.
	Spool string
}

func (o Options) withDefaults() (Options, error) {
	if o.MayMint == nil {
		o.MayMint = func() error { return nil }
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Life == mayfly.Never {
		life, err := mayfly.LifetimeOf(mayfly.DefaultUploadLife)
		if err != nil {
			return o, err
		}
		o.Life = life
	}
	if o.MaxMedia == 0 {
		o.MaxMedia = mayfly.MaxMedia
	}
	if o.MaxMedium == 0 {
		o.MaxMedium = mayfly.DefaultMaxMedium
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = mayfly.DefaultMaxConcurrent
	}
	if o.MaxOpen == 0 {
		o.MaxOpen = mayfly.DefaultMaxOpen
	}
	if o.MaxUnpublished == 0 {
		o.MaxUnpublished = mayfly.DefaultMaxUnpublished
	}
	if o.MaxMedium < 0 || o.MaxMedia < 0 || o.MaxMedia > mayfly.MaxMedia || o.MaxConcurrent < 0 || o.MaxOpen < 0 || o.MaxUnpublished < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "upload: a setting is out of range: %d media of %d bytes, %d at once, %d uploads open with %d bytes",
			o.MaxMedia, o.MaxMedium, o.MaxConcurrent, o.MaxOpen, o.MaxUnpublished)
	}
	limits, err := o.Limits.WithDefaults()
	o.Limits = limits
	return o, err
}

// Uploads stores media. Safe for concurrent use.
type Uploads struct {
	set        store.Set
	o          Options
	cleaner    *media.Cleaner
	inProgress inProgress
}

// New returns Uploads into set.
func New(set store.Set, o Options) (*Uploads, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	cleaner, err := media.NewCleaner(media.CleanerOptions{Limits: o.Limits, Spool: o.Spool})
	if err != nil {
		return nil, err
	}
	return &Uploads{set: set, o: o, cleaner: cleaner, inProgress: inProgress{now: map[mayfly.UserID]int{}}}, nil
}

// MaxMedia returns how many media an upload may have.
func (u *Uploads) MaxMedia() int { return u.o.MaxMedia }

// Limits returns the bounds of a medium that a user sends.
func (u *Uploads) Limits() media.Limits { return u.o.Limits }

// largest returns the size of the largest medium that a user may send.
func (u *Uploads) largest() int64 { return max(u.o.Limits.Image, u.o.Limits.Video) }

// Upload collects the media of one item in hot storage, under a time-ordered id
// of its own (L11), before the item exists. The orphan collector removes what is
// never published. Not safe for concurrent use.
type Upload struct {
	ID     mayfly.ID
	all    *Uploads
	owner  mayfly.UserID
	stored []mayfly.Medium
	failed bool
	item   mayfly.ID // that the objects were assigned to; zero: none
}

// Begin starts an upload by owner. Errors: those of MayMint.
func (u *Uploads) Begin(owner mayfly.UserID, now mayfly.Instant) (*Upload, error) {
	if err := u.o.MayMint(); err != nil {
		return nil, fmt.Errorf("begin upload: %w", err)
	}
	var random [8]byte
	if _, err := io.ReadFull(u.o.Random, random[:]); err != nil {
		return nil, fmt.Errorf("begin upload: random bits: %w", err)
	}
	id, err := NewID(now, u.o.Life, owner, binary.BigEndian.Uint64(random[:]))
	if err != nil {
		return nil, fmt.Errorf("begin upload: %w", err)
	}
	return &Upload{ID: id, all: u, owner: owner}, nil
}

// NewID makes the id of an upload or of an item. Without an owner its trace is
// random: the topmost bits of random, which the id's own random part does not use.
func NewID(now mayfly.Instant, lifetime mayfly.Lifetime, owner mayfly.UserID, random uint64) (mayfly.ID, error) {
	trace := mayfly.Trace(random >> 54)
	if !owner.IsZero() {
		trace = owner.Trace()
	}
	return mayfly.NewID(now, lifetime, trace, random)
}

// AddCleaned adds a medium that a user sends: it is cleaned while it streams.
// Errors: those of media.Clean and of Add, Limited.
func (u *Upload) AddCleaned(ctx context.Context, r io.Reader) (mayfly.Medium, error) {
	end, err := u.all.inProgress.begin(u.owner, u.all.o.MaxConcurrent)
	if err != nil {
		return mayfly.Medium{}, err
	}
	defer end()
	clean, err := u.all.clean(r)
	if err != nil {
		return mayfly.Medium{}, err
	}
	defer clean.Close() // returns no error
	return u.Add(ctx, clean)
}

// Add streams one medium to hot storage as it is; it is durable on return. After
// an error the upload cannot be published. If r is Described, it describes the
// medium, else the type is detected from the first bytes. Errors: what r
// returned, TooLarge, Invalid, Full, Unavailable.
func (u *Upload) Add(ctx context.Context, r io.Reader) (mayfly.Medium, error) {
	n := len(u.stored)
	if u.failed || !u.item.IsZero() {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Invalid, "upload %s has failed or is published", u.ID).WithHint("begin another")
	}
	if n >= u.all.o.MaxMedia {
		u.failed = true
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Invalid, "over %d media", u.all.o.MaxMedia).WithHint("publish the others on their own")
	}
	medium, err := u.all.put(ctx, u.ID, n, r)
	if err != nil {
		u.failed = true
		return mayfly.Medium{}, err
	}
	u.stored = append(u.stored, medium)
	return medium, nil
}

// Copy adds a copy of a medium that was cleaned when it was first uploaded, and
// verifies its hash. Errors: those of Add, Corrupt.
func (u *Upload) Copy(ctx context.Context, r io.Reader, medium mayfly.Medium) error {
	got, err := u.Add(ctx, described{r, medium})
	if err != nil {
		return err
	}
	if got.SHA256 != medium.SHA256 {
		u.failed = true
		return mayfly.Errorf(mayfly.Corrupt, "medium %d of upload %s is not a faithful copy", len(u.stored)-1, u.ID)
	}
	return nil
}

// described reads a medium whose description is known.
type described struct {
	io.Reader
	medium mayfly.Medium
}

func (d described) Type() string                       { return d.medium.Type }
func (d described) Dimensions() (width, height uint32) { return d.medium.Width, d.medium.Height }

// Media returns what was stored; nil for a nil upload.
func (u *Upload) Media() []mayfly.Medium {
	if u == nil {
		return nil
	}
	return u.stored
}

// Check reports why owner cannot publish the upload at now. A nil upload passes.
// Errors: Invalid, Gone.
func (u *Upload) Check(owner mayfly.UserID, now mayfly.Instant) error {
	switch {
	case u == nil:
		return nil
	case u.owner != owner:
		return mayfly.Errorf(mayfly.Invalid, "upload %s belongs to another user", u.ID).WithHint("publish it as the user who uploaded it")
	case u.failed:
		return mayfly.Errorf(mayfly.Invalid, "upload %s has failed", u.ID).WithHint("upload its media again")
	case len(u.stored) > 0 && u.ID.ExpiredAt(now): // its objects may be collected from now on (L12)
		return mayfly.Errorf(mayfly.Gone, "upload %s is too old", u.ID).WithHint("upload its media again")
	}
	return nil
}

// Assign makes the objects the property of an item. They have one owner (L11):
// even if the birth of that item failed, its row may still land. Errors: Conflict.
func (u *Upload) Assign(item mayfly.ID) error {
	if !u.item.IsZero() && u.item != item {
		return mayfly.Errorf(mayfly.Conflict, "upload %s was published as %s, or may have been", u.ID, u.item).
			WithHint("upload the media again, or retry with an idempotency key")
	}
	u.item = item
	return nil
}

// Drop deletes what the upload has stored, because it will not be published;
// without Drop the orphan collector does so a day later. It goes on for a few
// seconds if ctx has ended. An upload that was assigned to an item is left alone:
// the item's row may still land (L12).
func (u *Upload) Drop(ctx context.Context) error {
	if u == nil || !u.item.IsZero() {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	u.failed = true
	keys := make([]mayfly.BlobKey, len(u.stored)+1) // with the one that failed, which may be stored
	for n := range keys {
		keys[n] = mayfly.UploadKey(u.ID, n)
	}
	if err := u.all.set.Hot.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("drop upload %s: %w", u.ID, err)
	}
	return nil
}

// put streams r to hot storage as medium n of an upload.
func (u *Uploads) put(ctx context.Context, upload mayfly.ID, n int, r io.Reader) (mayfly.Medium, error) {
	medium := &content{r: r, left: u.o.MaxMedium}
	object, err := u.set.Hot.Put(ctx, mayfly.UploadKey(upload, n), medium)
	if err != nil {
		return mayfly.Medium{}, fmt.Errorf("upload %s: medium %d: %w", upload, n, err)
	}
	if object.Size == 0 {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Invalid, "upload %s: medium %d is empty", upload, n).WithHint("send the bytes of the medium")
	}
	return medium.describe(object), nil
}

// Described is a reader of a medium that knows what it reads: its type at once,
// its dimensions at the end.
type Described interface {
	Type() string
	Dimensions() (width, height uint32)
}

// content passes a medium on, keeps its first bytes to detect its type, and
// refuses more bytes than its limit.
type content struct {
	r    io.Reader
	left int64
	head bytes.Buffer
}

const sniffLength = 512

func (c *content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if room := sniffLength - c.head.Len(); room > 0 {
		c.head.Write(p[:min(n, room)])
	}
	if c.left -= int64(n); c.left < 0 {
		return 0, mayfly.Errorf(mayfly.TooLarge, "the medium is too large").WithHint("send a smaller one")
	}
	return n, err
}

// describe returns the medium that was read and stored as object.
func (c *content) describe(object store.Object) mayfly.Medium {
	medium := mayfly.Medium{Size: object.Size, SHA256: object.SHA256}
	if d, ok := c.r.(Described); ok {
		medium.Type = d.Type()
		medium.Width, medium.Height = d.Dimensions()
		return medium
	}
	medium.Type = http.DetectContentType(c.head.Bytes())
	return medium
}
