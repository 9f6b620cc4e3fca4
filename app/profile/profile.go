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
	kv    reclaim       // of expired keys; nil where the servers do it
	media []reclaim     // of deleted media, tier by tier
	every time.Duration // how often that of media
	erase eraser        // of deleted rows; zero where the servers do it

	figures func() Figures // nil where the servers have their own

	mu  sync.Mutex
	due mayfly.Instant // when space of media is to be taken back next
}

// Figures tell an operator what is left to erase and to reclaim on the disk.
type Figures struct {
	StuckFiles    int            // files of deleted media that could not be removed or overwritten, and are tried again
	UnerasedBytes int64          // of deleted media that are still in files
	ReclaimLag    time.Duration  // for how long the oldest row has been past its time and is still there
	RowsErased    mayfly.Instant // when deleted rows were last erased from the files; 0 is never
}

// Figures returns the figures of the disk; ok is false where there is none.
func (s *Store) Figures() (f Figures, ok bool) {
	if s.figures == nil {
		return Figures{}, false
	}
	return s.figures(), true
}

// eraser erases the bytes of deleted rows from the files of databases.
type eraser struct {
	every time.Duration
	last  func(ctx context.Context) (mayfly.Instant, error)
	do    []reclaim // the last one notes the time
}

// EraseRows erases the bytes of deleted rows from the files, if it is time to: what
// was deleted is gone from the disk after twice disk.erase_rows_every at the latest.
// The time of the last run is kept with the data, so that restarts do not put it off.
func (s *Store) EraseRows(ctx context.Context, now mayfly.Instant) error {
	if len(s.erase.do) == 0 {
		return nil
	}
	last, err := s.erase.last(ctx)
	if err != nil || last <= now && now < last.Add(s.erase.every) {
		return err
	}
	for _, do := range s.erase.do {
		if err := do(ctx, now); err != nil {
			return fmt.Errorf("erase deleted rows: %w", err)
		}
	}
	return nil
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

// Reclaim takes space back that rows past their time, expired keys and deleted media
// still take, and erases the bytes of deleted media. A node calls it from time to time; no
// answer depends on it. What fails holds nothing else up.
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant) error {
	var errs []error
	if s.rows != nil {
		if err := s.rows(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("reclaim rows: %w", err))
		}
	}
	if s.kv != nil {
		if err := s.kv(ctx, now); err != nil {
			errs = append(errs, fmt.Errorf("reclaim keys: %w", err))
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
