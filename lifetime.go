package mayfly

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lifetime is how long an item serves, in the twelve bits that its id has for it
// (L2): two bits for the unit (second, minute, hour, day) and ten bits for a count.
// The zero Lifetime is Never. Each duration has one canonical Lifetime, which uses
// the smallest unit that expresses it exactly.
type Lifetime uint16

// Never is the lifetime of an item that does not expire.
const Never Lifetime = 0

const (
	countBits = 10
	countMax  = 1<<countBits - 1
	// LifetimeBits is how many bits of an id hold its lifetime.
	LifetimeBits = countBits + 2
	// MaxLifetime is the longest lifetime: 1,023 days.
	MaxLifetime = Lifetime(3<<countBits | countMax)

	day  = 24 * time.Hour
	year = 365 * day
)

func unit(n uint16) time.Duration {
	return [4]time.Duration{time.Second, time.Minute, time.Hour, day}[n&3]
}

// LifetimeOf returns the shortest lifetime that is at least d. A duration that
// twelve bits cannot express is rounded up (25 h 13 min becomes 26 h), so that
// nothing expires early (I5). Errors: Invalid.
func LifetimeOf(d time.Duration) (Lifetime, error) {
	if d <= 0 {
		return 0, Errorf(Invalid, "lifetime %s is not positive", d).WithHint("use a duration such as 24h, or never")
	}
	for u := range uint16(4) {
		if d > countMax*unit(u) {
			continue // this also prevents an overflow below
		}
		count := (d + unit(u) - 1) / unit(u)
		return canonical(count * unit(u)), nil
	}
	return 0, Errorf(Invalid, "lifetime %s is over the longest, %s", d, MaxLifetime).WithHint("choose a shorter one, or never")
}

// canonical returns the lifetime of exactly d, in the smallest unit possible.
func canonical(d time.Duration) Lifetime {
	for u := range uint16(4) {
		if count := d / unit(u); count <= countMax && d%unit(u) == 0 {
			return Lifetime(u<<countBits | uint16(count))
		}
	}
	return Never // not reached: callers pass durations that some unit expresses
}

// Valid reports whether l is canonical.
func (l Lifetime) Valid() bool {
	if l == Never {
		return true
	}
	return l <= MaxLifetime && l&countMax != 0 && canonical(l.Duration()) == l
}

// Duration returns l as a duration, or 0 for Never.
func (l Lifetime) Duration() time.Duration {
	return time.Duration(l&countMax) * unit(uint16(l)>>countBits)
}

// String returns l in the largest unit that expresses it exactly, and in hours up to
// three days: "90s", "6h", "48h", "7d" or "never".
func (l Lifetime) String() string {
	const longInHours = 3 * day
	switch d := l.Duration(); {
	case l == Never:
		return "never"
	case d%day == 0 && d > longInHours:
		return strconv.Itoa(int(d/day)) + "d"
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d%time.Minute == 0 && d > 2*time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	default:
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
}

// ParseLifetime parses "90s", "10m", "24h", "7d", "2w", "1y", sums of them such as
// "1h30m", and "never". It rounds up as LifetimeOf does. Errors: Invalid.
func ParseLifetime(s string) (Lifetime, error) {
	if s == "never" {
		return Never, nil
	}
	var sum time.Duration
	for rest := s; rest != "" || s == ""; {
		n := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return 0, badLifetime(s)
		}
		end := n + 1
		if strings.HasPrefix(rest[n:], "ms") {
			end++
		}
		u, ok := map[string]time.Duration{
			"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": 7 * day, "y": year,
		}[rest[n:end]]
		count, err := strconv.ParseInt(rest[:n], 10, 64)
		if !ok || err != nil || count > int64((MaxLifetime.Duration()+year)/u) {
			return 0, badLifetime(s)
		}
		sum += time.Duration(count) * u
		rest = rest[end:]
		if sum > MaxLifetime.Duration() {
			break // LifetimeOf refuses it and names the longest
		}
	}
	return LifetimeOf(sum)
}

func badLifetime(s string) error {
	return Errorf(Invalid, "invalid lifetime %q", s).WithHint("write a number and a unit of s, m, h, d, w or y, such as 24h or 1h30m, at most 1023d; or never")
}

// MarshalText returns the text of String.
func (l Lifetime) MarshalText() ([]byte, error) {
	if !l.Valid() {
		return nil, Errorf(Invalid, "lifetime %#03x is not canonical", uint16(l))
	}
	return []byte(l.String()), nil
}

// UnmarshalText parses the text as ParseLifetime does.
func (l *Lifetime) UnmarshalText(text []byte) error {
	parsed, err := ParseLifetime(string(text))
	if err != nil {
		return fmt.Errorf("lifetime: %w", err)
	}
	*l = parsed
	return nil
}

// Instant is a point in time in Unix milliseconds, the resolution of every time in
// Mayfly. The zero Instant means "not set".
type Instant int64

// Minute is a number of whole minutes since the Unix epoch. The minute of a
// deadline and the shard of an id identify a pigeonhole of the ledger (L3).
type Minute uint32

// Shard is one of the Shards parts into which items are divided.
type Shard uint8

// Shards is the number of shards. The low four bits of an id are its shard (L2).
const Shards = 16

// instantForm is RFC 3339 in UTC with milliseconds, the format used in the API.
const instantForm = "2006-01-02T15:04:05.000Z"

// InstantOf returns t, truncated to a millisecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns i plus d, truncated to a millisecond.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub returns the duration from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Millisecond }

// Minute returns the minute that contains i.
func (i Instant) Minute() Minute { return Minute(i / 60_000) }

// String returns RFC 3339 in UTC with milliseconds, or "never" for the zero Instant.
func (i Instant) String() string {
	if i == 0 {
		return "never"
	}
	return i.Time().Format(instantForm)
}

// MarshalText returns RFC 3339, or an empty text for the zero Instant.
func (i Instant) MarshalText() ([]byte, error) {
	return i.AppendText(make([]byte, 0, len(instantForm)))
}

// AppendText appends what MarshalText returns.
func (i Instant) AppendText(b []byte) ([]byte, error) {
	if i == 0 {
		return b, nil
	}
	return i.Time().AppendFormat(b, instantForm), nil
}

// UnmarshalText parses any RFC 3339 time and truncates it to a millisecond.
func (i *Instant) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*i = 0
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return Wrap(Invalid, fmt.Errorf("instant %q: %w", text, err), "write it like 2026-01-31T18:00:00.000Z")
	}
	*i = InstantOf(t)
	return nil
}

// Start returns the first instant of the minute.
func (m Minute) Start() Instant { return Instant(m) * 60_000 }
