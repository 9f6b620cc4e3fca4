package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func blobsCases() []testCase {
	return []testCase{
		{"objects of every size are read back with size and hash", sizesReadBack},
		{"a stream of unknown length in uneven reads is stored completely", unevenReads},
		{"ranges are read", rangesRead},
		{"a range after the end is invalid", rangeAfterEnd},
		{"an absent object is not found", blobNotFound},
		{"a put replaces the whole object", replaceWhole},
		{"racing puts and reads of a key never mix objects", replaceRace},
		{"a put whose reader fails leaves the old object or nothing", failingReader},
		{"a put whose reader fails at once leaves nothing", failingAtOnce},
		{"a put with an ended context leaves the old object or the complete new one", putWithEndedContext},
		{"a reader that is open when the object is deleted can finish", readerOutlivesDelete},
		{"a reader that is open when the object is replaced reads one object", readerOutlivesReplace},
		{"a delete removes the object and is idempotent", deleteBlob},
		{"a delete of a thousand keys removes those that exist", deleteThousand},
		{"a deleted key can be put again", putAfterDelete},
		{"a list is in byte order, within its bounds and limit", listBounds},
		{"a list shows objects that were put and none that were deleted", listFresh},
		{"a copy to another key of the tier is complete and independent", copySameTier},
		{"a copy to the other tier and back is complete", copyOtherTier},
		{"a copy of an absent object is not found", copyNothing},
		{"a copy over an object replaces it", copyOver},
		{"an invalid key is refused and writes nothing", badKeys},
		{"a presigned URL reads and writes, or is unsupported", presigned},
		{"sixteen writers of small objects lose none", writersTogether},
	}
}

func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(rand.Uint32()), byte(rand.Uint32())})
	_, _ = r.Read(b)
	return b
}

func (c *trial) putBlob(key mayfly.BlobKey, data []byte) store.Object {
	c.Helper()
	o, err := c.set.Hot.Put(c.ctx, key, struct{ io.Reader }{bytes.NewReader(data)}) // only a stream
	c.must(err)
	if want := objectOf(key, data); o != want {
		c.Fatalf("put returns %+v, want %+v", o, want)
	}
	return o
}

func objectOf(key mayfly.BlobKey, data []byte) store.Object {
	return store.Object{Key: key, Size: int64(len(data)), SHA256: sha256.Sum256(data)}
}

func readBlob(ctx context.Context, b store.Blobs, key mayfly.BlobKey, span store.Span) ([]byte, store.Object, error) {
	r, o, err := b.Open(ctx, key, span)
	if err != nil {
		return nil, o, err
	}
	data, err := io.ReadAll(r)
	return data, o, errors.Join(err, r.Close())
}

func (c *trial) wantBlob(b store.Blobs, key mayfly.BlobKey, want []byte) {
	c.Helper()
	data, o, err := readBlob(c.ctx, b, key, store.Span{})
	c.must(err)
	if !bytes.Equal(data, want) || o != objectOf(key, want) {
		c.Errorf("%s holds %d bytes, described as %+v; want %d bytes", key, len(data), o, len(want))
	}
	o, err = b.Stat(c.ctx, key)
	c.must(err)
	if o != objectOf(key, want) {
		c.Errorf("stat returns %+v, want %+v", o, objectOf(key, want))
	}
}

func (c *trial) wantNoBlob(b store.Blobs, keys ...mayfly.BlobKey) {
	c.Helper()
	for _, key := range keys {
		_, err := b.Stat(c.ctx, key)
		c.wantKind(mayfly.NotFound, err)
		r, _, err := b.Open(c.ctx, key, store.Span{})
		c.wantKind(mayfly.NotFound, err)
		if err == nil {
			_ = r.Close()
		}
	}
}

func sizesReadBack(c *trial) {
	for _, n := range []int{0, 1, 7, 4096, 8 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 256 << 10, 1<<20 + 1, 3 << 20} {
		key, data := freshBlob(), content(n)
		c.putBlob(key, data)
		c.wantBlob(c.set.Hot, key, data)
	}
}

// unevenReader reads in pieces of different sizes, some of them empty.
type unevenReader struct {
	r io.Reader
	n int
}

