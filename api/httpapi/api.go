package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// Options are what the doors are made of; what is zero and has a default takes it.
type Options struct {
	Stories  *story.Stories
	Accounts *account.Accounts
	Key      *account.Key // signs media URLs
	Clock    *clock.Clock
	Operator Operator // what the admin listener operates

	// Open says why users are answered nothing now; nil error: they are. Nil: always.
	Open func() error

	Public     string        // URL that users reach the API by; empty: URLs are relative
	Origins    []string      // web origins that may call from a browser
	Proxies    []string      // networks whose X-Forwarded-For is believed
	BodyWithin time.Duration // how long a client may keep us waiting beyond the least speed; default 30 s

	URLs, ArchiveURLs time.Duration // how long a media URL lasts; default 1 min and 1 h
	Presign           bool          // hand out presigned URLs of the storage where it has any
	Access            time.Duration // how long an access token lasts, for expires_in; default 15 min
	Limits            media.Limits  // of one medium
	Thumbnail         int64         // the largest image in pixels that smaller pictures are made of; 0: any

	Logger   *slog.Logger         // default: nothing is logged
	Registry *prometheus.Registry // default: one of its own
	Tracer   trace.Tracer         // nil: no traces
	Version  string               // default "dev"
}

func (o Options) withDefaults() (Options, error) {
	if o.Stories == nil || o.Accounts == nil || o.Key == nil || o.Clock == nil || o.Operator == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: stories, accounts, key, clock and operator are needed")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.BodyWithin, 30*time.Second)
	def(&o.URLs, time.Minute)
	def(&o.ArchiveURLs, time.Hour)
	def(&o.Access, 15*time.Minute)
	if o.BodyWithin < 0 || o.URLs < 0 || o.URLs > time.Minute || o.ArchiveURLs < 0 || o.ArchiveURLs > time.Hour || o.Access < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: a time is out of range").WithHint("media URLs last 60 s at most, those of the archive an hour (ST3, ST6)")
	}
	if o.Limits.Image == 0 {
		o.Limits.Image = 20 << 20
	}
	if o.Limits.Video == 0 {
		o.Limits.Video = 64 << 20
	}
	if o.Open == nil {
		o.Open = func() error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	o.Public = strings.TrimSuffix(o.Public, "/")
	if u, err := url.Parse(o.Public); err != nil || o.Public != "" && (u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: %q is not the URL of a server", o.Public).WithHint("write it like https://stories.example.org")
	}
	return o, nil
}

// API is the doors of a node. Safe for concurrent use.
type API struct {
	o        Options
	stories  *story.Stories
	accounts *account.Accounts
	signer   *account.Key
	clock    *clock.Clock
	operator Operator
	log      *slog.Logger
	metrics  *metrics
	proxies  proxies
	refusals refusals
	buffers  buffers
	chunks   chunks
	public   http.Handler
	admin    http.Handler
}

// New makes the doors.
func New(o Options) (*API, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{
		o: o, stories: o.Stories, accounts: o.Accounts, signer: o.Key, clock: o.Clock, operator: o.Operator,
		log: o.Logger, refusals: newRefusals(),
	}
	cors, err := parseOrigins(o.Origins)
	if err != nil {
		return nil, err
	}
	if a.proxies, err = parseProxies(o.Proxies); err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(o.Registry); err != nil {
		return nil, err
	}
	if a.public, err = a.listener(a.publicRoutes(), cors); err != nil {
		return nil, err
	}
	a.admin, err = a.listener(a.adminRoutes(), origins{}) // no page of a browser calls it
	return a, err
}

// Public answers on the listener for users.
func (a *API) Public() http.Handler { return a.public }

// Admin answers on the listener for operators.
func (a *API) Admin() http.Handler { return a.admin }
