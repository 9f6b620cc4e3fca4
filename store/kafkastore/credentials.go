package kafkastore

import (
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanism is how we prove to the brokers who we are.
type Mechanism string

// The mechanisms: both prove that we know the password without sending it.
const (
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// Credentials are who we are to the brokers. They print as "…".
type Credentials struct {
	User      string
	Password  string
	Mechanism Mechanism // ScramSHA512 if empty
}

const hidden = "…"

// String hides them.
func (Credentials) String() string { return hidden }

// Format hides them whatever the verb.
func (Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides them.
func (Credentials) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides them.
func (Credentials) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (c Credentials) mechanism() sasl.Mechanism {
	auth := scram.Auth{User: c.User, Pass: c.Password}
	if c.Mechanism == ScramSHA256 {
		return auth.AsSha256Mechanism()
	}
	return auth.AsSha512Mechanism()
}
