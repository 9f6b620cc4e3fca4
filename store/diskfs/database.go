package diskfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Settings say where a Pebble database is and how much memory it uses, which is
// CacheBytes + 3 × MemtableBytes, however much it holds.
type Settings struct {
	FS   vfs.FS      // the file system of Dir
	Dir  string      // the folder of the database
	Fuse *store.Fuse // blown when a durable write fails; a new one if nil

	Format    uint32 // the version of all keys and values
	FormatKey []byte // where the database holds it

	CacheBytes    int64 // cache of blocks; 64 MiB if 0
	MemtableBytes int64 // size of a memtable; the default of the store if 0

	// Share is the part of a core that flushes and compactions use while there is
	// no backlog, so that reads do not wait for them; they are not paced if 0.
	Share float64

	Scheduler pebble.CompactionScheduler // of compactions; Pebble's, which has a timer of 100 ms, if nil

	Logger *slog.Logger // for what an operator should know; none if nil
}

const (
	mebibyte     = 1 << 20
	defaultCache = 64 * mebibyte
	minMemtable  = 64 << 10
	maxMemtable  = 1 << 30
	memtables    = 3
	bitsPerKey   = 10
)

// complete fills in defaults and refuses what cannot work.
func (o Settings) complete() (Settings, error) {
	if o.Fuse == nil {
		o.Fuse = store.NewFuse()
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.FS == nil || o.Dir == "":
		return o, mayfly.Errorf(mayfly.Invalid, "a database needs FS and Dir")
	case o.Share < 0 || o.Share > 1:
		return o, mayfly.Errorf(mayfly.Invalid, "the share of a core for compactions is %g; it must be between 0 and 1", o.Share)
	case o.CacheBytes < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the cache of %d bytes is negative", o.CacheBytes)
	case o.MemtableBytes < minMemtable || o.MemtableBytes > maxMemtable:
		return o, mayfly.Errorf(mayfly.Invalid, "the memtable has %d bytes; it must have between %d and %d", o.MemtableBytes, minMemtable, maxMemtable)
	}
	return o, nil
}

// Database is a Pebble database whose callers return when its disk fails, although
// Pebble's own calls do not: they wait for the fuse too.
type Database struct {
	*pebble.DB
	Fuse    *store.Fuse
	Trouble Trouble

	settings Settings
	guard    *GuardFS
	fs       vfs.FS // guard, paced
	pressure Pressure

	writes  chan write   // to goroutines that have done one and wait for the next
	life    sync.RWMutex // read-held by every call; Close takes it
	waiting atomic.Int32 // goroutines that wait for writes
	closing chan struct{}
	closed  sync.Once
}

// Open opens the database in o.Dir and creates it if there is none. It refuses an
// unknown format with a FormatError of kind Unsupported. set changes the options of
// Pebble; check looks at the open database.
func Open(o Settings, set func(*pebble.Options), check func(*pebble.DB) error) (*Database, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := o.Fuse.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	d := &Database{settings: o, Fuse: o.Fuse, guard: Guard(o.FS, o.Fuse), writes: make(chan write), closing: make(chan struct{})}
	d.fs = d.guard
	if o.Share > 0 {
		d.fs = Paced(d.fs, o.Share, d.pressure.High)
	}
	// Pebble does not return when the disk fails while it is opened.
	done := make(chan error, 1)
	go func() { done <- d.open(set, check) }()
	select {
	case err = <-done:
	case <-d.Fuse.Blown():
		err = d.Fuse.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	return d, nil
}

func (d *Database) open(set func(*pebble.Options), check func(*pebble.DB) error) error {
	if err := d.fs.MkdirAll(d.settings.Dir, 0o700); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable")
	}
	options := d.options()
	set(options)
	db, err := pebble.Open(d.settings.Dir, options)
	if err != nil {
		return openError(err)
	}
	d.DB = db
	d.pressure.DB.Store(db)
	if err = d.checkFormat(); err == nil {
		err = check(db)
	}
	if err != nil {
		return errors.Join(openError(err), db.Close())
	}
	return nil
}

