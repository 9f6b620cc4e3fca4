package s3store

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
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

// Server is one account on one server. Its tiers copy to each other without the
// bytes coming by. It holds nothing but idle connections and buffers.
type Server struct {
	opts      Options
	transport *http.Transport
	signer    *credentials.Credentials
	core      *minio.Core
	public    *minio.Client // signs addresses for others
	heads     sync.Pool     // *[]byte of headBytes
	parts     sync.Pool     // *[]byte of PartBytes
	slots     chan struct{} // one for each part in memory
	expires   atomic.Bool   // Probe saw the server refuse an address whose time is over

	mu    sync.Mutex
	tiers []*Store
}

// Connect makes a Server of its options; it does not call it (Probe does).
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
	s := &Server{opts: o, signer: signer, slots: make(chan struct{}, o.Parts)}
	s.heads.New = func() any { b := make([]byte, headBytes); return &b }
	s.parts.New = func() any { b := make([]byte, o.PartBytes); return &b }
	s.transport = &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       encrypted,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // bytes come as they lie there
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

// client signs requests to address. It does not retry: try does. (After a failed
// one the library rests up to 200 ms of its own before it says so.)
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

// String is the server's address.
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

// Tier is a tier on the server. Two of them cannot lie in each other: what one
// deletes would be the other's.
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
			return nil, mayfly.Errorf(mayfly.Invalid, "the tiers %s and %s lie in each other", t, other).
				WithHint("give each a bucket, or a prefix, of its own")
		}
	}
	s.tiers = append(s.tiers, t)
	return t, nil
}

// String says where the tier is.
func (s *Store) String() string {
	return fmt.Sprintf("%s/%s at %s", s.opts.Bucket, s.root, s.server)
}

// name is what an object is called on the server.
func (s *Store) name(key mayfly.BlobKey) string { return s.root + string(key) }

// bounded is ctx with the patience for one try; size is what the server has to
// move meanwhile, at 16 MiB a second.
func (s *Store) bounded(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.server.opts.Patience+time.Duration(size/(16*mebibyte))*time.Second)
}
