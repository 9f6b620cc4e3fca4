//go:build unix

package diskstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// way is a way to keep media, durable on return.
type way interface {
	put(key mayfly.BlobKey, data []byte) error
	get(key mayfly.BlobKey) ([]byte, error)
	del(keys []mayfly.BlobKey) error
	settle() // until nothing goes on in the background
	close()
}

func (s *Store) ctx() context.Context { return context.Background() }

func newContender(b *testing.B, name string) *contender {
	c := &contender{name: name, meter: new(diskfs.Meter)}
	var err error
	if c.fs, err = diskfs.Root(b.TempDir()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.fs.Close() })
	fs := diskfs.Metered(c.fs, c.meter)
	switch name {
	case "a file each":
		c.way = fileEach{fs}
		for n := range mayfly.Prefixes {
			if err := fs.MkdirAll(string(testKey(n)[:2]), 0o700); err != nil {
				b.Fatal(err)
			}
		}
	case "values in the LSM":
		db, _ := openWay(b, fs)
		c.way = inLSM{db}
	case "values apart":
		db, _ := openWay(b, fs, func(o *pebble.Options) {
			o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
				return pebble.ValueSeparationPolicy{
					Enabled: true, MinimumSize: 512, MaxBlobReferenceDepth: 1000, RewriteMinimumAge: time.Minute, TargetGarbageRatio: 0.3,
				}
			}
		})
		c.way = inLSM{db}
	case "volumes":
		s, err := Open(Options{FS: fs, Dir: "tier", InlineBytes: maxInline})
		if err != nil {
			b.Fatal(err)
		}
		c.way = product{s}
	}
	return c
}

// openWay opens a database with the options of the first comparison.
func openWay(b *testing.B, fs vfs.FS, change ...func(*pebble.Options)) (*pebble.DB, *pebble.Options) {
	b.Helper()
	if fs == nil {
		root, err := diskfs.Root(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		fs = root
	}
	o := &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, MemTableSize: 8 * mebibyte, MemTableStopWritesThreshold: 4,
		L0StopWritesThreshold: 32, Logger: diskfs.Logger(store.NewFuse(), slog.New(slog.DiscardHandler)),
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		o.Levels[i].BlockSize = 16 * kibibyte
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	for _, c := range change {
		c(o)
	}
	db, err := pebble.Open("db", o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if len(change) == 0 {
			_ = db.Close()
		}
	})
	return db, o
}

// inLSM is values under their keys.
type inLSM struct{ db *pebble.DB }

func (w inLSM) put(key mayfly.BlobKey, data []byte) error {
	return w.db.Set([]byte(key), data, pebble.Sync)
}

func (w inLSM) get(key mayfly.BlobKey) ([]byte, error) {
	value, closer, err := w.db.Get([]byte(key))
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), value...), closer.Close()
}

func (w inLSM) del(keys []mayfly.BlobKey) error {
	batch := w.db.NewBatch()
	for _, key := range keys {
		if err := batch.Delete([]byte(key), nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (w inLSM) settle() {
	_ = w.db.Flush()
	for calm := 0; calm < 5; calm++ {
		if m := w.db.Metrics(); m.Compact.NumInProgress > 0 || m.Flush.NumInProgress > 0 {
			calm = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w inLSM) close() {}

// fileEach is a file for each object, with a sync of the file and of its folder.
type fileEach struct{ fs vfs.FS }

func name(key mayfly.BlobKey) string { return string(key[:3] + key[3:25]) }

func (w fileEach) put(key mayfly.BlobKey, data []byte) error {
	f, err := w.fs.Create(name(key)+".new", mediaWrites)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close(), w.fs.Rename(name(key)+".new", name(key))); err != nil {
		return err
	}
	return w.syncFolder(string(key[:2]))
}

func (w fileEach) syncFolder(dir string) error {
	d, err := w.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (w fileEach) get(key mayfly.BlobKey) ([]byte, error) {
	f, err := w.fs.Open(name(key))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

func (w fileEach) del(keys []mayfly.BlobKey) error {
	folders := map[string]struct{}{}
	for _, key := range keys {
		folders[string(key[:2])] = struct{}{}
		if err := w.fs.Remove(name(key)); err != nil {
			return err
		}
	}
	for dir := range folders {
		if err := w.syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

func (fileEach) settle() {}
func (fileEach) close()  {}
