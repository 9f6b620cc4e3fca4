package mayfly

import (
	"fmt"
	"strings"
)

// BlobKey names an object in hot or cold storage (L11). It is made of ids and
// numbers only; nothing that a user wrote reaches it.
type BlobKey string

// Prefixes is over how many key prefixes objects are spread, so that no prefix
// meets the limits of an object store alone.
const Prefixes = 20

func prefix(t Trace) string { return fmt.Sprintf("%02d", t%Prefixes) }

// UploadKey is the key of object n of an upload, written before the item that
// will own it exists.
func UploadKey(upload ID, n int) BlobKey {
	return BlobKey(fmt.Sprintf("%s/%s/0-%d", prefix(upload.Trace()), upload.Short(), n))
}

// RawKey is where medium n of an upload goes that is put by a presigned URL. What
// lies there is somebody else's word: no row names it and no route serves it.
// Publishing reads it, cleans it and writes it to UploadKey.
func RawKey(upload ID, n int) BlobKey {
	return BlobKey(fmt.Sprintf("%s/%s/raw-%d", prefix(upload.Trace()), upload.Short(), n))
}

// MaxMedia is how many media an item may have: objects from there on are
// renditions.
const MaxMedia = 10

// The longest sides of the two renditions of a medium (ST3).
const (
	SmallRendition = 320
	LargeRendition = 1080
)

// RenditionOf is the number of the object that is medium m with that longest
// side. Its key is computed like a medium's, so that renditions live, move and
// die with their item (ST3); ok is false for a size that is not made.
func RenditionOf(m, longest int) (n int, ok bool) {
	if m < 0 || m >= MaxMedia {
		return 0, false
	}
	switch longest {
	case SmallRendition:
		return MaxMedia + 2*m, true
	case LargeRendition:
		return MaxMedia + 2*m + 1, true
	default:
		return 0, false
	}
}

// Owns says whether object n can be one of the item's: a medium of it, or a
// rendition of one.
func (item Item) Owns(n int) bool {
	media := int(item.Media)
	return n >= 0 && (n < media || media <= MaxMedia && n >= MaxMedia && n < MaxMedia+2*media)
}

// Renditions are the numbers of the objects that renditions of the body's images
// would have, made or not. A body without images has none.
func (b Body) Renditions() []int {
	if len(b.Media) > MaxMedia {
		return nil
	}
	var numbers []int
	for m, medium := range b.Media {
		if strings.HasPrefix(medium.Type, "image/") {
			numbers = append(numbers, MaxMedia+2*m, MaxMedia+2*m+1)
		}
	}
	return numbers
}

// MediaKey is the key of the item's object n as generation g wrote it: the
// upload's key for the generation of birth, a key of the item's own for every
// later one. A key is written by one generation and never reused, so that a
// delete that wakes up late can only hit what is dead (I10).
func (item Item) MediaKey(g Generation, n int) BlobKey {
	if g == Born {
		return UploadKey(item.Upload, n)
	}
	return BlobKey(fmt.Sprintf("%s/%s/%d-%d", prefix(item.ID.Trace()), item.ID.Short(), g, n))
}
