package hydrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Wanted is an object for which a presigned URL is requested.
type Wanted struct {
	Item    mayfly.Item
	Body    mayfly.Body
	Medium  int
	Longest int  // longest side of a rendition; 0 is the medium itself
	Tier    Tier // the tier to read from
	Lasts   time.Duration
}

// Presign returns URLs by which clients read objects directly from the store. When a
// URL is used, this server checks neither permissions nor hashes (I14): the caller
// decides who gets a URL and how long it lasts. A URL is empty if the tier has no
// URLs, the row names no copy there, or the rendition is not made yet. With an error,
// the URLs that were made before it are returned too.
func (h *Hydrate) Presign(ctx context.Context, wanted []Wanted) ([]string, error) {
	p := presigning{wanted: wanted, urls: make([]string, len(wanted)), tiers: map[Tier]store.Blobs{Hot: h.hot, Cold: h.cold}}
	var renditions []int
	for i, w := range wanted {
		if w.generation() == 0 || w.Item.State == mayfly.Deleted || w.Medium < 0 || w.Medium >= len(w.Body.Media) {
			continue
		}
		medium := w.Body.Media[w.Medium]
		switch picture := media.HasPicture(medium.Type); {
		case w.Longest == 0, picture && isOwnRendition(medium, w.Longest):
			if err := p.sign(ctx, i, w.Medium); err != nil {
				return p.urls, err
			}
		case picture:
			renditions = append(renditions, i)
		}
	}
	if len(p.tiers) == 0 {
		return p.urls, nil // no tier has URLs
	}
	return p.urls, h.presignRenditions(ctx, p, renditions)
}

// presignRenditions signs URLs of renditions. It looks all of them up at once, because
// a URL of a rendition that does not exist would fail and would not make it.
func (h *Hydrate) presignRenditions(ctx context.Context, p presigning, at []int) error {
	var found, numbers []int
	var keys []store.Key
	for _, i := range at {
		w := p.wanted[i]
		if n, ok := mayfly.RenditionOf(w.Medium, w.Longest); ok {
			found, numbers, keys = append(found, i), append(numbers, n), append(keys, upload.RenditionKey(w.Item.ID, w.generation(), n))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	values, err := h.rows.Get(ctx, upload.Renditions, keys...)
	if err != nil {
		return fmt.Errorf("presign: read %d renditions: %w", len(keys), err)
	}
	for j, value := range values {
		if value == nil {
			continue
		}
		described, err := upload.ReadRendition(value)
		if err == nil && described.Size > 0 {
			err = p.sign(ctx, found[j], numbers[j])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// presigning is the state of one call of Presign.
type presigning struct {
	wanted []Wanted
	urls   []string
	tiers  map[Tier]store.Blobs // tiers with URLs
}

// sign makes the URL of wanted[i], which is object n of its item.
func (p presigning) sign(ctx context.Context, i, n int) error {
	w := p.wanted[i]
	tier, ok := p.tiers[w.Tier]
	if !ok {
		return nil
	}
	url, err := tier.PresignGet(ctx, w.Item.MediaKey(w.generation(), n), w.Lasts)
	if errors.Is(err, mayfly.Unsupported) {
		delete(p.tiers, w.Tier)
		return nil
	}
	if err != nil {
		return fmt.Errorf("presign object %d of %s: %w", n, w.Item.ID, err)
	}
	p.urls[i] = url
	return nil
}

func (w Wanted) generation() mayfly.Generation {
	if w.Tier == Cold {
		return w.Item.Keys.Cold
	}
	return w.Item.Keys.Hot
}
