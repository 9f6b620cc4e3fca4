package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// badCount counts what a server has stored.
type badCount struct {
	items int // in the owner index
	hot   int // objects
}

func (h *badServer) stored() badCount {
	h.Helper()
	var c badCount
	for _, name := range badAudience() {
		user := mayfly.HomeUserOf(issuer, name)
		rows, err := h.store.Set.Rows.Range(h.Context(), engine.Owners, store.Range{Partition: string(user[:]), Limit: 100_000})
		if err != nil {
			h.Fatal(err)
		}
		c.items += len(rows)
	}
	objects, err := h.store.Set.Hot.List(h.Context(), "", "", 100_000)
	if err != nil {
		h.Fatal(err)
	}
	c.hot = len(objects)
	return c
}

// settles waits until what is stored is as before: a request that its client has
// left is cleaned up behind its back.
func (h *badServer) settles(before badCount) badCount {
	h.Helper()
	end := time.After(3 * time.Second)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		now := h.stored()
		if now == before {
			return now
		}
		select {
		case <-end:
			h.Errorf("something was left behind: %+v, before %+v", now, before)
			return now // so that the next is not blamed for it
		case <-again.C:
		}
	}
}

// onDisk is how many bytes the files of hot storage have, those of broken
// uploads among them.
func (h *badServer) onDisk() int64 {
	h.Helper()
	var sum int64
	err := filepath.WalkDir(filepath.Join(h.config.Data, "hot", "files"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // taken away since
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return sum
}

type badObject struct {
	key   string
	bytes []byte
}

// everything is every object of hot storage.
func (h *badServer) everything() func(yield func(badObject) bool) {
	return func(yield func(badObject) bool) {
		all, err := h.store.Set.Hot.List(h.Context(), "", "", 100_000)
		if err != nil || len(all) == 0 {
			h.Fatalf("%d objects: %v", len(all), err)
		}
		for _, listed := range all {
			r, _, err := h.store.Set.Hot.Open(h.Context(), listed.Key, store.Span{})
			if err != nil {
				h.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				h.Fatal(err)
			}
			if err := r.Close(); err != nil {
				h.Fatal(err)
			}
			if !yield(badObject{fmt.Sprintf("%x", listed.Key), b}) {
				return
			}
		}
	}
}

// grepFolder looks for the text of the place in every file of the data folder, the
// write-ahead logs among them, and says in how many.
func (h *badServer) grepFolder() (files int) {
	h.Helper()
	err := filepath.WalkDir(h.config.Data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(badPlace[6:14])) {
			h.Errorf("%s holds a place", name)
		}
		files++
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return files
}
