package media

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mayflyhq/mayfly"
)

// CleanerOptions are the settings of a Cleaner.
type CleanerOptions struct {
	Limits Limits
	// Work is how many media are parsed at the same time; default half of the processors.
	// A medium that waits for its sender does not count, so that slow senders hold up
	// no other.
	Work int
	// Videos is how many videos that have arrived whole are cleaned and passed on at the
	// same time; default 8. Each may take 12 MiB of memory.
	Videos int
	// Wait is how long a medium waits for its turn; default 10 s.
	Wait time.Duration
	// Spool is the folder of the temporary files of videos; default the system's.
	Spool string
}

// Cleaner cleans the media of a node and bounds what that takes (I17). Turns are given
// in the order of asking, and each lasts for a few KiB of a medium: a small image never
// waits for a whole video. Safe for concurrent use.
type Cleaner struct {
	o            CleanerOptions
	work, videos *semaphore.Weighted // nil: not bounded
}

// NewCleaner returns a Cleaner. Errors: Invalid.
func NewCleaner(o CleanerOptions) (*Cleaner, error) {
	limits, err := o.Limits.WithDefaults()
	if err != nil {
		return nil, err
	}
	o.Limits = limits
	if o.Work == 0 {
		o.Work = max(1, min(runtime.NumCPU(), runtime.GOMAXPROCS(0))/2) // a node has more threads than processors
	}
	if o.Videos == 0 {
		o.Videos = 8
	}
	if o.Wait == 0 {
		o.Wait = 10 * time.Second
	}
	if o.Work < 0 || o.Videos < 0 || o.Wait < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "media: a setting is out of range: %+v", o)
	}
	return &Cleaner{o: o, work: semaphore.NewWeighted(int64(o.Work)), videos: semaphore.NewWeighted(int64(o.Videos))}, nil
}

// Clean is Clean with the bounds of the Cleaner. The caller must close what it returns.
// Errors: those of Clean; Read may also return Unavailable, when its turn did not come,
// and Full.
func (cl *Cleaner) Clean(r io.Reader) (*Cleaned, error) {
	c := &Cleaned{cleaner: cl, limits: cl.o.Limits, turned: upright, spool: spool{dir: cl.o.Spool}}
	c.in = bufio.NewReaderSize(source{r, c}, ahead)
	head, err := c.in.Peek(sniffLength)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("media: read the first bytes: %w", err)
	}
	if c.typ, c.next, err = tell(head); err != nil {
		return nil, err
	}
	c.left = c.limit()
	c.elements = max(leastElements, c.left/bytesPerElement)
	return c, nil
}

// source reads the medium from its sender, and gives the turn to others meanwhile.
type source struct {
	r io.Reader
	c *Cleaned
}

func (s source) Read(p []byte) (int, error) {
	held := s.c.working
	s.c.rest()
	n, err := s.r.Read(p)
	if held {
		if turnErr := s.c.turn(); turnErr != nil {
			return 0, turnErr
		}
	}
	return n, err
}

// turn waits until the medium may be parsed.
func (c *Cleaned) turn() error {
	if err := c.cleaner.acquire(c.cleaner.work); err != nil {
		return err
	}
	c.working = true
	return nil
}

// rest ends the turn.
func (c *Cleaned) rest() {
	if c.working {
		c.working = false
		c.cleaner.release(c.cleaner.work)
	}
}

// enterVideos waits until a video that has arrived may be cleaned; release leaves.
func (c *Cleaned) enterVideos() error {
	c.rest()
	if err := c.cleaner.acquire(c.cleaner.videos); err != nil {
		return err
	}
	c.video = true
	return c.turn()
}

// Close gives back what the medium holds. It may be called more than once.
func (c *Cleaned) Close() error {
	c.free()
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
	return nil
}

func (c *Cleaned) free() {
	c.rest()
	if c.video {
		c.video = false
		c.cleaner.release(c.cleaner.videos)
	}
	c.spool.close()
}

func (cl *Cleaner) acquire(slots *semaphore.Weighted) error {
	if slots == nil || slots.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cl.o.Wait)
	defer cancel()
	if slots.Acquire(ctx, 1) != nil {
		return mayfly.Errorf(mayfly.Unavailable, "too many media arrive at the same time: no turn within %v", cl.o.Wait).WithHint("try again in a few seconds")
	}
	return nil
}

func (cl *Cleaner) release(slots *semaphore.Weighted) {
	if slots != nil {
		slots.Release(1)
	}
}
