package redisstore

import "fmt"

// Secret is text that is shown to nobody: every way of printing it says hidden.
type Secret string

const hidden = "hidden"

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// String says whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// MarshalText keeps it out of JSON, YAML and structured logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
