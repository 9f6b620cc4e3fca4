package s3store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// Server is an account on an S3 server. Its tiers copy to each other on the server.
// It holds only idle connections, buffers and files without a name.
type Server struct {
	opts      Options
	transport *http.Transport
	signer    *credentials.Credentials
	core      *minio.Core
	public    *minio.Client // creates presigned URLs
	heads     sync.Pool     // *[]byte of headBytes
	spool     *spool        // what clients are still sending
	slots     chan struct{} // one for each part that is being sent
	expires   atomic.Bool   // Probe saw the server refuse an expired URL

	mu    sync.Mutex
	tiers []*Store
}

// Connect returns a Server. It sends no request; Probe does.
func Connect(o Options) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	signer, err := o.signer()
	if err != nil {
		return nil, err
	}
	encrypted, err := conn.TLS{Enabled: true, CA: o.CA}.Config() // used with an https endpoint
	if err != nil {
		return nil, err
	}
	o.Credentials, o.Session = conn.Credentials{}, "" // the signer has them
	s := &Server{opts: o, signer: signer, slots: make(chan struct{}, o.Parts), spool: &spool{dir: o.SpoolDir, most: o.SpoolBytes}}
	s.heads.New = func() any { b := make([]byte, headBytes); return &b }
	s.transport = &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       encrypted,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // objects are stored uncompressed
	}
	if s.core, err = s.client(o.Endpoint, signer); err != nil {
		return nil, err
	}
	public, err := s.client(o.Public, signer)
	if err != nil {
		return nil, err
	}
	s.public = public.Client
	return s, nil
}

// client returns a client for address. It does not retry: try does. (After a failed
// request the library waits up to 200 ms before it returns the error.)
func (s *Server) client(address string, signer *credentials.Credentials) (*minio.Core, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds: signer, Secure: u.Scheme == "https", Region: s.opts.Region, Transport: s.transport, MaxRetries: 1,
	})
	if err != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "the S3 server at %s: %w", u.Host, err)
	}
	return core, nil
}

// String returns the server's address.
func (s *Server) String() string { return s.opts.Endpoint }

// Close drops idle connections. Calls under way go on.
func (s *Server) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Store is a tier on a bucket. Safe for concurrent use.
type Store struct {
	server  *Server
	opts    TierOptions
	root    string // of the names of objects: empty, or a prefix and a slash
	pace    *pace
	attests atomic.Bool // Probe saw the server compute SHA-256 by itself
}

var (
	_ store.Blobs       = (*Store)(nil)
	_ store.Checksummed = (*Store)(nil)
)

// Tier returns a tier on the server. Tiers must not overlap: one would delete
// objects of the other.
func (s *Server) Tier(o TierOptions) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	t := &Store{server: s, opts: o, pace: newPace(s.opts)}
	if o.Prefix != "" {
		t.root = o.Prefix + "/"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.tiers {
		if other.opts.Bucket == o.Bucket && (strings.HasPrefix(t.root, other.root) || strings.HasPrefix(other.root, t.root)) {
			return nil, mayfly.Errorf(mayfly.Invalid, "the tiers %s and %s overlap", t, other).
				WithHint("give each a bucket, or a prefix, of its own")
		}
	}
	s.tiers = append(s.tiers, t)
	return t, nil
}

// String returns the bucket, prefix and server of the tier.
func (s *Store) String() string {
	return fmt.Sprintf("%s/%s at %s", s.opts.Bucket, s.root, s.server)
}

// name returns the name of an object on the server.
func (s *Store) name(key mayfly.BlobKey) string { return s.root + string(key) }

// bounded returns ctx with the timeout of one try, extended by the time to move
// size bytes at 16 MiB a second.
func (s *Store) bounded(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.server.opts.Timeout+time.Duration(size/(16*mebibyte))*time.Second)
}

// Options are the address, credentials and limits of a server. A put uses 64 KiB of
// memory; what is longer waits in a file until a part is whole.
type Options struct {
	Endpoint  string // https://host or http://host:port
	Public    string // address of the same server in presigned URLs; Endpoint if empty
	NoPresign bool   // presigned URLs are not used: Probe does not test them
	Region    string // us-east-1 if empty
	CA        []byte // CA bundle in PEM that signed the server's certificate; the system's if empty

	// Credentials are the access key and its secret, which requests are signed with.
	// The zero Credentials are taken from the environment: AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and, where there is one, AWS_SESSION_TOKEN.
	Credentials conn.Credentials
	Session     mayfly.Secret // session token of temporary credentials; none if empty

	Writes, Reads float64 // per second and prefix of keys; 3,500 and 5,500 if 0 (L11)

	Tries   int           // of one request; 6 if 0
	Pause   time.Duration // before the second try, doubling, at most a hundred times as long; 50 ms if 0
	Timeout time.Duration // of one try, and of a transfer that stalls; 30 s if 0

	PartBytes int64 // above it an object is put in parts; 8 MiB if 0, 5 MiB at least
	Parts     int   // parts that are sent at once; 16 if 0
	CopyBytes int64 // above it an object is copied in parts of that size; 5 GiB if 0

	SlotWait   time.Duration // how long a whole part waits for others to be sent; 10 s if 0
	SpoolDir   string        // where parts wait until they are whole; os.TempDir() if empty
	SpoolBytes int64         // what may wait there at once; 1 GiB if 0

	Logger *slog.Logger // for what an operator should know; slog.Default() if nil
}

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
	gibibyte = 1 << 30

	minPart   = 5 * mebibyte // S3's own limits
	maxParts  = 10_000
	maxSingle = 5 * gibibyte
)

