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

// Store is Redis as the nodes of a cluster share it.
type Store struct {
	door    *door
	limits  *Limits
	signals *Signals
}

// Open opens the store. A server that is away is no error: leases and limits
// come when it comes (I19). Options that make no sense and a server that refuses
// us are.
func Open(o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	d, err := openDoor(o)
	if err != nil {
		return nil, err
	}
	o.Credentials = conn.Credentials{} // the door has them
	s := &Store{door: d, limits: newLimits(d, o), signals: newSignals(d, o, rollOf(o.Prefix))}
	return s, nil
}

// Limits counts.
func (s *Store) Limits() *Limits { return s.limits }

// Signals carries invalidations.
func (s *Store) Signals() *Signals { return s.signals }

// Close ends every subscription, strikes the node off the roll, and closes the
// connections. Leases are lost first.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return errors.Join(s.signals.close(ctx), s.door.close(ctx))
}

const closing = 10 * time.Second

// Options say where Redis is and how it is treated.
//
// An ACL user needs no more than this (with Prefix mayfly):
//
//	~{mayfly:* &{mayfly:* -@all +@connection +eval +evalsha +cluster|slots +cluster|shards
//	+info +time +get +set +hget +hset +hdel +hgetall +hincrby +pexpire +spublish +ssubscribe +sunsubscribe
type Options struct {
	Addresses []string // host:port of one server, or of some nodes of a Redis Cluster

	Credentials conn.Credentials // of an ACL user; a password alone is the default user's
	TLS         conn.TLS         // plain TCP if zero

	Prefix string // that every key and channel begins with; mayfly if empty. One for each cluster of nodes

	Patience time.Duration // with one Take; 250 ms if 0
	Rest     time.Duration // for which a server that has failed a Take is not asked again; 500 ms if 0

	Lease  time.Duration // for which a publisher waits for a silent subscriber; 1 s if 0, the same on every node
	Forget time.Duration // after which a silent node is struck off the roll; 10 leases if 0

	// Elapsed is time that only runs forward and counts for leases; if nil, the
	// process's, which stands still while the machine is suspended.
	Elapsed func() time.Duration

	Logger *slog.Logger // slog's default if nil
}

func (o Options) complete() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, "mayfly")
	o.Patience = cmp.Or(o.Patience, 250*time.Millisecond)
	o.Rest = cmp.Or(o.Rest, 500*time.Millisecond)
	o.Lease = cmp.Or(o.Lease, time.Second)
	o.Forget = cmp.Or(o.Forget, 10*o.Lease)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Elapsed == nil {
		o.Elapsed = loop.Stopwatch()
	}
	o.Addresses = slices.Clone(o.Addresses)
	switch {
	case len(o.Addresses) == 0:
		return o, mayfly.Errorf(mayfly.Invalid, "no address of a Redis server").WithHint("name one server, or some nodes of a Redis Cluster, as host:port")
	case strings.ContainsAny(o.Prefix, "{} \r\n*?[]\\"):
		return o, mayfly.Errorf(mayfly.Invalid, "the prefix %q of keys has a brace, a blank or a sign of patterns in it", o.Prefix)
	case o.Patience < 0 || o.Rest < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "a patience of %v and a rest of %v", o.Patience, o.Rest)
	case o.Lease < 50*time.Millisecond || o.Lease > time.Minute:
		return o, mayfly.Errorf(mayfly.Invalid, "a lease of %v is not between 50ms and 1m", o.Lease)
	case o.Forget < 2*o.Lease:
		return o, mayfly.Errorf(mayfly.Invalid, "a node is forgotten after %v, which is less than two leases of %v", o.Forget, o.Lease)
	case o.Credentials.User != "" && o.Credentials.Password == "":
		return o, mayfly.Errorf(mayfly.Invalid, "a user of Redis without a password")
	}
	for _, address := range o.Addresses {
		// What is refused is not repeated: it may be a URL with a password in it.
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" || strings.ContainsAny(address, "/@") {
			return o, mayfly.Errorf(mayfly.Invalid, "the address of a Redis server is not of the form host:port").
				WithHint("user and password have settings of their own")
		}
	}
	return o, nil
}

// client are the library's options. It retries nothing: callers have a way
// without Redis and want to know at once.
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
