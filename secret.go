package mayfly

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that is shown to nobody: whatever prints it says hidden, or
// nothing where there is none (C7).
type Secret string

// hidden stands where a secret would.
const hidden = "(hidden)"

// Reveal is the text itself, for whoever has to send it.
func (s Secret) Reveal() string { return string(s) }

// String says whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format says the same for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue keeps it out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps it out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
