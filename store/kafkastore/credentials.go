package kafkastore

import (
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mayflyhq/mayfly"
)

// Mechanism is how we prove to the brokers who we are.
type Mechanism string

// The mechanisms: both prove that we know the password without sending it.
const (
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// Credentials are who we are to the brokers.
type Credentials struct {
	User      string
	Password  mayfly.Secret
	Mechanism Mechanism // ScramSHA512 if empty
}

func (c Credentials) mechanism() sasl.Mechanism {
	auth := scram.Auth{User: c.User, Pass: c.Password.Reveal()}
	if c.Mechanism == ScramSHA256 {
		return auth.AsSha256Mechanism()
	}
	return auth.AsSha512Mechanism()
}
