package mayfly

import (
	"fmt"
	"time"
)

// Instant is a point in time in Unix milliseconds: the resolution at which
// Mayfly is exact. The zero Instant means "not set".
type Instant int64

// Minute counts whole minutes since the Unix epoch. A deadline's minute and the
// shard of its id name a pigeonhole (L3).
type Minute uint32

// Shard is one of the Shards slices of every minute.
type Shard uint8

// Shards is how many shards there are: the low four bits of an id (L2).
const Shards = 16

// instantForm is RFC 3339 in UTC with milliseconds, the one spelling on the wire.
const instantForm = "2006-01-02T15:04:05.000Z"

// InstantOf cuts t to its millisecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add moves i by d, cut to the millisecond.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub is the duration from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Millisecond }

// Minute is the minute that i falls in.
func (i Instant) Minute() Minute { return Minute(i / 60_000) }

// String is RFC 3339 in UTC with milliseconds; "never" for the zero Instant.
func (i Instant) String() string {
	if i == 0 {
		return "never"
	}
	return i.Time().Format(instantForm)
}

// MarshalText writes RFC 3339; the zero Instant is the empty text.
func (i Instant) MarshalText() ([]byte, error) {
	if i == 0 {
		return []byte{}, nil
	}
	return i.Time().AppendFormat(nil, instantForm), nil
}

// UnmarshalText reads any RFC 3339 instant; what is finer than a millisecond is cut.
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

// Start is the first instant of the minute.
func (m Minute) Start() Instant { return Instant(m) * 60_000 }
