package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// KVEntry is an entry of the key-value store.
type KVEntry struct {
	Key       string // only of KVScan
	Value     []byte // only of KVGet
	Version   string
	ExpiresAt mayfly.Instant // 0: never
	Left      string         // until then by the server's clock, such as 59s or 1500ms; only of KVGet, KVStat and KVSet
}

// KVOptions say how an entry is written. The zero value writes it in any case, with the
// namespace's default time to live.
type KVOptions struct {
	TTL       time.Duration
	ExpiresAt mayfly.Instant // instead of TTL
	Keep      bool           // an entry that is there keeps its expiry
	Never     bool           // it does not expire

	IfAbsent  bool
	IfPresent bool
	IfVersion string
}

func (o KVOptions) header() http.Header {
	h := http.Header{}
	switch {
	case o.TTL != 0:
		h.Set("Mayfly-TTL", strconv.FormatInt(o.TTL.Milliseconds(), 10)+"ms")
	case o.Keep:
		h.Set("Mayfly-TTL", "keep")
	case o.Never:
		h.Set("Mayfly-TTL", "never")
	}
	if o.ExpiresAt != 0 {
		h.Set("Mayfly-Expires-At", o.ExpiresAt.String())
	}
	switch {
	case o.IfAbsent:
		h.Set("If-None-Match", "*")
	case o.IfPresent:
		h.Set("If-Match", "*")
	case o.IfVersion != "":
		h.Set("If-Match", `"`+o.IfVersion+`"`)
	}
	return h
}

func namespacePath(namespace string) string { return "/v1/kv/" + url.PathEscape(namespace) }

// entry returns the call for an entry. A key that a path may not carry as it is goes in
// base64url. A call with a condition is sent once: had the first attempt succeeded, the
// next one would fail.
func entry(method, namespace, key string, header http.Header) call {
	what := call{method: method, path: namespacePath(namespace) + "/keys", header: header, once: header.Get("If-Match") != "" || header.Get("If-None-Match") != ""}
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_:"
	if key != "" && len(key) <= 1000 && strings.Trim(key, plain) == "" {
		what.path += "/" + key
	} else {
		what.query = url.Values{"key64": {base64.RawURLEncoding.EncodeToString([]byte(key))}}
	}
	return what
}

// entryIn reads the headers of an answer about an entry.
func entryIn(h http.Header) (KVEntry, error) {
	e := KVEntry{Version: strings.Trim(h.Get("ETag"), `"`), Left: h.Get("Mayfly-TTL")}
	return e, e.ExpiresAt.UnmarshalText([]byte(h.Get("Mayfly-Expires-At")))
}

// KVGet reads an entry of a namespace. The client has a token of the owner, or a key of
// the namespace as its Token. It returns an error of kind mayfly.NotFound if there is no
// entry.
func (c *Client) KVGet(ctx context.Context, namespace, key string) (KVEntry, error) {
	header := http.Header{"Accept": {"application/octet-stream, application/problem+json;q=0.9"}}
	return c.readEntry(ctx, entry(http.MethodGet, namespace, key, header))
}

// KVStat is KVGet without the value.
func (c *Client) KVStat(ctx context.Context, namespace, key string) (KVEntry, error) {
	return c.readEntry(ctx, entry(http.MethodHead, namespace, key, http.Header{}))
}

