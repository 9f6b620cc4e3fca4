package mayfly_test

import (
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestEveryRenditionHasANumberOfItsOwnThatItsItemOwns(t *testing.T) {
	seen := map[int]bool{}
	for m := range mayfly.MaxMedia {
		seen[m] = true
	}
	for m := range mayfly.MaxMedia {
		for _, longest := range []int{mayfly.SmallRendition, mayfly.LargeRendition} {
			n, ok := mayfly.RenditionOf(m, longest)
			if !ok || seen[n] {
				t.Fatalf("medium %d of %d pixels: object %d, %t", m, longest, n, ok)
			}
			seen[n] = true
			for media := range uint8(mayfly.MaxMedia + 1) {
				if (mayfly.Item{Media: media}).Owns(n) != (m < int(media)) {
					t.Errorf("an item of %d media and object %d, of medium %d", media, n, m)
				}
			}
		}
	}
	for _, bad := range [][2]int{{-1, 320}, {mayfly.MaxMedia, 320}, {0, 0}, {0, 319}, {0, 2160}} {
		if _, ok := mayfly.RenditionOf(bad[0], bad[1]); ok {
			t.Errorf("%v", bad)
		}
	}
	if item := (mayfly.Item{Media: 3}); !item.Owns(2) || item.Owns(3) || item.Owns(-1) || item.Owns(30) {
		t.Error("media of an item")
	}
}

func TestOnlyImagesHaveRenditions(t *testing.T) {
	body := mayfly.Body{Media: []mayfly.Medium{{Type: "image/png"}, {Type: "video/mp4"}, {Type: "image/gif"}, {Type: "text/plain"}}}
	if got := body.Renditions(); !slices.Equal(got, []int{10, 11, 14, 15}) {
		t.Error(got)
	}
	if got := (mayfly.Body{Media: body.Media[1:2]}).Renditions(); got != nil {
		t.Error(got)
	}
	if got := (mayfly.Body{Media: make([]mayfly.Medium, 11)}).Renditions(); got != nil {
		t.Error(got)
	}
}
