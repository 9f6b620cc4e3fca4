package mayfly_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestEveryRenditionHasAnObjectNumberOfItsOwn(t *testing.T) {
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

func TestARawObjectIsNotAMediumOfItsUpload(t *testing.T) {
	upload, err := mayfly.ParseID("018bcfe5-6800-8818-ae9a-1c4f36b5e44d")
	if err != nil {
		t.Fatal(err)
	}
	born, raw := string(mayfly.UploadKey(upload, 3)), string(mayfly.RawKey(upload, 3))
	if folder := strings.TrimSuffix(born, "0-3"); raw != folder+"raw-3" {
		t.Errorf("%s beside %s", raw, born)
	}
	item := mayfly.Item{ID: upload, Upload: upload, Media: mayfly.MaxMedia}
	for n := range 256 {
		for _, g := range []mayfly.Generation{mayfly.Born, 2, 300} {
			if strings.Contains(string(item.MediaKey(g, n)), "raw") {
				t.Errorf("a row could name %s", item.MediaKey(g, n))
			}
		}
	}
}
