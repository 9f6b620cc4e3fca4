package audit

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestAnInvalidEntryIsRefused(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	of := Ref{Chain: "node-1.ab", Number: 3}
	for name, c := range map[string]struct {
		spoil func(*Entry)
		kind  mayfly.Kind
	}{
		"no actor":                       {func(e *Entry) { e.Actor.Subject = "" }, mayfly.Invalid},
		"no reason":                      {func(e *Entry) { e.Reason = " \t" }, mayfly.Invalid},
		"a long reason":                  {func(e *Entry) { e.Reason = strings.Repeat("x", MaxReason+1) }, mayfly.TooLarge},
		"a long actor":                   {func(e *Entry) { e.Actor.Subject = strings.Repeat("x", MaxActor+1) }, mayfly.TooLarge},
		"a long detail":                  {func(e *Entry) { e.Detail = strings.Repeat("x", MaxDetail+1) }, mayfly.TooLarge},
		"an escape":                      {func(e *Entry) { e.Reason = "a\x1b[2Jb" }, mayfly.Invalid},
		"a long issuer":                  {func(e *Entry) { e.Actor.Issuer = strings.Repeat("x", MaxIssuer+1) }, mayfly.TooLarge},
		"an issuer of two lines":         {func(e *Entry) { e.Actor.Issuer = "a\nb" }, mayfly.Invalid},
		"invalid UTF-8":                  {func(e *Entry) { e.Actor.Subject = "\xff" }, mayfly.Invalid},
		"no verb":                        {func(e *Entry) { e.Verb = 0 }, mayfly.Invalid},
		"an unknown verb":                {func(e *Entry) { e.Verb = MoveIn + 1 }, mayfly.Invalid},
		"a restore without an item":      {func(e *Entry) { e.Subject.Item = mayfly.ID{} }, mayfly.Invalid},
		"an undo without a run":          {func(e *Entry) { e.Verb = UndoRun }, mayfly.Invalid},
		"an erasure without a user":      {func(e *Entry) { e.Verb, e.Subject.User = EraseAccount, mayfly.UserID{} }, mayfly.Invalid},
		"an invalid id":                  {func(e *Entry) { e.Subject.Item = mayfly.ID{1} }, mayfly.Invalid},
		"an outcome without an intent":   {func(e *Entry) { e.Outcome = Done }, mayfly.Invalid},
		"an intent that names an intent": {func(e *Entry) { e.Of = of }, mayfly.Invalid},
		"an unknown outcome":             {func(e *Entry) { e.Of, e.Outcome = of, Failed+1 }, mayfly.Invalid},
		"an invalid chain":               {func(e *Entry) { e.Of, e.Outcome = Ref{Chain: "a b"}, Done }, mayfly.Invalid},
	} {
		e := restore(t, 1)
		c.spoil(&e)
		if _, err := l.Record(t.Context(), e, start); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if report, _ := sound(t, rows); report.Records != 0 {
		t.Errorf("%d records", report.Records)
	}
	if _, err := Open(t.Context(), rows, "a writer", start); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a writer with a space: %v", err)
	}
}

func TestAnOutcomeIsRecordedWhateverItsDetailContains(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	e := restore(t, 1)
	ref := record(t, l, e, start)
	for _, detail := range []string{"", "two\nlines\x00", "x" + strings.Repeat("ä", MaxDetail), "\xff" + strings.Repeat("x", MaxDetail)} {
		record(t, l, e.Concluded(ref, Failed, detail), start)
	}
	if report, _ := sound(t, rows); report.Records != 5 {
		t.Errorf("%d records", report.Records)
	}
}

func TestEveryVerbIsParsedFromItsName(t *testing.T) {
	for _, v := range Verbs() {
		if back, err := ParseVerb(v.String()); err != nil || back != v || strings.Contains(v.String(), "(") {
			t.Errorf("%s is read as %s: %v", v, back, err)
		}
	}
	if _, err := ParseVerb("verb(0)"); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}

// example returns a record with all fields set.
func example(t testing.TB) Record {
	t.Helper()
	e := restore(t, 5).Concluded(Ref{"node-1.00ff", 6}, Done, "generation 4")
	e.Subject.Run, e.Actor.For = 77, mayfly.UserOf("home", "ana")
	return Record{
		Ref: Ref{"node-1.00ff", 7}, At: start, Prev: Hash{1, 2, 3}, Entry: e,
		Anchors: []Head{{Chain: "node-2.aa", Count: 9, Hash: Hash{4}}, {Chain: "node-3.bb"}},
	}
}

// TestTheFormatIsFixed fails when the encoding of format 2 changes, which would
// make stored chains unreadable. A new layout needs a new format number.
func TestTheFormatIsFixed(t *testing.T) {
	const want = "43bc5a50aba24413056961476e6a190c33f33a7219a79d8ef4e6764731905e9a"
	r := example(t)
	r.seal()
	if r.Hash.String() != want {
		t.Errorf("the hash is %s, want %s", r.Hash, want)
	}
}

func TestARecordIsDecodedAsItWasEncoded(t *testing.T) {
	r := example(t)
	value := r.seal()
	back, err := readRecord(value)
	if err != nil || !bytes.Equal(back.seal(), value) || back.Entry != r.Entry || back.Ref != r.Ref || back.At != r.At || len(back.Anchors) != 2 {
		t.Errorf("%+v %v", back, err)
	}
}

func TestAnUnknownFormatIsRefused(t *testing.T) {
	r := example(t)
	body := r.body()
	for _, other := range []byte{recordFormat - 1, recordFormat + 1} {
		body[0] = other
		own := sum(recordDomain, body)
		if _, err := readRecord(append(body, own[:]...)); !errors.Is(err, mayfly.Corrupt) || !strings.Contains(err.Error(), "the version of Mayfly that wrote it") {
			t.Error(err)
		}
	}
	row := listing{Head: Head{Chain: "a"}}.seal()
	row[0] = listingFormat + 1
	if _, err := readListing("a", row); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
}

// unminimal returns a body whose first length is encoded in two bytes instead of one.
func unminimal() []byte {
	small := Record{Ref: Ref{Chain: "a"}}
	body := small.body()
	return append([]byte{body[0], body[1] | 0x80, 0}, body[2:]...)
}

func TestASecondEncodingOfARecordIsRefused(t *testing.T) {
	body := unminimal()
	own := sum(recordDomain, body)
	if _, err := readRecord(append(body, own[:]...)); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
}

func FuzzARecordHasOneEncoding(f *testing.F) {
	r := example(f)
	f.Add(r.body())
	small := Record{Ref: Ref{Chain: "a"}}
	f.Add(small.body())
	f.Add(unminimal())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		own := sum(recordDomain, body) // with a matching hash, the decoder is reached
		value := append(bytes.Clone(body), own[:]...)
		if r, err := readRecord(value); err == nil && !bytes.Equal(r.seal(), value) {
			t.Errorf("%x is read as %+v", value, r)
		} else if err != nil && !errors.Is(err, mayfly.Corrupt) {
			t.Error(err)
		}
		if _, err := readRecord(body); err == nil && len(body) < 32 {
			t.Errorf("%x has no hash", body)
		}
		if l, err := readListing("a", body); err == nil && !bytes.Equal(l.seal(), body) {
			t.Errorf("%x is read as %+v", body, l)
		}
	})
}
