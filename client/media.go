package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Download writes a medium to w and checks its size and hash. When the connection
// fails it resumes from the last byte received. Progress may be nil. The error is
// of kind Corrupt if size or hash differ.
func (c *Client) Download(ctx context.Context, m wire.Medium, w io.Writer, progress func(done, size int64)) error {
	hash, done := sha256.New(), int64(0)
	into := io.MultiWriter(w, hash)
	for try := 0; ; try++ {
		r, err := c.OpenMedium(ctx, m.URL, done)
		if err != nil {
			return err // send has retried it
		}
		got := &counted{ReadCloser: r, report: func(n int64) {
			if progress != nil {
				progress(done+n, m.Size)
			}
		}}
		n, err := io.Copy(into, readFailures{io.LimitReader(got, m.Size-done+1)})
		err = errors.Join(err, r.Close())
		done += n
		var broke brokenError
		switch {
		case err == nil && (done != m.Size || hex.EncodeToString(hash.Sum(nil)) != m.SHA256):
			return mayfly.Errorf(mayfly.Corrupt, "the downloaded bytes do not match the medium: got %d bytes, want %d bytes with SHA-256 %s", done, m.Size, m.SHA256).WithHint("open the story again and download the medium from its new URL")
		case err == nil:
			return nil
		case !errors.As(err, &broke) || try >= c.o.Retries || ctx.Err() != nil:
			return fmt.Errorf("download: %w", err)
		}
		pause, _ := c.pause(try, err)
		if wait(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// OpenMedium opens a medium or a rendition by its URL, from the given byte on.
func (c *Client) OpenMedium(ctx context.Context, address string, from int64) (io.ReadCloser, error) {
	relative, err := url.Parse(address)
	if err != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "invalid URL of a medium").WithHint("open the story again")
	}
	what := call{method: http.MethodGet, path: "/v1/media", absolute: c.base.ResolveReference(relative)}
	if from > 0 {
		what.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", from)}}
	}
	res, err := c.send(ctx, what)
	if err != nil {
		return nil, err
	}
	if from > 0 && res.StatusCode != http.StatusPartialContent {
		if _, err := io.CopyN(io.Discard, res.Body, from); err != nil { // the server ignored Range and sends all of it
			return nil, errors.Join(err, res.Body.Close())
		}
	}
	return res.Body, nil
}

// brokenError is a read error of a download, after which it is resumed.
type brokenError struct{ err error }

func (e brokenError) Error() string { return e.err.Error() }
func (e brokenError) Unwrap() error { return e.err }

// readFailures marks read errors as a brokenError, which errors of the writer are
// not.
type readFailures struct{ io.Reader }

func (r readFailures) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = brokenError{err}
	}
	return n, err
}

// Save downloads the media of a story into a folder, which it creates, and calls
// saved with the path of each. A file appears under its name when it is complete.
func (c *Client) Save(ctx context.Context, story wire.Story, folder string, saved func(path string)) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for n, m := range story.Media {
		path := filepath.Join(folder, fmt.Sprintf("%s-%d%s", story.ID, n, extension(m.Type)))
		if err := c.saveMedium(ctx, m, path); err != nil {
			return fmt.Errorf("save %s: %w", path, err)
		}
		saved(path)
	}
	return nil
}

func (c *Client) saveMedium(ctx context.Context, m wire.Medium, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".mayfly-*")
	if err != nil {
		return err
	}
	err = errors.Join(c.Download(ctx, m, f, nil), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// extension returns the file extension of a media type that the server takes.
func extension(typ string) string {
	switch _, kind, _ := strings.Cut(typ, "/"); kind {
	case "jpeg":
		return ".jpg"
	case "png", "gif", "webp", "mp4", "webm":
		return "." + kind
	default:
		return ".bin"
	}
}
