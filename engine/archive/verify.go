package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// copy copies and verifies the media that have no verified cold copy yet, several at
// once. An item that fails is parked, and hot stays as it is.
func (p *pass) copy(ctx context.Context) error {
	bodies, err := p.bodies(ctx)
	if err != nil {
		return err
	}
	var at []int // rows with something to copy
	errs, copied := make([]error, len(p.rows)), make([]map[int]mayfly.Medium, len(p.rows))
	var g errgroup.Group
	g.SetLimit(p.o.Workers)
	for i, item := range p.rows {
		if item.Media == 0 || item.Keys.Cold != 0 {
			continue
		}
		at = append(at, i)
		g.Go(func() error {
			if errs[i] = p.copyItem(ctx, item, bodies[i]); errs[i] == nil {
				copied[i] = p.copyRenditions(ctx, item)
			}
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	if len(at) == 0 {
		return nil
	}
	err = ctx.Err()
	if err == nil {
		err = p.isAway(ctx, errs, at)
	}
	if err != nil {
		for _, i := range at {
			p.claims.release(p.rows[i])
		}
		return err
	}
	var failed []walk.Failure
	kept := make([]mayfly.Item, 0, len(p.rows))
	described := map[mayfly.ID]map[int]mayfly.Medium{}
	for i, item := range p.rows {
		if errs[i] != nil {
			failed = append(failed, walk.Failure{Item: item, Err: errs[i]})
			continue
		}
		kept = append(kept, item)
		described[item.ID] = copied[i]
	}
	p.rows = kept
	if err := p.notCopied(ctx, failed); err != nil {
		return err
	}
	return p.describe(ctx, described)
}

// bodies reads the bodies of rows with media, one entry for every row, and which
// renditions they have.
func (p *pass) bodies(ctx context.Context) ([]store.FoundBody, error) {
	bodies := make([]store.FoundBody, len(p.rows))
	var at []int
	var ids []mayfly.ID
	for i, item := range p.rows {
		if item.Media > 0 {
			at, ids = append(at, i), append(ids, item.ID)
		}
	}
	if len(ids) == 0 {
		return bodies, nil
	}
	found, err := p.set.Ledger.Body(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		bodies[i] = found[n]
	}
	return bodies, p.lookForRenditions(ctx, p.rows, bodies)
}

// notCopied parks the items that could not be copied. An item that was changed by
// others meanwhile is lost: the source of the copy may have been deleted.
func (p *pass) notCopied(ctx context.Context, failed []walk.Failure) error {
	if len(failed) == 0 {
		return nil
	}
	ids := make([]mayfly.ID, len(failed))
	for i, f := range failed {
		ids[i] = f.Item.ID
	}
	found, err := p.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return err
	}
	var lost []lostRow
	for i, f := range failed {
		if found[i].Item.Generation == f.Item.Generation {
			p.failures = append(p.failures, f)
			p.claims.release(f.Item)
		} else {
			lost = append(lost, lostRow{known: f.Item, current: found[i].Item})
		}
	}
	return p.abandon(ctx, lost)
}

// isAway returns an error if the copies failed because a tier is unavailable or full: it
// does not answer, or every copy of a batch failed, or one item after another failed. A
// single item that fails may have a problem of its own.
func (p *pass) isAway(ctx context.Context, errs []error, at []int) error {
	for _, i := range at {
		if !errors.Is(errs[i], mayfly.Unavailable) && !errors.Is(errs[i], mayfly.Full) {
			p.trouble.Store(nil)
			return nil
		}
	}
	item := p.rows[at[0]]
	t := &trouble{first: item.ID, away: len(at) > 1}
	if before := p.trouble.Load(); before != nil {
		t = &trouble{first: before.first, away: t.away || before.away || before.first != item.ID}
	}
	p.trouble.Store(t)
	err := mayfly.Errorf(mayfly.Unavailable, "a tier is unavailable: none of %d items could be copied: %w", len(at), errs[at[0]])
	switch {
	case !p.answers(ctx, item):
		return walk.Down(err)
	case t.away:
		return err
	}
	return nil
}

// trouble is what is known since the last copy that succeeded: the first item that
// failed as if a tier were unavailable, and whether another one did so too.
type trouble struct {
	first mayfly.ID
	away  bool
}

// blame returns the error of a pass that failed. A time-out while waiting for a tier is
// not the fault of an item, however small the batch is.
func (p *pass) blame(ctx context.Context, err error) error {
	if ctx.Err() != context.DeadlineExceeded || walk.IsAway(err) || walk.IsDown(err) {
		return err
	}
	for _, item := range p.batch.Items {
		if item.Media > 0 {
			if !p.answers(ctx, item) {
				err = walk.Down(mayfly.Errorf(mayfly.Unavailable, "a tier does not answer: %w", err))
			}
			break
		}
	}
	return err
}

// answerWithin is how soon a tier that works answers whether it has an object.
const answerWithin = 5 * time.Second

// answers reports whether both tiers answer at all, also when ctx has ended.
func (p *pass) answers(ctx context.Context, item mayfly.Item) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	for _, tier := range []store.Blobs{p.set.Hot, p.set.Cold} {
		_, err := tier.Stat(ctx, item.MediaKey(item.Generation, 0))
		if errors.Is(err, mayfly.Unavailable) || errors.Is(err, context.DeadlineExceeded) {
			return false
		}
	}
	return true
}

// copyItem copies the media of a claimed item to cold, under the generation of
// the claim, and verifies each copy from the cold side. What an earlier try has copied
// under the same claim is verified like any other copy, and copied again only if it is
// not there or not right.
func (p *pass) copyItem(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	if !body.Found || len(body.Body.Media) != int(item.Media) {
		return mayfly.Errorf(mayfly.Corrupt, "the body of %s does not name its media", item.ID)
	}
	for n, medium := range body.Body.Media {
		from, to := item.MediaKey(item.Keys.Hot, n), item.MediaKey(item.Generation, n)
		if p.resumed[item.ID] {
			err := p.verify(ctx, to, medium)
			if err == nil {
				continue
			}
			if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
				return fmt.Errorf("verify the earlier copy %s: %w", to, err)
			}
		}
		if _, err := p.set.Hot.CopyTo(ctx, p.set.Cold, from, to); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		if err := p.verify(ctx, to, medium); err != nil {
			return fmt.Errorf("verify %s: %w", to, err)
		}
	}
	return nil
}

// verify compares a copy with what was uploaded, from the cold side. The result of the
// copy call proves nothing, nor does Stat, which may repeat it (L9).
func (p *pass) verify(ctx context.Context, key mayfly.BlobKey, medium mayfly.Medium) error {
	if p.o.Verify == Checksum && rand.IntN(p.o.Sample) > 0 {
		if asked, err := p.ask(ctx, key, medium); asked {
			return err
		}
	}
	_, err := upload.ReadBack(ctx, p.set.Cold, key, medium)
	return err
}

// ask compares the hash that the tier has computed over the copy itself; asked is false
// if the tier cannot, and then the copy has to be read.
func (p *pass) ask(ctx context.Context, key mayfly.BlobKey, medium mayfly.Medium) (asked bool, err error) {
	tier, can := p.set.Cold.(store.Checksummed)
	if !can {
		return false, nil
	}
	sum, err := tier.Checksum(ctx, key)
	switch {
	case errors.Is(err, mayfly.Unsupported):
		return false, nil
	case err != nil:
		return true, err
	case sum != medium.SHA256:
		return true, mayfly.Errorf(mayfly.Corrupt, "the tier has computed another hash than that of the %d bytes that were uploaded", medium.Size)
	}
	return true, nil
}
