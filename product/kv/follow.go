package kv

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store/loop"
)

const (
	// pollEvery is how often expired entries are looked for: events are at most a second
	// late. After a full page there may be more, and pollFull is the pause.
	pollEvery = 250 * time.Millisecond
	pollFull  = 25 * time.Millisecond
	pollPage  = 500

	// maxWaiting is how many bytes of expired entries wait for followers that are slow.
	// One that is further behind is left behind: it would keep all that follow in memory.
	maxWaiting = 4 << 20
)

// feed reads the expired entries of a namespace once for all who follow it.
type feed struct {
	mu        sync.Mutex
	followers int
	reader    *duePoll // nil: without followers
}

// duePoll is the reading of a feed, from its first follower to its last.
type duePoll struct {
	stop context.CancelFunc
	at   Expired // where next begins
	next *duePage

	waiting []*duePage // those with entries, the oldest first
	bytes   int        // of waiting
}

// duePage is a page of expired entries. When it is there, ready is closed.
type duePage struct {
	ready chan struct{}
	due   []Expired // empty: it was forgotten
	next  *duePage
}

// bytes is what the entries of a page take in memory.
func (p *duePage) bytes() (n int) {
	for i := range p.due {
		n += len(p.due[i].Key) + 32
	}
	return n
}

// Follow calls do with the entries that expire after a position, in order and each once,
// until ctx ends, do fails, or check, which it calls once a second, and returns that
// error. While the store is not reachable it waits. Errors: Unsupported (the namespace
// has no events), Limited (do is so slow that entries were forgotten).
func (s *Space) Follow(ctx context.Context, read func() clock.Reading, after Expired, check func(context.Context) error, do func([]Expired) error) error {
	if !s.Settings().Events {
		return mayfly.Errorf(mayfly.Unsupported, "namespace %s has no events", s.Name).WithHint("make a namespace with events")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var checks sync.WaitGroup
	checks.Go(func() {
		for loop.Rest(ctx, time.Second) == nil {
			if err := check(ctx); err != nil {
				cancel(err)
			}
		}
	})
	defer checks.Wait()
	defer cancel(nil)
	next, begin := s.feed.join(s, read)
	defer s.feed.leave()
	for before(after, begin) { // what others have had already
		due, err := s.Due(ctx, read(), after, pollPage)
		pause := pollFull
		switch {
		case err != nil:
			pause = pollEvery
		case len(due) == 0:
			after = begin
		default:
			if err := do(due); err != nil {
				return err
			}
			after = due[len(due)-1]
		}
		if loop.Rest(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.ready:
		}
		due := s.feed.entries(next)
		if due == nil {
			return mayfly.Errorf(mayfly.Limited, "more than %d bytes of expired keys wait to be read", maxWaiting).WithHint("read events faster")
		}
		next = next.next
		for len(due) > 0 && !before(after, due[0]) {
			due = due[1:]
		}
		if len(due) == 0 {
			continue
		}
		if err := do(due); err != nil {
			return err
		}
		after = due[len(due)-1]
	}
}

// AllUntil returns the position behind all entries that have expired at now.
func AllUntil(now mayfly.Instant) Expired {
	return Expired{At: now, Key: strings.Repeat("\xff", MaxKey)}
}

// before reports whether a position is before another one.
func before(a, b Expired) bool { return a.At < b.At || a.At == b.At && a.Key < b.Key }

// join returns the page that comes next, and where it begins. The first follower starts
// the reading.
func (f *feed) join(s *Space, read func() clock.Reading) (*duePage, Expired) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers++; f.reader == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f.reader = &duePoll{stop: cancel, at: AllUntil(read().Steady), next: &duePage{ready: make(chan struct{})}}
		go f.poll(ctx, f.reader, s, read)
	}
	return f.reader.next, f.reader.at
}

// entries returns the entries of a page that is there; nil if they were forgotten.
func (f *feed) entries(page *duePage) []Expired {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page.due
}

// keep keeps a page for slow followers, and forgets the oldest that are too many.
func (p *duePoll) keep(page *duePage) {
	p.waiting, p.bytes = append(p.waiting, page), p.bytes+page.bytes()
	for p.bytes > maxWaiting && len(p.waiting) > 1 {
		p.bytes -= p.waiting[0].bytes()
		p.waiting[0].due = nil
		p.waiting = p.waiting[1:]
	}
}

// leave stops the reading after the last follower.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers--; f.followers == 0 {
		f.reader.stop()
		f.reader = nil
	}
}

// poll makes pages until ctx ends. An error is one of the store: the next turn tries again.
func (f *feed) poll(ctx context.Context, p *duePoll, s *Space, read func() clock.Reading) {
	page, after := p.next, p.at
	for {
		pause := pollEvery
		if due, err := s.Due(ctx, read(), after, pollPage); err == nil && len(due) > 0 {
			after = due[len(due)-1]
			page.due, page.next = due, &duePage{ready: make(chan struct{})}
			f.mu.Lock()
			p.at, p.next = after, page.next
			p.keep(page)
			f.mu.Unlock()
			close(page.ready)
			page = page.next
			if len(due) == pollPage {
				pause = pollFull
			}
		}
		if loop.Rest(ctx, pause) != nil {
			return
		}
	}
}
