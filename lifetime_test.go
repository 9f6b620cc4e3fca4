package mayfly_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

const longest = 1023 * 24 * time.Hour

func TestALifetimeIsRoundedUpAndNeverShortened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "duration"))
		l, err := mayfly.LifetimeOf(d)
		if err != nil || !l.Valid() || l == mayfly.Never {
			t.Fatalf("%s: %s, %v", d, l, err)
		}
		if l.Duration() < d {
			t.Fatalf("%s becomes %s, which is shorter", d, l)
		}
		if exact, err := mayfly.LifetimeOf(l.Duration()); err != nil || exact != l {
			t.Fatalf("%s is spelled %s and %s", l.Duration(), l, exact)
		}
	})
}

// Every code that the twelve bits have, against the definition: smallest unit,
// nothing shorter that would do.
func TestEveryLifetimeHasOneCanonicalForm(t *testing.T) {
	units := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
	spelled := map[time.Duration]mayfly.Lifetime{}
	for u, unit := range units {
		for count := 1; count <= 1023; count++ {
			d := time.Duration(count) * unit
			if _, known := spelled[d]; !known { // units ascend: the smallest comes first
				spelled[d] = mayfly.Lifetime(u<<10 | count)
			}
		}
	}
	valid := 0
	for code := range mayfly.Lifetime(1 << 13) {
		want := code == mayfly.Never || code < 1<<12 && code&1023 != 0 && spelled[code.Duration()] == code
		if code.Valid() != want {
			t.Errorf("code %#x: valid %t, want %t", uint16(code), code.Valid(), want)
		}
		if !want {
			continue
		}
		valid++
		if got, err := mayfly.ParseLifetime(code.String()); err != nil || got != code {
			t.Errorf("%q reads as %s, %v", code, got, err)
		}
	}
	if valid != len(spelled)+1 {
		t.Errorf("%d valid codes, want %d and never", valid, len(spelled))
	}
	for d, want := range spelled {
		if got, err := mayfly.LifetimeOf(d); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", d, got, err, want)
		}
	}
}

func TestLifetimesAreParsedAndRounded(t *testing.T) {
	for text, want := range map[string]string{
		"1ms": "1s", "1001ms": "2s", "1s": "1s", "60s": "60s", "1m": "60s", "90s": "90s", "10m": "10m", "1023s": "1023s", "1024s": "18m",
		"1h": "1h", "1h30m": "90m", "24h": "24h", "1d": "24h", "25h13m": "26h", "17h3m1s": "18h", "48h": "48h", "7d": "7d", "1w": "7d",
		"1023h": "1023h", "1023h1s": "43d", "30d": "30d", "1y": "365d", "2y": "730d", "1023d": "1023d", "never": "never", "001h": "1h",
	} {
		got, err := mayfly.ParseLifetime(text)
		if err != nil || got.String() != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestLifetimesThatCannotBeParsedAreInvalid(t *testing.T) {
	for _, text := range []string{
		"", " ", "0", "0s", "1", "s", "-1s", "+1s", "1.5h", "1 h", "1h ", " 1h", "1H", "1x", "1hh", "1h1", "1mo", "1µs", "1ns", "Never", "ever",
		"1024d", "1023d1ms", "1023d1s", "3y", "99999999999999999999s", "9223372036854775807s", "9223372036854775807ms", "9223372036854775807y", "1\x00s", "１s",
	} {
		if got, err := mayfly.ParseLifetime(text); !errors.Is(err, mayfly.Invalid) || got != 0 {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
}

func TestDurationsOutOfRangeAreInvalid(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour, math.MinInt64, longest + 1, longest + time.Hour, math.MaxInt64 - time.Second, math.MaxInt64} {
		if got, err := mayfly.LifetimeOf(d); !errors.Is(err, mayfly.Invalid) || got != 0 {
			t.Errorf("%s is %s (%#x), %v", d, got, uint16(got), err)
		}
	}
	if got, err := mayfly.LifetimeOf(longest); err != nil || got != mayfly.MaxLifetime {
		t.Errorf("the longest is %s, %v", got, err)
	}
}

func TestALifetimeThatIsNotCanonicalIsNotMarshalled(t *testing.T) {
	if text, err := mayfly.Lifetime(1<<10 | 1).MarshalText(); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("%q, %v", text, err)
	}
	var l mayfly.Lifetime
	if err := l.UnmarshalText([]byte("soon")); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
	if err := l.UnmarshalText([]byte("36h")); err != nil || l.Duration() != 36*time.Hour {
		t.Errorf("%s, %v", l, err)
	}
}

func FuzzParseLifetime(f *testing.F) {
	for _, text := range []string{"24h", "1h30m", "never", "1ms", "1023d", "1y2w3d4h5m6s7ms", "", "9223372036854775807s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := mayfly.ParseLifetime(text)
		switch {
		case err != nil && (!errors.Is(err, mayfly.Invalid) || l != 0):
			t.Fatalf("%q: %s, %v", text, l, err)
		case err == nil && (!l.Valid() || l == mayfly.Never && text != "never"):
			t.Fatalf("%q is %s (%#x)", text, l, uint16(l))
		}
		if d, goErr := time.ParseDuration(text); err == nil && goErr == nil && l.Duration() < d {
			t.Fatalf("%q becomes %s, which is shorter", text, l)
		}
	})
}