func (d *unevenReader) Read(p []byte) (int, error) {
	d.n++
	return d.r.Read(p[:min(len(p), []int{0, 1, 13, 4099, 70_001}[d.n%5])])
}

func unevenReads(c *trial) {
	key, data := freshBlob(), content(300_001)
	o, err := c.set.Hot.Put(c.ctx, key, &unevenReader{r: bytes.NewReader(data)})
	c.must(err)
	if o != objectOf(key, data) {
		c.Errorf("put returns %+v", o)
	}
	c.wantBlob(c.set.Hot, key, data)
}

func rangesRead(c *trial) {
	for _, n := range []int{10, 10_000, 200_000} {
		key, data := freshBlob(), content(n)
		c.putBlob(key, data)
		size := int64(n)
		for _, at := range [][2]int64{
			{0, 0}, {0, 1}, {0, size}, {1, 0}, {size - 1, 0}, {size - 1, 1}, {size / 2, 3}, {size / 3, size}, {2, size - 4},
		} {
			s := store.Span{Offset: at[0], Length: at[1]}
			end := size
			if s.Length > 0 {
				end = min(size, s.Offset+s.Length)
			}
			got, o, err := readBlob(c.ctx, c.set.Hot, key, s)
			c.must(err)
			if !bytes.Equal(got, data[s.Offset:end]) {
				c.Errorf("span %+v of %d bytes: %d bytes, want %d", s, n, len(got), end-s.Offset)
			}
			if o != objectOf(key, data) {
				c.Errorf("span %+v describes %+v, want the whole object", s, o)
			}
		}
	}
}

func rangeAfterEnd(c *trial) {
	key := freshBlob()
	c.putBlob(key, content(10))
	for _, s := range []store.Span{{Offset: 11}, {Offset: 11, Length: 5}, {Offset: 1 << 40, Length: 1}} {
		_, _, err := readBlob(c.ctx, c.set.Hot, key, s)
		c.wantKind(mayfly.Invalid, err)
	}
}

func blobNotFound(c *trial) {
	c.wantNoBlob(c.set.Hot, freshBlob())
	c.wantNoBlob(c.set.Cold, freshBlob())
	key := freshBlob()
	c.putBlob(key, content(10))
	c.wantNoBlob(c.set.Cold, key) // the tiers are separate
	c.wantNoBlob(c.set.Hot, key[:len(key)-1], key+"1")
}

func replaceWhole(c *trial) {
	key := freshBlob()
	for _, n := range []int{1000, 200_000, 0, 8 << 10, 300_000, 5} {
		data := content(n)
		c.putBlob(key, data)
		c.wantBlob(c.set.Hot, key, data)
	}
}

func replaceRace(c *trial) {
	for _, n := range []int{500, 150_000} {
		key := freshBlob()
		versions := make([][]byte, 4)
		for i := range versions {
			versions[i] = content(n + i)
		}
		c.putBlob(key, versions[0])
		together(8, func(w int) {
			for i := range 4 {
				if w < 4 {
					if _, err := c.set.Hot.Put(c.ctx, key, bytes.NewReader(versions[(w+i)%4])); err != nil {
						c.Errorf("put: %v", err)
					}
					continue
				}
				data, o, err := readBlob(c.ctx, c.set.Hot, key, store.Span{})
				if err != nil || len(data) < n || len(data) > n+3 || !bytes.Equal(data, versions[len(data)-n]) || o != objectOf(key, data) {
					c.Errorf("a read of %d bytes during puts: %v", len(data), err)
				}
			}
		})
	}
}

