package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// readAhead is the size up to which an object is read and checked before any of it
// is returned, so that a download corrupted in transit can be retried.
const readAhead = mebibyte

// Open implements store.Blobs. A whole object is compared with its hash, a range
// with the sums of its blocks.
func (s *Store) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return nil, store.Object{}, err
	}
	if span.Offset < 0 || span.Length < 0 {
		return nil, store.Object{}, mayfly.Errorf(mayfly.Invalid, "range of %d bytes from %d", span.Length, span.Offset)
	}
	r, h, err := s.open(ctx, key, span)
	if errors.Is(err, mayfly.Invalid) && span.Offset == 0 { // an empty object has no valid range
		r, h, err = s.open(ctx, key, store.Span{})
	}
	if err != nil {
		return nil, store.Object{}, fmt.Errorf("open %s: %w", key, err)
	}
	return r, h.Object, nil
}

func (s *Store) open(ctx context.Context, key mayfly.BlobKey, span store.Span) (r io.ReadCloser, h held, err error) {
	err = s.try(ctx, s.reads(key), func() (err error) {
		var long bool
		if r, h, long, err = s.get(ctx, key, span); err != nil || long {
			return err
		}
		content, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err == nil {
			r = io.NopCloser(bytes.NewReader(content))
		}
		return err
	})
	return r, h, err
}

// get starts a download. If it is long, the caller reads it as a stream.
func (s *Store) get(ctx context.Context, key mayfly.BlobKey, span store.Span) (r io.ReadCloser, h held, long bool, err error) {
	var opts minio.GetObjectOptions
	ranged := span != (store.Span{})
	if ranged {
		opts.Set("Range", rangeOf(aligned(span)))
	}
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(s.server.opts.Timeout, cancel) // the download as a whole has no timeout
	body, info, header, err := s.server.core.GetObject(ctx, s.opts.Bucket, s.name(key), opts)
	silence.Stop()
	if err != nil {
		cancel()
		return nil, held{}, false, err
	}
	d := &download{ctx: ctx, cancel: cancel, body: body, key: key, left: info.Size, stall: s.server.opts.Timeout}
	size := info.Size
	if ranged {
		size, d.left, err = contentRange(header.Get("Content-Range"), aligned(span))
	}
	if err == nil {
		h, err = describe(key, size, info)
	}
	long = d.left > readAhead
	r = d
	if err == nil && ranged {
		r, err = d.blocks(h, span)
	} else if h.SHA256 != ([32]byte{}) {
		d.expect(h.SHA256)
	}
	if err != nil {
		return nil, h, false, errors.Join(err, d.Close())
	}
	return r, h, long, nil
}

// aligned returns span extended to whole blocks.
func aligned(span store.Span) store.Span {
	first := span.Offset / blockBytes * blockBytes
	if span.Length == 0 {
		return store.Span{Offset: first}
	}
	end := (span.Offset + span.Length + blockBytes - 1) / blockBytes * blockBytes
	return store.Span{Offset: first, Length: end - first}
}

// blocks reads span out of the blocks that d downloads.
func (d *download) blocks(h held, span store.Span) (*blocks, error) {
	if span.Offset >= h.Size {
		return nil, mayfly.Errorf(mayfly.Invalid, "range of %d bytes from %d in an object of %d", span.Length, span.Offset, h.Size)
	}
	sums, err := parseSums(d.key, h.noted, h.Size)
	if err != nil {
		return nil, err
	}
	b := &blocks{body: d, skip: span.Offset % blockBytes, left: h.Size - span.Offset}
	if span.Length > 0 {
		b.left = min(b.left, span.Length)
	}
	if sums != nil {
		b.sums = sums[span.Offset/blockBytes*sumBytes:]
	}
	return b, nil
}

func rangeOf(span store.Span) string {
	if span.Length == 0 {
		return fmt.Sprintf("bytes=%d-", span.Offset)
	}
	return fmt.Sprintf("bytes=%d-%d", span.Offset, span.Offset+span.Length-1)
}

// contentRange parses the size of the object and the length of the range, and fails
// if the range is not the requested one: a server may return the whole object.
func contentRange(text string, span store.Span) (size, length int64, err error) {
	bounds, total, ok := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, ok2 := strings.Cut(bounds, "-")
	var from, to int64
	if ok && ok2 {
		from, err = strconv.ParseInt(first, 10, 64)
		var err2, err3 error
		to, err2 = strconv.ParseInt(last, 10, 64)
		size, err3 = strconv.ParseInt(total, 10, 64)
		err = errors.Join(err, err2, err3)
	}
	want := size - 1
	if span.Length > 0 {
		want = min(want, span.Offset+span.Length-1)
	}
	if !ok || !ok2 || err != nil || from != span.Offset || to != want {
		return 0, 0, mayfly.Errorf(mayfly.Unavailable, "the server answers %s with %q", rangeOf(span), text)
	}
	return size, to - from + 1, nil
}

// download reads a body of known length and cancels one that stalls (I17).
type download struct {
	ctx    context.Context
	cancel context.CancelFunc
	body   io.ReadCloser
	key    mayfly.BlobKey
	left   int64 // bytes not yet received
	stall  time.Duration
	hash   hash.Hash // nil if the hash is not known
	want   [32]byte
}

// expect makes Read compare the whole body with a hash.
func (d *download) expect(want [32]byte) { d.hash, d.want = sha256.New(), want }

// Read implements io.Reader. It returns the last bytes only if the hash of all is
// right, because a caller that has received the full length assumes success (I14).
func (d *download) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	stop := time.AfterFunc(d.stall, d.cancel)
	n, err := d.body.Read(p)
	stop.Stop()
	d.left -= int64(n)
	if d.hash != nil {
		d.hash.Write(p[:n])
	}
	ended := errors.Is(err, io.EOF)
	switch {
	case d.left < 0:
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is longer than the server says", d.key)
	case err != nil && !ended:
		return n, mayfly.Errorf(mayfly.Unavailable, "%s broke off, %d bytes are missing: %w", d.key, d.left, err)
	case ended && d.left > 0:
		return n, mayfly.Errorf(mayfly.Unavailable, "%s broke off, %d bytes are missing: %w", d.key, d.left, io.ErrUnexpectedEOF)
	case d.left == 0 && d.hash != nil && [32]byte(d.hash.Sum(nil)) != d.want:
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is not what was written", d.key)
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	err := d.body.Close()
	d.cancel()
	return err
}
