package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	scrubber "github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// folderDesk is a data folder that no process serves: a node that runs no loops.
type folderDesk struct {
	node.Desk
	store *profile.Store
	node  *node.Node
	began mayfly.Instant // by the folder's own clock
	steps *stages        // shows how far long work is
}

// onFolder opens the folder, does the work at the folder's own time, and closes
// it. Whether it is in use says isInUse.
func (d *deskChoice) onFolder(c *cobra.Command, do func(ctx context.Context, f *folderDesk) error) (err error) {
	ctx := c.Context()
	if err := onEmbedded(d.config); err != nil {
		return err
	}
	if err := d.isThere(); err != nil {
		return err
	}
	f := &folderDesk{steps: newStages(c.ErrOrStderr(), false)}
	if f.store, err = profile.Embedded(d.config); errors.Is(err, mayfly.Conflict) {
		return inUseError{err}
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := forgetAdmin(d.config.Data); err != nil { // whoever left it is gone: we hold the lock
		return err
	}
	o := node.FromConfig(d.config)
	o.Idle, o.Source = true, d.source
	if f.node, err = node.Start(ctx, f.store.Set, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.node.Stop(context.WithoutCancel(ctx))) }()
	r := f.node.Clock().Read()
	if r.Err != nil {
		return r.Err
	}
	f.Desk, f.began = f.node.Desk(), r.Steady
	return do(ctx, f)
}

func (f *folderDesk) now() mayfly.Instant { return f.began }

func (f *folderDesk) hold(ctx context.Context, id mayfly.ID, who deed) error {
	return f.node.Restore().Hold(ctx, id, who.by, who.reason, f.began)
}

func (f *folderDesk) release(ctx context.Context, id mayfly.ID, who deed) error {
	return f.node.Restore().Release(ctx, id, who.by, who.reason, f.began)
}

func (f *folderDesk) restore(ctx context.Context, what wire.RestoreRequest, who deed) (wire.Restored, error) {
	show, end := f.progress("undo", "items")
	defer end()
	return f.Restore(ctx, what, who.by, show, f.began)
}

// progress shows how much of something is done, from when that is first known.
func (f *folderDesk) progress(name, what string) (show func(done, of int), end func()) {
	var began *stage
	shown := 0
	f.steps.trial(name)
	show = func(done, of int) {
		if began == nil {
			began = f.steps.begin(what, of)
		}
		began.add(done - shown)
		shown = done
	}
	return show, func() {
		if began != nil {
			began.end()
		}
	}
}

// deskPage is how many rows of a list are read at once.
const deskPage = 500

// paged is every element of a list that comes in pages.
func paged[T any](page func(cursor string) (all []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor, more := "", true; more; {
			all, next, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range all {
				if !yield(one, nil) {
					return
				}
			}
			cursor, more = next, next != ""
		}
	}
}

func (f *folderDesk) runs(ctx context.Context, from mayfly.Instant) iter.Seq2[wire.Run, error] {
	return paged(func(cursor string) ([]wire.Run, string, error) {
		page, err := f.Runs(ctx, from, cursor, deskPage, f.began)
		return page.Runs, page.Next, err
	})
}

func (f *folderDesk) letters(ctx context.Context, item mayfly.ID, step string) iter.Seq2[wire.DeadLetter, error] {
	return paged(func(cursor string) ([]wire.DeadLetter, string, error) {
		page, err := f.DeadLetters(ctx, item, step, cursor, deskPage)
		return page.Letters, page.Next, err
	})
}

func (f *folderDesk) retry(ctx context.Context, letter wire.DeadLetter, who deed) error {
	return f.RetryDead(ctx, letter.Item, letter.Step, who.by, who.reason, f.began)
}

func (f *folderDesk) drop(ctx context.Context, letter wire.DeadLetter, who deed) error {
	return f.DropDead(ctx, letter.Item, letter.Step, who.by, who.reason, f.began)
}

// everything is more than a folder has.
const everything = 1 << 30

func (f *folderDesk) orphans(ctx context.Context, erase bool, who deed) (wire.Orphans, error) {
	if !erase {
		who.reason = ""
	}
	return f.Orphans(ctx, who.by, who.reason, everything, f.began)
}

// scrub reads every cold copy now, at so many MiB a second at most.
func (f *folderDesk) scrub(ctx context.Context, mibs int64) (wire.Scrub, error) {
	origin, err := walk.Origin(ctx, f.store.Set.Rows, f.began)
	if err != nil {
		return wire.Scrub{}, err
	}
	show, end := f.progress("scrub", "minutes of deadlines")
	defer end()
	return f.Scrub(ctx, scrubber.Run{Rows: walk.Span{From: origin, To: f.began}, Now: f.began, BytesPerSecond: mibs << 20, Progress: show})
}

func (f *folderDesk) records(ctx context.Context) iter.Seq2[wire.AuditRecord, error] {
	return paged(func(cursor string) ([]wire.AuditRecord, string, error) {
		page, err := f.AuditRecords(ctx, cursor, deskPage)
		return page.Records, page.Next, err
	})
}

func (f *folderDesk) verifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
	return f.VerifyAudit(ctx, heads)
}
