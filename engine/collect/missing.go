package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// missing looks for the objects that rows name (L12, the other way round).
func (c *collector) missing(ctx context.Context) error {
	return c.each(ctx, c.run.Rows, func(page []mayfly.Item) error {
		for _, item := range page {
			lost, err := c.lost(ctx, item)
			if err != nil {
				return err
			}
			c.report.Rows++
			c.report.Missing += len(lost)
			room := maxExamples - len(c.report.Lost)
			c.report.Lost = append(c.report.Lost, lost[:max(0, min(room, len(lost)))]...)
		}
		return nil
	})
}

// lost are the objects that the row names and has to have, and that are not
// there. What is not found is asked for again by the row as it then is: it may
// have moved.
func (e *Erase) lost(ctx context.Context, item mayfly.Item) ([]mayfly.BlobKey, error) {
	for range rounds {
		lost, err := e.absent(ctx, item)
		if err != nil || len(lost) == 0 {
			return nil, err
		}
		row, err := e.read(ctx, item.ID)
		switch {
		case errors.Is(err, mayfly.NotFound):
			return nil, nil
		case err != nil:
			return nil, err
		case row.Generation == item.Generation:
			return lost, nil
		}
		item = row
	}
	return nil, nil // it keeps moving: the next run will see
}

// absent are the objects of the copy that an item is read from: cold as soon as
// it is named, since hot goes from then on (I1).
func (e *Erase) absent(ctx context.Context, item mayfly.Item) ([]mayfly.BlobKey, error) {
	if item.State == mayfly.Deleted && !item.Held {
		return nil, nil
	}
	tier, g := e.copyOf(item)
	var lost []mayfly.BlobKey
	for n := range int(item.Media) {
		key := item.MediaKey(g, n)
		switch _, err := tier.Stat(ctx, key); {
		case errors.Is(err, mayfly.NotFound):
			lost = append(lost, key)
		case err != nil:
			return nil, fmt.Errorf("look for %s: %w", key, err)
		}
	}
	return lost, nil
}

func (e *Erase) copyOf(item mayfly.Item) (store.Blobs, mayfly.Generation) {
	if item.Keys.Cold != 0 {
		return e.set.Cold, item.Keys.Cold
	}
	return e.set.Hot, item.Keys.Hot
}
