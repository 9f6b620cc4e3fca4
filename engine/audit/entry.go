package audit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// The bounds of an entry's texts, in bytes.
const (
	MaxActor  = 128
	MaxReason = 1024
	MaxDetail = 2048
)

// Entry is what a caller writes down.
type Entry struct {
	Actor   string // who: required
	Verb    Verb
	Subject Subject
	Reason  string // why, in the actor's words: required, also on an outcome
	Detail  string // what the deed itself has to say; may be empty

	Outcome Outcome
	Of      Ref // with an outcome: the intent that it concludes
}

// Subject is what a deed is done to: any of the three.
type Subject struct {
	Item mayfly.ID
	User mayfly.UserID
	Run  mayfly.Run
}

// Concluded is the outcome of the intent e, which was recorded as intent. A
// detail is cut and cleaned where it has to be: an outcome is never refused for
// the text of an error.
func (e Entry) Concluded(intent Ref, outcome Outcome, detail string) Entry {
	e.Of, e.Outcome, e.Detail = intent, outcome, clean(detail)
	return e
}

// Validate says whether the entry may be written.
func (e Entry) Validate() error {
	for _, text := range []struct {
		name, text string
		most       int
	}{{"actor", e.Actor, MaxActor}, {"reason", e.Reason, MaxReason}, {"detail", e.Detail, MaxDetail}} {
		switch {
		case text.name != "detail" && strings.TrimSpace(text.text) == "":
			return mayfly.Errorf(mayfly.Invalid, "audit: %s without %s", e.Verb, text.name).WithHint("say who does it and why")
		case len(text.text) > text.most:
			return mayfly.Errorf(mayfly.TooLarge, "audit: %s of %d bytes, at most %d", text.name, len(text.text), text.most)
		case text.text != plain(text.text):
			return mayfly.Errorf(mayfly.Invalid, "audit: the %s is not plain text: %.40q", text.name, text.text)
		}
	}
	if e.Verb < Restore || e.Verb > ConfirmClock {
		return mayfly.Errorf(mayfly.Invalid, "audit: %s is not known", e.Verb)
	}
	if missing := e.Verb.lacks(e.Subject); missing != "" {
		return mayfly.Errorf(mayfly.Invalid, "audit: %s needs %s", e.Verb, missing)
	}
	if !e.Subject.Item.IsZero() && !e.Subject.Item.Valid() {
		return mayfly.Errorf(mayfly.Invalid, "audit: %s is not an id", e.Subject.Item)
	}
	if e.Outcome > Failed || (e.Outcome == Intended) != (e.Of == Ref{}) || e.Outcome != Intended && !validChain(e.Of.Chain) {
		return mayfly.Errorf(mayfly.Invalid, "audit: an outcome (%s) names its intent, an intent names none", e.Outcome)
	}
	return nil
}

// plain is text without what a terminal or a page could take for more than text.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

func clean(detail string) string {
	detail = plain(detail)
	if len(detail) <= MaxDetail {
		return detail
	}
	cut := MaxDetail
	for !utf8.RuneStart(detail[cut]) {
		cut--
	}
	return detail[:cut]
}
