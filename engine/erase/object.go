package erase

import (
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// object is what the key of an object says about it (L11).
type object struct {
	key        mayfly.BlobKey
	id         mayfly.ID // of the upload, or of the item
	uploaded   bool      // id is an upload's: a born object, or a raw one
	generation mayfly.Generation
	n          int       // -1: raw, which no row names
	abandoned  bool      // of an upload that was never published, which is known when it was judged
	stray      mayfly.ID // its item, if that has no row; the same
}

// readKey reads a key. What is not made by L11 is nobody's to judge.
func readKey(key mayfly.BlobKey) (object, bool) {
	parts := strings.Split(string(key), "/")
	if len(parts) != 3 {
		return object{}, false
	}
	id, err := mayfly.ParseID(parts[1])
	generation, number, cut := strings.Cut(parts[2], "-")
	n, bad := strconv.Atoi(number)
	if err != nil || !cut || bad != nil || n < 0 || n > 255 {
		return object{}, false
	}
	o := object{key: key, id: id, n: n}
	switch g, err := strconv.ParseUint(generation, 10, 32); {
	case generation == "raw":
		o.uploaded, o.n = true, -1
		return o, strings.HasPrefix(string(mayfly.UploadKey(id, 0)), parts[0]+"/"+parts[1]+"/")
	case err != nil:
		return object{}, false
	case g == 0:
		o.uploaded, o.generation = true, mayfly.Born
		return o, mayfly.UploadKey(id, n) == key
	default:
		o.generation = mayfly.Generation(g)
		return o, o.generation > mayfly.Born && mayfly.Item{ID: id}.MediaKey(o.generation, n) == key
	}
}

// raw says whether it was put by a presigned URL, and is nobody's.
func (o object) raw() bool { return o.n < 0 }

// old says whether the object may be judged at all: its upload is past the floor
// (I15), and can no longer be published by a birth that is in flight.
func (o object) old(now mayfly.Instant, floor, settle time.Duration) bool {
	if o.id.Birth().Add(floor) > now {
		return false
	}
	return !o.uploaded || o.id.Expires() && o.id.Deadline().Add(settle) <= now
}

// owner is what the ledger knows of the item that an object belongs to.
type owner struct {
	item  mayfly.Item
	found bool
	body  bool
	stray mayfly.ID // the item, if there is no row of it
	// unpublished says that nothing names the upload. Judged past its deadline, it
	// was abandoned: its end was due, as that of an item is.
	unpublished bool
}

// tier is one of the two.
type tier uint8

const (
	hot tier = iota
	cold
)

func (t tier) String() string { return [2]string{"hot", "cold"}[t] }

// dead says whether no row names the object, and none ever will. A generation
// that the row has not passed is never dead while the row lives: a claim copies
// under the generation of the row itself and names it later, a restore writes
// under the next one. A deleted row that has its body is the eraser's, a held one
// nobody's (I21).
func (o object) dead(t tier, by owner) bool {
	switch item := by.item; {
	case !by.found:
		return true
	case item.Held:
		return false
	case item.State == mayfly.Deleted:
		return !by.body
	case !o.uploaded && o.generation >= item.Generation:
		return false
	default:
		return !o.named(t, item)
	}
}

// named says whether the row names the object as a copy in the tier. A rendition
// stands beside the copy that the row names, and goes with it.
func (o object) named(t tier, item mayfly.Item) bool {
	g := item.Keys.Hot
	if t == cold {
		g = item.Keys.Cold
	}
	return g != 0 && item.Owns(o.n) && item.MediaKey(g, o.n) == o.key
}
