package clock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

// trusted is how long a comparison is valid. Between two comparisons the clock
// follows boot time, whose oscillator is wrong by at most 200 parts per million:
// 120 ms in ten minutes, half of the allowed difference.
const trusted = 10 * time.Minute

// comparison is the result of the last decisive comparison.
type comparison struct {
	boot    int64 // boot time of the comparison
	steady  int64 // the confirmed time then
	offset  Offset
	verdict Standing
}

// now returns the offset at a later boot time. Since the comparison, the clock was
// corrected by as much as it moved more than boot time.
func (c *comparison) now(l *line, boot time.Duration) Offset {
	return c.offset.shifted(l.at(boot) - c.steady - (int64(boot) - c.boot))
}

// off returns why the clock must not be used, or nil if it was compared and is
// within the allowed difference.
func (c *Clock) off(l *line, at Moment) error {
	if c.options.Skew == 0 {
		return nil
	}
	last := c.compared.Load()
	if last == nil {
		return mayfly.Errorf(mayfly.Unavailable, "the clock has not been compared with the store's servers yet").
			WithHint("the node compares every second; if this stays, check the store and its response times")
	}
	offset := last.now(l, at.Boot)
	switch {
	case last.verdict != Within || offset.Verdict(c.options.Skew) != Within: // after a correction since
		return wrong(offset, c.options.Skew)
	case int64(at.Boot)-last.boot > int64(trusted):
		return mayfly.Errorf(mayfly.Unavailable, "the clock has not been compared with the store's servers for %s", time.Duration(int64(at.Boot)-last.boot).Round(time.Second)).
			WithHint("the node compares every second; check the store and its response times")
	}
	return nil
}

func wrong(o Offset, skew time.Duration) error {
	if o.Verdict(skew) == Undecided {
		return mayfly.Errorf(mayfly.Unavailable, "the clock was corrected and may be %s off the store's servers", max(o.Least.Abs(), o.Most.Abs()).Round(time.Millisecond)).
			WithHint("the node compares every second and recovers with the first response that is fast enough")
	}
	by, way := o.Middle(), "ahead of"
	if by < 0 {
		by, way = -by, "behind"
	}
	return mayfly.Errorf(mayfly.Unavailable, "the clock is %s %s the store's servers", by.Round(time.Millisecond), way).
		WithHint("correct this machine's clock and check that time synchronisation runs; the node then recovers by itself. If all nodes report this, check the clocks of the servers")
}

// Compare asks the store's servers for their time and decides whether this clock
// may be used (L7). A result that is not decisive leaves the verdict unchanged.
//
// A clock that is off is not used. Compare therefore sets it to the wall clock as
// soon as that is right, also back, but never below a time that was used (I9). A
// forward step of the wall clock that the servers agree with needs no other
// confirmation.
func (c *Clock) Compare(ctx context.Context, ask func(context.Context) ([]mayfly.Instant, error)) error {
	before := c.source.Read()
	servers, err := ask(ctx)
	if err == nil && len(servers) == 0 {
		err = mayfly.Errorf(mayfly.Unavailable, "no server returned its time")
	}
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l, at := c.line.Load(), c.source.Read()
	if !l.holds(at) {
		l, at = c.turn(c.source.Synchronised)
	}
	took := at.Boot - before.Boot
	if last := c.compared.Load(); last != nil && last.verdict == Within {
		c.floor = max(c.floor, l.at(at.Boot))
	}
	offset := OffsetOf(instant(l.at(at.Boot)), took, servers)
	verdict := offset.Verdict(c.options.Skew)
	if verdict != Within && (verdict != Undecided || c.off(l, at) != nil) {
		set := line{boot: int64(at.Boot), steady: max(at.Wall, c.floor), slack: int64(c.options.Limit)}
		if o := OffsetOf(instant(set.steady), took, servers); o.Verdict(c.options.Skew) == Within {
			next := set.next(at, c.options, c.source.Synchronised)
			c.line.Store(&next)
			l, offset, verdict = &next, o, Within
			if c.options.Jumped != nil {
				c.options.Jumped()
			}
		}
	}
	if verdict != Undecided {
		c.compared.Store(&comparison{boot: int64(at.Boot), steady: l.at(at.Boot), offset: offset, verdict: verdict})
	}
	return nil
}

// corrected records that a correction may have made the clock differ too much. No
// time was read from the new line yet, so the old line gives the latest time that
// was used. The caller holds mu.
func (c *Clock) corrected(old, next *line, at Moment) {
	last := c.compared.Load()
	if c.options.Skew == 0 || last == nil || last.verdict != Within {
		return
	}
	offset := last.now(next, at.Boot)
	verdict := offset.Verdict(c.options.Skew)
	if verdict == Within {
		return
	}
	c.floor = max(c.floor, old.at(at.Boot)+agree)
	c.compared.Store(&comparison{boot: int64(at.Boot), steady: next.at(at.Boot), offset: offset, verdict: verdict})
}

// Offset returns how far the clock is ahead of the store's servers by the last
// decisive comparison; false before there was one.
func (c *Clock) Offset() (Offset, bool) {
	l, at := c.sample()
	last := c.compared.Load()
	if last == nil {
		return Offset{}, false
	}
	return last.now(l, at.Boot), true
}

// Offset bounds how far a clock is ahead of the store's servers; a negative offset
// means behind. It is a range because asking the servers took time.
type Offset struct{ Least, Most time.Duration }

// Standing is the verdict on a clock.
type Standing uint8

// The verdicts. An offset that is not decisive is Undecided.
const (
	Undecided Standing = iota
	Within
	Ahead
	Behind
)

// OffsetOf returns the offset of a clock whose time is now. Each server returned
// its time at some moment during the last took. The median decides, so that one of
// three servers may be wrong. With an even number both in the middle count: if they
// differ, the offset is not decisive.
func OffsetOf(now mayfly.Instant, took time.Duration, servers []mayfly.Instant) Offset {
	sorted := slices.Sorted(slices.Values(servers))
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	const rounded = time.Millisecond // each time is rounded to milliseconds
	return Offset{Least: now.Sub(high) - took - rounded, Most: now.Sub(low) + rounded}
}

// Verdict returns the standing of a clock that may differ by skew (L7).
func (o Offset) Verdict(skew time.Duration) Standing {
	switch {
	case o.Least > skew:
		return Ahead
	case o.Most < -skew:
		return Behind
	case o.Least >= -skew && o.Most <= skew:
		return Within
	default:
		return Undecided
	}
}

// Middle returns the middle of the range.
func (o Offset) Middle() time.Duration { return o.Least + (o.Most-o.Least)/2 }

func (o Offset) shifted(by int64) Offset {
	return Offset{Least: o.Least + time.Duration(by), Most: o.Most + time.Duration(by)}
}
