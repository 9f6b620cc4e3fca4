package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly/store/conn"
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
