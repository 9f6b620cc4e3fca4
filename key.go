package mayfly

import (
	"fmt"
	"strings"
)

// BlobKey is the key of an object in hot or cold storage (L11). It consists of ids
// and numbers only: no text of a user becomes part of it.
type BlobKey string

// Prefixes is the number of key prefixes over which objects are spread, because
// object stores limit the requests per prefix.
const Prefixes = 20

func prefix(t Trace) string { return fmt.Sprintf("%02d", t%Prefixes) }

// UploadKey returns the key of object n of an upload, which is written before the
// item that will own it exists.
func UploadKey(upload ID, n int) BlobKey {
	return BlobKey(fmt.Sprintf("%s/%s/0-%d", prefix(upload.Trace()), upload.Short(), n))
}

// RawKey returns the key to which a client puts medium n of an upload by a presigned
// URL. Those bytes are not checked: no row names them and no route serves them.
// Publishing reads and cleans them and writes them to UploadKey.
func RawKey(upload ID, n int) BlobKey {
	return BlobKey(fmt.Sprintf("%s/%s/raw-%d", prefix(upload.Trace()), upload.Short(), n))
}

// MaxMedia is the largest number of media of an item. Objects with higher numbers
// are renditions.
const MaxMedia = 10

// The longest sides in pixels of the two renditions of an image (ST3).
const (
	SmallRendition = 320
	LargeRendition = 1080
)

// RenditionOf returns the object number of the rendition of medium m with that
// longest side; ok is false for other sizes. Its key is computed like that of a
// medium, so that renditions are moved and erased with their item (ST3).
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

// Owns reports whether object n can belong to the item: a medium, or a rendition of
// one.
func (item Item) Owns(n int) bool {
	media := int(item.Media)
	return n >= 0 && (n < media || media <= MaxMedia && n >= MaxMedia && n < MaxMedia+2*media)
}

// Renditions returns the object numbers that the renditions of the body's images
// have, whether or not they were made.
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

// MediaKey returns the key under which generation g wrote object n of the item: the
// key of the upload for the generation of birth, and a key of its own for every
// later one. No key is used by two generations, so that a late delete by an old
// worker hits only objects that are dead already (I10).
func (item Item) MediaKey(g Generation, n int) BlobKey {
	if g == Born {
		return UploadKey(item.Upload, n)
	}
	return BlobKey(fmt.Sprintf("%s/%s/%d-%d", prefix(item.ID.Trace()), item.ID.Short(), g, n))
}
