package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// probe tests a tier with temporary objects whose names are not keys.
type probe struct {
	*Store
	names   []string // of two objects, in order
	content []byte
	version string  // of the first object, from the response to its write
	holder  *holder // of presigned URLs; nil if they are not used
}

// Probe tests whether the server has the behaviour that this package relies on, and
// reports everything that is missing. It writes three small objects and deletes them.
// If it sees the server compute a hash, Checksum works from then on. Errors:
// Unsupported with a hint; Unavailable if a test could not be done.
func (s *Store) Probe(ctx context.Context) error {
	name := s.freshName(probeNames)
	p := &probe{Store: s, names: []string{name + "-0", name + "-1"}, content: []byte(rand.Text())}
	if err := p.reach(ctx); err != nil {
		return fmt.Errorf("probe of %s: %w", s, err)
	}
	var errs []error
	for _, step := range []func(context.Context) error{
		p.unsigned, p.forged, p.presigned, p.corrupted, p.trailing, p.ranges, p.copies, p.listing, p.parts, p.versions, p.deletes, p.expired,
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

func unsupported(hint, format string, args ...any) error {
	return mayfly.Errorf(mayfly.Unsupported, format, args...).WithHint(hint)
}

// put writes an object with the given client and a hash that may be wrong, and returns
// the version that the server gave it.
func (p *probe) put(ctx context.Context, client *minio.Core, name string, hash [32]byte, content []byte) (version string, err error) {
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	opts := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{markHeader: "probe"}}
	stored, err := client.PutObject(ctx, p.opts.Bucket, name, bytes.NewReader(content), int64(len(content)), "", hex.EncodeToString(hash[:]), opts)
	return stored.VersionID, err
}

// reach writes one object, and asks for one that does not exist: a client that may
// not list the bucket gets "denied" instead of "not found".
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
		return unsupported("user metadata has to be kept, the hash of each object is there", "the server forgets what is noted beside an object")
	}
	if _, err = p.head(ctx, "", p.names[1]); !errors.Is(err, mayfly.NotFound) {
		return unsupported("allow ListBucket: without it absence looks like denial", "an object that is not there is not said to be absent: %v", err)
	}
	return nil
}

// refused reports whether the server answered with a refusal.
func refused(err error) bool {
	e, ok := answer(err)
	return ok && e.StatusCode >= http.StatusBadRequest && e.StatusCode < http.StatusInternalServerError
}

// unsigned sends requests without a signature: they must neither write nor read nor
// list, because the bucket holds private media (I18).
func (p *probe) unsigned(ctx context.Context) error {
	client, err := p.server.client(p.server.opts.Endpoint, credentials.NewStatic("", "", "", credentials.SignatureAnonymous))
	if err != nil {
		return err
	}
	_, err = p.put(ctx, client, p.names[1], sha256.Sum256(p.content), p.content)
	if err := mustRefuse("requests without a signature are taken: any client may write", err); err != nil {
		return err
	}
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	body, _, _, err := client.GetObject(ctx, p.opts.Bucket, p.names[0], minio.GetObjectOptions{})
	if err == nil {
		err = body.Close()
	}
	if err := mustRefuse("objects are handed out without a signature: any client may read", err); err != nil {
		return err
	}
	err = nil
	for object := range client.ListObjectsIter(ctx, p.opts.Bucket, minio.ListObjectsOptions{Prefix: p.names[0], MaxKeys: 1}) {
		err = object.Err
	}
	return mustRefuse("the bucket is listed without a signature: any client may see what there is", err)
}

func mustRefuse(what string, err error) error {
	switch {
	case err == nil:
		return unsupported("make the bucket private and the server check signatures, or use another one", "%s", what)
	case !refused(err):
		return mayfly.Errorf(mayfly.Unavailable, "cannot determine whether %s: %w", what, err)
	}
	return nil
}

// forged signs a request with a wrong secret.
func (p *probe) forged(ctx context.Context) error {
	value, err := p.server.signer.GetWithContext(nil)
	if err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	client, err := p.server.client(p.server.opts.Endpoint, credentials.NewStaticV4(value.AccessKeyID, rand.Text(), value.SessionToken))
	if err != nil {
		return err
	}
	_, err = p.put(ctx, client, p.names[1], sha256.Sum256(p.content), p.content)
	return mustRefuse("requests with a wrong signature are taken: any client may write", err)
}

// corrupted sends bytes other than those that were signed.
func (p *probe) corrupted(ctx context.Context) error {
	_, err := p.put(ctx, p.server.core, p.names[1], sha256.Sum256(p.content), bytes.ToLower(p.content))
	return mustRefuse("bytes are stored that are not those that were signed: corruption in transit would not be noticed", err)
}

