package diskstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Store is one tier of media storage: an open folder.
type Store struct {
	opts  Options
	fs    vfs.FS
	guard *diskfs.GuardFS // under the index
	fuse  *store.Fuse
	db    *pebble.DB
	locks *keyLocks

	lastFile  atomic.Uint64 // the last fileNumber given
	leftovers leftovers     // doomed files that could not be removed yet
	volumes   volumes
	handles   handles
	waste     waste
	removing  sync.RWMutex // read-held while volumes are removed; held while one is overwritten
	heads     sync.Pool    // *[]byte: room for the beginning of an object

	life    sync.RWMutex // read-held by every call; Close takes it
	closing chan struct{}
	closed  sync.Once
	behind  sync.WaitGroup // a Reclaim in the background
}

var _ store.Blobs = (*Store)(nil)

// Open opens the tier in opts.Dir and makes it if there is none. It removes the
// files that a crash left without an object. It refuses a format that it does
// not know (Unsupported) and a folder that another process uses (Unavailable).
func Open(opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := opts.Fuse.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	s := &Store{opts: opts, fs: opts.FS, fuse: opts.Fuse, locks: newKeyLocks(), closing: make(chan struct{})}
	s.guard = diskfs.Guard(opts.FS, opts.Fuse)
	s.volumes.in, s.volumes.full, s.volumes.done = make(chan *entry, maxWaiting), make(chan chan struct{}), make(chan struct{})
	s.volumes.pending = map[fileNumber]int{}
	s.handles.open = map[fileNumber]*handle{}
	s.leftovers.open = map[fileNumber]struct{}{}
	s.waste.init(s.allowedWaste())
	s.heads.New = func() any {
		head := make([]byte, opts.InlineBytes+1)
		return &head
	}

	// The disk may fail in here, and then the call does not return: guard.go.
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
	if err := s.makeFolders(); err != nil {
		return openError(err)
	}
	db, err := pebble.Open(s.path("index"), s.pebbleOptions())
	if err != nil {
		return openError(err)
	}
	s.db = db
	opening, err := s.countOpening()
	if err == nil {
		s.lastFile.Store(opening << openingShift)
		err = s.collect()
	}
	if err == nil {
		err = s.loadWaste()
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	go s.appendAll()
	return nil
}

func openError(err error) error {
	var known *mayfly.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, err, "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable, on a working disk, and used by one process")
	}
}

// Format is the version of everything that is written in the folder.
const Format = 2

// countOpening checks the format of the folder and counts this opening.
func (s *Store) countOpening() (uint64, error) {
	var opening uint64
	value, closer, err := s.db.Get([]byte{tableHead})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		if err := s.mustBeEmpty(); err != nil {
			return 0, err
		}
	case err != nil:
		return 0, failed("read the format", err)
	default:
		if len(value) != 9 || value[0] != Format {
			err := mayfly.Errorf(mayfly.Unsupported, "the folder has format %x; this version knows format %d", value, Format)
			return 0, errors.Join(err.WithHint("start the version of mayfly that wrote it, or begin with an empty folder; nothing was changed"), closer.Close())
		}
		opening = binary.BigEndian.Uint64(value[1:])
		if err := closer.Close(); err != nil {
			return 0, err
		}
	}
	opening++
	head := binary.BigEndian.AppendUint64([]byte{Format}, opening)
	if err := s.db.Set([]byte{tableHead}, head, pebble.Sync); err != nil {
		return 0, failed("count the opening", err)
	}
	return opening, nil
}

// mustBeEmpty refuses a database with keys but no head: another program wrote it.
func (s *Store) mustBeEmpty() error {
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return failed("read the format", err)
	}
	foreign := iter.First()
	if err := iter.Close(); err != nil {
		return failed("read the format", err)
	}
	if foreign {
		return mayfly.Errorf(mayfly.Unsupported, "the folder holds a database without a format").
			WithHint("it is not mayfly's: choose another folder")
	}
	return nil
}

// enter begins a call; every call that entered leaves.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	s.life.RLock()
	err := s.fuse.Err()
	select {
	case <-s.closing:
		err = mayfly.Errorf(mayfly.Unavailable, "the tier is closed")
	default:
	}
	if err != nil {
		s.life.RUnlock()
	}
	return err
}

func (s *Store) leave() { s.life.RUnlock() }

// untilClosing returns a context that ends when Close is called.
func (s *Store) untilClosing() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// closeTimeout is how long Close waits for Pebble when the fuse has blown:
// then some of its goroutines never end, and there is nothing left to save.
const closeTimeout = time.Second

// Close waits for the calls under way and closes the database. Readers that are
// open may finish. With a blown fuse it does not wait long, leaves the rest to
// the end of the process, and returns the error of the fuse.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	close(s.closing)
	done := make(chan error, 1)
	go func() {
		s.life.Lock()
		defer s.life.Unlock()
		s.behind.Wait()
		close(s.volumes.in)
		<-s.volumes.done
		s.handles.dropAll()
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

// failed gives an error of the disk or the database its kind.
func failed(doing string, err error) error {
	var known *mayfly.Error
	wrapped := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.As(err, &known):
		return wrapped
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return mayfly.Wrap(mayfly.Full, wrapped, "free space on the disk")
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, wrapped, "restore the object from the other tier or a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, wrapped, "")
	}
}
