package kill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// hand does one operation after the other.
type hand struct {
	*worker
	number int
	rand   *rand.Rand
}

func newHand(w *worker, number int) *hand {
	return &hand{worker: w, number: number, rand: rand.New(rand.NewPCG(w.seed, uint64(number)))}
}

func (h *hand) work(ctx context.Context) error {
	for {
		if err := h.step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		if err := h.node.Err(); err != nil {
			return err
		}
		if loop.Rest(ctx, time.Duration(h.rand.IntN(16))*time.Millisecond) != nil {
			return nil // it is to stop
		}
	}
}

// step executes one operation. It returns the error of a pipe that is not read.
func (h *hand) step(ctx context.Context) error {
	every := func(*workerItem) bool { return true }
	switch n := h.rand.IntN(100); {
	case n < 35:
		return h.publish(ctx, h.draft())
	case n < 40:
		if d, ok := h.known.pickRetry(h.rand); ok {
			return h.publish(ctx, d)
		}
		return nil
	case n < 62:
		return h.with(every, func(i *workerItem) error { return h.read(ctx, i, false) })
	case n < 72:
		return h.with(every, func(i *workerItem) error { return h.read(ctx, i, true) })
	case n < 80:
		return h.with(every, func(i *workerItem) error { return h.delete(ctx, i) })
	case n < 86:
		return h.with(every, func(i *workerItem) error { return h.hold(ctx, i, true) })
	case n < 92:
		return h.with(func(i *workerItem) bool { return i.held }, func(i *workerItem) error { return h.hold(ctx, i, false) })
	}
	ended := func(i *workerItem) bool { return i.id.ExpiredAt(h.now()) }
	return h.with(ended, func(i *workerItem) error { return h.restore(ctx, i) })
}

func (h *hand) now() mayfly.Instant { return h.node.Clock().Read().Steady }

// with calls a function with an item that no other goroutine uses.
func (h *hand) with(which func(*workerItem) bool, do func(*workerItem) error) error {
	item := h.known.pick(h.rand, which)
	if item == nil {
		return nil
	}
	held := item.held
	changed := *item
	err := do(&changed)
	if err == nil {
		held = changed.held
	}
	h.known.putBack(item, held)
	return err
}

// operation writes the intent, calls execute, and writes the answer.
func (h *hand) operation(in workerIntent, execute func(*workerAnswer) error) error {
	in.N = h.next.Add(1)
	if err := h.tell(workerLine{Intent: &in}); err != nil {
		return err
	}
	answer := workerAnswer{N: in.N}
	if err := execute(&answer); err != nil {
		answer.Kind, answer.Error = kindWord(err), err.Error()
		answer.Error = answer.Error[:min(len(answer.Error), 500)]
	}
	answer.At = h.now()
	return h.tell(workerLine{Answer: &answer})
}

// draft is something new to publish.
func (h *hand) draft() workerDraft {
	d := workerDraft{
		Text:  fmt.Sprintf("%016x-%d-%d", h.seed, h.number, h.rand.Uint64()),
		Owner: h.rand.IntN(10), Seconds: 1 + h.rand.IntN(5), Purge: h.rand.IntN(5) == 0, Seed: h.rand.Uint64(),
	}
	if !d.Purge && h.rand.IntN(8) == 0 {
		d.Seconds = 600 // there at the end, however long that takes
	}
	if h.rand.IntN(3) == 0 {
		d.Key = "key " + d.Text
	}
	for range h.rand.IntN(4) {
		size := 1 + h.rand.IntN(8<<10)
		if h.rand.IntN(6) == 0 {
			size = 1 + h.rand.IntN(200<<10)
		}
		d.Sizes = append(d.Sizes, size)
	}
	return d
}