// trailing writes an object whose checksum follows it in a trailer, and signs neither
// (STREAMING-UNSIGNED-PAYLOAD-TRAILER), as the libraries of other clients do by
// default. Servers have accepted such requests with any signature, and
// servers that do not know them store the framing with the bytes. Mayfly itself sends
// none, so a server may refuse them.
func (p *probe) trailing(ctx context.Context) error {
	value, err := p.server.signer.GetWithContext(nil)
	if err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	secret := value.SecretAccessKey
	value.SecretAccessKey = rand.Text()
	if err := mustRefuse("requests with an unsigned trailer and a wrong signature are taken: any client may write", p.putTrailing(ctx, value)); err != nil {
		return err
	}
	if p.server.opts.NoPresign {
		return nil // only this package writes
	}
	value.SecretAccessKey = secret
	err = p.try(ctx, p.writes(""), func() error { return p.putTrailing(ctx, value) })
	if e, ok := answer(err); ok && !isTransient(e) {
		p.server.opts.Logger.Warn("S3 refuses uploads with a trailing checksum: clients that upload by presigned URLs have to send plain bodies",
			"endpoint", p.server.opts.Endpoint, "status", e.StatusCode, "code", e.Code)
		return nil
	}
	if err != nil {
		return fmt.Errorf("write with a trailing checksum: %w", err)
	}
	var got []byte
	err = p.try(ctx, p.reads(""), func() error {
		ctx, cancel := p.bounded(ctx, 0)
		defer cancel()
		body, _, _, err := p.server.core.GetObject(ctx, p.opts.Bucket, p.names[1], minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		got, err = io.ReadAll(io.LimitReader(body, 4*kibibyte))
		return errors.Join(err, body.Close())
	})
	if err != nil {
		return fmt.Errorf("read what was written with a trailing checksum: %w", err)
	}
	if !bytes.Equal(got, p.content) {
		return unsupported("use a server that decodes aws-chunked bodies, or turn presigning off",
			"an object that was sent with a trailing checksum is stored with its framing: %d bytes, not %d", len(got), len(p.content))
	}
	return nil
}

// putTrailing writes the second object with a checksum in an unsigned trailer.
func (p *probe) putTrailing(ctx context.Context, by credentials.Value) error {
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	at, err := p.server.core.PresignedGetObject(ctx, p.opts.Bucket, p.names[1], time.Minute, nil)
	if err != nil {
		return err
	}
	at.RawQuery = "" // only its place is needed
	const trailer = "x-amz-checksum-crc32"
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(p.content)))
	body := fmt.Sprintf("%x\r\n%s\r\n0\r\n%s:%s\r\n\r\n", len(p.content), p.content, trailer, sum)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length": strconv.Itoa(len(p.content)),
		"X-Amz-Trailer": trailer, "Content-Encoding": "aws-chunked",
	} {
		req.Header.Set(name, value)
	}
	_, err = p.send(signer.SignV4(*req, by.AccessKeyID, by.SecretAccessKey, by.SessionToken, p.server.opts.Region))
	return err
}

// ranges reads a range of an object, which video players need (ST3).
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
		return unsupported("use a server that reads ranges", "a range of an object is not what it should be: %v", err)
	}
	return nil
}

// copies copies an object with the tier's storage class and reads its description: a
// hash in it that no client sent was computed by the server (L9).
func (p *probe) copies(ctx context.Context) error {
	err := p.placeNamed(ctx, "", p.names[1], source{bucket: p.opts.Bucket, name: p.names[0], size: int64(len(p.content))}, placing{class: p.opts.Class})
	switch {
	case errors.Is(err, mayfly.Unavailable):
		return fmt.Errorf("copy an object: %w", err)
	case err != nil && p.opts.Class != "":
		return unsupported("name a storage class that this server has, or none", "no object can be copied with storage class %s: %v", p.opts.Class, err)
	case err != nil:
		return unsupported("use a server that copies", "no object can be copied: %v", err)
	}
	h, err := p.head(ctx, "", p.names[1])
	if err != nil {
		return unsupported("use a server that copies", "what was copied cannot be read: %v", err)
	}
	if h.Size != int64(len(p.content)) {
		return unsupported("use a server that copies", "what was copied has %d bytes, not %d", h.Size, len(p.content))
	}
	hash := sha256.Sum256(p.content)
	p.attests.Store(bytes.Equal(h.computed, hash[:]))
	return nil
}

// listing lists both objects in order, and only those after a name.
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
			return unsupported("listings have to be in byte order and begin after the given name", "the list behind %q is %q, not %q", c.after, got, c.want)
		}
	}
	return nil
}

// parts starts, lists and aborts an upload in parts.
func (p *probe) parts(ctx context.Context) error {
	u, err := p.begin(ctx, "", p.names[0]+"-parts", placing{class: p.opts.Class})
	if err != nil {
		return fmt.Errorf("begin an upload in parts: %w", err)
	}
	found, err := p.server.core.ListMultipartUploads(ctx, p.opts.Bucket, u.name, "", "", "", 10)
	if err == nil && len(found.Uploads) != 1 {
		err = unsupported("allow ListBucketMultipartUploads: unfinished uploads would stay for ever", "an upload in parts is not listed")
	}
	return errors.Join(withKind(ctx, err), u.abort(ctx))
}

// versions refuses a bucket with versioning, which would keep deleted objects (ST5).
// Both the response to a write and the configuration of the bucket show it. With
// suspended versioning the version is "null".
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
		return unsupported("suspend versioning of the bucket and delete its old versions", "the bucket keeps old versions: what is deleted would stay (ST5)")
	case err != nil && isTransient(last):
		return fmt.Errorf("ask whether the bucket keeps old versions: %w", err)
	}
	return nil // not allowed or not supported: the response to the write has shown it
}

// deletes deletes both objects in one request.
func (p *probe) deletes(ctx context.Context) error {
	if err := p.remove(ctx, p.writes(""), p.names...); err != nil {
		return unsupported("use a server with bulk delete, and allow DeleteObject", "objects cannot be deleted together: %v", err)
	}
	for _, name := range p.names {
		if _, err := p.head(ctx, "", name); !errors.Is(err, mayfly.NotFound) {
			return unsupported("use another server", "an object that was deleted is not gone: %v", err)
		}
	}
	return nil
}
