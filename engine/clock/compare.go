package clock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

// trusted is for how long a comparison holds. Between two of them the clock goes
// by boot time, whose crystal is wrong by 200 parts in a million at worst: in ten
// minutes 120 ms, half of the bound.
const trusted = 10 * time.Minute

// comparison is the last one that was certain.
type comparison struct {
	boot    int64 // when it was
	steady  int64 // what the clock said then
	offset  Offset
	verdict Standing
}

// now is the offset at a later moment, by a line: the clock has been corrected
// meanwhile by as much as it has moved more than boot time.
func (c *comparison) now(l *line, boot time.Duration) Offset {
	return c.offset.shifted(l.at(boot) - c.steady - (int64(boot) - c.boot))
}

// off says why nothing may go by the clock; nil: it is compared, and within bound.
func (c *Clock) off(l *line, at Moment) error {
	if c.options.Skew == 0 {
		return nil
	}
	last := c.compared.Load()
	if last == nil {
		return mayfly.Errorf(mayfly.Unavailable, "the clock has not been compared with the store's servers yet").
			WithHint("the node compares every second; if this stays, look at the store, and at how long it takes to answer")
	}
	offset := last.now(l, at.Boot)
	switch {
	case last.verdict != Within || offset.Verdict(c.options.Skew) != Within: // by a correction since
		return wrong(offset, c.options.Skew)
	case int64(at.Boot)-last.boot > int64(trusted):
		return mayfly.Errorf(mayfly.Unavailable, "the clock has not been compared with the store's servers for %s", time.Duration(int64(at.Boot)-last.boot).Round(time.Second)).
			WithHint("look at the store, and at how long it takes to answer: the node compares every second")
	}
	return nil
}

func wrong(o Offset, skew time.Duration) error {
	if o.Verdict(skew) == Undecided {
		return mayfly.Errorf(mayfly.Unavailable, "the clock was corrected, and may be %s off the store's servers", max(o.Least.Abs(), o.Most.Abs()).Round(time.Millisecond)).
			WithHint("the node compares every second, and comes back with an answer that is quick enough to tell")
	}
	by, way := o.Middle(), "ahead of"
	if by < 0 {
		by, way = -by, "behind"
	}
	return mayfly.Errorf(mayfly.Unavailable, "the clock is %s %s the store's servers", by.Round(time.Millisecond), way).
		WithHint("set this machine's clock right and see that time synchronisation runs; the node then comes back by itself. If all nodes say this, it is the servers' clocks")
}

// Compare asks the store's servers for their time, and decides whether anything
// may go by this clock (L7). What is not certain leaves the verdict as it was.
//
// While the clock is off nothing goes by it. So it is set to the wall as soon as
// the wall is right, back too, but never below what it said while it was trusted
// (I9); and a forward step of the wall that the servers agree with needs no other
// confirmation.
func (c *Clock) Compare(ctx context.Context, ask func(context.Context) ([]mayfly.Instant, error)) error {
	before := c.source.Read()
	servers, err := ask(ctx)
	if err == nil && len(servers) == 0 {
		err = mayfly.Errorf(mayfly.Unavailable, "no server told its time")
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

// corrected notes that a correction may have taken the clock out of bound: nothing
// was read by the new line yet, so that the old one is as far as the clock ever
// was. The caller holds mu.
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

// Offset is how far the clock is ahead of the store's servers by the last
// comparison that was certain; false before there was one.
func (c *Clock) Offset() (Offset, bool) {
	l, at := c.sample()
	last := c.compared.Load()
	if last == nil {
		return Offset{}, false
	}
	return last.now(l, at.Boot), true
}

// Offset bounds how far a clock is ahead of the store's servers; below zero it is
// behind. Where in between is not known: the question took time.
type Offset struct{ Least, Most time.Duration }

// Standing is what an offset says of a clock.
type Standing uint8

// What an offset may say. Whatever is not certain is undecided.
const (
	Undecided Standing = iota
	Within
	Ahead
	Behind
)

// OffsetOf is the offset of a clock that says now, from servers each of which
// told its time at some moment of the question, which took took and is just over.
// The median decides, so that of three servers one may be wrong. Of an even number
// both in the middle count: when they disagree nothing is certain.
func OffsetOf(now mayfly.Instant, took time.Duration, servers []mayfly.Instant) Offset {
	sorted := slices.Sorted(slices.Values(servers))
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	const rounded = time.Millisecond // either side
	return Offset{Least: now.Sub(high) - took - rounded, Most: now.Sub(low) + rounded}
}

// Verdict is what the offset says when a clock may be off by skew (L7).
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

// Middle is the likeliest offset.
func (o Offset) Middle() time.Duration { return o.Least + (o.Most-o.Least)/2 }

func (o Offset) shifted(by int64) Offset {
	return Offset{Least: o.Least + time.Duration(by), Most: o.Most + time.Duration(by)}
}
