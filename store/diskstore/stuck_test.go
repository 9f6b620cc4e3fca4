package diskstore

import (
	"bytes"
	"log/slog"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
)

// stuckFile refuses to remove the file of one name.
type stuckFile struct {
	mu   sync.Mutex
	name string
}

func (f *stuckFile) set(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name = path.Base(name)
}

func (f *stuckFile) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op.Kind == errorfs.OpRemove && f.name != "" && path.Base(op.Path) == f.name {
		return syscall.EPERM
	}
	return nil
}

func (*stuckFile) String() string { return "stuck file" }

func TestOneFileThatCannotBeRemovedStopsNothing(t *testing.T) {
	var log bytes.Buffer
	mem, f := vfs.NewMem(), &stuckFile{}
	opts := testOptions(errorfs.Wrap(mem, f))
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := mustOpen(t, opts)
	for n := range 3 {
		mustPut(t, s, testKey(n), make([]byte, framePayload))
	}
	mustPut(t, s, testKey(9), []byte("small"))
	rec, _, err := s.lookup(testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	f.set(s.fileOf(rec.file))
	for what, key := range map[string]mayfly.BlobKey{
		"the object of the stuck file": testKey(0), "another file": testKey(1), "a small object": testKey(9), "nothing": testKey(77),
	} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", what, err)
		}
	}
	_, err = s.Stat(t.Context(), testKey(0))
	wantKind(t, mayfly.NotFound, err)
	for range 3 {
		if err := s.Reclaim(t.Context()); err != nil {
			t.Errorf("reclaim: %v", err)
		}
	}
	if got := s.Figures().StuckFiles; got != 1 {
		t.Errorf("%d files are reported as stuck, want 1", got)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), s.fileOf(rec.file)) {
		t.Errorf("%d lines of log, want one that names %s:\n%s", n, s.fileOf(rec.file), log.String())
	}
	mustClose(t, s)
	s = mustOpen(t, opts) // it is there still, and stops no opening
	if got := s.Figures().StuckFiles; got != 1 {
		t.Errorf("after opening again %d files are reported as stuck, want 1", got)
	}
	f.set("")
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Figures().StuckFiles; got != 0 {
		t.Errorf("%d files are still reported as stuck", got)
	}
	wantClean(t, s)
}
