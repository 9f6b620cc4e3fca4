package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// NewPaste is a paste to be created from bytes. The zero value of a field is the
// server's default.
type NewPaste struct {
	Content  io.Reader // read once: a paste is not tried again when some of it was read
	Size     int64     // of the content; 0: not known
	Title    string
	Language string
	Lifetime string
	Password string
	Reads    int // 1 burns it after reading
	Private  bool
}

// CreatePaste creates a paste and returns it with its delete token.
func (c *Client) CreatePaste(ctx context.Context, p NewPaste) (wire.Paste, error) {
	query := url.Values{}
	for name, value := range map[string]string{"title": p.Title, "language": p.Language, "lifetime": p.Lifetime} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if p.Reads != 0 {
		query.Set("reads", strconv.Itoa(p.Reads))
	}
	if p.Private {
		query.Set("private", "true")
	}
	header := withPassword(p.Password)
	header["Accept"] = []string{"application/json"}
	size := p.Size
	if size == 0 {
		size = -1
	}
	var paste wire.Paste
	content := &readOnce{r: p.Content}
	// Always big: if the token has expired, the server can say so before the content is read.
	err := c.ask(ctx, call{method: http.MethodPost, path: "/", query: query, header: header, big: true, body: func() (body, error) {
		attempt, err := content.open()
		return body{attempt, "application/octet-stream", size}, err
	}}, &paste)
	return paste, err
}

// readOnce is a stream that several attempts may open until one of them has begun to
// read it: what was read cannot be sent again.
type readOnce struct {
	r io.Reader

	mu    sync.Mutex
	last  *attempt
	begun bool
}

// attempt is the stream for one attempt.
type attempt struct{ *readOnce }

func (o *readOnce) open() (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun {
		return nil, mayfly.Errorf(mayfly.Unavailable, "the server refused the request while it was sent, and its content cannot be read again").WithHint("send it again, from its beginning: nothing was stored")
	}
	o.last = &attempt{o}
	return o.last, nil
}

// Read reads the stream, unless a later attempt has it.
func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	if a.last != a {
		a.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	a.begun = true
	a.mu.Unlock()
	return a.r.Read(p)
}

// Close leaves the stream to its owner.
func (a *attempt) Close() error { return nil }

// CreateTextPaste creates a paste from JSON. For key see Publication.
func (c *Client) CreateTextPaste(ctx context.Context, p wire.NewPaste, key string) (wire.Paste, error) {
	var paste wire.Paste
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/pastes", key: key}, p, &paste)
	return paste, err
}

// Paste describes a paste. The password may be empty.
func (c *Client) Paste(ctx context.Context, id mayfly.ID, password string) (wire.Paste, error) {
	var paste wire.Paste
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/pastes/" + id.String(), header: withPassword(password)}, &paste)
	return paste, err
}

// ReadPaste opens the content of a paste; the caller closes it. With consume it uses
// up a read of a paste whose reads are limited; such a paste is not read without.
func (c *Client) ReadPaste(ctx context.Context, id mayfly.ID, password string, consume bool) (io.ReadCloser, error) {
	what := call{method: http.MethodGet, path: "/raw/" + id.Short(), header: withPassword(password)}
	if consume {
		what.method = http.MethodPost
	}
	what.header["Accept"] = []string{"application/octet-stream, application/problem+json;q=0.9, */*;q=0.5"}
	res, err := c.send(ctx, what)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// DeletePaste deletes a paste: an own one, or any with its delete token.
func (c *Client) DeletePaste(ctx context.Context, id mayfly.ID, token string) error {
	header := http.Header{}
	if token != "" {
		header.Set("Mayfly-Delete-Token", token)
	}
	return c.ask(ctx, call{method: http.MethodDelete, path: "/v1/pastes/" + id.String(), header: header}, nil)
}

// Pastes returns the caller's own live pastes, newest first.
func (c *Client) Pastes(ctx context.Context) iter.Seq2[wire.Paste, error] {
	return pages(nil, func(q url.Values) ([]wire.Paste, string, error) {
		var page wire.Pastes
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/me/pastes", query: q}, &page)
		return page.Pastes, page.Next, err
	})
}

func withPassword(password string) http.Header {
	header := http.Header{}
	if password != "" {
		header.Set("Mayfly-Password", password)
	}
	return header
}