func (o Options) complete() (Options, error) {
	o.Public = cmp.Or(o.Public, o.Endpoint)
	o.Region = cmp.Or(o.Region, "us-east-1")
	o.Writes = cmp.Or(o.Writes, 3500)
	o.Reads = cmp.Or(o.Reads, 5500)
	o.Tries = cmp.Or(o.Tries, 6)
	o.Pause = cmp.Or(o.Pause, 50*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.PartBytes = cmp.Or(o.PartBytes, 8*mebibyte)
	o.Parts = cmp.Or(o.Parts, 16)
	o.CopyBytes = cmp.Or(o.CopyBytes, maxSingle)
	o.SlotWait = cmp.Or(o.SlotWait, 10*time.Second)
	o.SpoolDir = cmp.Or(o.SpoolDir, os.TempDir())
	o.SpoolBytes = cmp.Or(o.SpoolBytes, gibibyte)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, address := range []string{o.Endpoint, o.Public} {
		if err := checkAddress(address); err != nil {
			return o, err
		}
	}
	switch {
	case o.Writes < 0 || o.Reads < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid rates: %v writes and %v reads per second and prefix", o.Writes, o.Reads)
	case o.Tries < 0 || o.Pause < 0 || o.Timeout < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid retries: %d tries, pause %v, timeout %v", o.Tries, o.Pause, o.Timeout)
	case o.PartBytes < minPart || o.PartBytes > maxSingle || o.Parts < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "%d parts of %d bytes in memory: a part has 5 MiB to 5 GiB", o.Parts, o.PartBytes)
	case o.SlotWait < 0 || o.SpoolBytes < o.PartBytes:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid spool of %d bytes for parts of %d bytes that wait %v", o.SpoolBytes, o.PartBytes, o.SlotWait).
			WithHint("make room for one part at least")
	case o.CopyBytes < minPart || o.CopyBytes > maxSingle:
		return o, mayfly.Errorf(mayfly.Invalid, "%d bytes copied at once are not between 5 MiB and 5 GiB", o.CopyBytes)
	}
	return o, nil
}

// signer returns the credentials as the library needs them.
func (o Options) signer() (*credentials.Credentials, error) {
	if o.Credentials == (conn.Credentials{}) {
		env := credentials.NewEnvAWS()
		if found, err := env.GetWithContext(nil); err != nil || found.AccessKeyID == "" || found.SecretAccessKey == "" {
			return nil, mayfly.Wrap(mayfly.Invalid, errors.Join(errors.New("credentials for S3 are required"), err),
				"name them in the configuration, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		return env, nil
	}
	if o.Credentials.Validate() != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "half of the credentials for S3 is missing").WithHint("give both the access key and its secret")
	}
	return credentials.NewStaticV4(o.Credentials.User, o.Credentials.Password.Reveal(), o.Session.Reveal()), nil
}

// checkAddress refuses addresses with a user or a secret, because addresses are
// logged. For the same reason its error does not contain the address.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return mayfly.Errorf(mayfly.Invalid, "invalid address of an S3 server: must be https://host:port").
			WithHint("leave out user, path and query; set credentials in their own settings")
	}
	return nil
}

// TierOptions are the place and limits of a tier on its server.
type TierOptions struct {
	Bucket string
	Prefix string // of all keys, without a slash at either end; the whole bucket if empty
	Class  string // storage class of objects; the server's default if empty
	// Longest is the longest validity of a URL to read from, an hour if 0: 60 s for the
	// hot tier (ST3), an hour for the cold tier (ST6).
	Longest time.Duration
}

func (o TierOptions) complete() (TierOptions, error) {
	o.Longest = cmp.Or(o.Longest, maxLasts)
	if o.Bucket == "" {
		return o, mayfly.Errorf(mayfly.Invalid, "a tier on S3 needs a bucket")
	}
	if o.Prefix != "" {
		if err := store.CheckBlobKey(mayfly.BlobKey(o.Prefix)); err != nil {
			return o, mayfly.Errorf(mayfly.Invalid, "the prefix of a tier: %w", err)
		}
	}
	if o.Longest < time.Second || o.Longest > maxLasts {
		return o, mayfly.Errorf(mayfly.Invalid, "an address for %v is not between a second and %v", o.Longest, maxLasts)
	}
	switch o.Class {
	case "GLACIER", "DEEP_ARCHIVE":
		return o, mayfly.Errorf(mayfly.Invalid, "objects of class %s cannot be read for minutes to hours, and an author opens one within 3 s (ST6)", o.Class).
			WithHint("GLACIER_IR costs as little to keep and is read at once")
	}
	return o, nil
}

// afterKeys is greater than every byte of a key. Names that begin with it are
// internal: they are not keys and are listed after all keys.
const afterKeys = "~"

const (
	stagedNames = afterKeys + "staged/" // objects put in parts, until their hash is known
	probeNames  = afterKeys + "probe/"
)

// freshName returns a unique internal name.
func (s *Store) freshName(below string) string { return s.root + below + rand.Text() }
