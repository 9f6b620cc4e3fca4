package mayfly

import "fmt"

// Kind classifies an error. Callers decide by it: errors.Is(err, mayfly.Gone) is true
// for an error of that kind, however often it was wrapped. The API maps kinds to
// HTTP statuses, and the command line to exit codes.
type Kind uint8

// The kinds. The zero Kind is not a failure and is never returned.
const (
	NotFound        Kind = iota + 1 // it does not exist, or the caller may not know that it does
	Gone                            // it is past its deadline
	Archived                        // it is past its deadline and its author reads it from the archive
	Conflict                        // the current state does not allow it
	Invalid                         // the request is wrong and must be changed
	TooLarge                        // over a size limit
	Unsupported                     // this type of content or operation is not supported
	Unauthenticated                 // the caller is not known
	Denied                          // the caller has no permission
	Limited                         // there were too many requests: retry later
	Full                            // there is too little disk space left
	Unavailable                     // a store does not answer or the clock is unconfirmed: retry later
	Corrupt                         // stored bytes differ from what was written
	Unknown                         // whether it happened is not known
)

// Kinds returns all kinds.
func Kinds() []Kind {
	kinds := make([]Kind, 0, Unknown)
	for k := NotFound; k <= Unknown; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String returns the code of the kind in the API.
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

// Error makes a Kind an error, so that errors.Is accepts it as a target.
func (k Kind) Error() string { return k.String() }

// Error is an error with a kind and a hint for the person who has to act on it.
type Error struct {
	Kind Kind
	Hint string // what to do next; may be empty
	Err  error  // what happened
}

// Errorf returns an Error of a kind with a message; %w wraps as in fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Wrap returns err with a kind and a hint, which may be empty.
func Wrap(kind Kind, err error, hint string) *Error {
	return &Error{Kind: kind, Hint: hint, Err: err}
}

// WithHint returns a copy of e with hint.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// Error returns the message, followed by the hint in brackets.
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

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