// options are chosen for many small durable commits and for reads that are not slowed by
// flushes and compactions: docs/decisions/0003.
func (d *Database) options() *pebble.Options {
	s := &d.settings
	o := &pebble.Options{
		FS:                          d.fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,               // fixed: a newer one needs a new Format
		CacheSize:                   s.CacheBytes + memtables*s.MemtableBytes, // Pebble counts the memtables as part of the cache
		MemTableSize:                uint64(s.MemtableBytes),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       32,
		LBaseMaxBytes:               64 * mebibyte,
		MaxOpenFiles:                1000,
		Logger:                      Logger(s.Fuse, s.Logger),
		EventListener:               d.Trouble.Listener(s.Logger),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	o.Experimental.ReadSamplingMultiplier = -1 // reads start no compactions
	o.Experimental.CompactionScheduler = s.Scheduler
	o.FlushSplitBytes = 2 * mebibyte
	o.TargetFileSizes[0] = 4 * mebibyte
	for i := range o.Levels {
		l := &o.Levels[i]
		l.FilterPolicy = pebble.NoFilterPolicy
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		if i < len(o.Levels)-1 { // a look-up never uses the filter of the last level
			l.FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		}
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	return o
}

// FormatError reports a database whose format this version does not know.
type FormatError struct {
	Found, Known uint32
}

// Error names both formats.
func (e *FormatError) Error() string {
	return fmt.Sprintf("the database has format %d; this version knows format %d", e.Found, e.Known)
}

// checkFormat refuses another format and writes the format of a new database.
func (d *Database) checkFormat() error {
	value, closer, err := d.Get(d.settings.FormatKey)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return d.writeFormat()
	case err != nil:
		return ReadError("format", err)
	}
	defer closer.Close()
	if len(value) != 4 {
		return mayfly.Errorf(mayfly.Corrupt, "the format has %d bytes, not 4", len(value))
	}
	if found := binary.BigEndian.Uint32(value); found != d.settings.Format {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Found: found, Known: d.settings.Format},
			"start the version of mayfly that wrote it; nothing was changed")
	}
	return nil
}

// writeFormat stores the format in a new database. A database that has keys and no
// format was not written by mayfly.
func (d *Database) writeFormat() error {
	iter, err := d.NewIter(nil)
	if err != nil {
		return ReadError("format", err)
	}
	foreign := iter.First()
	if err := iter.Close(); err != nil {
		return ReadError("format", err)
	}
	if foreign {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Known: d.settings.Format}, "the folder holds a database that mayfly did not write; choose another folder")
	}
	return d.Set(d.settings.FormatKey, binary.BigEndian.AppendUint32(nil, d.settings.Format), pebble.Sync)
}

// openError gives an error of Open its kind and a hint.
func openError(err error) error {
	var known *mayfly.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, err, "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, err, "the data folder must be writable, on a working disk, and used by only one process")
	}
}

// ReadError gives an error of an operation its kind; what names the operation.
func ReadError(what string, err error) error {
	var known *mayfly.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("%s: %w", what, err), "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", what, err), "")
	}
}

// CheckFree refuses a write while fewer bytes than floor are free, with a hint of the
// store: the write-ahead log must never meet a full disk (trap 21). Without a floor it
// asks nothing.
func (d *Database) CheckFree(floor int64, hint string) error {
	if floor == 0 {
		return nil
	}
	usage, err := d.fs.GetDiskUsage(d.settings.Dir)
	switch {
	case errors.Is(err, vfs.ErrUnsupported):
		return nil
	case err != nil:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("free space of %s: %w", d.settings.Dir, err), "check the disk")
	case usage.AvailBytes < uint64(floor):
		return mayfly.Wrap(mayfly.Full, fmt.Errorf("%d bytes are free in %s, fewer than the floor of %d", usage.AvailBytes, d.settings.Dir, floor), hint)
	}
	return nil
}

