package diskstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A file, of one object or a volume, goes through three states, each durable
// before the next: doomed (its number is in tableDoomed; the file may be there or
// not, whole or not), owned (a record names it, from the same write on that takes
// it off tableDoomed), doomed again (no record names it any more). So what a
// crash leaves behind is found without looking at the other files.

// folders is the number of folders that the files are spread over.
const folders = 64

// mediaWrites is how the file system counts what a Put writes.
const mediaWrites vfs.DiskWriteCategory = "mayfly-media"

func (s *Store) path(parts ...string) string {
	return s.fs.PathJoin(append([]string{s.opts.Dir}, parts...)...)
}

func (s *Store) folderOf(n fileNumber) string {
	return s.path("files", fmt.Sprintf("%02x", uint64(n)%folders))
}

func (s *Store) fileOf(n fileNumber) string {
	return s.fs.PathJoin(s.folderOf(n), fmt.Sprintf("%016x", uint64(n)))
}

// makeFolders durably creates the missing folders.
func (s *Store) makeFolders() error {
	for n := range fileNumber(folders) {
		if err := s.fs.MkdirAll(s.folderOf(n), 0o700); err != nil {
			return err
		}
	}
	if err := s.fs.MkdirAll(s.path("index"), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{s.path("files"), s.path(), s.fs.PathDir(s.path())} {
		if err := s.syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the names in dir durable.
func (s *Store) syncFolder(dir string) error {
	f, err := s.fs.OpenDir(dir)
	if err != nil {
		return failed("open a folder", err)
	}
	return errors.Join(s.synced(f.Sync()), f.Close())
}

// synced blows the fuse if an fsync failed: what the disk holds is not known
// any more, and the next fsync may lie (I20).
func (s *Store) synced(err error) error {
	if err == nil {
		return nil
	}
	s.fuse.Blow(fmt.Errorf("sync a file: %w", err))
	return s.fuse.Err()
}

// wrote gives a failed write its kind. A full disk is an ordinary error. A disk that
// is broken or read-only blows the fuse, as the next write of the write-ahead log
// would.
func (s *Store) wrote(doing string, err error) error {
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) {
		s.fuse.Blow(fmt.Errorf("%s: %w", doing, err))
		return s.fuse.Err()
	}
	return failed(doing, err)
}

// newFile returns a new file number, durably recorded in tableDoomed and in more tables.
func (s *Store) newFile(more ...byte) (fileNumber, error) {
	n := fileNumber(s.lastFile.Add(1))
	b := s.db.NewBatch()
	for _, table := range append(more, tableDoomed) {
		if err := b.Set(fileKey(table, n), nil, nil); err != nil {
			return 0, errors.Join(failed("write the index", err), b.Close())
		}
	}
	return n, s.commit(b, pebble.Sync)
}

// writeFile writes what from yields to a durable file.
func (s *Store) writeFile(n fileNumber, from func(io.Writer) error) error {
	f, err := s.fs.Create(s.fileOf(n), mediaWrites)
	if err != nil {
		return s.wrote("create a file", err)
	}
	frames := newFrameWriter(&roomyWriter{s: s, out: f}, n)
	if err = from(frames); err == nil {
		err = frames.flush()
	}
	if err == nil {
		err = s.synced(f.Sync())
	}
	if closed := f.Close(); err == nil && closed != nil {
		err = s.wrote("close a file", closed)
	}
	if err != nil {
		return err
	}
	return s.syncFolder(s.folderOf(n))
}

// leftovers are the files that could not be removed, or not overwritten, yet.
type leftovers struct {
	mu   sync.Mutex
	open map[fileNumber]struct{}
}

func (g *leftovers) list() []fileNumber {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.open))
}

// add reports whether n is new among the leftovers.
func (g *leftovers) add(n fileNumber) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, known := g.open[n]
	g.open[n] = struct{}{}
	return !known
}

func (g *leftovers) drop(n fileNumber) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, n)
}

// stuck keeps a file that could not be removed or overwritten for the next Reclaim,
// and logs it once. It is no error of the caller: no object is in the file any more, and
// one file that the operating system does not give up must not stop a tier.
func (s *Store) stuck(n fileNumber, err error) {
	if s.leftovers.add(n) {
		s.opts.Logger.Error("file of deleted media not removed, tried again later", "file", s.fileOf(n), "err", err)
	}
}

// removeFiles removes doomed files from the disk and from tableDoomed. Open readers may
// finish (ST13). A file that cannot be removed stays doomed; see stuck.
func (s *Store) removeFiles(doomed ...fileNumber) error {
	if len(doomed) == 0 {
		return nil
	}
	touched := map[string]struct{}{}
	forget := s.db.NewBatch()
	for _, n := range doomed {
		if err := s.fs.Remove(s.fileOf(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.stuck(n, err)
			continue
		}
		s.leftovers.drop(n)
		touched[s.folderOf(n)] = struct{}{}
		if err := forget.Delete(fileKey(tableDoomed, n), nil); err != nil {
			return errors.Join(failed("forget a file", err), forget.Close())
		}
	}
	for dir := range touched {
		if err := s.syncFolder(dir); err != nil {
			return errors.Join(err, forget.Close())
		}
	}
	// Not synced: if the write is lost, the file is only removed a second time.
	return s.commit(forget, pebble.NoSync)
}

// collect removes the files that a crash left behind.
func (s *Store) collect() error {
	var doomed []fileNumber
	err := s.scan([]byte{tableDoomed}, func(key, _ []byte) (bool, error) {
		n, err := decodeFileKey(key)
		doomed = append(doomed, n)
		return true, err
	})
	if err != nil {
		return err
	}
	return s.removeFiles(doomed...)
}
