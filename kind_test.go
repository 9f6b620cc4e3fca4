package mayfly_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

func TestAKindIsFoundInAWrappedError(t *testing.T) {
	if len(mayfly.Kinds()) != 14 {
		t.Fatalf("%d kinds", len(mayfly.Kinds()))
	}
	words := map[string]bool{}
	for _, k := range mayfly.Kinds() {
		words[k.String()] = true
		for name, err := range map[string]error{
			"itself":  k,
			"Errorf":  mayfly.Errorf(k, "went wrong: %d", 1),
			"Wrap":    mayfly.Wrap(k, io.ErrUnexpectedEOF, "try again"),
			"hinted":  mayfly.Errorf(k, "went wrong").WithHint("try again"),
			"wrapped": fmt.Errorf("archive: %w", mayfly.Errorf(k, "went wrong")),
			"joined":  errors.Join(io.EOF, mayfly.Errorf(k, "went wrong")),
			"inside":  mayfly.Errorf(mayfly.Unavailable, "outer: %w", mayfly.Errorf(k, "inner")),
		} {
			for _, other := range mayfly.Kinds() {
				want := other == k || name == "inside" && other == mayfly.Unavailable
				if errors.Is(err, other) != want {
					t.Errorf("%s of %s: is %s: %t", name, k, other, !want)
				}
			}
		}
	}
	if len(words) != 14 || words["kind(0)"] || mayfly.Kind(0).String() != "kind(0)" || mayfly.Gone.Error() != "gone" {
		t.Errorf("words %v", words)
	}
}

func TestAnErrorHasAMessageAndAHint(t *testing.T) {
	err := mayfly.Wrap(mayfly.Full, io.ErrShortWrite, "free some space")
	if !errors.Is(err, io.ErrShortWrite) || err.Error() != "short write (free some space)" {
		t.Errorf("%v", err)
	}
	var found *mayfly.Error
	if !errors.As(fmt.Errorf("birth: %w", err), &found) || found.Hint != "free some space" || found.Kind != mayfly.Full {
		t.Errorf("%+v", found)
	}
	bare := &mayfly.Error{Kind: mayfly.Gone}
	if bare.Error() != "gone" || bare.Unwrap() != nil {
		t.Errorf("%v", bare)
	}
	base := mayfly.Errorf(mayfly.Invalid, "no")
	if hinted := base.WithHint("yes"); base.Hint != "" || hinted.Hint != "yes" || hinted.Kind != mayfly.Invalid {
		t.Errorf("%+v, %+v", base, hinted)
	}
	if errors.Is(base, io.EOF) {
		t.Error("an error is everything")
	}
}

func TestAnInvalidIDIsRefusedWithAHint(t *testing.T) {
	_, err := mayfly.ParseID(strings.Repeat("x", 500))
	var e *mayfly.Error
	if !errors.As(err, &e) || e.Hint == "" || len(err.Error()) > 300 {
		t.Errorf("%v", err)
	}
	example := regexp.MustCompile(`[0-9a-f]+(-[0-9a-f]+){4}`).FindString(e.Hint)
	if _, err := mayfly.ParseID(example); err != nil {
		t.Errorf("the example in the hint %q is no id: %v", e.Hint, err)
	}
}

func TestInstantsAreRFC3339InUTCWithMilliseconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := mayfly.Instant(rapid.Int64Range(1, 253_402_300_799_999).Draw(t, "instant")) // to the end of the year 9999
		text, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		if want := `"` + i.Time().Format("2006-01-02T15:04:05.000Z") + `"`; string(text) != want || string(text) != `"`+i.String()+`"` {
			t.Fatalf("%s, want %s", text, want)
		}
		var back mayfly.Instant
		if err := json.Unmarshal(text, &back); err != nil || back != i {
			t.Fatalf("%s reads as %d, %v", text, back, err)
		}
		if m := i.Minute(); m.Start() > i || i-m.Start() >= 60_000 {
			t.Fatalf("%d is not in minute %d", i, m)
		}
	})
}

func TestInstantsAreParsedInAnyZoneAndTruncated(t *testing.T) {
	for text, want := range map[string]mayfly.Instant{
		"2026-01-01T12:00:00.000Z": noon, "2026-01-01T12:00:00Z": noon, "2026-01-01T14:00:00+02:00": noon,
		"2026-01-01T12:00:00.0019Z": noon + 1, "2026-01-01T12:00:00.999999999Z": noon + 999, "": 0,
	} {
		var got mayfly.Instant
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"now", "2026-01-01", "2026-01-01 12:00:00Z", "1767268800000", "2026-13-01T12:00:00Z"} {
		got := noon
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, mayfly.Invalid) || got != noon {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}

func TestInstantArithmetic(t *testing.T) {
	if got := noon.Add(90*time.Second + 999*time.Microsecond); got != noon+90_000 {
		t.Errorf("add: %d", got-noon)
	}
	if got := (noon + 1500).Sub(noon); got != 1500*time.Millisecond {
		t.Errorf("sub: %s", got)
	}
	if got := mayfly.InstantOf(noon.Time().Add(999 * time.Microsecond)); got != noon {
		t.Errorf("of: %d", got-noon)
	}
	var never mayfly.Instant
	if text, err := json.Marshal(never); err != nil || string(text) != `""` || never.String() != "never" {
		t.Errorf("never is %s, %v, %s", text, err, never)
	}
	if noon.Time().Location() != time.UTC {
		t.Error("not in UTC")
	}
}