// Enter begins a call; a call that entered must call Leave.
func (d *Database) Enter() error {
	d.life.RLock()
	select {
	case <-d.closing:
		d.life.RUnlock()
		return ErrClosed()
	default:
	}
	if err := d.Fuse.Err(); err != nil {
		d.life.RUnlock()
		return err
	}
	return nil
}

// Leave ends a call.
func (d *Database) Leave() { d.life.RUnlock() }

// Closing is closed when Close begins.
func (d *Database) Closing() <-chan struct{} { return d.closing }

// ErrClosed returns the error of calls to a database that is closed.
func ErrClosed() error { return mayfly.Errorf(mayfly.Unavailable, "the store is closed") }

// Write waits for work, which writes a batch and sets visible as soon as others can
// read it. It runs in a goroutine, because Pebble's calls do not return after the disk
// has failed: then Write returns when the fuse blows or, as long as nothing is visible
// yet, when the context ends. After an error the outcome is unknown.
func (d *Database) Write(ctx context.Context, visible *atomic.Bool, work func() error) error {
	done := make(chan error, 1)
	w := write{work, done}
	select {
	case d.writes <- w:
	default:
		go d.write(w)
	}
	return d.Wait(ctx, visible, done)
}

// Wait waits for the result of a write, as Write does.
func (d *Database) Wait(ctx context.Context, visible *atomic.Bool, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-d.Fuse.Blown():
		return InDoubt(d.Fuse.Err())
	case <-ctx.Done():
	}
	if !visible.Load() {
		select {
		case err := <-done:
			return err
		default:
			return InDoubt(ctx.Err())
		}
	}
	// The batch is visible already: a caller that was answered "unknown" now would
	// read it back and take it for durable.
	select {
	case err := <-done:
		return err
	case <-d.Fuse.Blown():
		return InDoubt(d.Fuse.Err())
	}
}

// write is a write of a batch, and where its result goes.
type write struct {
	work func() error
	done chan<- error
}

// maxWaiting is how many goroutines wait for a write at most.
const maxWaiting = 64

// write does a write and waits for the next: the stack of a new goroutine must grow
// before it can write, which costs as much as the write of a small batch.
func (d *Database) write(w write) {
	for {
		w.done <- w.work()
		if d.waiting.Add(1) > maxWaiting {
			d.waiting.Add(-1)
			return
		}
		select {
		case w = <-d.writes:
			d.waiting.Add(-1)
		case <-d.closing:
			return
		}
	}
}

// InDoubt wraps the reason why the outcome of a write is unknown. The error has the
// kind Unknown and the kind of the reason.
func InDoubt(reason error) error {
	return mayfly.Wrap(mayfly.Unknown, fmt.Errorf("the write may or may not have happened: %w", reason), "")
}

// EraseDeleted makes the database give up the bytes of what was deleted or overwritten
// before the call: after it they are in no file. The caller has entered, and has left
// when it returns.
func (d *Database) EraseDeleted(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { // Pebble does not return after the disk has failed
		defer d.Leave()
		done <- d.guard.EraseDeleted(ctx, d.DB, d.settings.Dir)
	}()
	select {
	case err := <-done:
		return err
	case <-d.closing:
		return ErrClosed()
	case <-d.Fuse.Blown():
		return d.Fuse.Err()
	}
}

// closeTimeout is how long Close waits for Pebble after the fuse has blown: some of
// Pebble's goroutines then never end, and there is nothing left to save.
const closeTimeout = time.Second

// Close waits for the calls under way, calls last and closes the database. If the fuse
// has blown it waits at most closeTimeout, leaves the rest to the end of the process,
// and returns the fuse's error.
func (d *Database) Close(last func() error) error {
	var err error
	d.closed.Do(func() { err = d.close(last) })
	return err
}

func (d *Database) close(last func() error) error {
	close(d.closing)
	d.pressure.DB.Store(nil) // flushes and compactions under way need not rest any more
	done := make(chan error, 1)
	go func() {
		d.life.Lock()
		defer d.life.Unlock()
		done <- errors.Join(last(), d.DB.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-d.Fuse.Blown():
	}
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
	return d.Fuse.Err()
}
