package kafkastore

import (
	"cmp"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

// Options configure Open. Zero values are replaced by the defaults named here.
type Options struct {
	Brokers []string // host:port of some brokers; the others are discovered
	Prefix  string   // of the names of topics and groups

	// Settings of topics that Open creates. Existing topics are not changed; Open
	// refuses one with fewer replicas or a shorter retention.
	Partitions        int           // default 64; fixed at creation, because an item's partition depends on it
	ReplicationFactor int           // default 3
	Retention         time.Duration // at least, also of existing topics; default and minimum 30 days

	Credentials conn.Credentials // no authentication if zero
	Mechanism   Mechanism        // SASL mechanism; default ScramSHA512
	TLS         conn.TLS         // plain TCP if zero

	// Late lets Open succeed while no broker answers. The topics are then checked
	// before the first event is appended.
	Late bool

	Timeout          time.Duration // of a call to the brokers; default 10 s
	SessionTimeout   time.Duration // after it the partitions of a silent reader move to others; default 10 s
	RebalanceTimeout time.Duration // how long a reader may block a rebalance between Next and Commit; default 30 s
	MaxInFlight      int           // events at a time; default 20,000

	Now    func() mayfly.Instant // the node's clock, for the timestamps of records
	Logger *slog.Logger          // discards if nil
}

// Mechanism is the SASL mechanism, which proves the password without sending it.
type Mechanism string

// The supported mechanisms.
const (
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

func (m Mechanism) with(c conn.Credentials) sasl.Mechanism {
	auth := scram.Auth{User: c.User, Pass: c.Password.Reveal()}
	if m == ScramSHA256 {
		return auth.AsSha256Mechanism()
	}
	return auth.AsSha512Mechanism()
}

const (
	defaultPartitions        = 64
	maxPartitions            = 10_000
	defaultReplicationFactor = 3
	defaultTimeout           = 10 * time.Second
	defaultSession           = 10 * time.Second
	defaultRebalance         = 30 * time.Second
	defaultMaxInFlight       = 20_000
	minMaxInFlight           = 100
	minRetention             = 30 * 24 * time.Hour // L8
	prefixPattern            = `^[A-Za-z0-9._-]{0,100}$`
)

// complete sets the defaults and validates the result.
func (o Options) complete() (Options, error) {
	o.Brokers = slices.Clone(o.Brokers)
	o.Partitions = cmp.Or(o.Partitions, defaultPartitions)
	o.ReplicationFactor = cmp.Or(o.ReplicationFactor, defaultReplicationFactor)
	o.Retention = cmp.Or(o.Retention, minRetention)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, defaultSession)
	o.RebalanceTimeout = cmp.Or(o.RebalanceTimeout, defaultRebalance)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	o.Mechanism = cmp.Or(o.Mechanism, ScramSHA512)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, o.validate()
}

func (o Options) validate() error {
	bad := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, "kafka: "+format, args...)
	}
	switch {
	case len(o.Brokers) == 0 || slices.Contains(o.Brokers, ""):
		return bad("brokers %q: at least one is required, and none may be empty", o.Brokers)
	case !regexp.MustCompile(prefixPattern).MatchString(o.Prefix):
		return bad("invalid prefix %q: use at most 100 letters, digits and . _ -", o.Prefix)
	case o.Partitions < 1 || o.Partitions > maxPartitions:
		return bad("%d partitions: use 1 to %d", o.Partitions, maxPartitions)
	case o.ReplicationFactor < 1 || o.ReplicationFactor > 100:
		return bad("replication factor %d: use 1 to 100", o.ReplicationFactor)
	case o.Retention < minRetention:
		return bad("retention %s is shorter than 30 days", o.Retention)
	case o.Credentials.Validate() != nil:
		return bad("%w", o.Credentials.Validate())
	case o.Mechanism != ScramSHA256 && o.Mechanism != ScramSHA512:
		return bad("mechanism %q is neither %s nor %s", o.Mechanism, ScramSHA256, ScramSHA512)
	case o.Timeout < 0 || o.SessionTimeout < 0 || o.RebalanceTimeout < 0:
		return bad("negative timeout")
	case o.SessionTimeout < time.Second || o.RebalanceTimeout < time.Second:
		return bad("session %s and rebalance timeout %s must be at least 1s", o.SessionTimeout, o.RebalanceTimeout)
	case o.MaxInFlight < minMaxInFlight:
		return bad("limit of %d events in flight is less than %d", o.MaxInFlight, minMaxInFlight)
	case o.Now == nil:
		return bad("a clock is required")
	}
	return nil
}
