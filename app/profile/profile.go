// Package profile is in charge of the switch between drivers: a profile opens
// what it is made of and returns it as a store.Set. Nothing above it knows which
// drivers are in there.
//
// A data folder is used by one process, is in one known format, and is brought up
// to date by numbered steps before any driver sees it. The package never writes
// to a folder that is not mayfly's, or is newer than it knows. On a cluster each
// server is asked whether it can be relied on before the first item is born.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Store is an open profile.
type Store struct {
	Set   store.Set
	Meter *diskfs.Meter // what has gone to disk

	tables []store.Table // with which the rows are opened

	open  []io.Closer   // in the order of opening
	rows  reclaim       // of rows past their time; nil where the servers do it
	media []reclaim     // of deleted media, tier by tier
	every time.Duration // how often that of media

	mu  sync.Mutex
	due mayfly.Instant // when space of media is to be taken back next
}

// reclaim takes space back.
type reclaim func(ctx context.Context, now mayfly.Instant) error

// Time is what drivers that stand beside others need of it.
type Time struct {
	Now     func() mayfly.Instant // the node's clock: it stamps what the servers keep
	Elapsed func() time.Duration  // runs forward only, also while the machine is suspended
}

// Open opens the profile that cfg names. Errors: those of Embedded and Cluster.
func Open(ctx context.Context, cfg config.Config, tables []store.Table, t Time) (*Store, error) {
	if cfg.Profile == config.Cluster {
		return Cluster(ctx, cfg, tables, t)
	}
	return Embedded(cfg, tables)
}

// OpenLog opens the log of the profile that cfg names, and of a cluster nothing
// else. Errors: those of Open.
func OpenLog(ctx context.Context, cfg config.Config, tables []store.Table, t Time) (*Store, error) {
	if cfg.Profile != config.Cluster {
		return Embedded(cfg, tables)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{Meter: new(diskfs.Meter)}
	if err := s.openKafka(ctx, cfg, t); err != nil {
		return nil, err
	}
	return s, nil
}

// Reclaim takes space back that rows past their time and deleted media still
// take. A node calls it from time to time; no answer depends on it. What fails
// holds nothing else up.
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant) error {
	var errs []error
	if s.rows != nil {
		if err := s.rows(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("reclaim rows: %w", err))
		}
	}
	if s.mediaDue(now) {
		errs = append(errs, s.reclaimMedia(ctx, now))
	}
	return errors.Join(errs...)
}

// reclaimMedia takes all tiers; only if all went well it rests until its turn.
func (s *Store) reclaimMedia(ctx context.Context, now mayfly.Instant) error {
	var errs []error
	for _, tier := range s.media {
		if err := tier(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("reclaim media: %w", err))
		}
	}
	if len(errs) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.due = now.Add(s.every)
	}
	return errors.Join(errs...)
}

// reclaimAgain is how long media are left alone after a failure.
const reclaimAgain = 5 * time.Minute

// mediaDue begins a turn: until it went well the next one is that of a failure.
func (s *Store) mediaDue(now mayfly.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.due {
		return false
	}
	s.due = now.Add(min(s.every, reclaimAgain))
	return true
}

// Close closes the drivers, the last opened first, and gives the folder up.
func (s *Store) Close() error {
	var errs []error
	for n := len(s.open) - 1; n >= 0; n-- {
		errs = append(errs, s.open[n].Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
