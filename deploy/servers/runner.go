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

// runner executes one command: it has the options, the folders and the outputs.
type runner struct {
	options
	folder string // the state folder
	cache  cache
	out    io.Writer
	say    func(format string, args ...any)
}

func newRunner(o options, out, progress io.Writer) (*runner, error) {
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
	say := lineWriter(progress)
	return &runner{options: o, folder: folder, cache: cache{folder: filepath.Join(cached, "servers"), pause: 5 * time.Second, say: say}, out: out, say: say}, nil
}

// xdg returns the folder mayfly below the one in the variable, or below the default.
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

// lineWriter returns a function that prints one line; safe for concurrent use.
func lineWriter(w io.Writer) func(string, ...any) {
	var one sync.Mutex
	return func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		fmt.Fprintf(w, format+"\n", args...)
	}
}

// lock locks the state folder, so that two commands on it run one after the other. It
// refuses a folder with other contents, because down removes what is in the folder.
func (r *runner) lock(ctx context.Context) (*os.File, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lock" }) {
		return nil, fmt.Errorf("%s is not a state folder: choose an empty or a new folder", r.folder)
	}
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(r.folder, "lock"), func() { r.say("waiting for another run on %s", r.folder) })
}

func seconds(since time.Time) string {
	return fmt.Sprintf("%.1f s", time.Since(since).Seconds())
}
