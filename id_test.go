package mayfly_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

// minted draws an id that could have been minted, with what went into it.
func minted(t *rapid.T, label string) (id mayfly.ID, birth mayfly.Instant, lifetime mayfly.Lifetime, trace mayfly.Trace, random uint64) {
	birth = mayfly.Instant(rapid.Int64Range(0, int64(mayfly.MaxBirth)).Draw(t, label+" birth"))
	lifetime = drawLifetime(t, label)
	trace = mayfly.Trace(rapid.Uint16Range(0, uint16(mayfly.TraceMax)).Draw(t, label+" trace"))
	random = rapid.Uint64().Draw(t, label+" random")
	id, err := mayfly.NewID(birth, lifetime, trace, random)
	if err != nil {
		t.Fatal(err)
	}
	return id, birth, lifetime, trace, random
}

func drawLifetime(t *rapid.T, label string) mayfly.Lifetime {
	return rapid.Custom(func(t *rapid.T) mayfly.Lifetime {
		return mayfly.Lifetime(rapid.Uint16Range(0, uint16(mayfly.MaxLifetime)).Draw(t, "code"))
	}).Filter(mayfly.Lifetime.Valid).Draw(t, label+" lifetime")
}

func TestAnIDContainsWhatItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, birth, lifetime, trace, random := minted(t, "id")
		if !id.Valid() || id.IsZero() {
			t.Fatalf("%s is not valid", id)
		}
		if id.Birth() != birth || id.Lifetime() != lifetime || id.Trace() != trace || id.Shard() != mayfly.Shard(random%16) {
			t.Fatalf("%s: birth %d, lifetime %s, trace %d, shard %d", id, id.Birth(), id.Lifetime(), id.Trace(), id.Shard())
		}
		if id[6]>>4 != 8 || id[8]>>6 != 2 {
			t.Fatalf("%s is not a UUIDv8", id)
		}
	})
}

func TestDeadlineIsBirthPlusLifetimeToTheMillisecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, birth, lifetime, _, _ := minted(t, "id")
		if lifetime == mayfly.Never {
			if id.Expires() || id.Deadline() != 0 || id.ExpiredAt(1<<62) {
				t.Fatalf("%s expires", id)
			}
			return
		}
		deadline := birth + mayfly.Instant(lifetime.Duration()/time.Millisecond)
		if !id.Expires() || id.Deadline() != deadline {
			t.Fatalf("deadline %d, want %d", id.Deadline(), deadline)
		}
		if id.ExpiredAt(deadline-1) || !id.ExpiredAt(deadline) || !id.ExpiredAt(deadline+1) {
			t.Fatalf("expired at deadline −1, 0, +1 ms: %t, %t, %t", id.ExpiredAt(deadline-1), id.ExpiredAt(deadline), id.ExpiredAt(deadline+1))
		}
		if m := id.Minute(); deadline < 60_000<<32 && (m.Start() > deadline || deadline-m.Start() >= 60_000) {
			t.Fatalf("deadline %d is not in minute %d", deadline, m)
		}
	})
}

func TestBothTextsOfAnIDReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, _, _, _, _ := minted(t, "id")
		if len(id.String()) != 36 || len(id.Short()) != 22 {
			t.Fatalf("texts %q and %q", id, id.Short())
		}
		for _, text := range []string{id.String(), id.Short()} {
			got, err := mayfly.ParseID(text)
			if err != nil || got != id {
				t.Fatalf("%q reads as %s, %v", text, got, err)
			}
		}
		data, err := id.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var read mayfly.ID
		if err := read.UnmarshalBinary(data); err != nil || read != id {
			t.Fatalf("binary reads as %s, %v", read, err)
		}
		text, err := json.Marshal(map[mayfly.ID]mayfly.ID{id: id})
		if err != nil {
			t.Fatal(err)
		}
		var again map[mayfly.ID]mayfly.ID
		if err := json.Unmarshal(text, &again); err != nil || again[id] != id {
			t.Fatalf("JSON %s reads as %v, %v", text, again, err)
		}
	})
}

