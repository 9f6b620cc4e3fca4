package hydrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
)

// signing is a tier whose presigned URLs contain their arguments; with fails,
// PresignGet returns that error.
type signing struct {
	store.Blobs
	name  string
	fails error
}

func (s signing) PresignGet(_ context.Context, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	if s.fails != nil {
		return "", s.fails
	}
	return fmt.Sprintf("%s %s %s", s.name, key, lasts), nil
}

func (h *env) presign(wanted ...hydrate.Wanted) ([]string, error) {
	h.Helper()
	reader, err := hydrate.New(h.Set, hydrate.Options{})
	h.Must(err)
	for i := range wanted {
		wanted[i].Body, wanted[i].Lasts = h.body, time.Minute
	}
	return reader.Presign(context.Background(), wanted)
}

func TestURLsAreOfTheCopyThatTheRowNames(t *testing.T) {
	h := open(t)
	h.Set.Hot, h.Set.Cold = signing{Blobs: h.Set.Hot, name: "hot"}, signing{Blobs: h.Set.Cold, name: "cold"}
	check := func(item mayfly.Item, hot, cold bool) {
		t.Helper()
		var want []string
		for n := range 2 {
			for _, at := range []struct {
				there bool
				tier  string
				g     mayfly.Generation
			}{{hot, "hot", item.Keys.Hot}, {cold, "cold", item.Keys.Cold}} {
				url := ""
				if at.there {
					url = fmt.Sprintf("%s %s 1m0s", at.tier, item.MediaKey(at.g, n))
				}
				want = append(want, url)
			}
		}
		got, err := h.presign(hydrate.Wanted{Item: item, Tier: hydrate.Hot}, hydrate.Wanted{Item: item, Tier: hydrate.Cold},
			hydrate.Wanted{Item: item, Medium: 1, Tier: hydrate.Hot}, hydrate.Wanted{Item: item, Medium: 1, Tier: hydrate.Cold})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s %+v: %q, %v; want %q", item.State, item.Keys, got, err, want)
		}
	}
	check(h.row(), true, false)
	check(h.claim(), true, false)
	check(h.name(), true, true)
	h.eraseHot()
	check(h.finish(), false, true)
	item := h.row()
	for _, bad := range []hydrate.Wanted{{Item: item, Medium: 2}, {Item: item, Medium: -1}, {Item: item, Longest: 320}, {Item: item, Longest: 17}} {
		bad.Tier = hydrate.Cold
		if got, err := h.presign(bad); err != nil || got[0] != "" { // no medium, no picture, no size
			t.Errorf("%+v: %q, %v", bad, got, err)
		}
	}
	item.State = mayfly.Deleted
	if got, err := h.presign(hydrate.Wanted{Item: item, Tier: hydrate.Cold}); err != nil || got[0] != "" {
		t.Errorf("deleted: %q, %v", got, err)
	}
}

func TestATierWithoutURLsDoesNotAffectTheOther(t *testing.T) {
	h := open(t)
	h.Set.Cold = signing{Blobs: h.Set.Cold, name: "cold"}
	item := h.named()
	got, err := h.presign(hydrate.Wanted{Item: item, Tier: hydrate.Hot}, hydrate.Wanted{Item: item, Tier: hydrate.Cold})
	if err != nil || got[0] != "" || got[1] == "" {
		t.Errorf("%q, %v", got, err)
	}
	h.Set.Hot = signing{Blobs: h.Set.Hot, fails: mayfly.Errorf(mayfly.Unavailable, "no credentials")}
	if got, err := h.presign(hydrate.Wanted{Item: item, Tier: hydrate.Cold}, hydrate.Wanted{Item: item, Tier: hydrate.Hot}); !errors.Is(err, mayfly.Unavailable) || got[0] == "" || got[1] != "" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestARenditionHasAURLWhenItIsMade(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(400, 300), photo(100, 80))
	g.Set.Hot = signing{Blobs: g.Set.Hot, name: "hot"}
	item := g.row()
	wanted := func() []hydrate.Wanted {
		return []hydrate.Wanted{
			{Item: item, Longest: 320, Tier: hydrate.Hot},
			{Item: item, Longest: 1080, Tier: hydrate.Hot},            // not larger: the medium itself
			{Item: item, Medium: 1, Longest: 320, Tier: hydrate.Hot},  // the same
			{Item: item, Medium: 1, Longest: 1080, Tier: hydrate.Hot}, // the same
		}
	}
	url := func(n int) string { return fmt.Sprintf("hot %s 1m0s", item.MediaKey(item.Keys.Hot, n)) }
	for _, made := range []bool{false, true} {
		small := ""
		if made {
			m, err := g.h.Rendition(t.Context(), item, g.body, 0, 320, g.Now)
			g.Must(err)
			g.Must(m.Close())
			n, _ := mayfly.RenditionOf(0, 320)
			small = url(n)
		}
		got, err := g.presign(wanted()...)
		if want := []string{small, url(0), url(1), url(1)}; err != nil || !slices.Equal(got, want) {
			t.Errorf("made %t: %q, %v; want %q", made, got, err, want)
		}
	}
}
