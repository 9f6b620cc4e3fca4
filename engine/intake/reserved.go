package intake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// AddAt streams medium n of an upload that was begun before; it is durable on
// return. Sent once more, the same bytes are answered the same. Errors: those of
// Add, and Conflict (medium n is there with other bytes, or is on its way).
func (in *Intake) AddAt(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, r io.Reader) (mayfly.Medium, error) {
	switch {
	case !upload.Valid() || !owner.IsZero() && owner.Trace() != upload.Trace():
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Invalid, "%s is no upload of this user", upload).WithHint("reserve an upload first")
	case n < 0 || n >= in.o.MaxMedia:
		return mayfly.Medium{}, errTooMany(in.o.MaxMedia)
	}
	key := mayfly.UploadKey(upload, n)
	if !in.arriving.begin(key) {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Conflict, "upload %s: medium %d is on its way already", upload, n).
			WithHint("wait for the other request to end, then ask what has arrived")
	}
	defer in.arriving.end(key)
	there, err := in.set.Hot.Stat(ctx, key)
	if errors.Is(err, mayfly.NotFound) || err == nil && there.Size == 0 { // empty: of a try that failed
		return in.put(ctx, upload, n, r)
	}
	if err != nil {
		return mayfly.Medium{}, fmt.Errorf("upload %s: medium %d: %w", upload, n, err)
	}
	return in.same(upload, n, r, there)
}

// same says whether r is what is stored already: an object that somebody may
// have published is never replaced (I14).
func (in *Intake) same(upload mayfly.ID, n int, r io.Reader, there store.Object) (mayfly.Medium, error) {
	content, hash := &sniffed{r: r, left: in.o.MaxMedium}, sha256.New()
	size, err := io.Copy(hash, content)
	if err != nil {
		return mayfly.Medium{}, fmt.Errorf("upload %s: medium %d: %w", upload, n, err)
	}
	sent := store.Object{Key: there.Key, Size: size, SHA256: [32]byte(hash.Sum(nil))}
	switch {
	case size == 0:
		return mayfly.Medium{}, errEmpty(upload, n)
	case sent != there:
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Conflict, "upload %s: medium %d is there with other bytes", upload, n).
			WithHint("reserve another upload for other media")
	}
	return content.describe(sent), nil
}

// Resume is an upload whose media were stored by AddAt, to be published.
// Errors: Invalid.
func (in *Intake) Resume(owner mayfly.UserID, upload mayfly.ID, stored []mayfly.Medium) (*Upload, error) {
	if !upload.Valid() || !owner.IsZero() && owner.Trace() != upload.Trace() {
		return nil, mayfly.Errorf(mayfly.Invalid, "%s is no upload of this user", upload).WithHint("reserve an upload first")
	}
	if len(stored) > in.o.MaxMedia {
		return nil, errTooMany(in.o.MaxMedia)
	}
	for n, medium := range stored {
		if medium.Size == 0 {
			return nil, mayfly.Errorf(mayfly.Invalid, "upload %s: medium %d has not arrived", upload, n).WithHint("send it, then publish")
		}
	}
	return &Upload{ID: upload, in: in, owner: owner, stored: slices.Clone(stored)}, nil
}

// arriving are the reserved media that are being stored, each by one request:
// two would replace each other's bytes behind the answers they got.
type arriving struct {
	mu   sync.Mutex
	keys map[mayfly.BlobKey]struct{}
}

func (a *arriving) begin(key mayfly.BlobKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, busy := a.keys[key]; busy {
		return false
	}
	if a.keys == nil {
		a.keys = map[mayfly.BlobKey]struct{}{}
	}
	a.keys[key] = struct{}{}
	return true
}

func (a *arriving) end(key mayfly.BlobKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.keys, key)
}
