package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Store holds the connection to Redis, and the Limits and Signals that use it.
type Store struct {
	connection *connection
	limits     *Limits
	signals    *Signals
}

// Open opens the store. It fails if the options are invalid or the server refuses
// the client. An unreachable server is not an error: leases and shared limits
// start when it answers (I19).
func Open(o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	cn, err := openConnection(o)
	if err != nil {
		return nil, err
	}
	o.Credentials = conn.Credentials{} // kept by the connection only
	s := &Store{connection: cn, limits: newLimits(cn, o), signals: newSignals(cn, o, membersKey(o.Prefix))}
	return s, nil
}

// Limits returns the rate limits that all nodes share.
func (s *Store) Limits() *Limits { return s.limits }

// Signals returns the cache invalidations between nodes.
func (s *Store) Signals() *Signals { return s.signals }

// Close gives up the lease, ends every subscription, removes the node from the
// member list and closes the connections.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(s.signals.close(ctx), s.connection.close(ctx))
}

const closing = 10 * time.Second

// Options are the addresses, credentials and time limits of Redis.
//
// An ACL user needs only these rights (with Prefix mayfly):
//
//	~{mayfly:* &{mayfly:* -@all +@connection +eval +evalsha +cluster|slots +cluster|shards
//	+info +time +get +set +hget +hset +hdel +hgetall +hincrby +pexpire +spublish +ssubscribe +sunsubscribe
type Options struct {
	Addresses []string // host:port of one server, or of some nodes of a Redis Cluster

	Credentials conn.Credentials // of an ACL user; without a user the password is the default user's
	TLS         conn.TLS         // plain TCP if zero

	Prefix string // of every key and channel; mayfly if empty. Each cluster of nodes needs its own

	Timeout  time.Duration // of one Take; 250 ms if 0
	Cooldown time.Duration // during which a server that failed a Take is not asked again; 500 ms if 0

	Lease  time.Duration // how long a publisher waits for a silent subscriber; 1 s if 0, must be equal on all nodes
	Forget time.Duration // after which a silent node is removed from the member list; 10 leases if 0

	// Elapsed returns monotonic time, used for leases. If nil, the process's clock
	// is used, which stands still while the machine is suspended.
	Elapsed func() time.Duration

	Logger *slog.Logger // slog's default if nil
}

func (o Options) complete() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, "mayfly")
	o.Timeout = cmp.Or(o.Timeout, 250*time.Millisecond)
	o.Cooldown = cmp.Or(o.Cooldown, 500*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, time.Second)
	o.Forget = cmp.Or(o.Forget, 10*o.Lease)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Elapsed == nil {
		o.Elapsed = loop.Stopwatch()
	}
	o.Addresses = slices.Clone(o.Addresses)
	switch {
	case len(o.Addresses) == 0:
		return o, mayfly.Errorf(mayfly.Invalid, "address of a Redis server is required").WithHint("set one server, or some nodes of a Redis Cluster, as host:port")
	case strings.ContainsAny(o.Prefix, "{} \r\n*?[]\\"):
		return o, mayfly.Errorf(mayfly.Invalid, "invalid key prefix %q: braces, blanks and pattern characters are not allowed", o.Prefix)
	case o.Timeout < 0 || o.Cooldown < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid timeout %v or cooldown %v: must not be negative", o.Timeout, o.Cooldown)
	case o.Lease < 50*time.Millisecond || o.Lease > time.Minute:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid lease %v: must be between 50ms and 1m", o.Lease)
	case o.Forget < 2*o.Lease:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid forget time %v: must be at least two leases of %v", o.Forget, o.Lease)
	case o.Credentials.User != "" && o.Credentials.Password == "":
		return o, mayfly.Errorf(mayfly.Invalid, "password of the Redis user is required")
	}
	for _, address := range o.Addresses {
		// The error does not contain the address: it may be a URL with a password.
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" || strings.ContainsAny(address, "/@") {
			return o, mayfly.Errorf(mayfly.Invalid, "invalid address of a Redis server: must be host:port").
				WithHint("set user and password in their own settings")
		}
	}
	return o, nil
}

// client returns the options of the client library. It does not retry: callers
// can go on without Redis and need the error at once.
func (o Options) client() (rueidis.ClientOption, error) {
	c := rueidis.ClientOption{
		InitAddress: o.Addresses, Username: o.Credentials.User, Password: o.Credentials.Password.Reveal(), ClientName: "mayfly",
		ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:        net.Dialer{Timeout: o.Lease, KeepAlive: o.Lease / 2}, ConnWriteTimeout: o.Lease,
		ReadBufferEachConn: 1 << 16, WriteBufferEachConn: 1 << 16,
		DisableCache: true, DisableRetry: true, ShuffleInit: len(o.Addresses) > 1,
	}
	var err error
	if c.TLSConfig, err = o.TLS.Config(); err != nil {
		return c, fmt.Errorf("redis: %w", err)
	}
	return c, nil
}
