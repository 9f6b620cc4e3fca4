package sim

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// errNotReached says that the scenario never came to the operation to fail.
var errNotReached = errors.New("the disk was not asked that often")

func ruins() []ruin {
	is := func(kind, name string) func(string, string) bool {
		return func(k, p string) bool { return k == kind && matches(name, p) }
	}
	changes := func(k, _ string) bool { return k != "" }
	return []ruin{
		{name: "fsync of the write-ahead log", match: is("sync", "db/*.log"), err: syscall.EIO, once: true},
		{name: "write of the write-ahead log", match: is("write", "db/*.log"), err: syscall.EIO, once: true},
		{name: "no space for the write-ahead log", match: is("write", "db/*.log"), err: syscall.ENOSPC},
		{name: "fsync of the media's log", match: is("sync", "hot/index/*.log"), err: syscall.EIO, once: true},
		{name: "fsync of a medium", match: is("sync", "hot/files/*/*"), err: syscall.EIO, once: true},
		{name: "fsync of a folder", match: is("sync", "hot/files/*"), err: syscall.EIO, once: true},
		{name: "no space at all", match: changes, err: syscall.ENOSPC},
		{name: "read-only", match: changes, err: syscall.EROFS},
	}
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, strings.TrimPrefix(name, "/"))
	return ok && err == nil
}

// saboteur fails the k-th operation that matches, and all after it unless once.
type saboteur struct {
	ruin
	mu    sync.Mutex
	left  int
	fired bool
}

// MaybeError implements errorfs.Injector.
func (s *saboteur) MaybeError(op errorfs.Op) error {
	kind := ""
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		kind = "sync"
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt:
		kind = "write"
	case errorfs.OpCreate, errorfs.OpRename, errorfs.OpLink, errorfs.OpRemove, errorfs.OpReuseForWrite, errorfs.OpMkdirAll:
		kind = "name"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || !s.match(kind, op.Path) || s.fired && s.once {
		return nil
	}
	if s.left > 1 {
		s.left--
		return nil
	}
	s.fired = true
	return &vfsError{op: kind, path: op.Path, err: s.err}
}

// String implements errorfs.Injector.
func (s *saboteur) String() string { return s.name }

func (s *saboteur) arm(k int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = k
}

func (s *saboteur) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

type vfsError struct {
	op, path string
	err      error
}

func (e *vfsError) Error() string { return fmt.Sprintf("%s %s: %v", e.op, e.path, e.err) }
func (e *vfsError) Unwrap() error { return e.err }

// befall breaks the disk at the k-th operation that matches, lives on for a
// while, and recovers from what the disk is left with. The broken engine is not
// closed: its process has ended.
func (r ruin) befall(t *testing.T, n uint64, k int) (*tally, error) {
	t.Helper()
	b, disk := newRecord(), vfs.NewCrashableMem()
	sab := &saboteur{ruin: r}
	h, err := openEngine(t.Context(), plan{fs: errorfs.Wrap(disk, sab), random: randomBits(n), wrap: b.witnessed}, genesis)
	if err != nil {
		return nil, err
	}
	s := newScenario(h, b, seeded(n), genesis)
	for range 15 {
		if err := s.step(t.Context()); err != nil {
			return nil, err
		}
	}
	sab.arm(k)
	for range 150 {
		err := s.step(t.Context())
		if h.raw.Fuse.Err() != nil {
			break
		}
		// A medium that could not be written is refused, and nothing hangs on it.
		if err != nil && !errors.Is(err, mayfly.Gone) && !errors.Is(err, mayfly.Full) && !errors.Is(err, mayfly.Unavailable) {
			return nil, fmt.Errorf("a failure that blew no fuse: %w", err)
		}
	}
	if !sab.done() {
		return nil, errors.Join(errNotReached, h.close())
	}
	if err := silent(t.Context(), s); err != nil {
		return nil, err
	}
	found := newTally()
	for i, share := range storetest.Shares() {
		clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: seeded(n + uint64(i))})
		after, _, err := recoverFrom(t.Context(), crash{FS: clone, Known: moment{page: b.page(), known: b.known(), now: s.at()}}, b, n+uint64(i))
		if err != nil {
			return nil, fmt.Errorf("restart with %d %% of unsynced data: %w", share, err)
		}
		found.merge(after, fmt.Sprintf("%d %% unsynced", share))
	}
	return found, nil
}

// silent wants an engine with a blown fuse to acknowledge nothing, quickly.
func silent(ctx context.Context, s *scenario) error {
	why := s.engine.raw.Fuse.Err()
	var e *mayfly.Error
	if why == nil || !errors.Is(why, mayfly.Unavailable) || !errors.As(why, &e) || e.Hint == "" {
		return fmt.Errorf("the fuse says %v, want Unavailable with a hint", why)
	}
	page := s.record.page()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for range 5 {
		if _, err := s.record.publish(ctx, s.engine.uploads, s.engine.intake, s.newWish(), s.at()); err == nil {
			return errors.New("a birth was acknowledged after the fuse had blown")
		}
		if err := s.engine.pass(ctx, s.at()); err == nil {
			return errors.New("a pass went well after the fuse had blown")
		}
	}
	if s.record.page() != page {
		return fmt.Errorf("%d acknowledgements after the fuse had blown", s.record.page()-page)
	}
	return ctx.Err()
}