func (h *hand) publish(ctx context.Context, d workerDraft) error {
	media, err := h.node.Uploads().Begin(workerOwner(d.Owner), h.now()) // writes nothing yet
	if err != nil {
		return err
	}
	in := workerIntent{Verb: workerPublish, At: h.now(), Draft: &d, Upload: media.ID}
	var p intake.Published
	err = h.operation(in, func(a *workerAnswer) error {
		for n := range d.Sizes {
			if _, err := media.Add(ctx, bytes.NewReader(d.medium(n))); err != nil {
				return err
			}
		}
		draft, err := draftOf(d, media)
		if err != nil {
			return err
		}
		p, err = h.node.Intake().Publish(ctx, draft, h.now())
		a.ID, a.Upload = p.Item.ID, p.Item.Upload
		return err
	})
	// After the answer: a goroutine that takes them from here writes its lines later.
	if !p.Item.ID.IsZero() && !p.Again {
		h.known.add(workerItem{id: p.Item.ID, owner: d.Owner})
	}
	if d.Key != "" && h.rand.IntN(3) > 0 {
		h.known.retry(d)
	}
	return err
}

func draftOf(d workerDraft, media *upload.Upload) (intake.Draft, error) {
	lifetime, err := mayfly.LifetimeOf(time.Duration(d.Seconds) * time.Second)
	draft := intake.Draft{
		Owner: workerOwner(d.Owner), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		Lifetime: lifetime, Text: d.Text, Key: d.Key,
	}
	if d.Purge {
		draft.Product, draft.Fate = mayfly.Paste, mayfly.Purge
	}
	if len(d.Sizes) > 0 {
		draft.Upload = media
	}
	return draft, err
}

func (h *hand) read(ctx context.Context, item *workerItem, stranger bool) error {
	viewer := mayfly.ViewerOf(workerOwner(item.owner))
	if stranger {
		viewer = mayfly.Viewer{}
	}
	now := h.node.Clock().Read().Now
	in := workerIntent{Verb: workerRead, At: now, ID: item.id, Stranger: stranger}
	return h.operation(in, func(a *workerAnswer) error {
		opened, err := h.node.Gate().Open(ctx, item.id, viewer, now)
		if err != nil {
			return err
		}
		a.ID = opened.Item.ID
		a.Media, err = readMedia(ctx, h.node.Hydrate(), opened)
		return err
	})
}

// readMedia reads and hashes the media of what the gate has opened.
func readMedia(ctx context.Context, hydrate *hydrate.Hydrate, opened gate.Opened) (hashes []string, err error) {
	for n := range opened.Body.Media {
		m, err := hydrate.Open(ctx, opened.Item, opened.Body, n, store.Span{})
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		_, err = io.Copy(hash, m)
		if err := errors.Join(err, m.Close()); err != nil {
			return nil, err
		}
		hashes = append(hashes, hashText([32]byte(hash.Sum(nil))))
	}
	return hashes, nil
}

func (h *hand) delete(ctx context.Context, item *workerItem) error {
	in := workerIntent{Verb: workerDelete, At: h.now(), ID: item.id}
	return h.operation(in, func(*workerAnswer) error {
		_, err := h.node.Erase().Delete(ctx, item.id, mayfly.ByUser, in.At)
		return err
	})
}

func (h *hand) hold(ctx context.Context, item *workerItem, hold bool) error {
	in := workerIntent{Verb: workerRelease, At: h.now(), ID: item.id}
	do := h.node.Restore().Release
	if hold {
		in.Verb, do = workerHold, h.node.Restore().Hold
	}
	return h.operation(in, func(*workerAnswer) error {
		err := do(ctx, item.id, audit.Actor{Subject: "worker"}, "a test", in.At)
		if err == nil {
			item.held = hold
		}
		return err
	})
}

func (h *hand) restore(ctx context.Context, item *workerItem) error {
	now := h.now()
	soonest := now.Add(2*workerConfig("").Births.RemindAfter + workerRestore)
	in := workerIntent{Verb: workerBringBack, At: now, ID: item.id, Until: soonest.Add(time.Duration(h.rand.IntN(2000)) * time.Millisecond)}
	return h.operation(in, func(*workerAnswer) error {
		_, err := h.node.Restore().Item(ctx, restore.Request{ID: item.id, Until: in.Until, By: audit.Actor{Subject: "worker"}, Reason: "a test"}, now)
		return err
	})
}
