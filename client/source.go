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

// Source is a medium to be sent. It is opened once for each attempt.
type Source struct {
	Name string // file name; the server does not store it
	Size int64  // in bytes; -1: unknown
	Open func() (io.ReadCloser, error)
}

// File returns the medium in a file.
func File(path string) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, mayfly.Wrap(mayfly.NotFound, err, "name an existing file")
	}
	if info.IsDir() {
		return Source{}, mayfly.Errorf(mayfly.Invalid, "%s is a folder", path).WithHint("name its files")
	}
	return Source{Name: filepath.Base(path), Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

// Bytes returns a medium in memory.
func Bytes(name string, b []byte) Source {
	return Source{Name: name, Size: int64(len(b)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// Once returns a medium that can be read only once, so that a failed request
// cannot be retried.
func Once(name string, r io.Reader) Source {
	used := false
	return Source{Name: name, Size: -1, Open: func() (io.ReadCloser, error) {
		if used {
			return nil, mayfly.Errorf(mayfly.Unknown, "%s cannot be read again for a retry", name).WithHint("publish it again from the beginning, with the same key")
		}
		used = true
		return io.NopCloser(r), nil
	}}
}

// counted calls report with the number of bytes read so far.
type counted struct {
	io.ReadCloser
	done   int64
	report func(done int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.done += int64(n)
	c.report(c.done)
	return n, err
}

// open opens a source. It reports progress unless report is nil, and marks errors
// of the source as a sourceError.
func (s Source) open(report func(done int64)) (io.ReadCloser, error) {
	r, err := s.Open()
	if err != nil {
		return nil, sourceError{err}
	}
	if report == nil {
		return sourceReader{r}, nil
	}
	return &counted{ReadCloser: sourceReader{r}, report: report}, nil
}

// sourceReader marks read errors as a sourceError.
type sourceReader struct{ io.ReadCloser }

func (s sourceReader) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = sourceError{err}
	}
	return n, err
}

// sniffed returns the media type that the first bytes of r suggest, and r from its
// beginning. The server detects the type itself.
func sniffed(r io.ReadCloser) (string, io.ReadCloser) {
	const enough = 512
	buffered := bufio.NewReaderSize(r, enough)
	head, _ := buffered.Peek(enough) // the first read returns the same error
	return http.DetectContentType(head), struct {
		io.Reader
		io.Closer
	}{buffered, r}
}
