package intake

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Upload collects the media of one birth in hot storage, under a time-ordered
// id of its own (L11), before the item exists. What is never published is an
// orphan and is collected later. Not safe for concurrent use.
type Upload struct {
	ID     mayfly.ID
	in     *Intake
	owner  mayfly.UserID
	stored []mayfly.Medium
	failed bool
	birth  mayfly.ID // that its objects were handed to; zero while nobody owns them
}

// Begin starts an upload by owner.
func (in *Intake) Begin(owner mayfly.UserID, now mayfly.Instant) (*Upload, error) {
	if err := in.o.MayMint(); err != nil {
		return nil, fmt.Errorf("begin upload: %w", err)
	}
	var random [8]byte
	if _, err := io.ReadFull(in.o.Random, random[:]); err != nil {
		return nil, fmt.Errorf("begin upload: random bits: %w", err)
	}
	id, err := newID(now, in.o.UploadLife, owner, binary.BigEndian.Uint64(random[:]))
	if err != nil {
		return nil, fmt.Errorf("begin upload: %w", err)
	}
	return &Upload{ID: id, in: in, owner: owner}, nil
}

// Described is a reader of a medium that knows what it reads: its type at once,
// its dimensions at the end.
type Described interface {
	Type() string
	Dimensions() (width, height uint32)
}

// Add streams one medium to hot storage; it is durable on return. After an
// error the upload cannot be published. Where r is Described the medium is what
// r says, else its type is told by its first bytes. Errors: what r returned,
// TooLarge, Invalid, Full, Unavailable.
func (u *Upload) Add(ctx context.Context, r io.Reader) (mayfly.Medium, error) {
	n := len(u.stored)
	if u.failed || !u.birth.IsZero() {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Invalid, "upload %s has failed or is published", u.ID).WithHint("begin another")
	}
	if n >= u.in.o.MaxMedia {
		u.failed = true
		return mayfly.Medium{}, errTooMany(u.in.o.MaxMedia)
	}
	medium, err := u.in.put(ctx, u.ID, n, r)
	if err != nil {
		u.failed = true
		return mayfly.Medium{}, err
	}
	u.stored = append(u.stored, medium)
	return medium, nil
}

func errTooMany(most int) error {
	return mayfly.Errorf(mayfly.Invalid, "over %d media", most).WithHint("publish the others on their own")
}

// put streams r to hot storage as medium n of an upload.
func (in *Intake) put(ctx context.Context, upload mayfly.ID, n int, r io.Reader) (mayfly.Medium, error) {
	content := &sniffed{r: r, left: in.o.MaxMedium}
	object, err := in.set.Hot.Put(ctx, mayfly.UploadKey(upload, n), content)
	if err != nil {
		return mayfly.Medium{}, fmt.Errorf("upload %s: medium %d: %w", upload, n, err)
	}
	if object.Size == 0 {
		return mayfly.Medium{}, errEmpty(upload, n)
	}
	return content.describe(object), nil
}

func errEmpty(upload mayfly.ID, n int) error {
	return mayfly.Errorf(mayfly.Invalid, "upload %s: medium %d is empty", upload, n).WithHint("send the bytes of the medium")
}

func (u *Upload) media() []mayfly.Medium {
	if u == nil {
		return nil
	}
	return u.stored
}

// claim hands the objects to a birth. They have one owner (L11): even if that
// birth failed, its row may still land.
func (u *Upload) claim(c claim) error {
	if u == nil || u.ID != c.upload {
		return nil
	}
	if !u.birth.IsZero() && u.birth != c.id {
		return mayfly.Errorf(mayfly.Conflict, "upload %s was published as %s, or may have been", u.ID, u.birth).
			WithHint("upload the media again, or retry with an idempotency key")
	}
	u.birth = c.id
	return nil
}

// dropUnless deletes the upload's objects unless it is the one that its birth
// names: a retry has uploaded the same bytes again, and nothing will own them.
func (u *Upload) dropUnless(ctx context.Context, named mayfly.ID) error {
	if u == nil || u.ID == named {
		return nil
	}
	keys := make([]mayfly.BlobKey, len(u.stored))
	for n := range keys {
		keys[n] = mayfly.UploadKey(u.ID, n)
	}
	if err := u.in.set.Hot.Delete(ctx, keys...); err != nil && !errors.Is(err, mayfly.NotFound) {
		return err
	}
	return nil
}

// sniffed passes a medium on, keeps its first bytes to tell its type by, and
// stops it at its size limit.
type sniffed struct {
	r    io.Reader
	left int64
	head bytes.Buffer
}

const sniffLength = 512

func (s *sniffed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if room := sniffLength - s.head.Len(); room > 0 {
		s.head.Write(p[:min(n, room)])
	}
	if s.left -= int64(n); s.left < 0 {
		return 0, mayfly.Errorf(mayfly.TooLarge, "the medium is too large").WithHint("send a smaller one")
	}
	return n, err
}

// describe is the medium that has passed and was stored as object.
func (s *sniffed) describe(object store.Object) mayfly.Medium {
	medium := mayfly.Medium{Size: object.Size, SHA256: object.SHA256}
	if d, ok := s.r.(Described); ok {
		medium.Type = d.Type()
		medium.Width, medium.Height = d.Dimensions()
		return medium
	}
	medium.Type = http.DetectContentType(s.head.Bytes())
	return medium
}
