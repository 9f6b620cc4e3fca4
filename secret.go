package mayfly

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that must not be printed: formatting, logging and encoding write
// "(hidden)" instead, or nothing if it is empty (C7).
type Secret string

// hidden is written in place of a secret.
const hidden = "(hidden)"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "(hidden)", or an empty text for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format writes the same as String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue keeps the text out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the text out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
