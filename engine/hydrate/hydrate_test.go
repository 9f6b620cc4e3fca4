package hydrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestMediaAreReadableWithEveryEarlierRowAtEveryStep(t *testing.T) {
	h := open(t)
	seen := []mayfly.Item{h.row()} // a caller may have read any of them before
	tried := 0
	for _, moment := range []struct {
		name string
		step func() mayfly.Item
		from hydrate.Tier
	}{
		{"claimed", h.claim, hydrate.Hot},
		{"both named", h.name, hydrate.Hot},
		{"hot erased", h.eraseHot, hydrate.Cold},
		{"cold", h.finish, hydrate.Cold},
	} {
		seen = append(seen, moment.step())
		for _, item := range seen {
			tried++
			h.want(item, moment.from)
		}
	}
	if tried != 2+3+4+5 {
		t.Errorf("%d reads", tried)
	}
}

func TestARowThatChangesWhileItsMediumIsOpenedIsReadAgain(t *testing.T) {
	for stop := range 4 { // number of archive steps between reading the row and opening the object
		h := open(t)
		item := h.claim()
		beforeFirstOpen(&h.Hooks.Hot, func() {
			for _, step := range []func() mayfly.Item{h.name, h.eraseHot, h.finish}[:stop] {
				step()
			}
		})
		from := hydrate.Hot
		if stop >= 2 {
			from = hydrate.Cold
		}
		h.want(item, from)
	}
}

func TestAMediumThatIsRestoredWhileItIsOpenedIsFound(t *testing.T) {
	h := open(t)
	item := h.archived()
	beforeFirstOpen(&h.Hooks.Cold, func() {
		row := h.row()
		for n := range 2 {
			_, err := h.Real.Cold.CopyTo(context.Background(), h.Real.Hot, row.MediaKey(row.Keys.Cold, n), row.MediaKey(row.Generation+1, n))
			h.Must(err)
		}
		h.Must(h.Real.Cold.Delete(context.Background(), row.MediaKey(row.Keys.Cold, 0), row.MediaKey(row.Keys.Cold, 1)))
		h.move(mayfly.Change{To: mayfly.Active, ServesUntil: h.Now + 1, Keys: &mayfly.Keys{Hot: row.Generation + 1}})
	})
	h.want(item, hydrate.Hot)
}

func TestAnItemThatIsDeletedWhileItIsOpenedIsNotFound(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := open(t)
		item := h.row()
		beforeFirstOpen(&h.Hooks.Hot, func() {
			h.move(mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
			h.eraseHot()
			if removed {
				h.Must(h.Real.Ledger.Remove(context.Background(), h.id))
			}
		})
		if _, _, err := h.read(item, 0, store.Span{}); !errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
			t.Errorf("row removed %t: %v", removed, err)
		}
		if removed {
			continue
		}
		if _, _, err := h.read(h.row(), 0, store.Span{}); !errors.Is(err, mayfly.NotFound) {
			t.Errorf("with the deleted row: %v", err)
		}
	}
}

func TestAnOpenMediumIsReadToItsEndAfterADelete(t *testing.T) {
	h := open(t)
	reader, err := hydrate.New(h.Set, hydrate.Options{})
	h.Must(err)
	m, err := reader.Open(context.Background(), h.row(), h.body, 1, store.Span{})
	h.Must(err)
	head := make([]byte, 100)
	_, err = io.ReadFull(m, head)
	h.Must(err)
	h.move(mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	h.eraseHot()
	rest, err := io.ReadAll(m)
	h.Must(errors.Join(err, m.Close()))
	if !bytes.Equal(append(head, rest...), content(1)) || m.Size != int64(len(content(1))) {
		t.Error("the stream was cut (ST13)")
	}
}

// damages returns ways to damage stored bytes.
func damages() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"truncated":      func(b []byte) []byte { return b[:len(b)-1] },
		"too long":       func(b []byte) []byte { return append(b, 0) },
		"empty":          func([]byte) []byte { return nil },
		"last bit":       func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"first bit":      func(b []byte) []byte { b[0] ^= 1; return b },
		"other bytes":    func(b []byte) []byte { return bytes.Repeat([]byte{7}, len(b)) },
		"halves swapped": func(b []byte) []byte { return append(b[len(b)/2:len(b):len(b)], b[:len(b)/2]...) },
	}
}

func TestDamagedBytesNeverEndWithoutAnError(t *testing.T) {
	for name, damage := range damages() {
		for _, tier := range []hydrate.Tier{hydrate.Hot, hydrate.Cold} {
			t.Run(fmt.Sprintf("%s, %s", name, tier), func(t *testing.T) {
				h := open(t)
				item, blobs, g := h.row(), h.Real.Hot, mayfly.Born
				if tier == hydrate.Cold {
					item = h.archived()
					blobs, g = h.Real.Cold, item.Keys.Cold
				}
				_, err := blobs.Put(context.Background(), item.MediaKey(g, 0), bytes.NewReader(damage(content(0))))
				h.Must(err)
				size := int64(len(content(0)))
				for _, span := range []store.Span{{}, {Length: size}, {Length: size + 5}} {
					read, _, err := h.read(item, 0, span)
					if !errors.Is(err, mayfly.Corrupt) {
						t.Errorf("%v: %v", span, err)
					}
					if int64(len(read)) >= size {
						t.Errorf("%v: all %d bytes were returned: a client would take them for complete", span, len(read))
					}
				}
				read, _, err := h.read(item, 1, store.Span{})
				if err != nil || !bytes.Equal(read, content(1)) {
					t.Errorf("the other medium: %v", err)
				}
			})
		}
	}
}

// cut is a tier whose readers end too early, without an error.
type cut struct{ store.Blobs }

func (c cut) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	r, object, err := c.Blobs.Open(ctx, key, span)
	if err != nil {
		return nil, object, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, object.Size-1), r}, object, nil
}

func TestAStreamThatEndsTooEarlyIsCorrupt(t *testing.T) {
	h := open(t)
	h.Set.Hot = cut{h.Real.Hot}
	if _, _, err := h.read(h.row(), 0, store.Span{}); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
}

func TestADamagedHotCopyIsReplacedByTheColdOne(t *testing.T) {
	h := open(t)
	item := h.named()
	for n := range 2 {
		_, err := h.Real.Hot.Put(context.Background(), item.MediaKey(mayfly.Born, n), bytes.NewReader(content(n)[1:]))
		h.Must(err)
	}
	h.want(item, hydrate.Cold)
}

func TestASpanReturnsItsBytes(t *testing.T) {
	h := open(t)
	hot := h.row()
	whole := content(0)
	size := int64(len(whole))
	spans := []store.Span{{Offset: 0, Length: 1}, {Offset: 1}, {Offset: 99, Length: 4096}, {Offset: size - 1}, {Offset: size - 1, Length: 50}, {Length: size}}
	check := func(item mayfly.Item, from hydrate.Tier) {
		t.Helper()
		for _, span := range spans {
			want := whole[span.Offset:]
			if span.Length > 0 {
				want = want[:min(span.Length, int64(len(want)))]
			}
			if read, tier, err := h.read(item, 0, span); err != nil || tier != from || !bytes.Equal(read, want) {
				t.Errorf("%+v from %s: %d bytes, want %d; %v", span, tier, len(read), len(want), err)
			}
		}
		if _, _, err := h.read(item, 0, store.Span{Offset: size + 1}); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("after the end: %v", err)
		}
	}
	check(hot, hydrate.Hot)
	h.claim()
	h.name()
	h.eraseHot()
	check(hot, hydrate.Cold) // with the earlier row
	check(h.finish(), hydrate.Cold)
}

func TestAMediumInNeitherTierIsCorrupt(t *testing.T) {
	h := open(t)
	h.eraseHot()
	if _, _, err := h.read(h.row(), 0, store.Span{}); !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("hot only: %v", err)
	}
	h = open(t)
	item := h.named()
	h.eraseHot()
	h.Must(h.Real.Cold.Delete(context.Background(), item.MediaKey(item.Keys.Cold, 0)))
	if _, _, err := h.read(item, 0, store.Span{}); !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("in both: %v", err)
	}
	if _, _, err := h.read(item, 1, store.Span{}); err != nil {
		t.Errorf("the other medium: %v", err)
	}
	item.Keys = mayfly.Keys{}
	if _, _, err := h.read(item, 0, store.Span{}); !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("a row that names no copy: %v", err)
	}
}

func TestAMissingMediumIsNotFound(t *testing.T) {
	h := open(t)
	for _, n := range []int{-1, 2, 1000} {
		if _, _, err := h.read(h.row(), n, store.Span{}); !errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
			t.Errorf("medium %d: %v", n, err)
		}
	}
}

func TestAnUnavailableTierIsNotCorrupt(t *testing.T) {
	for _, tier := range []hydrate.Tier{hydrate.Hot, hydrate.Cold} {
		h := open(t)
		item := h.named()
		away := func(storetest.BlobCall) storetest.BlobFault { return storetest.Before }
		if tier == hydrate.Hot {
			h.Set.Hot = storetest.FaultyBlobs(h.Real.Hot, away)
		} else {
			h.eraseHot()
			h.Set.Cold = storetest.FaultyBlobs(h.Real.Cold, away)
		}
		if _, _, err := h.read(item, 0, store.Span{}); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", tier, err)
		}
	}
}
