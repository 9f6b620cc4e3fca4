package intake

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// maxKey bounds an idempotency key, in bytes.
const maxKey = 255

func (d Draft) validate(o Options, now mayfly.Instant) error {
	bad := func(what, hint string) error { return mayfly.Errorf(mayfly.Invalid, "draft: %s", what).WithHint(hint) }
	switch {
	case d.Product < mayfly.Story || d.Product > mayfly.Post:
		return bad("no such sort", "say what it is: a story, an entry, a paste or a post")
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
	case d.Upload != nil && d.Upload.owner != d.Owner:
		return bad("the upload is somebody else's", "publish it as the user who uploaded it")
	case d.Upload != nil && d.Upload.failed:
		return bad("an upload of it failed", "upload its media again")
	case len(d.Text)+len(d.Data) > o.MaxBody:
		return mayfly.Errorf(mayfly.TooLarge, "draft: over %d bytes of text and data", o.MaxBody).WithHint("send what is big as a medium")
	case len(d.Upload.media()) > 0 && d.Upload.ID.ExpiredAt(now): // its objects may be collected from now on (L12)
		return mayfly.Errorf(mayfly.Gone, "draft: upload %s is too old", d.Upload.ID).WithHint("upload its media again")
	}
	return nil
}

// hash is what two requests with the same key must agree in: everything that
// was asked for, media by their content.
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
	for _, m := range d.Upload.media() {
		add(m.SHA256[:])
	}
	return [32]byte(h.Sum(nil))
}

// birth is the row and body of the draft under its claim. It takes nothing but
// what is in the two, so that a resumed birth is the same in every byte.
func (d Draft) birth(c claim) (mayfly.Item, mayfly.Body) {
	media := d.Upload.media()
	item := mayfly.Item{
		ID: c.id, Owner: d.Owner, Product: d.Product, Fate: d.Fate, Audience: d.Audience,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: c.nonce, Changed: c.id.Birth(),
	}
	if len(media) > 0 {
		item.Media, item.Upload, item.Keys.Hot = uint8(len(media)), c.upload, mayfly.Born
	}
	return item, mayfly.Body{Text: d.Text, Data: d.Data, Media: media}
}
