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

// Options say where the brokers are and how they keep the topics.
type Options struct {
	Brokers []string // host:port of some of them; the others are found through them
	Prefix  string   // before the names of topics and groups; none if empty

	// How a topic is made that is not there. One that is there stays as it is, and
	// is refused if it has fewer copies or forgets sooner.
	Partitions int           // fixed at creation, because an item's partition depends on it; 64 if 0
	Copies     int           // 3 if 0
	Keep       time.Duration // at least, of old topics too; 30 days if 0, and never less

	Credentials conn.Credentials // none if zero
	Mechanism   Mechanism        // how the credentials are proved; ScramSHA512 if empty
	TLS         conn.TLS         // plain TCP if zero

	// Late lets Open succeed while no broker answers: what it looks at is looked at
	// before the first event is appended.
	Late bool

	Patience time.Duration // for the brokers to answer; 10 s if 0
	Session  time.Duration // after it the place of a reader that fell silent is given to others; 10 s if 0
	Handover time.Duration // how long a reader may hold up a handover between Next and Commit; 30 s if 0
	UnderWay int           // events that may be on their way at a time; 20,000 if 0

	Now    func() mayfly.Instant // the node's clock: it stamps records for the brokers
	Logger *slog.Logger          // for what the operator should know; none if nil
}

// Mechanism is how the password is proved to the brokers without sending it.
type Mechanism string

// The mechanisms.
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
	defaultPartitions = 64
	maxPartitions     = 10_000
	defaultCopies     = 3
	defaultPatience   = 10 * time.Second
	defaultSession    = 10 * time.Second
	defaultHandover   = 30 * time.Second
	defaultUnderWay   = 20_000
	minUnderWay       = 100
	leastKept         = 30 * 24 * time.Hour // L8
	prefixPattern     = `^[A-Za-z0-9._-]{0,100}$`
)

func (o Options) complete() (Options, error) {
	o.Brokers = slices.Clone(o.Brokers)
	o.Partitions = cmp.Or(o.Partitions, defaultPartitions)
	o.Copies = cmp.Or(o.Copies, defaultCopies)
	o.Keep = cmp.Or(o.Keep, leastKept)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Session = cmp.Or(o.Session, defaultSession)
	o.Handover = cmp.Or(o.Handover, defaultHandover)
	o.UnderWay = cmp.Or(o.UnderWay, defaultUnderWay)
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
		return bad("no broker is named, or an empty one")
	case !regexp.MustCompile(prefixPattern).MatchString(o.Prefix):
		return bad("prefix %q: letters, digits and . _ -, at most 100", o.Prefix)
	case o.Partitions < 1 || o.Partitions > maxPartitions:
		return bad("%d partitions are not between 1 and %d", o.Partitions, maxPartitions)
	case o.Copies < 1 || o.Copies > 100:
		return bad("%d copies", o.Copies)
	case o.Keep < leastKept:
		return bad("events are kept for %s, which is less than 30 days", o.Keep)
	case o.Credentials.Validate() != nil:
		return bad("%w", o.Credentials.Validate())
	case o.Mechanism != ScramSHA256 && o.Mechanism != ScramSHA512:
		return bad("mechanism %q is neither %s nor %s", o.Mechanism, ScramSHA256, ScramSHA512)
	case o.Patience < 0 || o.Session < 0 || o.Handover < 0:
		return bad("a time-out below zero")
	case o.Session < time.Second || o.Handover < time.Second:
		return bad("a session and a handover last a second at least")
	case o.UnderWay < minUnderWay:
		return bad("%d events on their way are less than %d", o.UnderWay, minUnderWay)
	case o.Now == nil:
		return bad("a clock is needed")
	}
	return nil
}
