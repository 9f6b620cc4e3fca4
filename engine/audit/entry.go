package audit

import (
	"fmt"
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

// Verb is what somebody did. Its number is part of the stored format.
type Verb uint8

// The verbs.
const (
	Restore         Verb = iota + 1 // an item serves again (ST11)
	UndoRun                         // a whole run of a walk is brought back (L14)
	Hold                            // an item is hidden and kept (L16)
	Release                         // a hold is lifted
	EraseItem                       // an item ends by support's hand
	EraseAccount                    // everything of a user goes (ST14)
	RetryDeadLetter                 // a step that was given up is tried again (L10)
	DropDeadLetter                  // … or is given up for good
	CollectOrphans                  // objects without a row go (L12)
	Repair                          // what reconcile found is put right
	ConfirmClock                    // a clock in doubt is believed (L7)
)

// Verbs lists every verb, for tables and tests.
func Verbs() []Verb {
	all := make([]Verb, 0, ConfirmClock)
	for v := Restore; v <= ConfirmClock; v++ {
		all = append(all, v)
	}
	return all
}

// String is the verb's word.
func (v Verb) String() string {
	switch v {
	case Restore:
		return "restore"
	case UndoRun:
		return "undo_run"
	case Hold:
		return "hold"
	case Release:
		return "release"
	case EraseItem:
		return "erase_item"
	case EraseAccount:
		return "erase_account"
	case RetryDeadLetter:
		return "retry_dead_letter"
	case DropDeadLetter:
		return "drop_dead_letter"
	case CollectOrphans:
		return "collect_orphans"
	case Repair:
		return "repair"
	case ConfirmClock:
		return "confirm_clock"
	default:
		return fmt.Sprintf("verb(%d)", uint8(v))
	}
}

// ParseVerb reads a verb's word.
func ParseVerb(word string) (Verb, error) {
	for _, v := range Verbs() {
		if v.String() == word {
			return v, nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Invalid, "%.40q is not a verb of the audit log", word)
}

// lacks says what a subject of v does not name and must.
func (v Verb) lacks(s Subject) string {
	switch v {
	case Restore, Hold, Release, EraseItem, DropDeadLetter:
		if s.Item.IsZero() {
			return "an item"
		}
	case UndoRun:
		if s.Run == 0 {
			return "a run"
		}
	case EraseAccount:
		if s.User.IsZero() {
			return "a user"
		}
	}
	return ""
}

// Outcome is what came of a deed.
type Outcome uint8

// The outcomes. The zero Outcome is that of an intent: nothing came of it yet.
const (
	Intended Outcome = iota
	Done
	Refused // the rules said no: nothing was changed
	Failed  // it broke off: part of it may be done, or be done later
)

// String is the outcome's word.
func (o Outcome) String() string {
	switch o {
	case Intended:
		return "intended"
	case Done:
		return "done"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	default:
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
}
