package upload_test

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

func TestADescriptionOfARenditionIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []mayfly.Medium{{}, {Type: "image/jpeg", Size: 1 << 40, SHA256: [32]byte{1, 31: 2}, Width: 320, Height: 1 << 31}} {
		written := upload.AppendRendition(nil, want)
		if got, err := upload.ReadRendition(written); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		for n := range written {
			if _, err := upload.ReadRendition(written[:n]); !errors.Is(err, mayfly.Corrupt) {
				t.Errorf("the first %d bytes: %v", n, err)
			}
		}
		if _, err := upload.ReadRendition(append(written, 0)); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

func TestEveryCopyOfARenditionIsDescribedOnItsOwn(t *testing.T) {
	seen := map[store.Key]bool{}
	id := mayfly.ID{1}
	for g := mayfly.Born; g < 300; g++ {
		for n := mayfly.MaxMedia; n < 3*mayfly.MaxMedia; n++ {
			key := upload.RenditionKey(id, g, n)
			if seen[key] || key.Partition != string(id[:]) {
				t.Fatalf("generation %d, object %d: %+v", g, n, key)
			}
			seen[key] = true
		}
	}
}
