package audit

import (
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestAnEntryThatDoesNotSayWhoWhatAndWhyIsRefused(t *testing.T) {
	rows := mem(t)
	l := begin(t, rows, "node-1")
	of := Ref{Chain: "node-1.ab", Number: 3}
	for name, c := range map[string]struct {
		spoil func(*Entry)
		kind  mayfly.Kind
	}{
		"no actor":                  {func(e *Entry) { e.Actor = "" }, mayfly.Invalid},
		"no reason":                 {func(e *Entry) { e.Reason = " \t" }, mayfly.Invalid},
		"a reason without end":      {func(e *Entry) { e.Reason = strings.Repeat("x", MaxReason+1) }, mayfly.TooLarge},
		"a long actor":              {func(e *Entry) { e.Actor = strings.Repeat("x", MaxActor+1) }, mayfly.TooLarge},
		"a long detail":             {func(e *Entry) { e.Detail = strings.Repeat("x", MaxDetail+1) }, mayfly.TooLarge},
		"an escape":                 {func(e *Entry) { e.Reason = "a\x1b[2Jb" }, mayfly.Invalid},
		"bytes that are no text":    {func(e *Entry) { e.Actor = "\xff" }, mayfly.Invalid},
		"no verb":                   {func(e *Entry) { e.Verb = 0 }, mayfly.Invalid},
		"a verb that is not known":  {func(e *Entry) { e.Verb = ConfirmClock + 1 }, mayfly.Invalid},
		"a restore of nothing":      {func(e *Entry) { e.Subject.Item = mayfly.ID{} }, mayfly.Invalid},
		"an undo of no run":         {func(e *Entry) { e.Verb = UndoRun }, mayfly.Invalid},
		"the erasure of nobody":     {func(e *Entry) { e.Verb, e.Subject.User = EraseAccount, mayfly.UserID{} }, mayfly.Invalid},
		"an id that is none":        {func(e *Entry) { e.Subject.Item = mayfly.ID{1} }, mayfly.Invalid},
		"an outcome of nothing":     {func(e *Entry) { e.Outcome = Done }, mayfly.Invalid},
		"an intent of another":      {func(e *Entry) { e.Of = of }, mayfly.Invalid},
		"an outcome that is none":   {func(e *Entry) { e.Of, e.Outcome = of, Failed+1 }, mayfly.Invalid},
		"an intent of no one chain": {func(e *Entry) { e.Of, e.Outcome = Ref{Chain: "a b"}, Done }, mayfly.Invalid},
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

func TestTheTextOfAnErrorNeverKeepsAnOutcomeFromBeingWritten(t *testing.T) {
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

func TestEveryVerbHasItsOwnWordAndIsReadBack(t *testing.T) {
	for _, v := range Verbs() {
		if back, err := ParseVerb(v.String()); err != nil || back != v || strings.Contains(v.String(), "(") {
			t.Errorf("%s is read as %s: %v", v, back, err)
		}
	}
	if _, err := ParseVerb("verb(0)"); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}
