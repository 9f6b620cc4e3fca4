package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Verification says what Verify looks at.
type Verification struct {
	Now      mayfly.Instant
	Ahead    time.Duration // how far after Now deadlines can lie; default 48 h
	Late     time.Duration // an item that still waits for a step so long after it was due is LATE; default 2 h
	Window   time.Duration // the archive's; default 90 min
	Bytes    bool          // read every medium and hash it; else only ask for its size
	Progress func(done, of int)
}

// Verified is what Verify has found. Seven words count what must never be.
type Verified struct {
	Items, Media, Bytes int64
	States              map[string]int64

	Lost, Resurrected, Early, Late, Leak, Double, Orphan int64

	Found []string // the first of them, as people read them
}

// maxFindings is how many findings are told; all are counted.
const maxFindings = 100

// Wrong is how much is not as it must be.
func (v *Verified) Wrong() int64 {
	return v.Lost + v.Resurrected + v.Early + v.Late + v.Leak + v.Double + v.Orphan
}

func (v *Verified) find(count *int64, word string, id mayfly.ID, format string, args ...any) {
	*count++
	if len(v.Found) < maxFindings {
		v.Found = append(v.Found, fmt.Sprintf("%-11s %s  %s", word, id, fmt.Sprintf(format, args...)))
	}
}

// Verify reads the whole ledger and holds every row against its content and its
// media in both tiers. It changes nothing. The other way round, from objects to
// rows, is collect.Orphans as a dry run.
func Verify(ctx context.Context, set store.Set, o Verification) (*Verified, error) {
	if o.Ahead == 0 {
		o.Ahead = 48 * time.Hour
	}
	if o.Late == 0 {
		o.Late = 2 * time.Hour
	}
	if o.Window == 0 {
		o.Window = mayfly.DefaultArchiveAfter
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	c := &check{set: set, o: o, found: &Verified{States: map[string]int64{}}}
	origin, err := walk.Origin(ctx, set.Rows, o.Now)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	first, last := origin.Minute(), o.Now.Add(o.Ahead).Minute()
	for minute := first; minute <= last; minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			if err := c.hole(ctx, minute, shard); err != nil {
				return nil, fmt.Errorf("verify: %w", err)
			}
		}
		o.Progress(int(minute-first)+1, int(last-first)+1)
	}
	for shard := range mayfly.Shard(mayfly.Shards) {
		if err := c.eternal(ctx, shard); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	return c.found, nil
}

// check is a verification under way.
type check struct {
	set   store.Set
	o     Verification
	found *Verified
}

const verifyPage = 500

func (c *check) hole(ctx context.Context, minute mayfly.Minute, shard mayfly.Shard) error {
	s := store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start() - 1}
	for {
		page, err := c.set.Ledger.Walk(ctx, s, verifyPage)
		if err != nil {
			return err
		}
		if err := c.items(ctx, page); err != nil || len(page) < verifyPage {
			return err
		}
		s.After = store.PositionOf(page[len(page)-1])
	}
}

func (c *check) eternal(ctx context.Context, shard mayfly.Shard) error {
	var after mayfly.ID
	for {
		page, err := c.set.Ledger.Eternal(ctx, shard, after, verifyPage)
		if err != nil {
			return err
		}
		if err := c.items(ctx, page); err != nil || len(page) < verifyPage {
			return err
		}
		after = page[len(page)-1].ID
	}
}

func (c *check) items(ctx context.Context, items []mayfly.Item) error {
	if len(items) == 0 {
		return nil
	}
	ids := make([]mayfly.ID, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	bodies, err := c.set.Ledger.Body(ctx, ids...)
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := c.item(ctx, item, bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) item(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	v := c.found
	v.Items++
	v.States[item.Shown(c.o.Now)]++
	c.onTime(item, body)
	if item.State == mayfly.Deleted {
		return nil
	}
	if err := c.owned(ctx, item); err != nil {
		return err
	}
	if !body.Found {
		v.find(&v.Lost, "LOST", item.ID, "its content is gone, and it is %s", item.State)
		return nil
	}
	for n, medium := range body.Body.Media {
		v.Media++
		if err := c.medium(ctx, item, n, medium); err != nil {
			return err
		}
	}
	return nil
}

// onTime holds the state against the clock.
func (c *check) onTime(item mayfly.Item, body store.FoundBody) {
	v, now := c.found, c.o.Now
	late := now.Add(-c.o.Late)
	ended := item.EndedAt(now)
	switch {
	case item.Held:
	case !ended && (item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving || item.State == mayfly.Cold):
		v.find(&v.Early, "EARLY", item.ID, "it is %s, and serves until %s", item.State, item.End())
	case item.State == mayfly.Active && item.ID.Expires() && item.EndedAt(late):
		v.find(&v.Late, "LATE", item.ID, "its end was at %s, and nothing has ended it", item.End())
	case (item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving) && item.EndedAt(late.Add(-c.o.Window)) && item.Changed < late:
		v.find(&v.Late, "LATE", item.ID, "it is %s since %s", item.State, item.Changed)
	case item.State == mayfly.Deleted && body.Found && item.Changed < late:
		v.find(&v.Late, "LATE", item.ID, "deleted at %s, and its content is still there", item.Changed)
	}
}

// owned looks for what an erased account left behind, and for media that two
// items own.
func (c *check) owned(ctx context.Context, item mayfly.Item) error {
	v := c.found
	if !item.Owner.IsZero() {
		found, err := c.set.Rows.Get(ctx, store.Erased, store.ErasedKey(item.Owner))
		if err != nil {
			return err
		}
		if found[0] != nil && !item.Held && item.ID.Birth() < c.o.Now.Add(-c.o.Late) {
			v.find(&v.Resurrected, "RESURRECTED", item.ID, "its owner's account is erased, and it is %s", item.State)
		}
	}
	if item.Media == 0 {
		return nil
	}
	found, err := c.set.Rows.Get(ctx, store.Uploads, store.UploadKey(item.Upload))
	if err != nil {
		return err
	}
	if string(found[0]) != string(item.ID[:]) {
		v.find(&v.Double, "DOUBLE", item.ID, "its upload %s is owned by %x", item.Upload, found[0])
	}
	return nil
}

// medium wants one whole copy where the row's state says that it must be (I2).
func (c *check) medium(ctx context.Context, item mayfly.Item, n int, medium mayfly.Medium) error {
	type copies struct {
		name  string
		tier  store.Blobs
		under mayfly.Generation
	}
	var why error
	for _, copy := range []copies{{"hot", c.set.Hot, item.Keys.Hot}, {"cold", c.set.Cold, item.Keys.Cold}} {
		if copy.under == 0 {
			continue
		}
		err := c.read(ctx, copy.tier, item.MediaKey(copy.under, n), medium)
		if err == nil {
			return nil
		}
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
			return err
		}
		why = fmt.Errorf("%s: %w", copy.name, err)
	}
	c.found.find(&c.found.Lost, "LOST", item.ID, "medium %d has no whole copy: %v", n, why)
	return nil
}

func (c *check) read(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium) error {
	if !c.o.Bytes {
		object, err := tier.Stat(ctx, key)
		if err == nil && (object.Size != medium.Size || object.SHA256 != medium.SHA256) {
			err = mayfly.Errorf(mayfly.Corrupt, "%s is not what was uploaded", key)
		}
		return err
	}
	size, err := store.ReadBack(ctx, tier, key, medium)
	c.found.Bytes += size
	return err
}
