package kill

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/verify"
)

// inspect looks at the folder as a kill has left it, before anything goes on: at
// every moment every item that is not deleted has a whole copy (I2), what is
// deleted is not seen (I7), what is held is seen by moderators only, whole (I21).
func (k *killer) inspect(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	cfg := workerConfig(k.data)
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		t.Fatalf("MAYFLY_SEED=%d: %v", k.seed, err)
	}
	o := workerOptions(cfg)
	o.Idle = true
	n, err := node.Start(ctx, s.Set, o)
	if err != nil {
		t.Fatalf("MAYFLY_SEED=%d: %v", k.seed, errors.Join(err, s.Close()))
	}
	now := n.Clock().Read().Steady
	for _, i := range k.expected.items {
		if i.held != yes && now > i.sure().Add(settleTime) {
			continue // retired or purged: nothing is said of it
		}
		k.inspected++
		k.readAs(ctx, n, i, now)
	}
	report, err := verify.Run(ctx, s.Set, verify.Options{Now: now, Bytes: true})
	if err == nil {
		k.expected.count.Merge(&report.Tally)
	}
	if err := errors.Join(err, n.Stop(ctx), s.Close()); err != nil {
		t.Fatalf("MAYFLY_SEED=%d: %v", k.seed, err)
	}
}

// readAs has an item read by its author, and if it is held by a moderator too.
func (k *killer) readAs(ctx context.Context, n *node.Node, i *killItem, now mayfly.Instant) {
	author := workerOwner(i.draft.Owner)
	held := i.held == yes && i.deleted == no && !i.failed
	k.expected.read(i, &workerIntent{Verb: workerRead, At: now, ID: i.id}, readNow(ctx, n, i.id, mayfly.ViewerOf(author), now))
	if !held {
		return
	}
	a := readNow(ctx, n, i.id, mayfly.ModeratorOf(author), now)
	if want := i.draft.hashes(); a.Kind != "" || strings.Join(a.Media, " ") != strings.Join(want, " ") {
		k.expected.count.Add(verify.Lost, "%s is held, and a moderator cannot read it: %s", i.id, a.Error)
	}
}

// readNow reads an item as a worker would.
func readNow(ctx context.Context, n *node.Node, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) *workerAnswer {
	a := &workerAnswer{At: now, ID: id}
	opened, err := n.Gate().Open(ctx, id, viewer, now)
	if err == nil {
		a.Media, err = readMedia(ctx, n.Hydrate(), opened)
	}
	if err != nil {
		a.Kind, a.Error = kindWord(err), err.Error()
	}
	return a
}
