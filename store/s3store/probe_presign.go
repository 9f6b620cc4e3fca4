package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// A URL with the shortest validity is used again after it has expired: first
// overAfter it was signed, then repeatedly, because the server's clock may differ.
const (
	shortLife = time.Second
	overAfter = 1300 * time.Millisecond
	askAgain  = 100 * time.Millisecond
	askTimes  = 40
)

// publicWithin is how long the public address has to answer this node at all.
const publicWithin = 5 * time.Second

// holder holds presigned URLs of a temporary object.
type holder struct {
	name      string
	read, put string
	over      <-chan time.Time // when the URLs with the shortest validity have expired
	stale     []asked
}

// asked is a request with a presigned URL.
type asked struct {
	method, address string
	more            int // bytes that a PUT has over those that were signed
}

// presigned tests that a presigned URL reads or writes one object and nothing else:
// its holder is not trusted (ST3).
func (p *probe) presigned(ctx context.Context) error {
	if p.server.opts.NoPresign {
		return nil
	}
	by, hint := p.server.public, "use a server that takes presigned addresses, or turn presigning off"
	if p.server.opts.Public != p.server.opts.Endpoint {
		hint = "the public address has to lead to this server, with the Host of the request as it came; or turn presigning off"
		if err := p.reachPublic(ctx); err != nil {
			p.server.opts.Logger.Warn("the public address of S3 does not answer this node, so that it is not known whether it takes presigned addresses",
				"address", p.server.opts.Public, "problem", err)
			by = p.server.core.Client
		}
	}
	h := &holder{name: p.freshName(probeNames)}
	if err := h.sign(ctx, p, by); err != nil {
		return fmt.Errorf("presign: %w", err)
	}
	if p.server.expires.Load() {
		h.stale = nil // another tier of the server has shown it
	}
	p.holder = h
	if err := p.honours(ctx, h, hint); err != nil {
		h.stale = nil // the expired ones would get the same response
		return err
	}
	return nil
}

// honours tests that a presigned URL works for its object and method only.
func (p *probe) honours(ctx context.Context, h *holder, hint string) error {
	if _, err := p.must(ctx, asked{method: http.MethodPut, address: h.put}); err != nil {
		return notTaken(hint, "to write", err)
	}
	got, err := p.must(ctx, asked{method: http.MethodGet, address: h.read})
	if err != nil {
		return notTaken(hint, "to read", err)
	}
	if !bytes.Equal(got, p.content) {
		return unsupported(hint, "what is read by a presigned address is not what was written by one")
	}
	for _, c := range []struct {
		what string
		asked
	}{
		{"an address with another signature is taken: any client may read", asked{http.MethodGet, forgedSignature(h.read), 0}},
		{"an address with another signature is taken: any client may write", asked{http.MethodPut, forgedSignature(h.put), 0}},
		{"an address of one object is taken for another: any client may read", asked{http.MethodGet, p.renamed(h.read), 0}},
		{"an address of one object is taken for another: any client may write", asked{http.MethodPut, p.renamed(h.put), 0}},
		{"an address is taken for more bytes than were signed: any client may fill the bucket", asked{http.MethodPut, h.put, 1}},
	} {
		_, err := p.ask(ctx, c.asked)
		if err := mustRefuse(c.what, err); err != nil {
			return err
		}
	}
	return nil
}

// sign creates the URLs, those with the shortest validity last.
func (h *holder) sign(ctx context.Context, p *probe, by *minio.Client) error {
	sign := func(lasts time.Duration) (read, put string, err error) {
		r, err := by.PresignedGetObject(ctx, p.opts.Bucket, h.name, lasts, nil)
		if err != nil {
			return "", "", withKind(ctx, err)
		}
		w, err := presignPut(ctx, by, p.opts.Bucket, h.name, int64(len(p.content)), lasts)
		if err != nil {
			return "", "", withKind(ctx, err)
		}
		return r.String(), w.String(), nil
	}
	var err error
	if h.read, h.put, err = sign(time.Minute); err != nil {
		return err
	}
	read, put, err := sign(shortLife)
	h.over = time.After(overAfter)
	h.stale = []asked{{method: http.MethodGet, address: read}, {method: http.MethodPut, address: put}}
	return err
}

