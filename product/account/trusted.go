package account

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Trusted is the issuer of the embedding product, and where its public keys are:
// a JWKS in a file, or at a URL (C1).
type Trusted struct {
	Issuer  string
	File    string        // read again when it changes
	URL     string        // https, or http on this machine; read again every so often
	Every   time.Duration // default 5 min
	Longest time.Duration // that a token of its may last; default 24 h
}

const (
	fileEvery    = time.Second      // how often a file is looked at
	unknownEvery = 10 * time.Second // how often keys are read again at most because a token names one that is not known
	readWithin   = 5 * time.Second
)

func (o Trusted) withDefaults() (Trusted, error) {
	if o.Every == 0 {
		o.Every = 5 * time.Minute
	}
	if o.Longest == 0 {
		o.Longest = 24 * time.Hour
	}
	if o.File != "" {
		o.Every = min(o.Every, fileEvery)
	}
	if o.Issuer == "" || (o.File == "") == (o.URL == "") || o.Every < 0 || o.Longest < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "a trusted issuer has a name, and its keys in a file or at a URL").
			WithHint("set tokens.trusted, and one of tokens.jwksfile and tokens.jwksurl")
	}
	if o.URL == "" {
		return o, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return o, mayfly.Errorf(mayfly.Invalid, "the keys of %s cannot be read from %q", o.Issuer, o.URL).
			WithHint("an https URL: who can change the keys on the way can be anybody; http on this machine only")
	}
	return o, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// trustedKeys are the keys of the trusted issuer, read again in the background
// as requests come; nobody waits for a reading but who names an unknown key.
// Those that were read stay good while later readings fail.
type trustedKeys struct {
	o      Trusted
	client *http.Client
	set    atomic.Pointer[keySet] // nil: never read

	ctx  context.Context // ends with close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	looked  mayfly.Instant // when the last reading began
	reading chan struct{}  // closed when the one under way is over; nil: none is
	failed  error          // of the last reading
}

func newTrustedKeys(o Trusted) (*trustedKeys, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &trustedKeys{o: o, client: jwksClient()}
	t.ctx, t.stop = context.WithCancel(context.Background())
	if o.File == "" {
		return t, nil
	}
	if err := t.read(t.ctx); err != nil { // a file that cannot be read is found at start
		return nil, mayfly.Wrap(mayfly.Invalid, err, "write the issuer's public keys there, as a JWKS: {\"keys\": [...]}")
	}
	return t, nil
}

func (t *trustedKeys) close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.wg.Wait()
}

// current is the set of keys as it is; nil without any.
func (t *trustedKeys) current() *keySet {
	if t == nil {
		return nil
	}
	return t.set.Load()
}

// touch has the keys read again when they are due.
func (t *trustedKeys) touch(now mayfly.Instant) { t.begin(now, t.o.Every) }

// begin starts a reading if the last one began that long ago, and answers with
// what ends when the one under way is over; nil if none is.
func (t *trustedKeys) begin(now mayfly.Instant, after time.Duration) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading != nil {
		return t.reading
	}
	// Either way: requests come out of order, and a step of the clock may be taken back (L7).
	if t.looked != 0 && now.Sub(t.looked).Abs() < after || t.ctx.Err() != nil {
		return nil
	}
	done := make(chan struct{})
	t.looked, t.reading = now, done
	t.wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, readWithin)
		defer cancel()
		err := t.read(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failed, t.reading = err, nil
		close(done)
	})
	return done
}

// key is the issuer's key of that id and algorithm. One that is not known may be
// new: the keys are read again, though seldom, whatever is asked.
func (t *trustedKeys) key(ctx context.Context, id, alg string, now mayfly.Instant) (any, *keySet, error) {
	set := t.current()
	if key, ok := set.find(id, alg); ok {
		return key, set, nil
	}
	if done := t.begin(now, unknownEvery); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "ask again")
		}
	}
	set = t.current()
	if set == nil {
		return nil, nil, mayfly.Errorf(mayfly.Unavailable, "the keys of the trusted issuer cannot be read").WithHint("ask again in a while; tokens.jwksurl says where they are")
	}
	if key, ok := set.find(id, alg); ok {
		return key, set, nil
	}
	return nil, nil, refuse("the token is signed with a key that its issuer does not name", "sign it with a key of the JWKS, EdDSA or RS256, and name the key in the header kid")
}

// checkSpan refuses tokens that last too long: they cannot be taken back.
func (t *trustedKeys) checkSpan(c *claims, now mayfly.Instant) error {
	from := now.Time()
	if c.IssuedAt != nil {
		from = c.IssuedAt.Time
	}
	if c.ExpiresAt.Sub(from) > t.o.Longest {
		return refuse("the token lasts too long", "a trusted issuer's token lasts "+t.o.Longest.String()+" at most")
	}
	return nil
}

// TrustedFailure is why the trusted issuer's keys could not be read the last
// time; nil when they could, or when no issuer is trusted.
func (a *Accounts) TrustedFailure() error {
	if a.trusted == nil {
		return nil
	}
	a.trusted.mu.Lock()
	defer a.trusted.mu.Unlock()
	return a.trusted.failed
}
