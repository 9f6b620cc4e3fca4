package demo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// audit looks at everything that is left: the log, every row, every object.
func (d *demo) audit(ctx context.Context) error {
	if err := d.summary(); err != nil {
		return err
	}
	if err := d.readLog(ctx); err != nil {
		return err
	}
	if err := d.verifyAll(ctx); err != nil {
		return err
	}
	return d.findOrphans(ctx)
}

// readLog counts the events of every story that was seen to its end: each birth
// and each expiry is one, however often it was read. One that was restored
// expires and is archived twice.
func (d *demo) readLog(ctx context.Context) error {
	events := make(map[mayfly.ID]map[mayfly.EventKey]bool)
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		if err := d.readStream(ctx, stream, events); err != nil {
			return err
		}
	}
	for _, l := range d.lives() {
		if !l.ended.Load() {
			continue
		}
		count := make(map[mayfly.Verb]int)
		for key := range events[l.story.ID] {
			count[key.Verb]++
		}
		created, expired, archived, restored := count[mayfly.WasCreated], count[mayfly.WasExpired], count[mayfly.WasArchived], count[mayfly.WasRestored]
		if created < 1 || expired < 1+restored || archived < 1+restored {
			d.count.Add(verify.Lost, "the log tells %d births, %d expiries, %d archivings and %d restores of %s", created, expired, archived, restored, l.story.ID)
		}
		if created > 1 || expired > 1+restored || archived > 1+restored {
			d.count.Add(verify.Double, "the log tells %d births, %d expiries, %d archivings and %d restores of %s", created, expired, archived, restored, l.story.ID)
		}
	}
	return nil
}

func (d *demo) readStream(ctx context.Context, stream mayfly.Stream, events map[mayfly.ID]map[mayfly.EventKey]bool) error {
	reader, err := d.host.set().Log.Reader(ctx, stream, "demo")
	if err != nil {
		return err
	}
	for {
		lag, err := reader.Lag(ctx)
		if err != nil {
			return errors.Join(err, reader.Close())
		}
		if lag == 0 {
			return reader.Close()
		}
		wait, cancel := context.WithTimeout(ctx, 5*time.Second)
		records, err := reader.Next(wait, 1000)
		cancel()
		if err != nil {
			return errors.Join(err, reader.Close())
		}
		for _, r := range records {
			if events[r.Event.ID] == nil {
				events[r.Event.ID] = make(map[mayfly.EventKey]bool)
			}
			events[r.Event.ID][r.Event.Key()] = true
		}
	}
}

// verifyAll reads the whole ledger and both tiers once more.
func (d *demo) verifyAll(ctx context.Context) error {
	v, err := verify.Run(ctx, d.host.set(), verify.Options{Now: d.host.now(), Late: coldWithin, Window: demoWindow, Bytes: true})
	if err != nil {
		return err
	}
	d.count.Merge(&v.Tally)
	d.say("\nthe whole folder is read and verified: %d items, %d media, %d bytes.", v.Items, v.Media, v.Bytes)
	return nil
}

// findOrphans lists everything in both tiers: each object belongs to a row that
// is not deleted, and lies where the row says. What was being uploaded to the
// killed server belongs to no item yet: it is collected when it is a day old.
func (d *demo) findOrphans(ctx context.Context) error {
	set := d.host.set()
	hot, cold, err := d.owned(ctx, set)
	if err != nil {
		return err
	}
	unfinished := 0
	for name, tier := range map[string]store.Blobs{"hot": set.Hot, "cold": set.Cold} {
		owned := map[string]map[mayfly.BlobKey]bool{"hot": hot, "cold": cold}[name]
		objects, err := tier.List(ctx, "", "", 100_000)
		if err != nil {
			return err
		}
		for _, object := range objects {
			switch {
			case owned[object.Key]:
			case name == "hot" && strings.HasSuffix(string(object.Key), "/0-0") && unfinished < d.unborn:
				unfinished++
			default:
				d.count.Add(verify.Orphan, "%s in %s", object.Key, name)
			}
		}
	}
	return nil
}

// owned are the keys of all objects that rows own, in both tiers: those of the
// demonstration, and of users who tried the server meanwhile.
func (d *demo) owned(ctx context.Context, set store.Set) (hot, cold map[mayfly.BlobKey]bool, err error) {
	hot, cold = map[mayfly.BlobKey]bool{}, map[mayfly.BlobKey]bool{}
	moving := map[mayfly.ID]bool{}
	for _, l := range d.lives() {
		moving[l.story.ID] = !l.ended.Load()
	}
	origin, err := walk.Origin(ctx, set.Rows, d.host.now())
	if err != nil {
		return nil, nil, err
	}
	for minute := origin.Minute(); minute <= d.host.now().Add(time.Minute).Minute(); minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			items, err := set.Ledger.Walk(ctx, store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start() - 1}, 100_000)
			if err != nil {
				return nil, nil, err
			}
			for _, item := range items {
				settled, err := isSettled(ctx, set, item)
				if err != nil {
					return nil, nil, err
				}
				addKeys(hot, item, item.Keys.Hot, settled && !moving[item.ID])
				addKeys(cold, item, item.Keys.Cold, settled && !moving[item.ID])
			}
		}
	}
	return hot, cold, nil
}

// isSettled says whether no step is under way that moves or erases objects of an item.
func isSettled(ctx context.Context, set store.Set, item mayfly.Item) (bool, error) {
	switch item.State {
	case mayfly.Active, mayfly.Cold:
		return true, nil
	case mayfly.Deleted:
		body, err := set.Ledger.Body(ctx, item.ID)
		return err == nil && !body[0].Found, err
	default:
		return false, nil
	}
}

// addKeys adds the keys that the row names, or while something moves all that an
// object of the item can have.
func addKeys(owned map[mayfly.BlobKey]bool, item mayfly.Item, named mayfly.Generation, settled bool) {
	for n := range 3 * mayfly.MaxMedia { // renditions, too
		switch {
		case !item.Owns(n):
		case settled && named != 0 && item.State != mayfly.Deleted:
			owned[item.MediaKey(named, n)] = true
		case !settled:
			for g := mayfly.Born; g <= item.Generation+1; g++ {
				owned[item.MediaKey(g, n)] = true
			}
		}
	}
}
