package cli

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/node"
	"github.com/mayflyhq/mayfly/restore"
)

// afterwards shows what can still become of archived stories, with one each.
func (d *demo) afterwards(ctx context.Context) error {
	if len(d.lives) < 3 {
		return nil
	}
	for _, show := range []func(context.Context, *life) error{d.showDelete, d.showHold, d.showRestore} {
		l := d.lives[len(d.shown)]
		d.shown = append(d.shown, l)
		if err := show(ctx, l); err != nil {
			return err
		}
	}
	return d.verifyAll(ctx)
}

// sees says whether a viewer is shown the story now.
func (d *demo) sees(ctx context.Context, l *life, v mayfly.Viewer) (bool, error) {
	_, _, err := d.house.ask(ctx, l.item.ID, v)
	if err == nil || errors.Is(err, mayfly.Gone) || errors.Is(err, mayfly.NotFound) {
		d.count.asked.Add(1)
		return err == nil, nil
	}
	return false, err
}

// want wants a viewer to see the story, or not to.
func (d *demo) want(ctx context.Context, l *life, who string, v mayfly.Viewer, want bool, otherwise word) error {
	got, err := d.sees(ctx, l, v)
	if err == nil && got != want {
		d.count.blame(otherwise, "%s: seen by %s: %t", l.item.ID, who, got)
	}
	return err
}

// showDelete deletes a story: it is gone for its author when the answer is
// given, and its bytes soon after.
func (d *demo) showDelete(ctx context.Context, l *life) error {
	if _, err := d.house.node.Erase().Delete(ctx, l.item.ID, mayfly.ByUser, d.house.now()); err != nil {
		return err
	}
	if err := d.want(ctx, l, "ana", mayfly.ViewerOf(ana()), false, resurrected); err != nil {
		return err
	}
	start := d.house.now()
	for {
		body, err := d.house.set().Ledger.Body(ctx, l.item.ID)
		if err != nil {
			return err
		}
		if !body[0].Found {
			break
		}
		if d.house.now().Sub(start) > 20*time.Second {
			d.count.blame(late, "%s is deleted and not erased", l.item.ID)
			break
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	l.afterwards = "deleted"
	d.say("\nana deletes story 1: gone at once, its bytes erased from both tiers %.1f s later.", d.house.now().Sub(start).Seconds())
	return nil
}

// showHold holds a story: hidden from its author too, until it is released.
func (d *demo) showHold(ctx context.Context, l *life) error {
	desk := d.house.node.Restore()
	if err := desk.Hold(ctx, l.item.ID, "ben", "a demonstration", d.house.now()); err != nil {
		return err
	}
	if err := errors.Join(
		d.want(ctx, l, "ana", mayfly.ViewerOf(ana()), false, leak),
		d.want(ctx, l, "a moderator", mayfly.ModeratorOf(stranger()), true, lost),
	); err != nil {
		return err
	}
	if err := desk.Release(ctx, l.item.ID, "ben", "the demonstration goes on", d.house.now()); err != nil {
		return err
	}
	d.say("story 2 is held: hidden from ana too, shown to a moderator; released, it is ana's again.")
	return d.want(ctx, l, "ana", mayfly.ViewerOf(ana()), true, lost)
}

// showRestore brings a story back for a few seconds: ben sees it until then and
// not one millisecond longer.
func (d *demo) showRestore(ctx context.Context, l *life) error {
	until := d.house.now().Add(3 * time.Second)
	if _, err := d.house.node.Restore().Item(ctx, restore.Request{ID: l.item.ID, Until: until, By: "ana", Reason: "a demonstration"}, d.house.now()); err != nil {
		return err
	}
	last := mayfly.Instant(0)
	for {
		now, _, err := d.house.ask(ctx, l.item.ID, mayfly.ViewerOf(ben()))
		d.count.asked.Add(1)
		served := err == nil
		switch {
		case err != nil && !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.NotFound):
			return err
		case served && now >= until:
			d.count.blame(late, "ben saw %s %d ms after its restore was over", l.item.ID, now-until)
		case !served && now < until:
			d.count.blame(early, "ben was refused %s %d ms before its restore was over", l.item.ID, until-now)
		}
		if served {
			last = now
		}
		if now > until.Add(100*time.Millisecond) {
			break
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	if err := d.awaitState(ctx, mayfly.Cold, l); err != nil {
		return err
	}
	d.say("support restores story 3 from cold storage for 3 seconds: ben last saw it %d ms before its end; it is cold again: %s.", until-last, d.openAsAuthor(ctx, l))
	return nil
}

// verifyAll reads the whole ledger and both tiers once more.
func (d *demo) verifyAll(ctx context.Context) error {
	v, err := node.Verify(ctx, d.house.set(), node.Verification{Now: d.house.now(), Ahead: time.Minute, Late: 10 * time.Second, Window: time.Second, Bytes: true})
	if err != nil {
		return err
	}
	for w, n := range map[word]int64{lost: v.Lost, resurrected: v.Resurrected, early: v.Early, late: v.Late, leak: v.Leak, double: v.Double} {
		if n > 0 {
			d.count.blame(w, "verify counts %d: %v", n, v.Found)
		}
	}
	d.say("the whole folder is read and verified: %d items, %d media, %d bytes.", v.Items, v.Media, v.Bytes)
	return nil
}
