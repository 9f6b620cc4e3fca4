package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/adminapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/scrub"
)

// Desk is where support and operators work, in the shapes that travel: the admin
// listener and the command line on a stopped folder say the same of the same.
type Desk struct{ n *Node }

// Desk is the node's.
func (n *Node) Desk() Desk { return Desk{n} }

// Operations returns what the admin API does.
func (o operator) Operations() adminapi.Operations { return o.Node.Desk() }

// restoredFor is how long a restored item serves unless it is said.
const restoredFor = 24 * time.Hour

// Restore brings one item back, or undoes a run of a walk, as by wishes. Progress
// is told how many of how many items of a run are back; it may be nil. Of a run
// that is undone in part, what is wrong is counted and no error.
func (d Desk) Restore(ctx context.Context, in wire.RestoreRequest, by string, progress func(done, of int), now mayfly.Instant) (wire.Restored, error) {
	until := now.Add(restoredFor)
	if in.Until != nil && *in.Until != 0 {
		until = *in.Until
	}
	switch {
	case (in.ID == nil) == (in.Run == ""):
		return wire.Restored{}, mayfly.Errorf(mayfly.Invalid, "one item, or one run").WithHint("say id or run")
	case in.Run != "":
		return d.undo(ctx, in, by, until, progress, now)
	}
	item, err := d.n.Restore().Item(ctx, restore.Request{ID: *in.ID, Until: until, By: by, Reason: in.Reason}, now)
	if err != nil {
		return wire.Restored{}, err
	}
	return wire.Restored{ID: &item.ID, ServesUntil: &item.ServesUntil, Restored: 1}, nil
}

func (d Desk) undo(ctx context.Context, in wire.RestoreRequest, by string, until mayfly.Instant, progress func(done, of int), now mayfly.Instant) (wire.Restored, error) {
	run, err := parseRun(in.Run)
	if err != nil {
		return wire.Restored{}, err
	}
	if in.Max < 0 {
		return wire.Restored{}, mayfly.Errorf(mayfly.Invalid, "max is negative").WithHint("say how many items may be restored at most, or nothing")
	}
	request := restore.UndoRequest{Until: until, By: by, Reason: in.Reason, DryRun: in.DryRun, Max: in.Max}
	if progress != nil {
		request.Progress = func(u restore.Undone) { progress(u.Restored, u.Found) }
	}
	done, err := d.n.Restore().Undo(ctx, run, request, now)
	out := wire.Restored{
		Found: done.Found, Restored: done.Restored, Refused: done.Refused, Failed: done.Failed,
		Ahead: done.Ahead, Held: done.Held, Deleted: done.Deleted, Back: done.Back,
	}
	for _, why := range done.Why {
		out.Why = append(out.Why, why.Error())
	}
	if done.Failed > 0 && errors.Is(err, mayfly.Unavailable) && ctx.Err() == nil {
		return out, nil
	}
	return out, err
}

// parseRun reads a run as runText writes it.
func parseRun(text string) (mayfly.Run, error) {
	run, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, mayfly.Errorf(mayfly.Invalid, "%.20q is no run", text).WithHint("a run has 16 hexadecimal digits; mayfly restore --runs lists them")
	}
	return mayfly.Run(run), nil
}

func runText(run mayfly.Run) string { return fmt.Sprintf("%016x", uint64(run)) }

// Orphans looks for media that no item owns, at so many objects of a tier at most
// (0: as many as a node does), and tells; with a reason it erases them.
func (d Desk) Orphans(ctx context.Context, by, reason string, most int, now mayfly.Instant) (wire.Orphans, error) {
	r, err := d.n.engine.collect.Orphans(ctx, collect.Run{
		Now: now, Floor: d.n.o.OrphanAge, Most: most, Erase: reason != "", By: by, Reason: reason,
	})
	out := wire.Orphans{Looked: r.Looked, Orphans: r.Orphans, Erased: r.Deleted, Strange: r.Strange, Capped: r.Capped, Whole: r.Whole, Examples: []string{}}
	for _, key := range r.Examples {
		out.Examples = append(out.Examples, string(key))
	}
	return out, err
}

// Scrubbed is what the node's scrub has read and found since it started.
func (d Desk) Scrubbed() wire.Scrub {
	s := d.n.Scrubbed()
	out := wire.Scrub{
		Items: int64(s.Items), Objects: int64(s.Objects), Bytes: int64(s.Bytes), Mismatch: int64(s.BadObjects), Again: int64(s.Again),
		Bad: badCopies(s.Bad),
	}
	if s.At != 0 {
		out.At = &s.At
	}
	return out
}

// Scrub reads the cold copies of a span now.
func (d Desk) Scrub(ctx context.Context, run scrub.Run) (wire.Scrub, error) {
	r, err := d.n.engine.scrub.All(ctx, run)
	return wire.Scrub{
		At: &run.Now, Items: int64(r.Items), Objects: int64(r.Objects), Bytes: r.Bytes, Mismatch: int64(r.BadObjects), Again: int64(r.Again),
		Bad: badCopies(r.Bad),
	}, err
}

func badCopies(all []scrub.BadCopy) []wire.BadCopy {
	out := make([]wire.BadCopy, len(all))
	for i, bad := range all {
		out[i] = wire.BadCopy{Item: bad.Item, Key: string(bad.Key), Why: bad.Why}
	}
	return out
}
