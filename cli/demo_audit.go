package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// readLog counts the events of every story: each birth and each expiry is one,
// however often it was told.
func (d *demo) readLog(ctx context.Context) error {
	told := make(map[mayfly.ID]map[mayfly.EventKey]bool)
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		if err := d.readStream(ctx, stream, told); err != nil {
			return err
		}
	}
	for _, l := range d.lives {
		var created, expired, archived int
		for key := range told[l.item.ID] {
			switch key.Verb {
			case mayfly.WasCreated:
				created++
			case mayfly.WasExpired:
				expired++
			case mayfly.WasArchived:
				archived++
			}
		}
		if created == 0 || expired == 0 || archived == 0 {
			d.count.blame(lost, "the log tells %d births, %d expiries and %d archivings of %s", created, expired, archived, l.item.ID)
		}
		if created > 1 || expired > 1 || archived > 1 {
			d.count.blame(double, "the log tells %d births, %d expiries and %d archivings of %s", created, expired, archived, l.item.ID)
		}
	}
	return nil
}

func (d *demo) readStream(ctx context.Context, stream mayfly.Stream, told map[mayfly.ID]map[mayfly.EventKey]bool) error {
	reader, err := d.house.set().Log.Reader(ctx, stream, "demo")
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
			if told[r.Event.ID] == nil {
				told[r.Event.ID] = make(map[mayfly.EventKey]bool)
			}
			told[r.Event.ID][r.Event.Key()] = true
		}
	}
}

// findOrphans lists everything in both tiers: each object belongs to a story
// that is not deleted, and lies where its row says. What the killed process was
// uploading belongs to nobody yet: it is collected when it is a day old.
func (d *demo) findOrphans(ctx context.Context) error {
	set := d.house.set()
	hot, cold := map[mayfly.BlobKey]bool{}, map[mayfly.BlobKey]bool{}
	for _, l := range d.lives {
		found, err := set.Ledger.Get(ctx, l.item.ID)
		if err != nil {
			return err
		}
		item := found[0].Item
		if item.State == mayfly.Deleted {
			continue
		}
		hot[item.MediaKey(item.Keys.Hot, 0)], cold[item.MediaKey(item.Keys.Cold, 0)] = item.Keys.Hot != 0, item.Keys.Cold != 0
	}
	unfinished := 0
	for name, tier := range map[string]store.Blobs{"hot": set.Hot, "cold": set.Cold} {
		owned := map[string]map[mayfly.BlobKey]bool{"hot": hot, "cold": cold}[name]
		objects, err := tier.List(ctx, "", "", 2*d.stories+1000)
		if err != nil {
			return err
		}
		for _, object := range objects {
			switch {
			case owned[object.Key]:
			case d.killed && name == "hot" && strings.HasSuffix(string(object.Key), "/0-0") && unfinished == 0:
				unfinished++
			default:
				d.count.blame(orphan, "%s in %s", object.Key, name)
			}
		}
	}
	return nil
}
