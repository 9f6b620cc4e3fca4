package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
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
	o.Password = "" // the door has it
	s := &Store{door: d, limits: newLimits(d, o), signals: newSignals(d, o)}
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

// oldest is the first version of Redis that has sharded channels.
const oldest = 7

// Check asks the servers for all that the store needs of them and says what is
// wrong, for an operator who asks before he starts a node.
func (s *Store) Check(ctx context.Context) error {
	c := s.door.opened()
	if c == nil {
		return unavailable("connect", s.door.why())
	}
	for address, client := range c.commands.Nodes() {
		info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		if err != nil {
			return unavailable("ask "+address+" for its version", err)
		}
		if err := checkVersion(info); err != nil {
			return fmt.Errorf("redis: %s: %w", address, err)
		}
	}
	if _, err := s.limits.take(ctx, fmt.Sprintf("{%s:limits:check}", s.limits.o.Prefix), checkRate(), 0); err != nil {
		return err
	}
	return s.signals.check(ctx)
}

func checkVersion(info string) error {
	_, after, _ := strings.Cut(info, "redis_version:")
	major, _, _ := strings.Cut(after, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return mayfly.Errorf(mayfly.Unsupported, "the server does not say its version")
	}
	if n < oldest {
		return mayfly.Errorf(mayfly.Unsupported, "the server is Redis %d", n).WithHint(fmt.Sprintf("Redis %d or newer is needed", oldest))
	}
	return nil
}