func TestIDsAndBothTextsAreInOrderOfBirth(t *testing.T) {
	sign := func(n int) int { return max(-1, min(1, n)) }
	rapid.Check(t, func(t *rapid.T) {
		a, birthA, _, _, _ := minted(t, "a")
		b, birthB, _, _, _ := minted(t, "b")
		want := sign(bytes.Compare(a[:], b[:]))
		if birthA < birthB && want != -1 {
			t.Fatalf("%s is born before %s and does not sort before it", a, b)
		}
		if got := sign(a.Compare(b)); got != want {
			t.Fatalf("Compare(%s, %s) = %d", a, b, got)
		}
		if got := strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("UUID texts compare %d, ids %d", got, want)
		}
		if got := strings.Compare(a.Short(), b.Short()); got != want {
			t.Fatalf("short texts compare %d, ids %d", got, want)
		}
	})
}

// Every text that ParseID takes is one of the two spellings of what it reads.
func TestParseIDAcceptsOnlyTheTwoSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, _, _, _, _ := minted(t, "id")
		text := rapid.SampledFrom([]string{id.String(), id.Short()}).Draw(t, "text")
		b := []byte(text)
		switch rapid.IntRange(0, 3).Draw(t, "edit") {
		case 0:
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		case 1:
			at := rapid.IntRange(0, len(b)).Draw(t, "at")
			b = slices.Insert(b, at, rapid.Byte().Draw(t, "byte"))
		case 2:
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b = slices.Delete(b, at, at+1)
		case 3:
			b = bytes.ToUpper(b)
		}
		got, err := mayfly.ParseID(string(b))
		switch {
		case err != nil && !errors.Is(err, mayfly.Invalid):
			t.Fatalf("%q: %v", b, err)
		case err == nil && (!got.Valid() || got.String() != string(b) && got.Short() != string(b)):
			t.Fatalf("%q is taken for %s", b, got)
		}
	})
}

func TestNewIDRefusesValuesThatDoNotFit(t *testing.T) {
	for name, make := range map[string]func() (mayfly.ID, error){
		"negative birth":     func() (mayfly.ID, error) { return mayfly.NewID(-1, 1, 0, 0) },
		"birth of 49 bits":   func() (mayfly.ID, error) { return mayfly.NewID(mayfly.MaxBirth+1, 1, 0, 0) },
		"lifetime of 13 bit": func() (mayfly.ID, error) { return mayfly.NewID(0, 1<<12, 0, 0) },
		"one minute":         func() (mayfly.ID, error) { return mayfly.NewID(0, 1<<10|1, 0, 0) }, // 60 seconds is its spelling
		"no minutes":         func() (mayfly.ID, error) { return mayfly.NewID(0, 1<<10, 0, 0) },
		"trace of 11 bits":   func() (mayfly.ID, error) { return mayfly.NewID(0, 1, mayfly.TraceMax+1, 0) },
	} {
		if id, err := make(); !errors.Is(err, mayfly.Invalid) || !id.IsZero() {
			t.Errorf("%s: %s, %v", name, id, err)
		}
	}
}

func TestUnmarshalBinaryRefusesInvalidIDs(t *testing.T) {
	var id mayfly.ID
	good := mayfly.ID{6: 0x80, 8: 0x80}
	for name, data := range map[string][]byte{
		"15 bytes":    good[:15],
		"17 bytes":    append(good[:], 0),
		"nothing":     nil,
		"zero":        make([]byte, 16),
		"version 4":   {6: 0x40, 8: 0x80, 15: 0},
		"variant 11":  {6: 0x80, 8: 0xc0, 15: 0},
		"no lifetime": {6: 0x84, 7: 0x00, 8: 0x80, 15: 0},
	} {
		if err := id.UnmarshalBinary(data); !errors.Is(err, mayfly.Invalid) || !id.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := id.UnmarshalBinary(good[:]); err != nil {
		t.Error(err)
	}
}

func FuzzParseID(f *testing.F) {
	for _, v := range readVectors(f).IDs {
		f.Add(v.UUID)
		f.Add(v.Base62)
	}
	for _, v := range readVectors(f).Invalid {
		f.Add(v.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := mayfly.ParseID(text)
		switch {
		case err != nil && !errors.Is(err, mayfly.Invalid):
			t.Fatalf("%q: %v", text, err)
		case err == nil && (!id.Valid() || id.String() != text && id.Short() != text):
			t.Fatalf("%q is taken for %s", text, id)
		}
	})
}
