package verify

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// young is how old the upload or the item of an object is at least before it can be
// an orphan without a Record: until then it may still be published, or a step that
// was cut off be finished (I15).
const young = 24 * time.Hour

// objects lists both tiers: every object belongs to a row, and lies where the row
// says unless a step is under way.
func (c *check) objects(ctx context.Context) error {
	if !c.o.Objects {
		return nil
	}
	for _, cold := range []bool{false, true} {
		tier := c.set.Hot
		if cold {
			tier = c.set.Cold
		}
		from := mayfly.BlobKey("")
		for {
			objects, err := tier.List(ctx, from, "", page)
			if err != nil {
				return err
			}
			c.report.Objects += int64(len(objects))
			g, looking := errgroup.WithContext(ctx)
			g.SetLimit(atOnce)
			for _, object := range objects {
				g.Go(func() error { return c.object(looking, object.Key, cold) })
			}
			if err := g.Wait(); err != nil {
				return err
			}
			if len(objects) < page {
				break
			}
			from = objects[len(objects)-1].Key + "\x00"
		}
	}
	return nil
}

func (c *check) object(ctx context.Context, key mayfly.BlobKey, cold bool) error {
	tier := map[bool]string{false: "hot", true: "cold"}[cold]
	id, upload, ours := readKey(key)
	switch {
	case !ours && c.o.Record != nil:
		c.report.Add(Orphan, "%s in %s: not a key of an object", key, tier)
		return nil
	case !ours:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report.Strange++
		return nil
	case c.o.Record != nil && id.Birth() < c.o.Record.Since, c.o.Record == nil && c.o.Now < id.Birth().Add(young):
		return nil
	}
	item, published, err := c.owner(ctx, id)
	switch {
	case err != nil:
		return err
	case published:
		owned, err := c.owns(ctx, item, key, cold)
		if err == nil && !owned {
			c.find(Orphan, item.ID, "%s in %s is not named by its row, which is %s with %+v", key, tier, item.State, item.Keys)
		}
		return err
	case !cold && upload && c.unfinished(id):
	default:
		c.report.Add(Orphan, "%s in %s belongs to no row", key, tier)
	}
	return nil
}

// readKey returns the id in a key, and whether it is that of an upload; ours is false
// if the key is not that of an object.
func readKey(key mayfly.BlobKey) (id mayfly.ID, upload, ours bool) {
	parts := strings.Split(string(key), "/")
	if len(parts) != 3 {
		return id, false, false
	}
	id, err := mayfly.ParseID(parts[1])
	return id, strings.HasPrefix(parts[2], "0-") || strings.HasPrefix(parts[2], "raw-"), err == nil
}

// owner returns the item that an id in a key leads to: itself, or the item that an
// upload was published as.
func (c *check) owner(ctx context.Context, id mayfly.ID) (mayfly.Item, bool, error) {
	rows, err := c.set.Ledger.Get(ctx, id)
	if err != nil || rows[0].Found {
		return rows0(rows), err == nil, err
	}
	upload, err := c.set.Rows.Get(ctx, engine.Uploads, engine.UploadKey(id))
	if err != nil || len(upload[0]) != len(id) {
		return mayfly.Item{}, false, err
	}
	rows, err = c.set.Ledger.Get(ctx, mayfly.ID(upload[0]))
	return rows0(rows), err == nil && rows[0].Found, err
}

func rows0(rows []store.Found) mayfly.Item {
	if len(rows) == 0 {
		return mayfly.Item{}
	}
	return rows[0].Item
}

// owns reports whether a key may lie in a tier: the row names it, or a step of the
// item is under way that moves or erases objects, or the item is held, which keeps
// all of them (I21).
func (c *check) owns(ctx context.Context, item mayfly.Item, key mayfly.BlobKey, cold bool) (bool, error) {
	settled := item.State == mayfly.Active || item.State == mayfly.Cold
	if item.State == mayfly.Deleted {
		body, err := c.set.Ledger.Body(ctx, item.ID)
		if err != nil {
			return false, err
		}
		settled = !body[0].Found
	}
	first, named := mayfly.Born, item.Keys.Hot
	if cold {
		named = item.Keys.Cold
	}
	switch r := c.o.Record; {
	case !settled || item.Held || r != nil && r.Items[item.ID].Moving:
	case r == nil && item.State != mayfly.Deleted: // a step that was cut off writes these
		first = item.Generation
	default:
		first = item.Generation + 2 // none
	}
	for n := range 3 * mayfly.MaxMedia { // renditions too
		if !item.Owns(n) {
			continue
		}
		if item.State != mayfly.Deleted && named != 0 && item.MediaKey(named, n) == key {
			return true, nil
		}
		for g := first; g <= item.Generation+1; g++ {
			if item.MediaKey(g, n) == key {
				return true, nil
			}
		}
	}
	return false, nil
}

// unfinished reports whether an object may be of an upload that was not published.
func (c *check) unfinished(upload mayfly.ID) bool {
	r := c.o.Record
	if r == nil {
		return c.o.Now <= upload.Deadline()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Broken != nil && !r.Broken(upload) || c.report.Unfinished >= r.Unfinished {
		return false
	}
	c.report.Unfinished++
	return true
}
