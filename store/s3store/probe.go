package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// probe tries a tier with objects of its own, under names that no key has.
type probe struct {
	*Store
	names   []string // two of them, in order
	content []byte
	version string  // that the first got when it was written
	holder  *holder // of presigned addresses; nil if there are none
}

// Probe refuses a server that this package cannot rely on, and says all that is
// wrong with it. It writes three objects of a few bytes and deletes them. Where it
// sees the server compute a hash by itself, Checksum works from then on. Errors:
// Unsupported with a hint, and Unavailable where it could not find out.
func (s *Store) Probe(ctx context.Context) error {
	name := s.freshName(probeNames)
	p := &probe{Store: s, names: []string{name + "-0", name + "-1"}, content: []byte(rand.Text())}
	if err := p.reach(ctx); err != nil {
		return fmt.Errorf("probe of %s: %w", s, err)
	}
	var errs []error
	for _, step := range []func(context.Context) error{
		p.strangers, p.forgers, p.presigned, p.hurt, p.ranges, p.copies, p.listing, p.parts, p.versions, p.deletes, p.expired,
	} {
		if err := step(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("probe of %s: %w", s, err)
	}
	return nil
}

func lacks(hint, format string, args ...any) error {
	return mayfly.Errorf(mayfly.Unsupported, format, args...).WithHint(hint)
}

// put writes an object, by client and with a hash that may be wrong, and answers
// with the version that the server made of it.
func (p *probe) put(ctx context.Context, client *minio.Core, name string, hash [32]byte, content []byte) (version string, err error) {
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	opts := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{markHeader: "probe"}}
	stored, err := client.PutObject(ctx, p.opts.Bucket, name, bytes.NewReader(content), int64(len(content)), "", hex.EncodeToString(hash[:]), opts)
	return stored.VersionID, err
}

// reach writes one object as everything is written, and asks for one that is not
// there: who may not list a bucket hears of denial instead of absence.
func (p *probe) reach(ctx context.Context) error {
	err := p.try(ctx, p.writes(""), func() (err error) {
		p.version, err = p.put(ctx, p.server.core, p.names[0], sha256.Sum256(p.content), p.content)
		return err
	})
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	h, err := p.head(ctx, "", p.names[0])
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	if h.mark != "probe" {
		return lacks("user metadata has to be kept, the hash of each object is there", "the server forgets what is noted beside an object")
	}
	if _, err = p.head(ctx, "", p.names[1]); !errors.Is(err, mayfly.NotFound) {
		return lacks("allow ListBucket: without it absence looks like denial", "an object that is not there is not said to be absent: %v", err)
	}
	return nil
}

// refused says whether the server said no, as opposed to nothing.
func refused(err error) bool {
	e, ok := answer(err)
	return ok && e.StatusCode >= http.StatusBadRequest && e.StatusCode < http.StatusInternalServerError
}

// strangers may neither write nor read nor list: media of close friends lie here (I18).
func (p *probe) strangers(ctx context.Context) error {
	client, err := p.server.client(p.server.opts.Endpoint, credentials.NewStatic("", "", "", credentials.SignatureAnonymous))
	if err != nil {
		return err
	}
	_, err = p.put(ctx, client, p.names[1], sha256.Sum256(p.content), p.content)
	if err := mustRefuse("requests without a signature are taken: anybody may write", err); err != nil {
		return err
	}
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	body, _, _, err := client.GetObject(ctx, p.opts.Bucket, p.names[0], minio.GetObjectOptions{})
	if err == nil {
		err = body.Close()
	}
	if err := mustRefuse("objects are handed out without a signature: anybody may read", err); err != nil {
		return err
	}
	err = nil
	for object := range client.ListObjectsIter(ctx, p.opts.Bucket, minio.ListObjectsOptions{Prefix: p.names[0], MaxKeys: 1}) {
		err = object.Err
	}
	return mustRefuse("the bucket is listed without a signature: anybody may see what there is", err)
}

func mustRefuse(what string, err error) error {
	switch {
	case err == nil:
		return lacks("make the bucket private and the server check signatures, or use another one", "%s", what)
	case !refused(err):
		return mayfly.Errorf(mayfly.Unavailable, "it cannot be told whether %s: %w", what, err)
	}
	return nil
}

// forgers sign with a secret that they do not have.
func (p *probe) forgers(ctx context.Context) error {
	value, err := p.server.signer.GetWithContext(nil)
	if err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	client, err := p.server.client(p.server.opts.Endpoint, credentials.NewStaticV4(value.AccessKeyID, rand.Text(), value.SessionToken))
	if err != nil {
		return err
	}
	_, err = p.put(ctx, client, p.names[1], sha256.Sum256(p.content), p.content)
	return mustRefuse("requests with a wrong signature are taken: anybody may write", err)
}

// hurt sends other bytes than the request was signed for.
func (p *probe) hurt(ctx context.Context) error {
	_, err := p.put(ctx, p.server.core, p.names[1], sha256.Sum256(p.content), bytes.ToLower(p.content))
	return mustRefuse("bytes are stored that are not those that were signed: what is hurt on the way would stay", err)
}

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
