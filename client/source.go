package client

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/mayflyhq/mayfly"
)

// Source is a medium to be sent. It is opened once for every try.
type Source struct {
	Name string // of the file; the server does not keep it
	Size int64  // for progress; -1 if it is not known
	Open func() (io.ReadCloser, error)
}

// File is a medium in a file.
func File(path string) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, mayfly.Wrap(mayfly.NotFound, err, "name a file that is there")
	}
	if info.IsDir() {
		return Source{}, mayfly.Errorf(mayfly.Invalid, "%s is a folder", path).WithHint("name its files")
	}
	return Source{Name: filepath.Base(path), Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

// Bytes is a medium in memory.
func Bytes(name string, b []byte) Source {
	return Source{Name: name, Size: int64(len(b)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// Once is a medium that can be read a single time: what fails on the way cannot
// be sent again.
func Once(name string, r io.Reader) Source {
	used := false
	return Source{Name: name, Size: -1, Open: func() (io.ReadCloser, error) {
		if used {
			return nil, mayfly.Errorf(mayfly.Unknown, "%s was sent once and cannot be read again", name).WithHint("publish it again from the beginning, with the same key")
		}
		used = true
		return io.NopCloser(r), nil
	}}
}

// counted tells how far a source has been read.
type counted struct {
	io.ReadCloser
	done int64
	tell func(done int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.done += int64(n)
	c.tell(c.done)
	return n, err
}

// open opens a source whose progress goes to tell; its failures are told from the network's.
func (s Source) open(tell func(done int64)) (io.ReadCloser, error) {
	r, err := s.Open()
	if err != nil {
		return nil, sourceError{err}
	}
	if tell == nil {
		return ownFailures{r}, nil
	}
	return &counted{ReadCloser: ownFailures{r}, tell: tell}, nil
}

// ownFailures marks what goes wrong on this side.
type ownFailures struct{ io.ReadCloser }

func (o ownFailures) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = sourceError{err}
	}
	return n, err
}

// sniffed is what the first bytes of r look like, and r from its beginning. The
// server decides by itself what they are.
func sniffed(r io.ReadCloser) (string, io.ReadCloser) {
	const enough = 512
	buffered := bufio.NewReaderSize(r, enough)
	head, _ := buffered.Peek(enough) // a failure comes again with the first read
	return http.DetectContentType(head), struct {
		io.Reader
		io.Closer
	}{buffered, r}
}
