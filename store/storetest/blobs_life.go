package storetest

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func readerOutlivesDelete(c *trial) {
	for _, n := range []int{100, 8 << 10, 300_000} {
		key, data := freshBlob(), content(n)
		c.putBlob(key, data)
		r, _, err := c.set.Hot.Open(c.ctx, key, store.Span{})
		c.must(err)
		head := make([]byte, 10)
		_, err = io.ReadFull(r, head)
		c.must(err)
		c.must(c.set.Hot.Delete(c.ctx, key))
		c.wantNoBlob(c.set.Hot, key) // a new reader cannot open it
		tail, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(append(head, tail...), data) {
			c.Errorf("a reader of %d bytes could not finish: %d bytes, %v", n, 10+len(tail), err)
		}
		c.must(r.Close())
	}
}

func readerOutlivesReplace(c *trial) {
	for _, n := range []int{100, 300_000} {
		key, old := freshBlob(), content(n)
		c.putBlob(key, old)
		r, _, err := c.set.Hot.Open(c.ctx, key, store.Span{})
		c.must(err)
		head := make([]byte, 10)
		_, err = io.ReadFull(r, head)
		c.must(err)
		c.putBlob(key, content(n))
		tail, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(append(head, tail...), old) {
			c.Errorf("a reader of %d bytes got a mix of both objects", n)
		}
		_ = r.Close()
	}
}

func deleteBlob(c *trial) {
	for _, n := range []int{0, 100, 150_000} {
		key, other := freshBlob(), freshBlob()
		c.putBlob(key, content(n))
		data := content(n)
		c.putBlob(other, data)
		for range 2 {
			c.must(c.set.Hot.Delete(c.ctx, key))
			c.wantNoBlob(c.set.Hot, key)
		}
		c.wantBlob(c.set.Hot, other, data)
	}
	c.must(c.set.Hot.Delete(c.ctx))
}

func deleteThousand(c *trial) {
	upload := freshID(day, freshUser())
	var keys, there []mayfly.BlobKey
	for n := range 1000 {
		keys = append(keys, mayfly.UploadKey(upload, n))
		if n%10 == 0 { // enough of them for the test
			there = append(there, keys[n])
		}
	}
	kept := mayfly.UploadKey(upload, 1000)
	together(4, func(w int) {
		for i := w; i < len(there); i += 4 {
			if _, err := c.set.Hot.Put(c.ctx, there[i], bytes.NewReader([]byte("small"))); err != nil {
				c.Errorf("put: %v", err)
			}
		}
	})
	c.putBlob(kept, []byte("kept"))
	for range 2 {
		c.must(c.set.Hot.Delete(c.ctx, keys...))
	}
	listed, err := c.set.Hot.List(c.ctx, keys[0], keys[0]+"z", 2000)
	c.must(err)
	if len(listed) != 0 {
		c.Errorf("%d of the deleted objects are listed", len(listed))
	}
	c.wantNoBlob(c.set.Hot, there[0], there[50], there[99])
	c.wantBlob(c.set.Hot, kept, []byte("kept"))
}

func putAfterDelete(c *trial) {
	key := freshBlob()
	for _, n := range []int{10, 200_000, 20} {
		data := content(n)
		c.putBlob(key, data)
		c.wantBlob(c.set.Hot, key, data)
		c.must(c.set.Hot.Delete(c.ctx, key))
	}
	c.wantNoBlob(c.set.Hot, key)
}

func (c *trial) wantList(from, to mayfly.BlobKey, limit int, want ...store.Listed) {
	c.Helper()
	got, err := c.set.Hot.List(c.ctx, from, to, limit)
	c.must(err)
	if !slices.Equal(got, want) {
		c.Errorf("list from %q to %q\n got %v\nwant %v", from, to, got, want)
	}
}

