package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cache holds downloaded and built software outside of the repository, in folders named
// by version and checksum: a fresh clone finds them again, and a changed recipe never
// uses the files of an older one.
type cache struct {
	folder string
	pause  time.Duration // before a download is tried again
	say    func(format string, args ...any)
}

// software is one entry of the cache.
type software struct {
	name   string // kafka-4.3.1-<sum>
	cost   string // size and duration of the download, shown to the user
	tools  []tool // programs that the download needs
	get    func(ctx context.Context, into string) error
	verify func(folder string) error
}

func (c cache) has(s software) bool { return s.verify(filepath.Join(c.folder, s.name)) == nil }

// ensure returns the verified folder of the software and downloads it first if
// necessary. Of several runs at once, only one downloads it.
func (c cache) ensure(ctx context.Context, s software) (string, error) {
	if err := os.MkdirAll(c.folder, 0o755); err != nil {
		return "", err
	}
	folder := filepath.Join(c.folder, s.name)
	lock, err := lockFile(ctx, folder+".lock", func() { c.say("%s: waiting for the download by another run", s.name) })
	if err != nil {
		return "", err
	}
	defer lock.Close()

	err = s.verify(folder)
	if err == nil {
		return folder, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.say("%s: the cache is damaged, downloading again: %v", s.name, err)
	}
	c.say("%s: %s; kept in %s", s.name, s.cost, c.folder)
	began := time.Now()
	fresh := folder + ".partial"
	if err := os.RemoveAll(fresh); err != nil { // left by an interrupted run
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := s.get(ctx, fresh); err != nil {
		return "", fmt.Errorf("get %s: %w", s.name, err)
	}
	if err := s.verify(fresh); err != nil {
		return "", fmt.Errorf("the download of %s differs from the recipe and was discarded: %w", s.name, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, folder); err != nil {
		return "", err
	}
	c.say("%s: ready in %s, %d MB", s.name, seconds(began), sizeOf(folder)>>20)
	return folder, nil
}

// retry calls do up to three times, for network failures. Downloaded files stay, so
// that the next attempt continues where the last one ended.
func (c cache) retry(ctx context.Context, name string, do func() error) error {
	const tries = 3
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || ctx.Err() != nil {
			return err
		}
		c.say("%s: attempt %d of %d failed: %v", name, try, tries, err)
		if pause(ctx, c.pause) != nil {
			return err
		}
	}
}

// emptyWorkFolder creates an empty folder for temporary files; it first removes what an
// interrupted run left there.
func emptyWorkFolder(into string) (string, error) {
	work := into + ".work"
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	return work, os.Mkdir(work, 0o755)
}

// sizeOf returns the current size of the files below a folder.
func sizeOf(folder string) int64 {
	var total int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files may disappear while a download runs
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// watch prints the progress of a long task every ten seconds, until stop is called.
func (c cache) watch(ctx context.Context, what func() string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		for pause(ctx, 10*time.Second) == nil {
			c.say("%s, %.0f s", what(), time.Since(began).Seconds())
		}
	}()
	return func() { cancel(); <-done }
}

// sums is a list as sha256sum writes it: name to SHA-256 in hex.
type sums map[string]string

func parseSums(text []byte) (sums, error) {
	list := sums{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != 2*sha256.Size || name != filepath.Base(name) {
			return nil, fmt.Errorf("invalid checksum line %q", lines.Text())
		}
		list[name] = sum
	}
	return list, nil
}

// key returns a short hash over the parts.
func key(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// verify checks that a folder holds exactly the files of the list.
func (list sums) verify(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		want, listed := list[e.Name()]
		if !listed {
			return fmt.Errorf("unexpected file %s", filepath.Join(folder, e.Name()))
		}
		got, err := sumOf(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s has SHA-256 %s, the recipe says %s", filepath.Join(folder, e.Name()), got, want)
		}
		found = append(found, e.Name())
	}
	for name := range list {
		if !slices.Contains(found, name) {
			return fmt.Errorf("%s is missing", filepath.Join(folder, name))
		}
	}
	return nil
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