// expired waits until the URLs with the shortest validity have expired; the other tests
// take most of that time. Then it removes what was put through one.
func (p *probe) expired(ctx context.Context) error {
	if p.holder == nil {
		return nil
	}
	err := p.refusesStale(ctx)
	return errors.Join(err, p.remove(ctx, p.writes(""), p.holder.name))
}

func (p *probe) refusesStale(ctx context.Context) error {
	if len(p.holder.stale) == 0 {
		return nil
	}
	select {
	case <-p.holder.over:
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
	times := askTimes // for both URLs together
	for _, a := range p.holder.stale {
		_, err := p.ask(ctx, a)
		for ; err == nil && times > 0 && loop.Rest(ctx, askAgain) == nil; times-- {
			_, err = p.ask(ctx, a)
		}
		if err == nil {
			return unsupported("use a server that looks at X-Amz-Expires, and compare its clock with this machine's",
				"a presigned address is taken after its time: media would outlive their story (ST3)")
		}
		if !refused(err) {
			return mayfly.Errorf(mayfly.Unavailable, "cannot determine whether a presigned address is taken after its time: %w", err)
		}
	}
	p.server.expires.Store(true)
	return nil
}

func notTaken(hint, what string, err error) error {
	if e, ok := answer(err); ok && !isTransient(e) {
		return unsupported(hint, "a presigned address %s is refused: %s %s", what, e.Message, e.Code)
	}
	return fmt.Errorf("by a presigned address %s: %w", what, err)
}

// must repeats a request until it gets a response.
func (p *probe) must(ctx context.Context, a asked) (got []byte, err error) {
	err = p.try(ctx, p.writes(""), func() (err error) {
		got, err = p.ask(ctx, a)
		return err
	})
	return got, err
}

// ask makes one request with a presigned URL, as its holder would.
func (p *probe) ask(ctx context.Context, a asked) ([]byte, error) {
	ctx, cancel := p.bounded(ctx, 0)
	defer cancel()
	var content []byte
	if a.method == http.MethodPut {
		content = append(slices.Clone(p.content), make([]byte, a.more)...)
	}
	req, err := http.NewRequestWithContext(ctx, a.method, a.address, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return p.send(req)
}

// send makes one request and returns the start of its answer. Errors do not show the
// URL.
func (p *probe) send(req *http.Request) ([]byte, error) {
	res, err := (&http.Client{Transport: p.server.transport}).Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	got, err := io.ReadAll(io.LimitReader(res.Body, 4*kibibyte))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, minio.ErrorResponse{StatusCode: res.StatusCode, Code: codeIn(got), Message: res.Status}
	}
	return got, nil
}

// reachPublic tests whether the public address answers at all.
func (p *probe) reachPublic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publicWithin)
	defer cancel()
	_, err := p.ask(ctx, asked{method: http.MethodGet, address: p.server.opts.Public})
	if _, answers := answer(err); answers {
		return nil
	}
	return err
}

func withoutAddress(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// codeIn returns the code in an error response of S3.
func codeIn(body []byte) string {
	_, after, _ := strings.Cut(string(body), "<Code>")
	code, _, _ := strings.Cut(after, "</Code>")
	return code
}

const signatureField = "X-Amz-Signature="

// forgedSignature returns the URL with an invalid signature.
func forgedSignature(address string) string {
	before, signature, _ := strings.Cut(address, signatureField)
	return before + signatureField + strings.Repeat("0", len(signature))
}

// renamed returns the URL with the name of another existing object.
func (p *probe) renamed(address string) string {
	return strings.Replace(address, url.PathEscape(lastOf(p.holder.name)), url.PathEscape(lastOf(p.names[0])), 1)
}

func lastOf(name string) string { return name[strings.LastIndex(name, "/")+1:] }
