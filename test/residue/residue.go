// Package residue searches the files of a data folder for bytes that should be gone:
// raw, and in Pebble databases through the readers of tables and write-ahead logs,
// because tables are compressed and logs are cut into chunks. Recycled logs are
// searched to their end, beyond what Pebble itself would read.
package residue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Found is a pattern in a file.
type Found struct {
	File    string
	Pattern string
}

// Search is what was searched and found.
type Search struct {
	Files, Tables, Logs int
	Keys                int // in tables, deleted ones included
	Bytes               int64
	Found               []Found
}

// In searches every file under dir for patterns. Every pattern begins with mark, which
// makes searching for thousands of them cheap, and has length bytes. Close databases
// before: tables that they are about to remove would be searched otherwise.
func In(fs vfs.FS, dir, mark string, length int) (s Search, err error) {
	return s, s.folder(fs, dir, mark, length)
}

func (s *Search) folder(fs vfs.FS, dir, mark string, length int) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			err = s.folder(fs, path, mark, length)
		default:
			err = s.file(fs, path, mark, length)
		}
		if err != nil && !errors.Is(err, iofs.ErrNotExist) { // a database may be at work
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (s *Search) file(fs vfs.FS, path, mark string, length int) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.Files++
	s.Bytes += int64(len(data))
	look := func(b []byte) { s.look(path, b, mark, length) }
	look(data)
	switch {
	case strings.HasSuffix(path, ".sst"):
		s.Tables++
		return s.table(fs, path, look)
	case strings.HasSuffix(path, ".log"):
		s.Logs++
		for _, header := range []int{7, 11, 19} { // of the formats of chunks
			look(joined(data, header))
		}
	}
	return nil
}

func (s *Search) look(path string, b []byte, mark string, length int) {
	for at := bytes.Index(b, []byte(mark)); at >= 0; {
		end := min(at+length, len(b))
		s.Found = append(s.Found, Found{path, string(b[at:end])})
		next := bytes.Index(b[at+len(mark):], []byte(mark))
		if next < 0 {
			return
		}
		at += len(mark) + next
	}
}

// block is the size of the blocks of a log. Each chunk in it begins with a header, and
// a record that does not fit goes on behind the header of the next block.
const block = 32 << 10

// joined returns a log without the headers at the beginnings of its blocks.
func joined(data []byte, header int) (all []byte) {
	for len(data) > 0 {
		n := min(block, len(data))
		all = append(all, data[min(header, n):n]...)
		data = data[n:]
	}
	return all
}

// table looks at every key and value of a table, whatever a database would show of it.
func (s *Search) table(fs vfs.FS, path string, look func([]byte)) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	defaults := &pebble.Options{}
	defaults.EnsureDefaults()
	opts := defaults.MakeReaderOptions()
	opts.Mergers = sstable.Mergers{
		"mayfly.sum":      &pebble.Merger{Name: "mayfly.sum"},      // of the index of media
		"mayfly.kv.count": &pebble.Merger{Name: "mayfly.kv.count"}, // of keys with a time to live
	}
	r, err := sstable.NewReader(context.Background(), readable, opts)
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	defer r.Close()
	iter, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := iter.First(); kv != nil; kv = iter.Next() {
		s.Keys++
		look(kv.K.UserKey)
		value, _, err := kv.Value(nil)
		if err != nil {
			return errors.Join(err, iter.Close())
		}
		look(value)
	}
	return errors.Join(iter.Error(), iter.Close())
}
