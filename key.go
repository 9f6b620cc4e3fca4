package mayfly

import "fmt"

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
