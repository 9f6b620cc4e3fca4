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

// cache keeps what was downloaded or built, outside of any checkout, in folders
// named by version and checksum: a fresh clone finds it again, and a changed
// recipe never meets what an older one left.
type cache struct {
	folder string
	pause  time.Duration // before a download is tried again
	say    func(format string, args ...any)
}

// software is one thing to have in the cache.
type software struct {
	name   string // kafka-4.3.1-<sum>
	cost   string // what it takes to get it, for people who wait
	tools  []tool // programs of the machine that get it
	get    func(ctx context.Context, into string) error
	verify func(folder string) error
}

func (c cache) has(s software) bool { return s.verify(filepath.Join(c.folder, s.name)) == nil }

// ensure returns the folder of a piece of software, verified, and gets it first
// if it is not there. Of several runs at once, one gets it.
func (c cache) ensure(ctx context.Context, s software) (string, error) {
	if err := os.MkdirAll(c.folder, 0o755); err != nil {
		return "", err
	}
	folder := filepath.Join(c.folder, s.name)
	lock, err := lockFile(ctx, folder+".lock", func() { c.say("%s: another run is getting it, waiting", s.name) })
	if err != nil {
		return "", err
	}
	defer lock.Close()

	err = s.verify(folder)
	if err == nil {
		return folder, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.say("%s: what is in the cache is damaged and is got again: %v", s.name, err)
	}
	c.say("%s: %s; it is kept in %s", s.name, s.cost, c.folder)
	began := time.Now()
	fresh := folder + ".partial"
	if err := os.RemoveAll(fresh); err != nil { // of a run that was interrupted
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := s.get(ctx, fresh); err != nil {
		return "", fmt.Errorf("get %s: %w", s.name, err)
	}
	if err := s.verify(fresh); err != nil {
		return "", fmt.Errorf("what came for %s is not what the recipe says, and was thrown away: %w", s.name, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, folder); err != nil {
		return "", err
	}
	c.say("%s: got in %s, %d MB", s.name, seconds(began), sizeOf(folder)>>20)
	return folder, nil
}

// persist does something over a network that may fail for a while. What came stays
// where it is, so that a try goes on where the last one ended.
func (c cache) persist(ctx context.Context, name string, do func() error) error {
	const tries = 3
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || ctx.Err() != nil {
			return err
		}
		c.say("%s: try %d of %d failed: %v", name, try, tries, err)
		if rest(ctx, c.pause) != nil {
			return err
		}
	}
}

// workshop is an empty folder to work in, whatever an interrupted run left in it.
func workshop(into string) (string, error) {
	work := into + ".work"
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	return work, os.Mkdir(work, 0o755)
}

// sizeOf is how much the files below a folder hold so far.
func sizeOf(folder string) int64 {
	var total int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files come and go while a download runs
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// watch tells every ten seconds how far a long piece of work is.
func (c cache) watch(ctx context.Context, what func() string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		for rest(ctx, 10*time.Second) == nil {
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
			return nil, fmt.Errorf("not a line of a list of sums: %q", lines.Text())
		}
		list[name] = sum
	}
	return list, nil
}

// key is a short name for the whole resolved set.
func key(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// verify compares a folder with the list: every file of it, and none besides.
func (list sums) verify(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		want, listed := list[e.Name()]
		if !listed {
			return fmt.Errorf("%s is not on the list of what belongs there", filepath.Join(folder, e.Name()))
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
