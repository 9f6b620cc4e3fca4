package kv_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestATimeToLiveIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "60s": time.Minute, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "2w": 336 * time.Hour, "106580d": kv.MaxTTL, "0s1ms": time.Millisecond,
	} {
		if got, err := kv.ParseTTL(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0s", "0", "60", "-1s", "+1s", "1.5s", "s", "1 s", "1y", "1hm", "ms1", "106581d", "106580d1ms", "9223372036854775808ms", "99999999999999999999999s", "١s"} {
		if got, err := kv.ParseTTL(text); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, kv.MaxTTL.Milliseconds()).Draw(t, "milliseconds")) * time.Millisecond
		if got, err := kv.ParseTTL(kv.FormatTTL(d)); err != nil || got != d {
			t.Fatalf("%s is written %s and read %s, %v", d, kv.FormatTTL(d), got, err)
		}
	})
}

// An expiry can be written down: as a duration from now, and with a year of four digits.
func TestAnExpiryIsAtMostSoFarAhead(t *testing.T) {
	now := fixture.Start
	last := now.Add(kv.MaxTTL)
	for _, at := range []mayfly.Instant{0, 1, -1 << 63, now, last} {
		if err := kv.CheckExpiry(at, now); err != nil {
			t.Errorf("%d: %v", at, err)
		}
	}
	for _, at := range []mayfly.Instant{last + 1, 1<<63 - 1} {
		if err := kv.CheckExpiry(at, now); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%d: %v", at, err)
		}
	}
	if last.Sub(now) != kv.MaxTTL || len(last.String()) != len("2026-01-31T18:00:00.000Z") {
		t.Errorf("the last expiry, %s, is %s ahead", last, last.Sub(now))
	}
}