func (c *Client) readEntry(ctx context.Context, what call) (KVEntry, error) {
	res, err := c.send(ctx, what)
	if err != nil {
		return KVEntry{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	e, err := entryIn(res.Header)
	if err == nil {
		e.Value, err = io.ReadAll(io.LimitReader(res.Body, longestAnswer))
	}
	return e, err
}

// KVSet writes an entry.
func (c *Client) KVSet(ctx context.Context, namespace, key string, value []byte, o KVOptions) (KVEntry, error) {
	what := entry(http.MethodPut, namespace, key, o.header())
	what.big = len(value) > 1<<20
	what.body = func() (body, error) {
		return body{io.NopCloser(bytes.NewReader(value)), "application/octet-stream", int64(len(value))}, nil
	}
	return c.readEntry(ctx, what)
}

// KVDelete deletes an entry. Of the options it uses those about the version.
func (c *Client) KVDelete(ctx context.Context, namespace, key string, o KVOptions) error {
	o.TTL, o.ExpiresAt, o.Keep, o.Never = 0, 0, false, false
	return c.ask(ctx, entry(http.MethodDelete, namespace, key, o.header()), nil)
}

// KVTouch changes the expiry of an entry.
func (c *Client) KVTouch(ctx context.Context, namespace, key string, o KVOptions) (KVEntry, error) {
	var out wire.KVEntry
	err := c.ask(ctx, entry(http.MethodPatch, namespace, key, o.header()), &out)
	return entryOf(out), err
}

func entryOf(e wire.KVEntry) KVEntry {
	out := KVEntry{Version: e.Version}
	if e.ExpiresAt != nil {
		out.ExpiresAt = *e.ExpiresAt
	}
	return out
}

// KVIncrement adds to the number in an entry and returns the sum. The expiry of the
// options is that of a new entry. It is not tried again.
func (c *Client) KVIncrement(ctx context.Context, namespace, key string, by int64, o KVOptions) (int64, error) {
	var out wire.KVEntry
	if err := c.askWith(ctx, entry(http.MethodPatch, namespace, key, o.header()), wire.KVPatch{Increment: &by}, &out); err != nil {
		return 0, err
	}
	if out.Value == nil {
		return 0, mayfly.Errorf(mayfly.Unknown, "the answer has no number").WithHint("read the entry to see whether it has changed")
	}
	return strconv.ParseInt(*out.Value, 10, 64)
}

// KVBatch reads or writes several entries. It is not tried again.
func (c *Client) KVBatch(ctx context.Context, namespace string, b wire.KVBatch) ([]wire.KVResult, error) {
	var out wire.KVResults
	err := c.askWith(ctx, call{method: http.MethodPost, path: namespacePath(namespace) + "/batch"}, b, &out)
	return out.Results, err
}

// KVScan returns the entries whose keys begin with prefix, without their values.
func (c *Client) KVScan(ctx context.Context, namespace, prefix string) iter.Seq2[KVEntry, error] {
	query := url.Values{"prefix64": {base64.RawURLEncoding.EncodeToString([]byte(prefix))}, "limit": {"1000"}}
	return pages(query, func(q url.Values) ([]KVEntry, string, error) {
		var page wire.KVKeys
		if err := c.ask(ctx, call{method: http.MethodGet, path: namespacePath(namespace) + "/scan", query: q}, &page); err != nil {
			return nil, "", err
		}
		all := make([]KVEntry, len(page.Keys))
		for i, k := range page.Keys {
			all[i] = entryOf(wire.KVEntry{Version: k.Version, ExpiresAt: k.ExpiresAt})
			if k.Key != nil {
				all[i].Key = *k.Key
			} else if k.Key64 != nil {
				b, err := base64.RawURLEncoding.DecodeString(*k.Key64)
				if err != nil {
					return nil, "", mayfly.Wrap(mayfly.Unknown, err, "is it a mayfly server?")
				}
				all[i].Key = string(b)
			}
		}
		return all, page.Next, nil
	})
}

const ownNamespaces = "/v1/me/kv"

// KVNamespaces returns the caller's own namespaces.
func (c *Client) KVNamespaces(ctx context.Context) ([]wire.KVNamespace, error) {
	var out wire.KVNamespaces
	err := c.ask(ctx, call{method: http.MethodGet, path: ownNamespaces}, &out)
	return out.Namespaces, err
}

// KVNamespace describes a namespace of the caller.
func (c *Client) KVNamespace(ctx context.Context, name string) (wire.KVNamespace, error) {
	var out wire.KVNamespace
	err := c.ask(ctx, call{method: http.MethodGet, path: ownNamespaces + "/" + url.PathEscape(name)}, &out)
	return out, err
}

// CreateKVNamespace makes a namespace. The answer has its first key, which is shown once.
func (c *Client) CreateKVNamespace(ctx context.Context, n wire.NewKVNamespace) (wire.KVNamespace, error) {
	var out wire.KVNamespace
	err := c.askWith(ctx, call{method: http.MethodPost, path: ownNamespaces}, n, &out)
	return out, err
}

// DropKVNamespace removes a namespace of the caller with everything in it.
func (c *Client) DropKVNamespace(ctx context.Context, name string) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: ownNamespaces + "/" + url.PathEscape(name)}, nil)
}

// AddKVCredential makes another key of a namespace of the caller, which is shown once.
func (c *Client) AddKVCredential(ctx context.Context, namespace string) (wire.KVCredential, error) {
	var out wire.KVCredential
	err := c.ask(ctx, call{method: http.MethodPost, path: ownNamespaces + "/" + url.PathEscape(namespace) + "/credentials"}, &out)
	return out, err
}

// RemoveKVCredential removes a key of a namespace of the caller by its id.
func (c *Client) RemoveKVCredential(ctx context.Context, namespace, id string) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: ownNamespaces + "/" + url.PathEscape(namespace) + "/credentials/" + url.PathEscape(id)}, nil)
}
