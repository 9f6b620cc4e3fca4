package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Bytes counts bytes. Its text is a number and a unit, such as 64MiB.
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

// byteUnits are the units by size; numbers without one are bytes.
func byteUnits() []byteUnit {
	return []byteUnit{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}
}

// String is b in the largest unit that says it exactly.
func (b Bytes) String() string {
	for _, u := range byteUnits() {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return "0B"
}

// ParseBytes reads "64MiB", "512 KiB", "100B" and "100".
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
		return 0, mayfly.Errorf(mayfly.Invalid, "%q is no size", text).WithHint("write a number and a unit of B, KiB, MiB or GiB, such as 64MiB")
	}
	return Bytes(n) * unit, nil
}

// Rate allows Count in Per. Its text is both, such as 300/3h; 0 is no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// String is the rate as it is written.
func (r Rate) String() string {
	if r.Count == 0 {
		return "0"
	}
	return strconv.Itoa(r.Count) + "/" + durationText(r.Per)
}

// ParseRate reads "300/3h" and "0".
func ParseRate(text string) (Rate, error) {
	count, per, ok := strings.Cut(strings.TrimSpace(text), "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err == nil && n == 0 {
		return Rate{}, nil
	}
	d, bad := parseDuration(strings.TrimSpace(per))
	if !ok || err != nil || bad != nil {
		return Rate{}, mayfly.Errorf(mayfly.Invalid, "%q is no rate", text).WithHint("write how many in how long, such as 300/3h; 0 is no limit")
	}
	return Rate{n, d}, nil
}

const hoursOfDay = 24

// durationText is d without the units that are zero at its end: 90m, 24h, 30d.
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

// parseDuration reads what Go reads ("90m", "1h30m", "500ms"), and whole days ("30d").
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return time.Duration(n) * hoursOfDay * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("%q is no duration", text), "write a number and a unit of ms, s, m, h or d, such as 90m or 30d")
	}
	return d, nil
}
