package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

// see sees a story to its end: its deadline, the archive, and what can still
// become of it then, one thing each.
func (d *demo) see(ctx context.Context, l *life, g *errgroup.Group) error {
	if err := d.watch(ctx, l, l.serves); err != nil {
		return err
	}
	d.tell(l, "%s", l.serves.summary(d.people.friend(l).name))
	cold, err := d.awaitCold(ctx, l, l.deadline)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.cold = cold
	l.mu.Unlock()
	if err := d.openFromCold(ctx, l); err != nil {
		return err
	}
	if err := d.showWith(ctx, l, g); err != nil {
		return err
	}
	l.expects(func(e *verify.Expected) {
		if e.Moving = false; e.Deleted == verify.No {
			e.State = mayfly.Cold
		}
	})
	return nil
}

// showWith runs what the demo shows with the story.
func (d *demo) showWith(ctx context.Context, l *life, g *errgroup.Group) error {
	if l.reshared {
		return nil
	}
	switch l.n % 6 {
	case 0:
		return d.showReshare(ctx, l, g)
	case 1:
		return d.showDelete(ctx, l)
	case 2:
		return d.showHold(ctx, l)
	case 3:
		return d.showRestore(ctx, l)
	default:
		return nil
	}
}

// summary says how close to its end a window was seen open and closed.
func (w *window) summary(friend string) string {
	return fmt.Sprintf("%s asks at %s and sees it, and is first refused at %s", friend, offset(w.lastServed.Load(), w.end), offset(w.firstRefused.Load(), w.end))
}

// offset is where an instant lies to the deadline, in milliseconds.
func offset(at int64, deadline mayfly.Instant) string {
	if at == 0 {
		return "-"
	}
	return fmt.Sprintf("%+d ms", at-int64(deadline))
}

// coldWithin is how soon after its end a story must be in cold storage here: the
// window of a second, and what a busy machine takes.
const coldWithin = 20 * time.Second

