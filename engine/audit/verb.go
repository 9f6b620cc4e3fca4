package audit

import (
	"fmt"

	"github.com/mayflyhq/mayfly"
)

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
