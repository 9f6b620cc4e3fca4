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

	lastServed, firstRefused atomic.Int64 // for ben, in Unix milliseconds
	swept                    mayfly.Instant
	afterwards               string
}

func (d *demo) publish(ctx context.Context) error {
	for n := range d.stories {
		l := &life{lifetime: time.Duration(2+n%5) * time.Second}
		audience := mayfly.Everyone
		if n%3 == 2 {
			audience = mayfly.CloseFriends
		}
		medium := make([]byte, 8<<10)
		if _, err := rand.Read(medium); err != nil {
			return err
		}
		l.hash = sha256.Sum256(medium)
		lifetime, err := mayfly.LifetimeOf(l.lifetime)
		if err != nil {
			return err
		}
		in := d.house.node.Intake()
		upload, err := in.Begin(ana(), d.house.now())
		if err != nil {
			return err
		}
		if _, err := upload.Add(ctx, bytes.NewReader(medium)); err != nil {
			return err
		}
		draft := intake.Draft{
			Owner: ana(), Sort: mayfly.Story, Fate: mayfly.Archive, Audience: audience, Lifetime: lifetime,
			Text: fmt.Sprintf("story %d", n+1), Upload: upload, Key: fmt.Sprintf("demo-%d", n),
		}
		l.born = d.house.now()
		p, err := in.Publish(ctx, draft, l.born)
		if err != nil {
			return err
		}
		l.item, l.deadline = p.Item, l.born+mayfly.Instant(l.lifetime.Milliseconds())
		again, err := in.Publish(ctx, draft, d.house.now()) // a client that did not hear the answer
		if err != nil || again.Item.ID != p.Item.ID {
			d.count.blame(double, "a retry of story %d became %s (%v)", n+1, again.Item.ID, err)
		}
		d.lives = append(d.lives, l)
	}
	return nil
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

// awaitSweep waits until every row has been moved, at most 20 seconds.
func (d *demo) awaitSweep(ctx context.Context) error {
	until := time.Now().Add(20 * time.Second)
	for _, l := range d.lives {
		for {
			found, err := d.house.set().Ledger.Get(ctx, l.item.ID)
			if err != nil {
				return err
			}
			if !found[0].Found {
				d.count.blame(lost, "the row of %s", l.item.ID)
				break
			}
			if found[0].Item.State == mayfly.ExpiredHot {
				l.swept = found[0].Item.Changed
				break
			}
			if time.Now().After(until) {
				d.count.blame(late, "%s is still %s", l.item.ID, found[0].Item.State)
				break
			}
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookBack holds the archive, the log and the stored media against what was published.
func (d *demo) lookBack(ctx context.Context) error {
	for _, l := range d.lives {
		l.afterwards = d.openAsAuthor(ctx, l)
	}
	if err := d.readLog(ctx); err != nil {
		return err
	}
	return d.findOrphans(ctx)
}

func (d *demo) openAsAuthor(ctx context.Context, l *life) string {
	_, opened, err := d.house.ask(ctx, l.item.ID, mayfly.ViewerOf(ana()))
	if err != nil || opened.Verdict != gate.Archived {
		d.count.blame(lost, "ana cannot open %s any more: %v", l.item.ID, err)
		return "lost"
	}
	r, _, err := d.house.set().Hot.Open(ctx, opened.Item.MediaKey(opened.Item.Keys.Hot, 0), store.Span{})
	if err != nil {
		d.count.blame(lost, "medium of %s: %v", l.item.ID, err)
		return "medium lost"
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	if err = errors.Join(err, r.Close()); err != nil || [32]byte(h.Sum(nil)) != l.hash {
		d.count.blame(lost, "medium of %s is not what was uploaded: %v", l.item.ID, err)
		return "medium damaged"
	}
	return "archived, hot, hash ok"
}
