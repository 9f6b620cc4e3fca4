package audit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// The maximum sizes of the texts of an entry, in bytes.
const (
	MaxIssuer = 256
	MaxActor  = 256
	MaxReason = 1024
	MaxDetail = 2048
)

// Entry is what a caller records.
type Entry struct {
	Actor   Actor
	Verb    Verb
	Subject Subject
	Reason  string // why, in the actor's words; required, also on an outcome
	Detail  string // what the operation reports; may be empty

	Outcome Outcome
	Of      Ref // on an outcome, the intent that it concludes
}

// Actor is who did something: the holder of a token, or a process itself. Issuer and
// subject are apart, because an issuer chooses the names of its subjects: joined, one
// could look like another issuer's.
type Actor struct {
	Issuer  string        // of the token; empty: a process itself
	Subject string        // of the token, or the name of the process; required
	For     mayfly.UserID // the user for whom a service acted; zero: none
}

// String returns the actor for a text that people read.
func (a Actor) String() string {
	text := a.Subject
	if a.Issuer != "" {
		text = fmt.Sprintf("%q of %q", a.Subject, a.Issuer)
	}
	if !a.For.IsZero() {
		text += " for " + a.For.String()
	}
	return text
}

// Subject is what an operation acts on: an item, a user or a run. The verb decides
// which of them is required.
type Subject struct {
	Item mayfly.ID
	User mayfly.UserID
	Run  mayfly.Run
}

// Concluded returns the outcome of the intent e, which was recorded as intent. It
// shortens and cleans the detail, so that an outcome is never refused because of
// the text of an error.
func (e Entry) Concluded(intent Ref, outcome Outcome, detail string) Entry {
	e.Of, e.Outcome, e.Detail = intent, outcome, clean(detail)
	return e
}

// Validate returns an error of kind Invalid or TooLarge if the entry may not be
// recorded.
func (e Entry) Validate() error {
	for _, text := range []struct {
		name, text string
		most       int
	}{{"issuer", e.Actor.Issuer, MaxIssuer}, {"actor", e.Actor.Subject, MaxActor}, {"reason", e.Reason, MaxReason}, {"detail", e.Detail, MaxDetail}} {
		switch {
		case text.name != "detail" && text.name != "issuer" && strings.TrimSpace(text.text) == "":
			return mayfly.Errorf(mayfly.Invalid, "audit: %s: %s is required", e.Verb, text.name).WithHint("name the actor and give a reason")
		case len(text.text) > text.most:
			return mayfly.Errorf(mayfly.TooLarge, "audit: %s has %d bytes; at most %d are allowed", text.name, len(text.text), text.most)
		case text.text != plain(text.text):
			return mayfly.Errorf(mayfly.Invalid, "audit: %s contains control characters or invalid UTF-8: %.40q", text.name, text.text)
		}
	}
	if e.Verb < Restore || e.Verb > MoveIn {
		return mayfly.Errorf(mayfly.Invalid, "audit: unknown %s", e.Verb)
	}
	if missing := e.Verb.lacks(e.Subject); missing != "" {
		return mayfly.Errorf(mayfly.Invalid, "audit: %s requires %s", e.Verb, missing)
	}
	if !e.Subject.Item.IsZero() && !e.Subject.Item.Valid() {
		return mayfly.Errorf(mayfly.Invalid, "audit: invalid item id %s", e.Subject.Item)
	}
	if e.Outcome > Failed || (e.Outcome == Intended) != (e.Of == Ref{}) || e.Outcome != Intended && !validChain(e.Of.Chain) {
		return mayfly.Errorf(mayfly.Invalid, "audit: outcome %s: an outcome must name a valid intent, and an intent must name none", e.Outcome)
	}
	return nil
}

// plain replaces control characters, which a terminal could execute, and invalid
// UTF-8.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// clean makes detail valid: plain, and not longer than MaxDetail.
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

// Verb names an audited operation. Its number is part of the stored format.
type Verb uint8

// The verbs.
const (
	Restore         Verb = iota + 1 // an item serves again (ST11)
	UndoRun                         // all items of a run are restored (L14)
	Hold                            // an item is hidden and its bytes are kept (L16)
	Release                         // a hold is removed
	EraseItem                       // support deletes an item
	EraseAccount                    // all data of a user is erased (ST14)
	RetryDeadLetter                 // a failed step is tried again (L10)
	DropDeadLetter                  // a failed step is dropped without another try
	CollectOrphans                  // objects without a row are removed (L12)
	Repair                          // what reconcile found is repaired
	ConfirmClock                    // a step of the clock is confirmed (L7)
	DenyToken                       // an access token is refused before its end (C1)
	AddKVKey                        // a key of a namespace is made (K1)
	RemoveKVKey                     // a key of a namespace is removed
	MoveIn                          // follow edges and posts of another product move in
)

// Verbs returns every verb.
func Verbs() []Verb {
	all := make([]Verb, 0, MoveIn)
	for v := Restore; v <= MoveIn; v++ {
		all = append(all, v)
	}
	return all
}

// String returns the name of the verb.
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
	case DenyToken:
		return "deny_token"
	case AddKVKey:
		return "add_kv_key"
	case RemoveKVKey:
		return "remove_kv_key"
	case MoveIn:
		return "move_in"
	default:
		return fmt.Sprintf("verb(%d)", uint8(v))
	}
}

// ParseVerb returns the verb with the given name.
func ParseVerb(word string) (Verb, error) {
	for _, v := range Verbs() {
		if v.String() == word {
			return v, nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Invalid, "unknown verb %.40q of the audit log", word)
}

// lacks returns what v requires and s does not name; empty if s is complete.
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

// Outcome is the result of an operation.
type Outcome uint8

// The outcomes. The zero Outcome marks an intent, which has no result yet.
const (
	Intended Outcome = iota
	Done
	Refused // a rule refused it: nothing was changed
	Failed  // it returned an error: part of it may be done, or be done later
)

// String returns the name of the outcome.
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