// failsAfter returns a reader that fails after n bytes.
func failsAfter(n int, err error) io.Reader {
	return io.MultiReader(io.LimitReader(rand.NewChaCha8([32]byte{}), int64(n)), &failing{err})
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func failingReader(c *trial) {
	torn := errors.New("the client disconnected")
	for _, n := range []int{1, 5000, 100_000, 300_000} {
		key, old := freshBlob(), content(n+10)
		_, err := c.set.Hot.Put(c.ctx, key, failsAfter(n, torn))
		if !errors.Is(err, torn) {
			c.Errorf("put returns %v, want the error of the reader", err)
		}
		c.wantNoBlob(c.set.Hot, key)
		c.putBlob(key, old)
		if _, err = c.set.Hot.Put(c.ctx, key, failsAfter(n, torn)); !errors.Is(err, torn) {
			c.Errorf("put returns %v, want the error of the reader", err)
		}
		if _, err := c.set.Hot.Stat(c.ctx, key); errors.Is(err, mayfly.NotFound) {
			continue // absent is allowed
		}
		c.wantBlob(c.set.Hot, key, old)
	}
}

func failingAtOnce(c *trial) {
	torn := errors.New("the client disconnected")
	key := freshBlob()
	if _, err := c.set.Hot.Put(c.ctx, key, &failing{torn}); !errors.Is(err, torn) {
		c.Errorf("put returns %v, want the error of the reader", err)
	}
	c.wantNoBlob(c.set.Hot, key)
	listed, err := c.set.Hot.List(c.ctx, key, key+"z", 10)
	c.must(err)
	if len(listed) != 0 {
		c.Errorf("a failed put is listed: %+v", listed)
	}
}

func putWithEndedContext(c *trial) {
	ctx, cancel := context.WithCancel(c.ctx)
	key, old, next := freshBlob(), content(100), content(300_000)
	c.putBlob(key, old)
	cancel()
	_, err := c.set.Hot.Put(ctx, key, bytes.NewReader(next))
	data, _, readErr := readBlob(c.ctx, c.set.Hot, key, store.Span{})
	switch {
	case err == nil && !bytes.Equal(data, next):
		c.Errorf("an acknowledged put cannot be read: %v", readErr)
	case errors.Is(readErr, mayfly.NotFound), bytes.Equal(data, old), bytes.Equal(data, next):
	default:
		c.Errorf("a part of the object was stored: %d bytes, %v", len(data), readErr)
	}
}

func presigned(c *trial) {
	key, data := freshBlob(), content(1000)
	c.putBlob(key, data)
	url, err := c.set.Hot.PresignGet(c.ctx, key, time.Minute)
	if errors.Is(err, mayfly.Unsupported) {
		_, err = c.set.Hot.PresignPut(c.ctx, key, 1000, time.Minute)
		c.wantKind(mayfly.Unsupported, err)
		return
	}
	c.must(err)
	if got := c.http(http.MethodGet, url, nil); !bytes.Equal(got, data) {
		c.Errorf("the URL returns %d bytes, want %d", len(got), len(data))
	}
	key, data = freshBlob(), content(2000)
	url, err = c.set.Hot.PresignPut(c.ctx, key, int64(len(data)), time.Minute)
	c.must(err)
	c.http(http.MethodPut, url, data)
	if got, _, err := readBlob(c.ctx, c.set.Hot, key, store.Span{}); err != nil || !bytes.Equal(got, data) {
		c.Errorf("after a put to the URL the object has %d bytes, %v", len(got), err)
	}
}

func (c *trial) http(method, url string, body []byte) []byte {
	c.Helper()
	req, err := http.NewRequestWithContext(c.ctx, method, url, bytes.NewReader(body))
	c.must(err)
	res, err := http.DefaultClient.Do(req)
	c.must(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	c.must(err)
	if res.StatusCode/100 != 2 {
		c.Fatalf("%s returns %s: %s", method, res.Status, data)
	}
	return data
}

func badKeys(c *trial) {
	for _, key := range []mayfly.BlobKey{
		"", "/", "..", "../escape", "/etc/passwd", "00/../../escape", "00/./x", "00//x", "00/x/", "00/x\x00y", "00\\x",
		mayfly.BlobKey("00/" + strings.Repeat("k", 2000)),
	} {
		_, err := c.set.Hot.Put(c.ctx, key, strings.NewReader("x"))
		if !errors.Is(err, mayfly.Invalid) {
			c.Errorf("put to %.40q returns %v, want kind invalid", key, err)
		}
	}
	good := freshBlob()
	c.putBlob(good, content(10))
	_, err := c.set.Hot.CopyTo(c.ctx, c.set.Hot, good, "../escape")
	c.wantKind(mayfly.Invalid, err)
}
