package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// ranges are how videos are played (ST3).
func (p *probe) ranges(ctx context.Context) error {
	var opts minio.GetObjectOptions
	span := store.Span{Offset: 2, Length: 3}
	opts.Set("Range", rangeOf(span))
	var got []byte
	err := p.try(ctx, p.reads(""), func() error {
		ctx, cancel := p.bounded(ctx, 0)
		defer cancel()
		body, _, header, err := p.server.core.GetObject(ctx, p.opts.Bucket, p.names[0], opts)
		if err != nil {
			return err
		}
		got, err = io.ReadAll(io.LimitReader(body, 1000))
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		if _, _, err := contentRange(header.Get("Content-Range"), span); err != nil {
			got = nil
		}
		return nil
	})
	if errors.Is(err, mayfly.Unavailable) {
		return fmt.Errorf("read a range: %w", err)
	}
	if !bytes.Equal(got, p.content[2:5]) {
		return lacks("use a server that reads ranges", "a range of an object is not what it should be: %v", err)
	}
	return nil
}

// copies an object with the tier's storage class, and asks what the server makes
// of it: a hash that nobody has told it is its own (L9).
func (p *probe) copies(ctx context.Context) error {
	err := p.placeNamed(ctx, "", p.names[1], source{bucket: p.opts.Bucket, name: p.names[0], size: int64(len(p.content))}, placing{class: p.opts.Class})
	switch {
	case errors.Is(err, mayfly.Unavailable):
		return fmt.Errorf("copy an object: %w", err)
	case err != nil && p.opts.Class != "":
		return lacks("name a storage class that this server has, or none", "no object can be copied with storage class %s: %v", p.opts.Class, err)
	case err != nil:
		return lacks("use a server that copies", "no object can be copied: %v", err)
	}
	h, err := p.head(ctx, "", p.names[1])
	if err != nil {
		return lacks("use a server that copies", "what was copied cannot be read: %v", err)
	}
	if h.Size != int64(len(p.content)) {
		return lacks("use a server that copies", "what was copied has %d bytes, not %d", h.Size, len(p.content))
	}
	hash := sha256.Sum256(p.content)
	p.attests.Store(bytes.Equal(h.computed, hash[:]))
	return nil
}

// listing has both objects in order, and begins behind a name.
func (p *probe) listing(ctx context.Context) error {
	for _, c := range []struct {
		after string
		want  []string
	}{{"", p.names}, {p.names[0], p.names[1:]}} {
		var got []string
		opts := minio.ListObjectsOptions{Prefix: p.names[0][:len(p.names[0])-1], StartAfter: c.after, Recursive: true, FetchOwner: new(bool), MaxKeys: 10}
		err := p.try(ctx, p.reads(""), func() error {
			ctx, cancel := p.bounded(ctx, 0)
			defer cancel()
			got = nil
			for object := range p.server.core.ListObjectsIter(ctx, p.opts.Bucket, opts) {
				if object.Err != nil {
					return object.Err
				}
				got = append(got, object.Key)
			}
			return ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			return lacks("listings have to be in byte order and begin where they are told", "the list behind %q is %q, not %q", c.after, got, c.want)
		}
	}
	return nil
}

// parts are begun, found and given up.
func (p *probe) parts(ctx context.Context) error {
	u, err := p.begin(ctx, "", p.names[0]+"-parts", placing{class: p.opts.Class})
	if err != nil {
		return fmt.Errorf("begin an upload in parts: %w", err)
	}
	found, err := p.server.core.ListMultipartUploads(ctx, p.opts.Bucket, u.name, "", "", "", 10)
	if err == nil && len(found.Uploads) != 1 {
		err = lacks("allow ListBucketMultipartUploads: uploads that nobody finished would stay for ever", "an upload in parts is not listed")
	}
	return errors.Join(kindOf(ctx, err), u.abort(ctx))
}

// versions would keep what is deleted (ST5). What was written tells, and so does
// the bucket. A bucket whose versions are suspended calls each of them null.
func (p *probe) versions(ctx context.Context) error {
	kept := p.version != "" && p.version != "null"
	var last error
	err := p.try(ctx, p.reads(""), func() error {
		ctx, cancel := p.bounded(ctx, 0)
		defer cancel()
		var found minio.BucketVersioningConfiguration
		if found, last = p.server.core.GetBucketVersioning(ctx, p.opts.Bucket); last == nil {
			kept = kept || found.Enabled()
		}
		return last
	})
	switch {
	case kept:
		return lacks("suspend versioning of the bucket and delete its old versions", "the bucket keeps old versions: what is deleted would stay (ST5)")
	case err != nil && isPassing(last):
		return fmt.Errorf("ask whether the bucket keeps old versions: %w", err)
	}
	return nil // we may not ask, or the server does not know the question: what was written has told
}

// deletes both objects in one request.
func (p *probe) deletes(ctx context.Context) error {
	if err := p.remove(ctx, p.writes(""), p.names...); err != nil {
		return lacks("use a server with bulk delete, and allow DeleteObject", "objects cannot be deleted together: %v", err)
	}
	for _, name := range p.names {
		if _, err := p.head(ctx, "", name); !errors.Is(err, mayfly.NotFound) {
			return lacks("use another server", "an object that was deleted is not gone: %v", err)
		}
	}
	return nil
}
