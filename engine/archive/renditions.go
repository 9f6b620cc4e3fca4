package archive

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// renditions is what a pass knows of the smaller versions of its images. They are
// copied with their item (L9) and never delay it: one that cannot be copied is left
// out, and made again on demand.
type renditions struct {
	may  map[mayfly.ID][]int                 // object numbers, whether made or not
	made map[mayfly.ID]map[int]mayfly.Medium // as they are described
}

// lookForRenditions reads the descriptions of the renditions of rows that are to be
// copied: with one lookup for the page, and none for a page without images.
func (p *pass) lookForRenditions(ctx context.Context, rows []mayfly.Item, bodies []store.FoundBody) error {
	type named struct {
		id mayfly.ID
		n  int
	}
	var keys []store.Key
	var names []named
	p.renditions = renditions{may: map[mayfly.ID][]int{}, made: map[mayfly.ID]map[int]mayfly.Medium{}}
	for i, item := range rows {
		numbers := bodies[i].Body.Renditions()
		if len(numbers) == 0 {
			continue
		}
		p.renditions.may[item.ID] = numbers
		if item.Keys.Cold != 0 {
			continue
		}
		for _, n := range numbers {
			keys, names = append(keys, upload.RenditionKey(item.ID, item.Keys.Hot, n)), append(names, named{item.ID, n})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := p.set.Rows.Get(ctx, upload.Renditions, keys...)
	if err != nil {
		return fmt.Errorf("look for %d renditions: %w", len(keys), err)
	}
	for i, value := range found {
		if value == nil {
			continue
		}
		medium, err := upload.ReadRendition(value)
		if err != nil || medium.Size == 0 {
			continue // it is made again on demand, or cannot be made
		}
		of := p.renditions.made[names[i].id]
		if of == nil {
			of = map[int]mayfly.Medium{}
			p.renditions.made[names[i].id] = of
		}
		of[names[i].n] = medium
	}
	return nil
}

// copyRenditions copies the described renditions of a claimed item and returns those
// whose cold copy is verified.
func (p *pass) copyRenditions(ctx context.Context, item mayfly.Item) map[int]mayfly.Medium {
	copied := map[int]mayfly.Medium{}
	for n, medium := range p.renditions.made[item.ID] {
		to := item.MediaKey(item.Generation, n)
		_, err := p.set.Hot.CopyTo(ctx, p.set.Cold, item.MediaKey(item.Keys.Hot, n), to)
		if err == nil {
			err = p.verify(ctx, to, medium)
		}
		if err != nil {
			// Without a description it is never read; its key is computed when the item is erased.
			_ = p.set.Cold.Delete(ctx, to)
			continue
		}
		copied[n] = medium
	}
	return copied
}

// describe records which renditions are in cold, with the generation that the row is
// about to name.
func (p *pass) describe(ctx context.Context, copied map[mayfly.ID]map[int]mayfly.Medium) error {
	var b store.Batch
	for _, item := range p.rows {
		for n, medium := range copied[item.ID] {
			b.Put(upload.Renditions, upload.RenditionKey(item.ID, item.Generation, n), upload.AppendRendition(nil, medium), 0)
		}
	}
	if len(b.Stages()) == 0 {
		return nil
	}
	if err := p.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("describe renditions: %w", err)
	}
	return nil
}

// undescribe removes the descriptions of copies whose claim is over.
func (p *pass) undescribe(ctx context.Context, lost []mayfly.Item) error {
	var b store.Batch
	for _, item := range lost {
		for n := range p.renditions.made[item.ID] {
			b.Delete(upload.Renditions, upload.RenditionKey(item.ID, item.Generation, n))
		}
	}
	if len(b.Stages()) == 0 {
		return nil
	}
	return p.set.Writer.Commit(ctx, &b)
}

// objects returns the numbers of all objects that the item may have.
func (p *pass) objects(item mayfly.Item) []int {
	numbers := make([]int, item.Media, int(item.Media)+len(p.renditions.may[item.ID]))
	for n := range numbers {
		numbers[n] = n
	}
	return append(numbers, p.renditions.may[item.ID]...)
}
