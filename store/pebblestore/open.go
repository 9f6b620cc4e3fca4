package pebblestore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Store is the embedded store: an open database.
type Store struct {
	opts  Options
	fs    vfs.FS
	fuse  *store.Fuse
	db    *pebble.DB
	locks locks
	log   tails
	hurry hurry

	life    sync.RWMutex // read-held by every call; Close takes it
	closing chan struct{}
	closed  sync.Once

	tables  *store.TableSet
	scratch sync.Pool // *page
	trouble diskfs.Trouble
	counts  counts
}

// What the store offers, one type per contract because two of them have a Get.
type (
	writer struct{ *Store }
	ledger struct{ *Store }
	rows   struct{ *Store }
	events struct{ *Store }
)

var (
	_ store.Writer = writer{}
	_ store.Ledger = ledger{}
	_ store.Rows   = rows{}
	_ store.Log    = events{}
	_ store.Reader = (*reader)(nil)
)

// Writer writes batches.
func (s *Store) Writer() store.Writer { return writer{s} }

// Ledger holds the rows of items.
func (s *Store) Ledger() store.Ledger { return ledger{s} }

// Rows holds the declared tables.
func (s *Store) Rows() store.Rows { return rows{s} }

// Log is the event stream.
func (s *Store) Log() store.Log { return events{s} }

// Fuse is the fuse that the store was opened with, or its own.
func (s *Store) Fuse() *store.Fuse { return s.fuse }

// Open opens the database in opts.Dir and makes it if there is none. It refuses
// a format that it does not know (FormatError, of kind Unsupported).
func Open(opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := opts.Fuse.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	tables, err := store.NewTableSet(opts.Tables)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	s := &Store{opts: opts, fuse: opts.Fuse, tables: tables, closing: make(chan struct{})}
	s.fs = diskfs.Guard(opts.FS, opts.Fuse)
	if opts.Share > 0 {
		s.fs = diskfs.Paced(s.fs, opts.Share, s.hurry.now)
	}
	s.locks.init()
	s.log.init()
	s.scratch.New = func() any { return new(page) }

	// The disk may fail in here, and then the call does not return: write.go.
	done := make(chan error, 1)
	go func() { done <- s.open() }()
	select {
	case err = <-done:
	case <-s.fuse.Blown():
		err = s.fuse.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	if err := s.fs.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable")
	}
	db, err := pebble.Open(s.opts.Dir, s.pebbleOptions())
	if err != nil {
		return openError(err)
	}
	s.db = db
	s.hurry.db.Store(db)
	if err := s.checkFormat(); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := s.log.recover(db); err != nil {
		return errors.Join(readError("log", err), db.Close())
	}
	return nil
}

func openError(err error) error {
	var known *mayfly.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, pebble.ErrCorruption) {
		return mayfly.Wrap(mayfly.Corrupt, err, "restore the data folder from a backup")
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable, on a working disk, and used by one process")
}

// enter begins a call; every call that entered leaves.
func (s *Store) enter() error {
	select {
	case <-s.closing:
	default:
		s.life.RLock()
		select {
		case <-s.closing:
			s.life.RUnlock()
		default:
			if err := s.fuse.Err(); err != nil {
				s.life.RUnlock()
				return err
			}
			return nil
		}
	}
	return errClosed()
}

func (s *Store) leave() { s.life.RUnlock() }

func errClosed() error { return mayfly.Errorf(mayfly.Unavailable, "the store is closed") }

// closePatience is how long Close waits for Pebble when the fuse has blown:
// then some of its goroutines never end, and there is nothing left to save.
const closePatience = time.Second

// Close waits for the calls under way and closes the database. With a blown
// fuse it does not wait long, leaves the rest to the end of the process, and
// answers with the fuse's reason.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	close(s.closing)
	s.hurry.db.Store(nil) // what is under way need not rest any more
	done := make(chan error, 1)
	go func() {
		s.life.Lock()
		defer s.life.Unlock()
		done <- s.db.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
	}
	select {
	case <-done:
	case <-time.After(closePatience):
	}
	return s.fuse.Err()
}