// awaitCold waits, as its author, until a story whose time ended at end is cold,
// and says how long after it that was.
func (d *demo) awaitCold(ctx context.Context, l *life, end mayfly.Instant) (time.Duration, error) {
	for {
		story, e, err := d.look(ctx, l, d.people.author(l).ask)
		if err != nil {
			return 0, err
		}
		if e.answered && !e.served {
			d.count.Add(verify.Lost, "%s was refused %s", l.author, l.story.ID)
			return 0, nil
		}
		l.shows(story.State, nil)
		since := d.host.now().Sub(end)
		if story.State == mayfly.Cold.String() && story.Tier == "cold" {
			return since, nil
		}
		if since > coldWithin {
			d.count.Add(verify.Late, "%s is still %s, %s after its end", l.story.ID, story.State, since)
			return since, nil
		}
		if err := loop.Rest(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// openFromCold opens a story as its author does, with its medium.
func (d *demo) openFromCold(ctx context.Context, l *life) error {
	author := d.people.author(l)
	begun := time.Now()
	story, err := author.act.Story(ctx, l.story.ID)
	if err == nil && len(story.Media) == 1 {
		err = d.sameMedium(ctx, author.act, story.Media[0].URL, l)
	}
	if err != nil {
		if ctx.Err() == nil {
			d.count.Add(verify.Lost, "%s cannot open %s from cold storage: %v", l.author, l.story.ID, err)
		}
		return ctx.Err()
	}
	l.mu.Lock()
	l.opened = time.Since(begun)
	l.last = "cold"
	l.mu.Unlock()
	d.tell(l, "cold %.1f s after its deadline; %s opens it from there in %s", l.cold.Seconds(), l.author, milliseconds(l.opened))
	return nil
}

// want requires that a viewer can, or cannot, see a story now.
func (d *demo) want(ctx context.Context, l *life, who person, want bool, otherwise verify.Word) error {
	_, e, err := d.look(ctx, l, who.ask)
	if err == nil && e.answered && e.served != want {
		d.count.Add(otherwise, "%s: seen by %s: %t", l.story.ID, who.name, e.served)
	}
	return err
}

// showReshare makes a new story of an archived one, without its bytes.
func (d *demo) showReshare(ctx context.Context, l *life, g *errgroup.Group) error {
	const lasts = 3 * time.Second
	story, err := d.people.author(l).act.Reshare(ctx, l.story.ID, wire.Reshare{Lifetime: lasts.String()}, "")
	if err != nil {
		return fmt.Errorf("reshare %s: %w", l.story.ID, err)
	}
	again := d.born(&publication{author: l.author, hash: l.hash, lasts: lasts}, story)
	again.reshared = true
	g.Go(func() error { return d.see(ctx, again, g) })
	l.became("reshared as %d", again.n)
	d.tell(l, "%s reshares it as story %d, which lives for %s", l.author, again.n, lasts)
	return nil
}

// showDelete deletes a story: it is gone for its author when the answer is
// given, and its bytes soon after.
func (d *demo) showDelete(ctx context.Context, l *life) error {
	author := d.people.author(l)
	l.expects(func(e *verify.Expected) { e.Deleted = verify.Maybe })
	if err := author.act.Delete(ctx, l.story.ID); err != nil {
		return fmt.Errorf("delete %s: %w", l.story.ID, err)
	}
	l.expects(func(e *verify.Expected) { e.Deleted = verify.Yes })
	if err := d.want(ctx, l, author, false, verify.Resurrected); err != nil {
		return err
	}
	l.shows(mayfly.Deleted.String(), []string{})
	took, err := d.awaitErased(ctx, l.story.ID, d.host.now())
	if err != nil {
		return err
	}
	l.became("deleted")
	d.tell(l, "%s deletes it: gone at once, its bytes erased from both tiers %.1f s later", l.author, took.Seconds())
	return nil
}

// awaitErased waits until nothing is left of the content of an item that ended, and
// returns how long after its end that was.
func (d *demo) awaitErased(ctx context.Context, id mayfly.ID, end mayfly.Instant) (time.Duration, error) {
	for {
		erased, err := d.host.isErased(ctx, id)
		since := d.host.now().Sub(end)
		if err == nil && !erased && since > coldWithin {
			d.count.Add(verify.Late, "%s has ended and is not erased", id)
		}
		if err != nil || erased || since > coldWithin {
			return since, err
		}
		if err := loop.Rest(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// showHold holds a story: hidden from its author too, until it is released.
func (d *demo) showHold(ctx context.Context, l *life) error {
	l.expects(func(e *verify.Expected) { e.Held = verify.Maybe })
	if err := d.people.operator.Hold(ctx, l.story.ID, "a demonstration"); err != nil {
		return fmt.Errorf("hold %s: %w", l.story.ID, err)
	}
	l.shows("held", []string{d.people.moderator.name})
	if err := d.want(ctx, l, d.people.author(l), false, verify.Leak); err != nil {
		return err
	}
	if err := d.want(ctx, l, d.people.moderator, true, verify.Lost); err != nil {
		return err
	}
	if err := loop.Rest(ctx, time.Second); err != nil {
		return err
	}
	if err := d.people.operator.Release(ctx, l.story.ID, "the demonstration goes on"); err != nil {
		return fmt.Errorf("release %s: %w", l.story.ID, err)
	}
	l.expects(func(e *verify.Expected) { e.Held = verify.No })
	l.shows(mayfly.Cold.String(), []string{l.author, d.people.moderator.name})
	l.became("held, released")
	d.tell(l, "held: hidden from %s too, shown to a moderator; released, it is %s's again", l.author, l.author)
	return d.want(ctx, l, d.people.author(l), true, verify.Lost)
}

// showRestore restores a story for a few seconds: users who could see it do again,
// until then and not one millisecond longer.
func (d *demo) showRestore(ctx context.Context, l *life) error {
	until := d.host.now().Add(5 * time.Second)
	if err := d.restore(ctx, l, until); err != nil {
		return fmt.Errorf("restore %s: %w", l.story.ID, err)
	}
	l.mu.Lock()
	l.until, l.url = until, ""
	l.mu.Unlock()
	d.tell(l, "support restores it from cold storage for 5 s")
	w := &window{end: until}
	if err := d.watch(ctx, l, w); err != nil {
		return err
	}
	if _, err := d.awaitCold(ctx, l, until); err != nil {
		return err
	}
	l.expects(func(e *verify.Expected) { e.Ends = 2 })
	l.became("restored, cold again")
	d.tell(l, "restored: %s; it is cold again", w.summary(d.people.friend(l).name))
	return d.want(ctx, l, d.people.author(l), true, verify.Lost)
}

// restore brings a story back until then. A restore has to be quick where every
// window is in seconds: on a busy machine it is tried again.
func (d *demo) restore(ctx context.Context, l *life, until mayfly.Instant) error {
	for again := false; ; again = true {
		_, err := d.people.operator.Restore(ctx, wire.RestoreRequest{ID: &l.story.ID, Until: &until, Reason: "a demonstration"})
		switch {
		case err == nil, again && errors.Is(err, mayfly.Conflict): // it serves: the try before had done it
			return nil
		case !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown), until.Sub(d.host.now()) < 2500*time.Millisecond:
			return err
		}
		if err := loop.Rest(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
