package erase

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// Object is what the key of an object says about it (L11).
type Object struct {
	Key        mayfly.BlobKey
	ID         mayfly.ID // of the upload, or of the item
	Uploaded   bool      // ID names an upload: the object was stored before the item was published
	Generation mayfly.Generation
	Number     int // of the medium or rendition; -1: raw, put by a presigned URL and named by no row
}

// ReadKey parses the key of an object; false if no key function makes such a key.
func ReadKey(key mayfly.BlobKey) (Object, bool) {
	parts := strings.Split(string(key), "/")
	if len(parts) != 3 {
		return Object{}, false
	}
	id, err := mayfly.ParseID(parts[1])
	generation, number, cut := strings.Cut(parts[2], "-")
	n, bad := strconv.Atoi(number)
	if err != nil || !cut || bad != nil || n < 0 || n > 255 {
		return Object{}, false
	}
	o := Object{Key: key, ID: id, Number: n}
	switch g, err := strconv.ParseUint(generation, 10, 32); {
	case generation == "raw":
		o.Uploaded, o.Number = true, -1
		return o, strings.HasPrefix(string(mayfly.UploadKey(id, 0)), parts[0]+"/"+parts[1]+"/")
	case err != nil:
		return Object{}, false
	case g == 0:
		o.Uploaded, o.Generation = true, mayfly.Born
		return o, mayfly.UploadKey(id, n) == key
	default:
		o.Generation = mayfly.Generation(g)
		return o, o.Generation > mayfly.Born && mayfly.Item{ID: id}.MediaKey(o.Generation, n) == key
	}
}

// Raw reports whether the object was put by a presigned URL; no row names it.
func (o Object) Raw() bool { return o.Number < 0 }

// Owner is what the ledger knows of the item that an object belongs to.
type Owner struct {
	Item  mayfly.Item
	Found bool
	Body  bool
	Stray mayfly.ID // the item, if it has no row
	// Unpublished reports that nothing names the upload: past its deadline it was
	// abandoned.
	Unpublished bool
}

// Owners reads what the ledger knows of the items that objects belong to, in the
// order of objects.
func (e *Erase) Owners(ctx context.Context, objects []Object) ([]Owner, error) {
	items, err := e.itemsOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	owners := make([]Owner, len(objects))
	var at []int
	var named []mayfly.ID
	for i, id := range items {
		if id.IsZero() {
			owners[i].Unpublished = true
			continue
		}
		at, named = append(at, i), append(named, id)
	}
	if len(named) == 0 {
		return owners, nil
	}
	bodies, err := e.set.Ledger.Body(ctx, named...)
	if err != nil {
		return nil, fmt.Errorf("read %d bodies: %w", len(named), err)
	}
	rows, err := e.set.Ledger.Get(ctx, named...) // last, so that it is the newest
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(named), err)
	}
	for n, i := range at {
		owners[i] = Owner{Item: rows[n].Item, Found: rows[n].Found, Body: bodies[n].Found}
		if !rows[n].Found {
			owners[i].Stray = named[n]
		}
	}
	return owners, nil
}

// itemsOf returns the items that objects belong to: by the key, or by what their
// upload was published as; zero if that is nothing.
func (e *Erase) itemsOf(ctx context.Context, objects []Object) ([]mayfly.ID, error) {
	items := make([]mayfly.ID, len(objects))
	var at []int
	var keys []store.Key
	for i, o := range objects {
		if items[i] = o.ID; o.Uploaded {
			at, keys = append(at, i), append(keys, engine.UploadKey(o.ID))
		}
	}
	if len(keys) == 0 {
		return items, nil
	}
	values, err := e.set.Rows.Get(ctx, engine.Uploads, keys...)
	if err != nil {
		return nil, fmt.Errorf("read %d uploads: %w", len(keys), err)
	}
	for n, i := range at {
		items[i] = mayfly.ID{}
		if len(values[n]) == len(mayfly.ID{}) {
			items[i] = mayfly.ID(values[n])
		}
	}
	return items, nil
}
