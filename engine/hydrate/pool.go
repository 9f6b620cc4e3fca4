package hydrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// making is the pool that makes renditions, with a bounded queue (I17).
type making struct {
	room    *semaphore.Weighted // free capacity in pixels
	flights singleflight.Group
	ctx     context.Context // for work that continues after the request that started it
	stop    context.CancelFunc

	mu      sync.Mutex
	waiting int
	queue   []rendition
	workers int
	closed  bool
	all     sync.WaitGroup

	yields int           // how much work the queue makes way for
	idle   chan struct{} // closed when there is none; nil: there is none
}

// yieldFor is how long a queued rendition makes way for other work at most, so that
// under steady load some are still made.
const yieldFor = time.Second

// Yield makes queued renditions wait until done is called: decoding pictures must not
// compete for a core with work that a user waits for. A rendition that a user asks
// for does not wait.
func (h *Hydrate) Yield() (done func()) {
	mk := &h.making
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if mk.yields++; mk.idle == nil {
		mk.idle = make(chan struct{})
	}
	return func() {
		mk.mu.Lock()
		defer mk.mu.Unlock()
		if mk.yields--; mk.yields == 0 {
			close(mk.idle)
			mk.idle = nil
		}
	}
}

// awaitIdle waits until no other work is in progress, for yieldFor at most.
func (mk *making) awaitIdle() {
	mk.mu.Lock()
	idle := mk.idle
	mk.mu.Unlock()
	if idle == nil {
		return
	}
	ctx, cancel := context.WithTimeout(mk.ctx, yieldFor)
	defer cancel()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func (mk *making) open(o Options) {
	mk.room = semaphore.NewWeighted(int64(o.Workers) * o.Limits.Pixels)
	mk.ctx, mk.stop = context.WithCancel(context.Background())
}

// Close stops the pool; waiting callers get Unavailable.
func (h *Hydrate) Close() {
	h.making.mu.Lock()
	h.making.closed, h.making.queue = true, nil
	h.making.mu.Unlock()
	h.making.stop()
	h.making.all.Wait()
}

// MakeRenditions queues the renditions of an item, so that they are made before the
// first request. If the queue is full, the first request makes them.
func (h *Hydrate) MakeRenditions(item mayfly.Item, body mayfly.Body) {
	if len(body.Media) > mayfly.MaxMedia {
		return
	}
	for m, medium := range body.Media {
		for _, longest := range []int{mayfly.LargeRendition, mayfly.SmallRendition} { // the small one is made from the large one
			if n, ok := mayfly.RenditionOf(m, longest); ok && media.HasPicture(medium.Type) && !isOwnRendition(medium, longest) {
				h.enqueue(rendition{item: item, body: body, m: m, n: n, longest: longest, now: item.Changed})
			}
		}
	}
}

func (h *Hydrate) enqueue(r rendition) {
	mk := &h.making
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if mk.closed || len(mk.queue) >= h.o.Queue {
		return
	}
	mk.queue = append(mk.queue, r)
	if mk.workers < h.o.Workers {
		mk.workers++
		mk.all.Go(h.work)
	}
}

// work makes queued renditions until the queue is empty.
func (h *Hydrate) work() {
	for {
		r, ok := h.making.dequeue()
		if !ok {
			return
		}
		h.making.awaitIdle()
		_, err := h.make(h.making.ctx, r)
		if err != nil && !errors.Is(err, mayfly.Unsupported) && h.making.ctx.Err() == nil { // a picture that cannot be decoded is no problem of the operator
			h.o.Problem(r.item.ID, fmt.Errorf("make rendition of medium %d with %d pixels: %w", r.m, r.longest, err))
		}
		h.o.Made.Send(r.item.ID)
	}
}

func (mk *making) dequeue() (r rendition, ok bool) {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if len(mk.queue) == 0 {
		mk.workers--
		return r, false
	}
	r, mk.queue = mk.queue[0], mk.queue[1:]
	return r, true
}

// make makes a rendition once for all concurrent callers. A caller that stops waiting
// does not stop it for the others.
func (h *Hydrate) make(ctx context.Context, r rendition) (*picture, error) {
	if err := h.making.begin(h.o.Queue); err != nil {
		return nil, err
	}
	defer h.making.end()
	done := h.making.flights.DoChan(fmt.Sprintf("%s-%d", r.item.ID, r.n), func() (any, error) {
		if !h.making.join() {
			return nil, errClosed()
		}
		defer h.making.all.Done()
		return h.makeNow(h.making.ctx, r)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*picture), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func errClosed() error {
	return mayfly.Errorf(mayfly.Unavailable, "the server is shutting down").WithHint("try again")
}

// begin counts a waiting caller.
func (mk *making) begin(most int) error {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if mk.closed {
		return errClosed()
	}
	if mk.waiting >= most {
		return mayfly.Errorf(mayfly.Unavailable, "%d requests wait for pictures already", most).WithHint("try again later, or show the medium itself")
	}
	mk.waiting++
	return nil
}

func (mk *making) end() {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	mk.waiting--
}

// join makes Close wait for the caller; false if Close has begun.
func (mk *making) join() bool {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	if !mk.closed {
		mk.all.Add(1)
	}
	return !mk.closed
}
