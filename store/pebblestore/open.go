package pebblestore

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Store is the embedded store: an open database.
type Store struct {
	opts     Options
	base     *diskfs.Database
	fuse     *store.Fuse
	db       *pebble.DB
	locks    locks
	log      tails
	reclaims reclaims
	tables   *store.TableSet
	scratch  sync.Pool // *page
	counts   counts
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

// Format is the version of all keys and values in the database.
const Format = 6

// FormatError reports a database whose format this version does not know.
type FormatError = diskfs.FormatError

// Open opens the database in opts.Dir and creates it if there is none. It refuses
// an unknown format with a FormatError of kind Unsupported.
func Open(opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	tables, err := store.NewTableSet(opts.Tables)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	s := &Store{opts: opts, tables: tables}
	s.locks.init()
	s.log.init()
	s.scratch.New = func() any { return new(page) }
	s.base, err = diskfs.Open(diskfs.Settings{
		FS: opts.FS, Dir: opts.Dir, Fuse: opts.Fuse, Format: Format, FormatKey: []byte{metaPrefix, metaFormat},
		CacheBytes: opts.CacheBytes, MemtableBytes: opts.MemtableBytes, Share: opts.Share, Scheduler: opts.Scheduler, Logger: opts.Logger,
	}, func(*pebble.Options) {}, func(db *pebble.DB) error { return readError("log", s.log.recover(db)) })
	if err != nil {
		return nil, err
	}
	s.db, s.fuse = s.base.DB, s.base.Fuse
	return s, nil
}

// readError gives an error of an operation its kind; what names the operation.
func readError(what string, err error) error { return diskfs.ReadError(what, err) }

// enter begins a call; a call that entered must call leave.
func (s *Store) enter() error { return s.base.Enter() }

func (s *Store) leave() { s.base.Leave() }

// Close waits for the calls under way and closes the database. If the fuse has blown it
// leaves what Pebble does not end to the end of the process, and returns the fuse's
// error.
func (s *Store) Close() error { return s.base.Close(func() error { return nil }) }
