package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mayflyhq/mayfly"
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
