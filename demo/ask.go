package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

// exchange is one question over HTTP, between two readings of the clock: what is
// served was so at some instant between them.
type exchange struct {
	sent, received mayfly.Instant
	served         bool
	answered       bool
}

// ask asks once. No answer is an error unless the server was away.
func (d *demo) ask(do func() error) (exchange, error) {
	moves := d.host.moves.Load()
	e := exchange{sent: d.host.now()}
	err := do()
	e.received = d.host.now()
	switch {
	case err == nil:
		e.served, e.answered = true, true
	case errors.Is(err, mayfly.Gone), errors.Is(err, mayfly.NotFound):
		e.answered = true
	case d.host.away(moves, err):
		d.asked.unanswered.Add(1)
		return e, nil
	default:
		return e, err
	}
	d.asked.answered.Add(1)
	if e.served {
		d.asked.served.Add(1)
	} else {
		d.asked.refused.Add(1)
	}
	return e, nil
}

const (
	lookNear   = 300 * time.Millisecond // so near to its end only those ask for whom it ends,
	lookAround = 40 * time.Millisecond  // and so near all the time
	lookAfter  = 700 * time.Millisecond
)

// watch asks for a story until a while after its end: everybody now and then,
// those for whom it ends all the time around it.
func (d *demo) watch(ctx context.Context, l *life, w *window) error {
	for {
		left := w.end.Sub(d.host.now())
		if left < -lookAfter {
			return nil
		}
		near := left < lookNear && left > -lookAround
		if err := d.askAround(ctx, l, w, near); err != nil {
			return err
		}
		if err := loop.Rest(ctx, pauseBefore(w.end.Sub(d.host.now()))); err != nil {
			return err
		}
	}
}

// pauseBefore is how long to wait before the next question.
func pauseBefore(left time.Duration) time.Duration {
	const now, soon, later = 300 * time.Microsecond, 10 * time.Millisecond, 150 * time.Millisecond
	switch {
	case left > lookNear:
		return min(later, left-lookNear)
	case left > lookAround:
		return min(soon, left-lookAround)
	case left > -lookAround:
		return now
	default:
		return later
	}
}

// askAround lets everybody ask for the story, and its friend for its medium and
// for the ring; near its end only those for whom it ends.
func (d *demo) askAround(ctx context.Context, l *life, w *window, near bool) error {
	var seen []string
	for _, v := range d.people.around(l) {
		if near && (v.always || !v.permitted) {
			continue
		}
		story, e, err := d.look(ctx, l, v.ask)
		if err != nil {
			return err
		}
		d.judge(w, v, "story "+l.story.ID.String(), e)
		if e.served {
			seen = append(seen, v.name)
		}
		if v.name == d.people.friend(l).name {
			w.note(e)
			if err := d.otherRoutes(ctx, l, w, v, story, near); err != nil {
				return err
			}
		}
		if e.served && v.always {
			l.shows(story.State, nil)
		}
	}
	if !near {
		l.shows("", seen)
	}
	return nil
}

// note keeps the last question that was served and the first answer that was not:
// the end lies between them.
func (w *window) note(e exchange) {
	switch {
	case !e.answered:
	case e.served:
		w.lastServed.Store(max(w.lastServed.Load(), int64(e.sent)))
	default:
		w.firstRefused.CompareAndSwap(0, int64(e.received))
	}
}

func (d *demo) look(ctx context.Context, l *life, c *client.Client) (story wire.Story, e exchange, err error) {
	e, err = d.ask(func() (err error) {
		story, err = c.Story(ctx, l.story.ID)
		return err
	})
	if e.served && (story.ID != l.story.ID || story.Author != l.story.Author) {
		d.count.Add(verify.Leak, "asked for %s, got %s", l.story.ID, story.ID)
	}
	return story, e, err
}

// otherRoutes requests a story by other routes: its medium, by a URL
// that was given while it served, and the ring of its author.
func (d *demo) otherRoutes(ctx context.Context, l *life, w *window, v onlooker, story wire.Story, near bool) error {
	if len(story.Media) > 0 {
		l.setURL(story.Media[0].URL)
	}
	if url := l.mediumURL(); url != "" {
		e, err := d.ask(func() error { return d.sameMedium(ctx, v.ask, url, l) })
		if err != nil {
			return err
		}
		// A URL that has run out is refused before the end; the next answer has a new one.
		if e.served || e.received >= w.end {
			d.judge(w, v, "medium of "+l.story.ID.String(), e)
		}
	}
	if near {
		return nil
	}
	e, err := d.ask(func() error {
		ring, err := v.ask.Ring(ctx, "~"+l.author)
		if err == nil && !slices.ContainsFunc(ring.Stories, func(s wire.Story) bool { return s.ID == l.story.ID }) {
			return mayfly.Gone
		}
		return err
	})
	if err == nil {
		d.judge(w, v, "ring of "+l.story.ID.String(), e)
	}
	return err
}

// sameMedium reads a medium and holds it against what was published.
func (d *demo) sameMedium(ctx context.Context, c *client.Client, url string, l *life) error {
	r, err := c.OpenMedium(ctx, url, 0)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	if err = errors.Join(err, r.Close()); err == nil && hex.EncodeToString(h.Sum(nil)) != l.hash {
		d.count.Add(verify.Lost, "the medium of %s is not what was published", l.story.ID)
	}
	return err
}

// judge holds one answer against plain reckoning: served to a question that came
// at or after the end is late; refused by an answer that came before it is early.
func (d *demo) judge(w *window, v onlooker, what string, e exchange) {
	if !e.answered {
		return
	}
	if e.sent > w.end-50 && e.received < w.end+50 {
		d.asked.close.Add(1)
	}
	switch {
	case e.served && !v.permitted:
		d.count.Add(verify.Leak, "%s saw the %s", v.name, what)
	case e.served && e.sent >= w.end && !v.always && w.firstRefused.Load() != 0:
		d.count.Add(verify.Resurrected, "%s saw the %s again %d ms after its end", v.name, what, e.sent-w.end)
	case e.served && e.sent >= w.end && !v.always:
		d.count.Add(verify.Late, "%s saw the %s %d ms after its end", v.name, what, e.sent-w.end)
	case !e.served && v.always:
		d.count.Add(verify.Lost, "%s was refused the %s", v.name, what)
	case !e.served && v.permitted && e.received < w.end:
		d.count.Add(verify.Early, "%s was refused the %s %d ms before its end", v.name, what, w.end-e.received)
	}
}
