package kv

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// MaxTTL is the longest time to live, 292 years of 365 days: all of it fits into a
// time.Duration, and every expiry has a year of four digits.
const MaxTTL = 106_580 * 24 * time.Hour

// CheckExpiry returns an error of kind Invalid for an expiry that is further ahead than
// MaxTTL. One in the past is good: it deletes.
func CheckExpiry(at, now mayfly.Instant) error {
	if at > now.Add(MaxTTL) {
		return mayfly.Errorf(mayfly.Invalid, "the expiry is more than %s ahead", FormatTTL(MaxTTL)).WithHint("choose a sooner one, or none")
	}
	return nil
}

// ParseTTL reads a time to live such as 1500ms, 60s, 10m, 2h or 30d, or a sum such as
// 1h30m. Errors: Invalid, also of one that is not positive.
func ParseTTL(text string) (time.Duration, error) {
	var sum time.Duration
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		count, err := strconv.ParseInt(rest[:digits], 10, 64)
		rest = rest[digits:]
		unit := len(rest) - len(strings.TrimLeft(rest, "mshdw"))
		length := ttlUnit(rest[:unit])
		if err != nil || length == 0 || count > int64(MaxTTL/length) {
			return 0, badTTL(text)
		}
		if sum += time.Duration(count) * length; sum > MaxTTL {
			return 0, badTTL(text)
		}
		rest = rest[unit:]
	}
	if sum <= 0 {
		return 0, badTTL(text)
	}
	return sum, nil
}

func ttlUnit(name string) time.Duration {
	switch name {
	case "ms":
		return time.Millisecond
	case "s":
		return time.Second
	case "m":
		return time.Minute
	case "h":
		return time.Hour
	case "d":
		return 24 * time.Hour
	case "w":
		return 7 * 24 * time.Hour
	}
	return 0
}

func badTTL(text string) error {
	return mayfly.Errorf(mayfly.Invalid, "the time to live is %.40q", text).WithHint("write a number above 0 and a unit of ms, s, m, h, d or w, such as 60s or 1h30m, up to " + FormatTTL(MaxTTL))
}

// FormatTTL writes a time to live in the largest unit that says it exactly, as ParseTTL
// reads it; what is below a millisecond is cut off.
func FormatTTL(d time.Duration) string {
	for _, unit := range []string{"d", "h", "m", "s"} {
		if length := ttlUnit(unit); d >= length && d%length == 0 {
			return strconv.FormatInt(int64(d/length), 10) + unit
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// Increment returns the Update that adds to the number in a value; an absent entry is 0.
// Its errors are of kind Conflict.
func Increment(by int64) func(old Entry) ([]byte, error) {
	return func(old Entry) ([]byte, error) {
		n := int64(0)
		if old.Found {
			var err error
			if n, err = strconv.ParseInt(string(old.Value), 10, 64); err != nil || strconv.FormatInt(n, 10) != string(old.Value) {
				return nil, mayfly.Errorf(mayfly.Conflict, "the value is not a number").WithHint("a number has digits only, perhaps after a minus, and 64 bits")
			}
		}
		if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
			return nil, mayfly.Errorf(mayfly.Conflict, "%d and %d together do not fit into 64 bits", n, by).WithHint("set the value to a smaller number first")
		}
		return strconv.AppendInt(nil, n+by, 10), nil
	}
}
