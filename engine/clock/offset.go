package clock

import (
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

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
