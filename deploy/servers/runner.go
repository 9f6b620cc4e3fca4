package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// house is where a run works: its order, its folders, where it talks to.
type house struct {
	order
	folder string // of the state
	cache  cache
	out    io.Writer
	say    func(format string, args ...any)
}

func openHouse(o order, out, progress io.Writer) (*house, error) {
	folder := o.state
	if folder == "" {
		dir, err := xdg("XDG_STATE_HOME", ".local/state")
		if err != nil {
			return nil, err
		}
		folder = filepath.Join(dir, "servers")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	cached, err := xdg("XDG_CACHE_HOME", ".cache")
	if err != nil {
		return nil, err
	}
	say := speaker(progress)
	return &house{order: o, folder: folder, cache: cache{folder: filepath.Join(cached, "servers"), pause: 5 * time.Second, say: say}, out: out, say: say}, nil
}

// xdg is our folder below one of the user's.
func xdg(variable, otherwise string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mayfly"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: set %s", err, variable)
	}
	return filepath.Join(home, otherwise, "mayfly"), nil
}

// speaker writes whole lines, also when several servers talk at once.
func speaker(w io.Writer) func(string, ...any) {
	var one sync.Mutex
	return func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		fmt.Fprintf(w, format+"\n", args...)
	}
}

// lock holds the state folder, so that two verbs on it follow each other. A
// folder that holds other things is refused: what we lay out there we also remove.
func (h *house) lock(ctx context.Context) (*os.File, error) {
	entries, err := os.ReadDir(h.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lock" }) {
		return nil, fmt.Errorf("%s is not a state folder: name an empty or a new one", h.folder)
	}
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(h.folder, "lock"), func() { h.say("waiting for another run on %s", h.folder) })
}

func seconds(since time.Time) string {
	return fmt.Sprintf("%.1f s", time.Since(since).Seconds())
}
