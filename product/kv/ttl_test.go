package kv_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

func TestATimeToLiveIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "60s": time.Minute, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "2w": 336 * time.Hour, "36525d": 36525 * 24 * time.Hour, "0s1ms": time.Millisecond,
	} {
		if got, err := kv.ParseTTL(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0s", "0", "60", "-1s", "+1s", "1.5s", "s", "1 s", "1y", "1hm", "ms1", "36526d", "36525d1ms", "9223372036854775808ms", "99999999999999999999999s", "١s"} {
		if got, err := kv.ParseTTL(text); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, 36525*24*3600*1000).Draw(t, "milliseconds")) * time.Millisecond
		if got, err := kv.ParseTTL(kv.FormatTTL(d)); err != nil || got != d {
			t.Fatalf("%s is written %s and read %s, %v", d, kv.FormatTTL(d), got, err)
		}
	})
}
