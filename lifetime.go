package mayfly

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lifetime is how long an item serves, in the twelve bits that its id has for
// it (L2): two bits of unit (second, minute, hour, day) and ten bits of count.
// The zero Lifetime is Never. Every lifetime has one spelling: the smallest
// unit that says it exactly.
type Lifetime uint16

// Never is the lifetime of an item that does not expire.
const Never Lifetime = 0

const (
	countBits = 10
	countMax  = 1<<countBits - 1
	// LifetimeBits is how many bits of an id hold its lifetime.
	LifetimeBits = countBits + 2
	// MaxLifetime is the longest that can be said: 1,023 days.
	MaxLifetime = Lifetime(3<<countBits | countMax)

	day  = 24 * time.Hour
	year = 365 * day
)

func unit(n uint16) time.Duration {
	return [4]time.Duration{time.Second, time.Minute, time.Hour, day}[n&3]
}

// LifetimeOf is the shortest lifetime that can be said and is at least d: a
// duration that the twelve bits cannot say exactly is rounded up (25 h 13 min
// becomes 26 h), so that nothing expires early (I5).
func LifetimeOf(d time.Duration) (Lifetime, error) {
	if d <= 0 {
		return 0, Errorf(Invalid, "lifetime %s is not positive", d).WithHint("say how long it serves, such as 24h, or never")
	}
	for u := range uint16(4) {
		if d > countMax*unit(u) {
			continue // also keeps the sum below from running over
		}
		count := (d + unit(u) - 1) / unit(u)
		return canonical(count * unit(u)), nil
	}
	return 0, Errorf(Invalid, "lifetime %s is over the longest, %s", d, MaxLifetime).WithHint("choose a shorter one, or never")
}

// canonical spells an exact duration in the smallest unit that can.
func canonical(d time.Duration) Lifetime {
	for u := range uint16(4) {
		if count := d / unit(u); count <= countMax && d%unit(u) == 0 {
			return Lifetime(u<<countBits | uint16(count))
		}
	}
	return Never // not reached: LifetimeOf hands over only what some unit says
}

// Valid says whether l is in its one spelling.
func (l Lifetime) Valid() bool {
	if l == Never {
		return true
	}
	return l <= MaxLifetime && l&countMax != 0 && canonical(l.Duration()) == l
}

// Duration is how long l is; 0 for Never.
func (l Lifetime) Duration() time.Duration {
	return time.Duration(l&countMax) * unit(uint16(l)>>countBits)
}

// String is how people say it, in the largest unit that says it exactly, and in
// hours up to three days: "90s", "6h", "48h", "7d"; "never".
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

// ParseLifetime reads "90s", "10m", "24h", "7d", "2w", "1y", sums of them
// ("1h30m") and "never", and rounds up to what can be said.
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
			break // said below, with the longest that is possible
		}
	}
	return LifetimeOf(sum)
}

func badLifetime(s string) error {
	return Errorf(Invalid, "lifetime %q cannot be read", s).WithHint("write a number and a unit of s, m, h, d, w or y, such as 24h or 1h30m, at most 1023d; or never")
}

// MarshalText writes String.
func (l Lifetime) MarshalText() ([]byte, error) {
	if !l.Valid() {
		return nil, Errorf(Invalid, "lifetime %#03x is not in its one spelling", uint16(l))
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what ParseLifetime reads.
func (l *Lifetime) UnmarshalText(text []byte) error {
	parsed, err := ParseLifetime(string(text))
	if err != nil {
		return fmt.Errorf("lifetime: %w", err)
	}
	*l = parsed
	return nil
}
