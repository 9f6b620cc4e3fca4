package mayfly

import "fmt"

// Kind says what sort of failure an error is. It is the sentinel that callers
// act on: errors.Is(err, mayfly.Gone) holds anywhere above the failure. One
// table maps kinds to HTTP statuses, one to exit codes.
type Kind uint8

// The kinds. The zero Kind is not a failure and is never returned.
const (
	NotFound        Kind = iota + 1 // nothing there, or nothing that this caller may know of
	Gone                            // past its deadline: the id alone says so
	Archived                        // past its deadline, readable by its author from the archive
	Conflict                        // the current state does not allow it
	Invalid                         // the request makes no sense as written
	TooLarge                        // over a size limit
	Unsupported                     // this kind of content or operation is not offered
	Unauthenticated                 // who is asking is not known
	Denied                          // who is asking may not
	Limited                         // too often; later
	Full                            // no room: the free-space floor is reached
	Unavailable                     // a store is away or the clock is in doubt; later
	Corrupt                         // stored bytes are not what was written
	Unknown                         // the outcome is not known: it may or may not have happened
)

// Kinds lists every kind, for tables and tests.
func Kinds() []Kind {
	kinds := make([]Kind, 0, Unknown)
	for k := NotFound; k <= Unknown; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String is the machine code of the kind, as it stands on the wire.
func (k Kind) String() string {
	switch k {
	case NotFound:
		return "not_found"
	case Gone:
		return "gone"
	case Archived:
		return "archived"
	case Conflict:
		return "conflict"
	case Invalid:
		return "invalid"
	case TooLarge:
		return "too_large"
	case Unsupported:
		return "unsupported"
	case Unauthenticated:
		return "unauthenticated"
	case Denied:
		return "denied"
	case Limited:
		return "limited"
	case Full:
		return "full"
	case Unavailable:
		return "unavailable"
	case Corrupt:
		return "corrupt"
	case Unknown:
		return "unknown"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

// Error makes a Kind its own sentinel.
func (k Kind) Error() string { return k.String() }

// Error is a failure with its kind and, for whoever has to act on it, a hint.
type Error struct {
	Kind Kind
	Hint string // what to do next; may be empty
	Err  error  // what happened
}

// Errorf makes an Error of kind with a message; %w wraps as in fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Wrap gives err a kind and a hint.
func Wrap(kind Kind, err error, hint string) *Error {
	return &Error{Kind: kind, Hint: hint, Err: err}
}

// WithHint returns a copy of e that carries hint.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// Error is the message with the hint behind it.
func (e *Error) Error() string {
	msg := e.Kind.String()
	if e.Err != nil {
		msg = e.Err.Error()
	}
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}

// Is makes errors.Is(err, kind) hold.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap is what happened.
func (e *Error) Unwrap() error { return e.Err }