func listBounds(c *trial) {
	upload := freshID(day, freshUser())
	var all []store.Listed
	for n := range 12 { // 0-0, 0-1, 0-10, 0-11, 0-2 … in byte order; small and large ones mixed
		size := n
		if n%4 == 3 {
			size = 100_000 + n
		}
		key := mayfly.UploadKey(upload, n)
		c.putBlob(key, content(size))
		all = append(all, store.Listed{Key: key, Size: int64(size)})
	}
	slices.SortFunc(all, func(a, b store.Listed) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	first, end := all[0].Key, all[11].Key+"\x7f"
	c.wantList(first, end, 100, all...)
	c.wantList(all[3].Key, all[8].Key, 100, all[3:8]...)
	c.wantList(all[3].Key+"!", all[8].Key+"!", 100, all[4:9]...)
	c.wantList(all[3].Key, all[3].Key, 100)
	for _, limit := range []int{1, 5, 12} {
		c.wantList(first, end, limit, all[:limit]...)
	}
	c.wantList(all[5].Key, "", 3, all[5:8]...)
	var paged []store.Listed
	for from := first; len(paged) < 20; {
		page, err := c.set.Hot.List(c.ctx, from, end, 5)
		c.must(err)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		from = page[len(page)-1].Key + "!"
	}
	if !slices.Equal(paged, all) {
		c.Errorf("pages add up to %d keys, want %d", len(paged), len(all))
	}
}

func listFresh(c *trial) {
	key := freshBlob()
	c.wantList(key, key+"z", 10)
	c.putBlob(key, content(10))
	c.wantList(key, key+"z", 10, store.Listed{Key: key, Size: 10})
	c.putBlob(key, content(200_000))
	c.wantList(key, key+"z", 10, store.Listed{Key: key, Size: 200_000})
	c.must(c.set.Hot.Delete(c.ctx, key))
	c.wantList(key, key+"z", 10)
}

func (c *trial) copyBlob(from, to store.Blobs, key, as mayfly.BlobKey, want []byte) {
	c.Helper()
	o, err := from.CopyTo(c.ctx, to, key, as)
	c.must(err)
	if o != objectOf(as, want) {
		c.Errorf("copy returns %+v, want %+v", o, objectOf(as, want))
	}
	c.wantBlob(to, as, want)
}

func copySameTier(c *trial) {
	for _, n := range []int{0, 100, 200_000} {
		key, as, data := freshBlob(), freshBlob(), content(n)
		c.putBlob(key, data)
		c.copyBlob(c.set.Hot, c.set.Hot, key, as, data)
		c.must(c.set.Hot.Delete(c.ctx, key))
		c.wantBlob(c.set.Hot, as, data)
	}
}

func copyOtherTier(c *trial) {
	for _, n := range []int{0, 100, 3 << 20} {
		key, back, data := freshBlob(), freshBlob(), content(n)
		c.putBlob(key, data)
		c.copyBlob(c.set.Hot, c.set.Cold, key, key, data)
		c.must(c.set.Hot.Delete(c.ctx, key))
		c.wantNoBlob(c.set.Hot, key)
		c.wantBlob(c.set.Cold, key, data)
		c.copyBlob(c.set.Cold, c.set.Hot, key, back, data)
		c.must(c.set.Cold.Delete(c.ctx, key))
		c.wantNoBlob(c.set.Cold, key)
		c.wantBlob(c.set.Hot, back, data)
	}
}

func copyNothing(c *trial) {
	as := freshBlob()
	for _, to := range []store.Blobs{c.set.Hot, c.set.Cold} {
		_, err := c.set.Hot.CopyTo(c.ctx, to, freshBlob(), as)
		c.wantKind(mayfly.NotFound, err)
		c.wantNoBlob(to, as)
	}
}

func copyOver(c *trial) {
	key, as, data := freshBlob(), freshBlob(), content(200_000)
	c.putBlob(key, data)
	c.putBlob(as, content(100))
	c.copyBlob(c.set.Hot, c.set.Hot, key, as, data)
}

func writersTogether(c *trial) {
	const writers, each = 16, 12
	upload := freshID(day, freshUser())
	together(writers, func(w int) {
		for i := range each {
			n := w*each + i
			key, data := mayfly.UploadKey(upload, n), fmt.Appendf(nil, "object %d", n)
			o, err := c.set.Hot.Put(c.ctx, key, bytes.NewReader(data))
			if err != nil || o != objectOf(key, data) {
				c.Errorf("put %d: %+v, %v", n, o, err)
			}
			if got, _, err := readBlob(c.ctx, c.set.Hot, key, store.Span{}); err != nil || !bytes.Equal(got, data) {
				c.Errorf("read %d: %q, %v", n, got, err)
			}
		}
	})
	first := mayfly.UploadKey(upload, 0)
	listed, err := c.set.Hot.List(c.ctx, first, first[:len(first)-1]+"z", 1000)
	c.must(err)
	if len(listed) != writers*each {
		c.Errorf("%d of %d objects are listed", len(listed), writers*each)
	}
}
