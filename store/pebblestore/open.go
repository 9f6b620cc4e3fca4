package pebblestore

import (
	"encoding/binary"
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
	opts     Options
	fs       vfs.FS
	guard    *diskfs.GuardFS
	fuse     *store.Fuse
	db       *pebble.DB
	locks    locks
	log      tails
	pressure pressure
	reclaims reclaims

	life    sync.RWMutex // read-held by every call; Close takes it
	closing chan struct{}
	closed  sync.Once

	tables  *store.TableSet
	scratch sync.Pool // *page
	trouble diskfs.Trouble
	counts  counts
}

// One type per contract, because Ledger and Rows both have a Get.
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

// Writer returns the writer of batches.
func (s *Store) Writer() store.Writer { return writer{s} }

// Ledger returns the rows of items.
func (s *Store) Ledger() store.Ledger { return ledger{s} }

// Rows returns the rows of the declared tables.
func (s *Store) Rows() store.Rows { return rows{s} }

// Log returns the event streams.
func (s *Store) Log() store.Log { return events{s} }

// Fuse returns the fuse that the store was opened with, or the one that it made.
func (s *Store) Fuse() *store.Fuse { return s.fuse }

// Open opens the database in opts.Dir and creates it if there is none. It refuses
// an unknown format with a FormatError of kind Unsupported.
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
	s.guard = diskfs.Guard(opts.FS, opts.Fuse)
	s.fs = s.guard
	if opts.Share > 0 {
		s.fs = diskfs.Paced(s.fs, opts.Share, s.pressure.high)
	}
	s.locks.init()
	s.log.init()
	s.scratch.New = func() any { return new(page) }

	// Pebble does not return when the disk fails while it is opened.
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
	s.pressure.db.Store(db)
	if err := s.checkFormat(); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := s.log.recover(db); err != nil {
		return errors.Join(readError("log", err), db.Close())
	}
	return nil
}

// openError gives an error of Open its kind and a hint.
func openError(err error) error {
	var known *mayfly.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, pebble.ErrCorruption) {
		return mayfly.Wrap(mayfly.Corrupt, err, "restore the data folder from a backup")
	}
	return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable, on a working disk, and used by only one process")
}

// Format is the version of all keys and values in the database.
const Format = 3

// FormatError reports a database whose format this version does not know.
type FormatError struct {
	Found, Known uint32
}

// Error names both formats.
func (e *FormatError) Error() string {
	return fmt.Sprintf("the database has format %d; this version knows format %d", e.Found, e.Known)
}

// checkFormat refuses another format and writes the format of a new database.
func (s *Store) checkFormat() error {
	key := []byte{metaPrefix, metaFormat}
	value, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return s.writeFormat(key)
	case err != nil:
		return readError("format", err)
	}
	defer closer.Close()
	if len(value) != 4 {
		return mayfly.Errorf(mayfly.Corrupt, "the format has %d bytes, not 4", len(value))
	}
	if found := binary.BigEndian.Uint32(value); found != Format {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Found: found, Known: Format},
			"start the version of mayfly that wrote it; nothing was changed")
	}
	return nil
}

// writeFormat stores the format in a new database. A database that has keys and no
// format was not written by mayfly.
func (s *Store) writeFormat(key []byte) error {
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return readError("format", err)
	}
	foreign := iter.First()
	if err := iter.Close(); err != nil {
		return readError("format", err)
	}
	if foreign {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Known: Format}, "the folder holds a database that mayfly did not write; choose another folder")
	}
	if err := s.db.Set(key, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync); err != nil {
		return openError(err)
	}
	return nil
}

// readError gives an error of an operation its kind; what names the operation.
func readError(what string, err error) error {
	var known *mayfly.Error
	switch {
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("%s: %w", what, err), "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", what, err), "")
	}
}

// enter begins a call; a call that entered must call leave.
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

// closeTimeout is how long Close waits for Pebble after the fuse has blown: some of
// Pebble's goroutines then never end, and there is nothing left to save.
const closeTimeout = time.Second

// Close waits for the calls under way and closes the database. If the fuse has
// blown it waits at most closeTimeout, leaves the rest to the end of the process,
// and returns the fuse's error.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	close(s.closing)
	s.pressure.db.Store(nil) // flushes and compactions under way need not rest any more
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
	case <-time.After(closeTimeout):
	}
	return s.fuse.Err()
}
