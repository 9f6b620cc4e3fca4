package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/gate"
	"github.com/mayflyhq/mayfly/intake"
	"github.com/mayflyhq/mayfly/store"
)

// life is what the demonstration knows of one story, by its own reckoning: the
// deadline is birth plus lifetime in plain milliseconds, not asked of the id.
type life struct {
	item           mayfly.Item
	lifetime       time.Duration
	born, deadline mayfly.Instant
	hash           [32]byte
	twice          mayfly.ID // what its retry was answered with

	lastServed, firstRefused atomic.Int64   // for ben, in Unix milliseconds
	changed                  mayfly.Instant // when its row came into the state that was waited for
	afterwards               string
}

func (d *demo) publish(ctx context.Context) error {
	for len(d.lives) < d.stories {
		l, err := newLife(ctx, d.house, len(d.lives), "demo")
		if err != nil {
			return err
		}
		if l.twice != l.item.ID {
			d.count.blame(double, "a retry of story %d became %s", len(d.lives)+1, l.twice)
		}
		d.lives = append(d.lives, l)
	}
	return nil
}

// newLife publishes the n-th story, and once more as a client does that did not
// hear the answer.
func newLife(ctx context.Context, h *house, n int, key string) (*life, error) {
	l := &life{lifetime: time.Duration(3+n%5) * time.Second}
	audience := mayfly.Everyone
	if n%3 == 2 {
		audience = mayfly.CloseFriends
	}
	medium := make([]byte, 8<<10)
	if _, err := rand.Read(medium); err != nil {
		return nil, err
	}
	l.hash = sha256.Sum256(medium)
	lifetime, err := mayfly.LifetimeOf(l.lifetime)
	if err != nil {
		return nil, err
	}
	in := h.node.Intake()
	upload, err := in.Begin(ana(), h.now())
	if err != nil {
		return nil, err
	}
	if _, err := upload.Add(ctx, bytes.NewReader(medium)); err != nil {
		return nil, err
	}
	draft := intake.Draft{
		Owner: ana(), Sort: mayfly.Story, Fate: mayfly.Archive, Audience: audience, Lifetime: lifetime,
		Text: fmt.Sprintf("story %d", n+1), Upload: upload, Key: fmt.Sprintf("%s-%d", key, n),
	}
	l.born = h.now()
	p, err := in.Publish(ctx, draft, l.born)
	if err != nil {
		return nil, err
	}
	l.item, l.deadline = p.Item, l.born+mayfly.Instant(l.lifetime.Milliseconds())
	again, err := in.Publish(ctx, draft, h.now())
	l.twice = again.Item.ID
	return l, err
}

// ask opens every story for everybody until well after its deadline, most often
// around it. The answer waits for the last of them.
func (d *demo) ask(ctx context.Context) (wait func() error) {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range d.lives {
		g.Go(func() error {
			for {
				now, err := d.askAll(ctx, l)
				if err != nil {
					return err
				}
				left := l.deadline.Sub(now)
				if left < -1500*time.Millisecond {
					return nil
				}
				pause := 10 * time.Millisecond
				if left < 20*time.Millisecond && left > -20*time.Millisecond {
					pause = 200 * time.Microsecond
				}
				if err := sleep(ctx, pause); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait
}

func (d *demo) askAll(ctx context.Context, l *life) (now mayfly.Instant, err error) {
	everyone := l.item.Audience == mayfly.Everyone
	viewers := []struct {
		name      string
		viewer    mayfly.Viewer
		permitted bool // while it lives
		always    bool
	}{
		{"ben", mayfly.ViewerOf(ben()), true, false},
		{"a stranger", mayfly.ViewerOf(stranger()), everyone, false},
		{"somebody without an account", mayfly.Viewer{}, everyone, false},
		{"a moderator", mayfly.ModeratorOf(stranger()), true, true},
		{"ana", mayfly.ViewerOf(ana()), true, true},
	}
	for _, v := range viewers {
		var opened gate.Opened
		now, opened, err = d.house.ask(ctx, l.item.ID, v.viewer)
		served := err == nil
		if err != nil && !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.NotFound) {
			return now, err
		}
		d.judge(l, v.name, now, served, v.permitted, v.always)
		if v.name == "ben" && served {
			l.lastServed.Store(int64(now))
		} else if v.name == "ben" {
			l.firstRefused.CompareAndSwap(0, int64(now))
		}
		if served && opened.Item.ID != l.item.ID {
			d.count.blame(leak, "asked for %s, got %s", l.item.ID, opened.Item.ID)
		}
	}
	return now, nil
}

// judge holds one answer against plain reckoning.
func (d *demo) judge(l *life, who string, now mayfly.Instant, served, permitted, always bool) {
	d.count.asked.Add(1)
	if served {
		d.count.served.Add(1)
	} else {
		d.count.refused.Add(1)
	}
	if off := now - l.deadline; off > -50 && off < 50 {
		d.count.close.Add(1)
	}
	ended := now >= l.deadline
	switch {
	case served && !permitted:
		d.count.blame(leak, "%s saw %s", who, l.item.ID)
	case served && ended && !always && l.firstRefused.Load() != 0:
		d.count.blame(resurrected, "%s saw %s again %d ms after its deadline", who, l.item.ID, now-l.deadline)
	case served && ended && !always:
		d.count.blame(late, "%s saw %s %d ms after its deadline", who, l.item.ID, now-l.deadline)
	case !served && permitted && (always || !ended):
		w := early
		if always {
			w = lost
		}
		d.count.blame(w, "%s was refused %s %d ms before its deadline", who, l.item.ID, l.deadline-now)
	}
}

// awaitState waits until every row is in a state, at most 20 seconds.
func (d *demo) awaitState(ctx context.Context, state mayfly.State, lives ...*life) error {
	until := time.Now().Add(20 * time.Second)
	for _, l := range lives {
		for {
			found, err := d.house.set().Ledger.Get(ctx, l.item.ID)
			if err != nil {
				return err
			}
			if !found[0].Found {
				d.count.blame(lost, "the row of %s", l.item.ID)
				break
			}
			if l.item = found[0].Item; l.item.State == state {
				l.changed = l.item.Changed
				break
			}
			if time.Now().After(until) {
				d.count.blame(late, "%s is still %s, not %s", l.item.ID, l.item.State, state)
				break
			}
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// openAsAuthor reads a story as its author does, from wherever its medium is.
func (d *demo) openAsAuthor(ctx context.Context, l *life) string {
	_, opened, err := d.house.ask(ctx, l.item.ID, mayfly.ViewerOf(ana()))
	if err != nil || opened.Verdict != gate.Archived {
		d.count.blame(lost, "ana cannot open %s any more: %v", l.item.ID, err)
		return "lost"
	}
	m, err := d.house.node.Hydrate().Open(ctx, opened.Item, opened.Body, 0, store.Span{})
	if err != nil {
		d.count.blame(lost, "medium of %s: %v", l.item.ID, err)
		return "medium lost"
	}
	h := sha256.New()
	_, err = io.Copy(h, m)
	if err = errors.Join(err, m.Close()); err != nil || [32]byte(h.Sum(nil)) != l.hash {
		d.count.blame(lost, "medium of %s is not what was uploaded: %v", l.item.ID, err)
		return "medium damaged"
	}
	return fmt.Sprintf("archived, %s, hash ok", m.Tier)
}
