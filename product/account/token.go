package account

import (
	"fmt"
	"io"
	"log/slog"
)

// Token is a bearer token. It never prints itself (C7): who hands it out
// converts it to a string, and that can be searched for.
type Token string

const redacted = "[redacted]"

// String hides the token.
func (Token) String() string { return redacted }

// GoString hides the token.
func (Token) GoString() string { return redacted }

// Format hides the token under every verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the token.
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the token.
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }
