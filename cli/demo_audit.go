package cli

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
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
		var created, expired int
		for key := range told[l.item.ID] {
			switch key.Verb {
			case mayfly.WasCreated:
				created++
			case mayfly.WasExpired:
				expired++
			}
		}
		if created == 0 || expired == 0 {
			d.count.blame(lost, "the log tells %d births and %d expiries of %s", created, expired, l.item.ID)
		}
		if created > 1 || expired > 1 {
			d.count.blame(double, "the log tells %d births and %d expiries of %s", created, expired, l.item.ID)
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

// findOrphans lists everything in both tiers: each object belongs to a story.
func (d *demo) findOrphans(ctx context.Context) error {
	owned := make(map[mayfly.BlobKey]bool)
	for _, l := range d.lives {
		owned[mayfly.UploadKey(l.item.Upload, 0)] = true
	}
	set := d.house.set()
	hot, err := set.Hot.List(ctx, "", "", 2*d.stories+100)
	if err != nil {
		return err
	}
	cold, err := set.Cold.List(ctx, "", "", 100)
	if err != nil {
		return err
	}
	for _, object := range append(hot, cold...) {
		if !owned[object.Key] {
			d.count.blame(orphan, "%s", object.Key)
		}
	}
	return nil
}
