package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Draft is an item that a user wants to publish.
type Draft struct {
	Owner    mayfly.UserID // zero: anonymous
	Product  mayfly.Product
	Fate     mayfly.Fate
	Audience mayfly.Audience
	Lifetime mayfly.Lifetime
	Text     string
	Data     []byte
	Upload   *upload.Upload // its media; nil without
	Key      string         // idempotency key; empty without

	// Born is when an item that moves in was published elsewhere, and Serial what tells
	// it from other items of its owner that were published at the same instant. Its id
	// follows from them and from the lifetime, so that it moves in once, whenever it is
	// sent again. It has no Key. Zero: the item is born now.
	Born   mayfly.Instant
	Serial uint64

	// Held says that it is born held: only moderators see it until they release it (L16).
	Held bool
	// Index adds to the batch of the birth what the product keeps of the item in tables:
	// it is durable before the row, also of a birth that is abandoned then. May be nil.
	Index func(*store.Batch, mayfly.Item)

	// Admission says that the account of the owner is not erased. If it does not
	// hold any more, Publish reads that itself.
	Admission Admission
}

// maxKey is the largest idempotency key in bytes.
const maxKey = 255

func (d Draft) validate(o Options, now mayfly.Instant) error {
	bad := func(what, hint string) error { return mayfly.Errorf(mayfly.Invalid, "draft: %s", what).WithHint(hint) }
	switch {
	case d.Product < mayfly.Story || d.Product > mayfly.Post:
		return bad("no such product", "say what it is: a story, an entry, a paste or a post")
	case d.Fate < mayfly.Archive || d.Fate > mayfly.Purge:
		return bad("no such fate", "say what its expiry does: archive or purge")
	case d.Audience < mayfly.Everyone || d.Audience > mayfly.OnlyAuthor:
		return bad("no such audience", "choose everyone, followers or close_friends")
	case !d.Lifetime.Valid():
		return bad("a lifetime that is not in its one spelling", "make it with LifetimeOf or ParseLifetime")
	case len(d.Key) > maxKey:
		return bad("the idempotency key is too long", "use at most 255 bytes, such as a UUID")
	case d.Key != "" && d.Owner.IsZero():
		return bad("an idempotency key belongs to a user", "publish as a user, or without a key")
	case d.Born > now:
		return bad("it was published in the future", "say when it was published, in UTC")
	case d.Born != 0 && (d.Key != "" || d.Owner.IsZero()):
		return bad("an item that moves in has an owner, and no idempotency key", "send it without a key: it moves in once")
	case d.Born != 0 && d.Lifetime != mayfly.Never && d.Born.Add(d.Lifetime.Duration()) <= now:
		return bad("its lifetime is over", "leave out what has expired")
	case len(d.Text)+len(d.Data) > o.MaxBody:
		return mayfly.Errorf(mayfly.TooLarge, "draft: over %d bytes of text and data", o.MaxBody).WithHint("send large content as a medium")
	}
	if err := d.Upload.Check(d.Owner, now); err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	return nil
}

// hash covers everything in which two requests with the same key must agree:
// all that was asked for, media by their content.
func (d Draft) hash() [32]byte {
	h := sha256.New()
	var n [8]byte
	add := func(v []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(v)))
		h.Write(n[:])
		h.Write(v)
	}
	h.Write([]byte{byte(d.Product), byte(d.Fate), byte(d.Audience)})
	h.Write(binary.BigEndian.AppendUint16(nil, uint16(d.Lifetime)))
	add([]byte(d.Text))
	add(d.Data)
	for _, m := range d.Upload.Media() {
		add(m.SHA256[:])
	}
	if d.Held {
		h.Write([]byte("held"))
	}
	return [32]byte(h.Sum(nil))
}

// birth returns the row and body of the draft under its claim. It uses nothing
// but these two, so that a resumed birth is the same in every byte.
func (d Draft) birth(c claim) (mayfly.Item, mayfly.Body) {
	media := d.Upload.Media()
	item := mayfly.Item{
		ID: c.id, Owner: d.Owner, Product: d.Product, Fate: d.Fate, Audience: d.Audience,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: c.nonce, Changed: c.id.Birth(),
	}
	if d.Held {
		item.Held, item.Cause = true, mayfly.BySupport
	}
	if len(media) > 0 {
		item.Media, item.Upload, item.Keys.Hot = uint8(len(media)), c.upload, mayfly.Born
	}
	return item, mayfly.Body{Text: d.Text, Data: d.Data, Media: media}
}
