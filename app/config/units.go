package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Bytes is a number of bytes. Its text is a number and a unit, such as 64MiB.
type Bytes int64

// The units.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

type byteUnit struct {
	name string
	size Bytes
}

// byteUnits returns the units, largest first. A number without a unit is in bytes.
func byteUnits() []byteUnit {
	return []byteUnit{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}
}

// String formats b in the largest unit that is exact.
func (b Bytes) String() string {
	for _, u := range byteUnits() {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return "0B"
}

// ParseBytes parses "64MiB", "512 KiB", "100B" and "100".
func ParseBytes(text string) (Bytes, error) {
	number, unit := strings.TrimSpace(text), Bytes(1)
	for _, u := range byteUnits() {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, mayfly.Errorf(mayfly.Invalid, "invalid size %q", text).WithHint("write a number and a unit of B, KiB, MiB or GiB, such as 64MiB")
	}
	return Bytes(n) * unit, nil
}

// Rate allows Count requests in the duration Per. Its text is both, such as 300/3h;
// 0 means no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// String formats the rate as ParseRate reads it.
func (r Rate) String() string {
	if r.Count == 0 {
		return "0"
	}
	return strconv.Itoa(r.Count) + "/" + durationText(r.Per)
}

// ParseRate parses "300/3h" and "0".
func ParseRate(text string) (Rate, error) {
	count, per, ok := strings.Cut(strings.TrimSpace(text), "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err == nil && n == 0 {
		return Rate{}, nil
	}
	d, bad := parseDuration(strings.TrimSpace(per))
	if !ok || err != nil || bad != nil {
		return Rate{}, mayfly.Errorf(mayfly.Invalid, "invalid rate %q", text).WithHint("write a number and a duration, such as 300/3h, or 0 for no limit")
	}
	return Rate{n, d}, nil
}

const hoursOfDay = 24

// durationText formats d without trailing units that are zero: 90m, 24h, 30d.
func durationText(d time.Duration) string {
	const day = hoursOfDay * time.Hour
	switch {
	case d > 2*day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d > time.Hour && d < 2*time.Hour && d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// parseDuration parses what time.ParseDuration does ("90m", "1h30m", "500ms"), and
// whole days ("30d").
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return time.Duration(n) * hoursOfDay * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("invalid duration %q", text), "write a number and a unit of ms, s, m, h or d, such as 90m or 30d")
	}
	return d, nil
}
