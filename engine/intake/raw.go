package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// rawLasts is how long a medium may be put by a presigned URL.
const rawLasts = 15 * time.Minute

// PresignRaw makes a URL that medium n of an upload can be put to without us, for
// whole seconds and not past the upload's end (L11). Errors: Unsupported (hot
// storage has no URLs, or no time is left), Unavailable.
func (in *Intake) PresignRaw(ctx context.Context, upload mayfly.ID, n int, now mayfly.Instant) (url string, until mayfly.Instant, err error) {
	lasts := min(rawLasts, upload.Deadline().Sub(now)).Truncate(time.Second)
	if lasts < time.Second {
		return "", 0, mayfly.Errorf(mayfly.Unsupported, "upload %s has no time left for a URL", upload)
	}
	if url, err = in.set.Hot.Presign(ctx, store.Write, mayfly.RawKey(upload, n), lasts); err != nil {
		return "", 0, fmt.Errorf("upload %s: medium %d: %w", upload, n, err)
	}
	return url, now.Add(lasts) / 1000 * 1000, nil // it is dated in whole seconds
}

// OpenRaw opens what was put to the URL of medium n. Whoever put it may have
// written anything, of any length, and may replace it at any moment: its size is
// held against most before a byte of it is read, and nothing else that is said
// about it counts. Errors: NotFound, TooLarge, Unavailable; Invalid from Read.
func (in *Intake) OpenRaw(ctx context.Context, upload mayfly.ID, n int, most int64) (io.ReadCloser, error) {
	r, object, err := in.set.Hot.Open(ctx, mayfly.RawKey(upload, n), store.Span{})
	if err != nil {
		return nil, fmt.Errorf("upload %s: medium %d: %w", upload, n, notOurs(err))
	}
	if object.Size > most {
		err := mayfly.Errorf(mayfly.TooLarge, "upload %s: medium %d has %d bytes, at most %d", upload, n, object.Size, most).
			WithHint("put a smaller one, then publish again")
		return nil, errors.Join(err, r.Close())
	}
	return raw{r}, nil
}

// DropRaw deletes what was put to the URL of medium n. What is left, or put again
// later, the orphan collector finds (L12).
func (in *Intake) DropRaw(ctx context.Context, upload mayfly.ID, n int) error {
	if err := in.set.Hot.Delete(ctx, mayfly.RawKey(upload, n)); err != nil {
		return fmt.Errorf("upload %s: drop medium %d as it was put: %w", upload, n, err)
	}
	return nil
}

// raw is an object that we have not written.
type raw struct{ io.ReadCloser }

func (r raw) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, notOurs(err)
}

// notOurs makes of a broken object a bad request: nothing that we promised is
// broken.
func notOurs(err error) error {
	if !errors.Is(err, mayfly.Corrupt) {
		return err
	}
	return mayfly.Errorf(mayfly.Invalid, "it cannot be read as it was put: %v", err).WithHint("put it again, then publish again")
}
